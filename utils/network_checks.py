"""Checks of networks that agents share: the action they are made for, and what a policy returns."""

from typing import Any

from acme import specs
import numpy as np
import tensorflow as tf

from temper.utils import distributions

DISTRIBUTION = "such as tfd.Independent(tfd.Normal(mean, scale), 1) for actions of rank 1"


def check_action_spec(action_spec: specs.BoundedArray) -> None:
  """Raises ValueError unless the action is one bounded array of floats."""
  if not isinstance(action_spec, specs.BoundedArray) or isinstance(
    action_spec, specs.DiscreteArray
  ):
    raise ValueError(
      f"The action spec is {action_spec!r}; the default networks need one BoundedArray of "
      "continuous actions. Wrap the environment with temper.utils.environments.wrap, or pass "
      "networks of your own."
    )
  bounds = (action_spec.minimum, action_spec.maximum)
  if not np.issubdtype(action_spec.dtype, np.floating) or not all(
    np.isfinite(b).all() for b in bounds
  ):
    raise ValueError(
      f"The action has dtype {action_spec.dtype} and bounds {bounds[0]} to {bounds[1]}; floats "
      "with finite bounds are needed. Wrap the environment with temper.utils.environments.wrap."
    )


def check_policy_output(
  distribution: Any, action_spec: specs.BoundedArray, batch_size: int
) -> None:
  """Checks what a policy returned for a batch.

  Args:
    distribution: the policy's output.
    action_spec: the action.
    batch_size: observations in the batch, more than one.

  Raises:
    ValueError: if it is no distribution over such actions; says what came and what is needed.
  """
  missing = [name for name in ("sample", "log_prob") if not hasattr(distribution, name)]
  if missing:
    raise ValueError(
      f"policy_network returned {describe(distribution)}, which has no {' and no '.join(missing)};"
      f" a distribution over actions is needed, {DISTRIBUTION}."
    )
  sample = distributions.sample(distribution, 1, tf.zeros([2], tf.int32))[0]
  wanted = [batch_size, *action_spec.shape]
  if sample.shape.as_list() != wanted or sample.dtype != tf.float32:
    raise ValueError(
      f"policy_network's sample is {describe(sample)} for a batch of {batch_size}; float32 of "
      f"shape {wanted} is needed, as the action is {action_spec.shape}. Give the last layer the "
      "action's size and its inputs float32."
    )
  log_prob = distribution.log_prob(sample)
  if log_prob.shape.as_list() != [batch_size]:
    raise ValueError(
      f"policy_network's log_prob is {describe(log_prob)} for a batch of {batch_size}; one "
      f"number per action, shape [{batch_size}], is needed. Make the action's axes one event, "
      f"{DISTRIBUTION}."
    )


def describe(value: Any) -> str:
  """Words what a network returned."""
  if tf.is_tensor(value):
    return f"a {value.dtype.name} tensor of shape {value.shape.as_list()}"
  return f"a {type(value).__name__}"
