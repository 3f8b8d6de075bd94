"""A batch of transitions as SAC's losses take it, and the check of what a dataset holds."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from acme import types
import reverb
import tensorflow as tf
import tree


class Batch(NamedTuple):
  """A batch of transitions.

  Attributes:
    observation: nest of `[B, ...]`.
    action: `[B, *A]`, canonical.
    reward: `[B]`, scaled.
    discount: `[B]`, the agent's discount times the environment's.
    next_observation: nest of `[B, ...]`.
    sample_age: scalar, learner updates since the data was made, on average; None if not known.
  """

  observation: types.NestedTensor
  action: tf.Tensor
  reward: tf.Tensor
  discount: tf.Tensor
  next_observation: types.NestedTensor
  sample_age: Optional[tf.Tensor]


def make_batch(
  sample: Any,
  *,
  dtype: tf.DType,
  reward_scale: float,
  agent_discount: float,
  num_steps: tf.Tensor,
) -> Batch:
  """Makes the batch of a sample.

  Args:
    sample: `reverb.ReplaySample` of `acme.types.Transition`, or the transition alone.
    dtype: of the networks' numbers.
    reward_scale: factor of the rewards.
    agent_discount: multiplies the discounts.
    num_steps: int32 scalar, learner updates done.
  """
  data = transition_of(sample)
  number = lambda x: tf.cast(x, dtype)
  age = None
  if isinstance(data.extras, Mapping) and "policy_version" in data.extras:
    age = tf.reduce_mean(tf.cast(num_steps - data.extras["policy_version"], tf.float32))
  return Batch(
    observation=data.observation,
    action=number(data.action),
    reward=reward_scale * number(data.reward),
    discount=agent_discount * number(data.discount),
    next_observation=data.next_observation,
    sample_age=age,
  )


def transition_of(sample: Any) -> types.Transition:
  """Returns the transition of a sample, which may come without the sample around it."""
  return sample.data if isinstance(sample, reverb.ReplaySample) else sample


def check_dataset(dataset: Any, *, prioritised: bool) -> None:
  """Checks that a dataset holds transitions, where it tells before it is read.

  Args:
    dataset: a `tf.data.Dataset`, or an iterator, which only some of tell what they hold.
    prioritised: whether the probability of each sample is needed.

  Raises:
    ValueError: if it holds something else; says what.
  """
  spec = getattr(dataset, "element_spec", None)
  if spec is None:
    return
  data = transition_of(spec)
  if not isinstance(data, types.Transition):
    raise ValueError(
      f"The dataset holds {type(data).__name__}; acme.types.Transition is needed, as "
      "SACBuilder.make_dataset gives it."
    )
  if prioritised and not hasattr(spec, "info"):
    raise ValueError(
      "The dataset holds transitions without the information that replay gives with them; "
      "prioritised replay needs reverb.ReplaySample, for the probability of each."
    )
  rewards = tree.flatten(data.reward)
  if len(rewards) != 1 or rewards[0].shape.rank != 1:
    raise ValueError(f"The dataset's rewards are {data.reward}; one number each, [B], is needed.")
  if not data.discount.shape.is_compatible_with(rewards[0].shape):
    raise ValueError(
      f"The dataset's discounts have shape {data.discount.shape}; that of the rewards, "
      f"{rewards[0].shape}, is needed."
    )
