"""Batches of sequences, as Acme's adders lay them out: checked, and turned time-major."""

from collections.abc import Mapping
from typing import Any, Optional, Union

import reverb
import sonnet as snt
import tensorflow as tf
import tree

_STEP_FIELDS = ("observation", "action", "reward", "discount", "start_of_episode", "extras")
_NO_EXTRAS: Mapping[str, str] = {}


def check_dataset(dataset: Any, required_extras: Mapping[str, str] = _NO_EXTRAS) -> None:
  """Checks a dataset's elements, where its spec tells them before one is fetched.

  Args:
    dataset: a `tf.data.Dataset` or an iterator. Nothing is known of a Python iterator, and a
      distributed one has specs of replicas: the first sample of those is for `check_sample`.
    required_extras: as for `check_sample`.

  Raises:
    ValueError: as `check_sample`.
  """
  if isinstance(dataset, (tf.data.Dataset, tf.data.Iterator)):
    check_sample(dataset.element_spec, required_extras)


def check_has_probabilities(dataset: Any) -> None:
  """Checks that a dataset's elements tell how likely each was, as prioritised replay needs.

  Args:
    dataset: as for `check_dataset`.

  Raises:
    ValueError: if they are steps without a sample around them.
  """
  if isinstance(dataset, (tf.data.Dataset, tf.data.Iterator)):
    spec = dataset.element_spec
    if not isinstance(spec, reverb.ReplaySample):
      raise ValueError(
        f"The dataset's elements are of type {type(spec).__name__}; prioritised replay needs "
        "reverb.ReplaySample, whose info has the probability of each sequence. Take the builder's "
        "make_dataset, or set prioritised_replay to None."
      )


def check_sample(sample: Any, required_extras: Mapping[str, str] = _NO_EXTRAS) -> None:
  """Checks that a batch, or the spec of one, is a batch of sequences to learn from.

  Args:
    sample: tensors or their specs, batch-major, in a `reverb.ReplaySample`; or its `data` alone.
    required_extras: what the learner needs beside the steps: names, each with what it is and who
      writes it, for the message.

  Raises:
    ValueError: if a field or an extra is missing, if there are not at least two steps, or if a
      shape or dtype is wrong; names the field, what came and how to get what is needed.
  """
  data = steps_of(sample)
  missing = [name for name in _STEP_FIELDS if not hasattr(data, name)]
  if missing:
    raise ValueError(
      f"The dataset's elements are of type {type(sample).__name__}, without data.{missing[0]}; "
      "reverb.ReplaySample with data of acme.adders.reverb.Step is needed, such as "
      "temper.utils.replay_datasets.make_dataset gives."
    )
  for name, meaning in required_extras.items():
    if not isinstance(data.extras, Mapping) or name not in data.extras:
      has = f"{sorted(data.extras)}" if isinstance(data.extras, Mapping) else f"{data.extras!r}"
      raise ValueError(f"The dataset's extras are {has}; a mapping with {name}, {meaning}")
  reward = data.reward.shape
  if reward.rank != 2 or reward[1] is None or reward[1] < 2:
    raise ValueError(
      f"The dataset's rewards have shape {reward}; [B, T+1] is needed, T+1 at least 2 and known "
      "when the graph is made. Batch whole sequences, for instance of SVG0Config.sequence_length."
    )
  masks = {"start_of_episode": data.start_of_episode}
  if isinstance(data.extras, Mapping) and "valid_mask" in data.extras:
    masks["valid_mask"] = data.extras["valid_mask"]
  extras = {name: data.extras[name] for name in required_extras}
  for name, value in {"discount": data.discount, **masks, **extras}.items():
    if not value.shape.is_compatible_with(reward):
      raise ValueError(
        f"The dataset's {name} has shape {value.shape}; that of the rewards, {reward}, is needed: "
        "one number per step."
      )
  meanings = {
    "start_of_episode": "whether the step is the first of an episode, as Acme's adders write it",
    "valid_mask": "whether the step is data, not padding",
  }
  for name, value in masks.items():
    if value.dtype != tf.bool:
      raise ValueError(
        f"The dataset's {name} has dtype {value.dtype.name}; bool is needed: {meanings[name]}."
      )


def steps_of(sample: Any) -> Any:
  """Returns the steps of a sample, which may come without the sample around them."""
  return sample.data if isinstance(sample, reverb.ReplaySample) else sample


def to_time_major(steps: Any) -> Any:
  """Swaps the first two axes of each tensor of a nest, `[B, T, ...]` to `[T, B, ...]`.

  One gather of rows by a shared order, since transposing each tensor costs more than all else that
  is done to it.
  """
  first = tree.flatten(steps)[0]
  length, num_sequences = first.shape[1], batch_size(first)
  order = tf.reshape(
    tf.transpose(tf.reshape(tf.range(num_sequences * length), [num_sequences, length])), [-1]
  )

  def swap(x: tf.Tensor) -> tf.Tensor:
    rows = tf.gather(snt.merge_leading_dims(x, 2), order)
    swapped = tf.reshape(rows, tf.concat([[length, num_sequences], tf.shape(rows)[1:]], axis=0))
    return tf.ensure_shape(swapped, [length, x.shape[0], *x.shape[2:]])

  return tree.map_structure(swap, steps)


def batch_size(x: tf.Tensor, axis: int = 0) -> Union[int, tf.Tensor]:
  """Returns the size of an axis, as a number where it is known: the graph is then cut to it."""
  return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def age_of_samples(steps: Any, num_steps: tf.Tensor) -> Optional[tf.Tensor]:
  """Returns how many learner steps old the data is on average, where the actor stored it.

  Args:
    steps: batch-major steps.
    num_steps: scalar, learner steps done.

  Returns:
    float32 scalar; None if the extras have no `policy_version`.
  """
  if not isinstance(steps.extras, Mapping) or "policy_version" not in steps.extras:
    return None
  # Of each sequence's newest step: the row that closes an episode holds zeros, not a version.
  age = num_steps - tf.reduce_max(steps.extras["policy_version"], axis=1)
  return tf.reduce_mean(tf.cast(age, tf.float32))
