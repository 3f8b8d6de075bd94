"""Copying between variables, inside or outside of a `tf.distribute` replica."""

from collections.abc import Sequence

import tensorflow as tf


def assign(variable: tf.Variable, value: tf.Tensor) -> tf.Operation:
  """Writes `value` to this replica's copy of `variable`.

  In a replica, `tf.Variable.assign` asks for a rule that says how the replicas' values become one.
  All replicas compute the same update here (gradients are averaged before), so each may write its
  own copy; this holds for every strategy.
  """
  return tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def copy(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
  """Copies each source to the target at its place.

  Raises:
    ValueError: if the two differ in number, or a pair in shape; names the pair.
  """
  check_pairs(sources, targets)
  for source, target in zip(sources, targets):
    assign(target, source.read_value())


def check_pairs(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
  """Raises ValueError unless the targets pair with the sources one to one, with equal shapes."""
  if len(sources) != len(targets):
    raise ValueError(
      f"{len(sources)} online and {len(targets)} target variables cannot be paired. A target "
      "network must be a "
      "copy of its online network, and both must have been called once before."
    )
  for source, target in zip(sources, targets):
    if source.shape != target.shape:
      raise ValueError(
        f"The online variable {source.name} has shape {source.shape}, its target {target.name} "
        f"{target.shape}."
      )
