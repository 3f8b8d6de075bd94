"""Proportional prioritised replay (Schaul et al. 2015, https://arxiv.org/abs/1511.05952).

An item with priority `p_i` is sampled with probability `P_i = p_i^a / sum_k p_k^a`, which Reverb's
prioritised selector does. What that changes in an expectation, importance weights
`(N P_i)^-b / max_j (N P_j)^-b` undo; `b` grows to its final value while the agent learns.
"""

import dataclasses
import queue
import threading
from typing import Optional, Union

import numpy as np
import reverb
import tensorflow as tf

from temper.utils import checks
from temper.utils import replay_watch

# Weight of the largest TD error of a sequence, against their mean: eta of R2D2 (Kapturowski et al.
# 2019, section 2.3).
_LARGEST_SHARE = 0.9

# How long a learner waits for its priorities to be written, before it asks whether the server is
# alive; seconds.
_WRITE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class PrioritisedReplay:
  """How replay is prioritised.

  Attributes:
    priority_exponent: a, at least 0: 0 samples all items alike, 1 in proportion to their priority.
    importance_exponent: b at the first learner step, in [0, 1]: 0 gives every item weight 1, 1
      corrects in full.
    final_importance_exponent: b after `anneal_steps`, in [0, 1].
    anneal_steps: learner steps in which b goes from the one to the other in a straight line.
    min_priority: what is added to each |TD error|, above 0, so that every item has a chance.
  """

  priority_exponent: float = 0.6
  importance_exponent: float = 0.4
  final_importance_exponent: float = 1.0
  anneal_steps: int = 100_000
  min_priority: float = 1e-6

  def __post_init__(self) -> None:
    """Raises ValueError if a field is out of its range; names it."""
    checks.number("priority_exponent", self.priority_exponent, minimum=0)
    for name in ("importance_exponent", "final_importance_exponent"):
      checks.number(name, getattr(self, name), minimum=0, maximum=1)
    checks.integer("anneal_steps", self.anneal_steps, minimum=1)
    checks.number("min_priority", self.min_priority, above=0)


def importance_exponent(config: PrioritisedReplay, step: Union[int, tf.Tensor]) -> tf.Tensor:
  """Returns the exponent b of a learner step, a float64 scalar.

  Args:
    config: how replay is prioritised.
    step: learner steps done before, scalar.
  """
  done = tf.minimum(tf.cast(step, tf.float64) / config.anneal_steps, 1.0)
  first, last = config.importance_exponent, config.final_importance_exponent
  return first + done * (last - first)


def importance_weights(
  probability: tf.Tensor, table_size: tf.Tensor, exponent: Union[float, tf.Tensor]
) -> tf.Tensor:
  """Returns importance weights, scaled so that the largest of the whole batch is 1.

  The whole batch is that of all replicas, when called in the context of one of several.

  Args:
    probability: `[B]`, floating; with which each item was sampled, above 0, as in
      `reverb.SampleInfo`.
    table_size: `[B]` or scalar, integer; items in the table at that time.
    exponent: scalar b.

  Returns:
    `(N P)^-b` over its largest, `[B]`, dtype of `probability`; each above 0 and at most 1.
  """
  probability = tf.convert_to_tensor(probability)
  size = tf.cast(table_size, probability.dtype)
  if tf.is_tensor(exponent):
    exponent = tf.cast(exponent, probability.dtype)
  log_weight = -exponent * tf.math.log(size * probability)
  largest = tf.reduce_max(log_weight)
  context = tf.distribute.get_replica_context()
  if context is not None and context.num_replicas_in_sync > 1:
    # all_reduce knows sums and means only.
    largest = tf.reduce_max(context.all_gather(largest[None], axis=0))
  return tf.exp(log_weight - largest)


def priorities(td_error: tf.Tensor, min_priority: float) -> tf.Tensor:
  """Returns the priorities of transitions.

  Args:
    td_error: `[B]`, floating.
    min_priority: added to each absolute error.

  Returns:
    `[B]`, dtype of the errors.
  """
  return tf.abs(td_error) + min_priority


def sequence_priorities(td_error: tf.Tensor, valid: tf.Tensor, min_priority: float) -> tf.Tensor:
  """Returns the priorities of sequences, 0.9 max + 0.1 mean of their |TD errors|, as R2D2 does.

  Args:
    td_error: `[T, B]`, floating.
    valid: `[T, B]`, bool; the steps that count. A sequence without any gets the least priority.
    min_priority: added to each.

  Returns:
    `[B]`, dtype of the errors.
  """
  mask = tf.cast(valid, td_error.dtype)
  size = tf.where(valid, tf.abs(td_error), tf.zeros_like(td_error))
  mean = tf.math.divide_no_nan(tf.reduce_sum(size, axis=0), tf.reduce_sum(mask, axis=0))
  mixed = _LARGEST_SHARE * tf.reduce_max(size, axis=0) + (1 - _LARGEST_SHARE) * mean
  return priorities(mixed, min_priority)


class PriorityWriter:
  """Writes new priorities of items to their table, while the learner goes on.

  A write has been taken in by the server before the next one begins, and at the latest when `flush`
  returns. Items that have left the table meanwhile are passed over.
  """

  def __init__(self, client: reverb.Client, table: str):
    """Initialises the writer; its thread starts with the first write.

    Args:
      client: client of the server that holds the table.
      table: name of the table.
    """
    self._client = client
    self._jobs: queue.SimpleQueue[Optional[dict[int, float]]] = queue.SimpleQueue()
    # One entry for each job that is done: None, or the error that it met.
    self._outcomes: queue.SimpleQueue[Optional[Exception]] = queue.SimpleQueue()
    self._pending = False
    self._max_priority = 1.0
    # The thread must not hold the writer itself, which would then never be dropped.
    self._thread = threading.Thread(
      target=_write_all,
      args=(client, table, self._jobs, self._outcomes),
      name="priority_writer",
      daemon=True,
    )

  @property
  def max_priority(self) -> float:
    """The largest priority that was ever written, at least 1: what new items should get.

    A resume sets it to what it was.
    """
    return self._max_priority

  @max_priority.setter
  def max_priority(self, value: float) -> None:
    self._max_priority = max(1.0, value)

  def write(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Hands new priorities to the writer.

    Args:
      keys: uint64 `[N]`, as in `reverb.SampleInfo`. Of a key that occurs twice the last counts.
      priorities: `[N]`, floating, at least 0.

    Raises:
      ReplayLostError: if an earlier write has failed, or the server does not answer for 20 s.
      ValueError: if keys and priorities do not pair.
    """
    if np.shape(keys) != np.shape(priorities) or np.ndim(keys) != 1:
      raise ValueError(
        f"keys have shape {np.shape(keys)} and priorities {np.shape(priorities)}; each key needs "
        "one priority."
      )
    self.flush()
    if not self._thread.is_alive():
      self._thread.start()
    self._max_priority = max(self._max_priority, float(np.max(priorities, initial=0.0)))
    self._jobs.put(dict(zip(keys.tolist(), priorities.tolist())))
    self._pending = True

  def flush(self) -> None:
    """Waits until the server has taken in what was handed over.

    Raises:
      ReplayLostError: if it has refused it, or does not answer for 20 s.
    """
    while self._pending:
      try:
        error = self._outcomes.get(timeout=_WRITE_SECONDS)
      except queue.Empty:
        # A server that is busy, such as with a checkpoint, answers late.
        replay_watch.check_server(self._client)
        continue
      self._pending = False
      if error is not None:
        raise replay_watch.ReplayLostError(
          f"The replay server at {self._client.server_address} did not take new priorities. Start "
          "again from the last checkpoint."
        ) from error

  def __del__(self) -> None:
    self._jobs.put(None)  # Ends the thread.


def make_writer(client: Optional[reverb.Client], table: str) -> PriorityWriter:
  """Returns a writer of priorities.

  Args:
    client: client of the server; None is refused.
    table: name of the table.

  Raises:
    ValueError: if there is no client.
  """
  if client is None:
    raise ValueError(
      "prioritised_replay is set, but replay_client is None: new priorities could not be written. "
      "Give make_learner the replay_client, or set prioritised_replay to None."
    )
  return PriorityWriter(client, table)


def _write_all(
  client: reverb.Client,
  table: str,
  jobs: "queue.SimpleQueue[Optional[dict[int, float]]]",
  outcomes: "queue.SimpleQueue[Optional[Exception]]",
) -> None:
  """Writes one job after the other, until there is a None."""
  while True:
    job = jobs.get()
    if job is None:
      return
    try:
      client.mutate_priorities(table, updates=job)
      outcomes.put(None)
    except (reverb.ReverbError, RuntimeError) as error:
      outcomes.put(error)
