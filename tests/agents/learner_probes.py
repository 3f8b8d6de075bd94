"""What a learner does, made visible to tests: its gradients and its metrics; data for it."""

import sonnet as snt
import tensorflow as tf


class RecordingOptimizer(snt.Optimizer):
  """Remembers the newest updates in variables, then lets another optimizer apply them."""

  def __init__(self, inner):
    super().__init__()
    self.inner = inner
    self.updates = []

  @snt.once
  def _initialize(self, parameters):
    self.updates.extend(tf.Variable(tf.zeros_like(p), trainable=False) for p in parameters)
    if hasattr(self.inner, "_initialize"):
      self.inner._initialize(parameters)

  def apply(self, updates, parameters):
    self._initialize(parameters)
    for variable, update in zip(self.updates, updates):
      variable.assign(tf.zeros_like(variable) if update is None else update)
    self.inner.apply(updates, parameters)


class Log:
  """A logger that keeps what was written."""

  def __init__(self):
    self.rows = []

  def write(self, values):
    self.rows.append({name: float(value) for name, value in values.items()})

  def close(self):
    pass


def untuned():
  """Makes the options of a dataset that leaves nothing to be tuned.

  TensorFlow 2.12 may miss the end of the thread that tunes. To free an iterator then takes up to a
  minute.
  """
  options = tf.data.Options()
  options.autotune.enabled = False
  return options
