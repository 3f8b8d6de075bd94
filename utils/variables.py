"""Copying between variables, inside or outside of a `tf.distribute` replica."""

from collections.abc import Mapping, Sequence
from typing import Union

import sonnet as snt
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


def move_towards(
  sources: Sequence[tf.Variable], targets: Sequence[tf.Variable], rate: float
) -> None:
  """Moves each target towards the source at its place: `target += rate (source - target)`.

  Polyak averaging, as the targets of DDPG have it (Lillicrap 2015,
  https://arxiv.org/abs/1509.02971, algorithm 1). What is no float, such as a counter, is copied.

  Args:
    sources: online variables.
    targets: their targets, pairwise of one shape.
    rate: share of the source, in (0, 1].
  """
  for source, target in zip(sources, targets):
    if not target.dtype.is_floating:
      assign(target, source.read_value())
      continue
    # One kernel that adds in place, instead of four passes over the weights.
    tf.raw_ops.ResourceApplyGradientDescent(
      var=target.handle,
      alpha=tf.constant(rate, target.dtype),
      delta=target.read_value() - source.read_value(),
    )


def check_pairs(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
  """Raises ValueError unless the targets pair with the sources one to one, with equal shapes."""
  if len(sources) != len(targets):
    raise ValueError(
      f"{len(sources)} online and {len(targets)} target variables cannot be paired. A target "
      "network must be a copy of its online network, and both must have been called once before."
    )
  for source, target in zip(sources, targets):
    if source.shape != target.shape:
      raise ValueError(
        f"The online variable {source.name} has shape {source.shape}, its target {target.name} "
        f"{target.shape}."
      )


def check_made_under(
  strategy: tf.distribute.Strategy, objects: Mapping[str, Union[tf.Variable, snt.Module]]
) -> None:
  """Raises ValueError for a variable that the replicas would share, and so each change in turn.

  Args:
    strategy: the strategy whose scope all variables are to come from; one replica accepts any.
    objects: variables, networks and optimizers by the names that an error gives them.
  """
  if strategy.num_replicas_in_sync == 1:
    return
  for name, item in objects.items():
    # An optimizer without moments has no variables, which Sonnet takes for an error.
    is_variable = isinstance(item, tf.Variable)
    variables = [item] if is_variable else snt.allow_empty_variables(item).variables
    for variable in variables:
      if not strategy.extended.variable_created_in_scope(variable):
        raise ValueError(
          f"The variable {variable.name} of {name} was not made under the strategy, so its "
          "replicas would not agree on it. Make networks and optimizers inside `with "
          "strategy.scope():`."
        )
