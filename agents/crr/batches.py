"""A batch of sequences as CRR's losses see it: time-major, scaled, with what is no pair masked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from acme import types
import tensorflow as tf
import tree

from temper.agents import sequences


class Batch(NamedTuple):
  """A batch of sequences; they have T' steps, burn-in and T together.

  Attributes:
    observation: nest of `[T', B, ...]`.
    action: `[T', B, *A]`.
    reward: `[T', B]`, scaled.
    discount: `[T', B]`, the environment's times the agent's.
    start_of_episode: bool `[T', B]`.
    masked_pair: bool `[T - 1, B]`, whether a step after the burn-in and its successor are no pair
      to learn from.
    burn_in_length: the first steps, which only warm up the recurrent states.
  """

  observation: types.NestedTensor
  action: tf.Tensor
  reward: tf.Tensor
  discount: tf.Tensor
  start_of_episode: tf.Tensor
  masked_pair: tf.Tensor
  burn_in_length: int

  @property
  def size(self) -> Any:
    """B, the number of sequences."""
    return sequences.batch_size(self.reward, axis=1)

  @property
  def inputs(self) -> tuple[types.NestedTensor, tf.Tensor, tf.Tensor]:
    """Observations, actions and starts of episodes: what networks are unrolled over."""
    return self.observation, self.action, self.start_of_episode

  @property
  def target_inputs(self) -> tuple[types.NestedTensor, tf.Tensor, tf.Tensor]:
    """The same for target networks, which begin an episode anew at its second step."""
    start = self.start_of_episode
    return self.observation, self.action, tf.concat([start[:1], start[:-1]], axis=0)

  def trained(self, nest: types.NestedTensor) -> types.NestedTensor:
    """Cuts `[T', ...]` to the steps t-1 of the pairs that are trained on, `[T - 1, ...]`."""
    return tree.map_structure(lambda x: x[self.burn_in_length : -1], nest)

  def mean_of_valid(self, values: tf.Tensor) -> tf.Tensor:
    """Averages values `[T - 1, B]` over the pairs that are not masked; 0 if there is none."""
    total = tf.reduce_sum(tf.where(self.masked_pair, tf.zeros_like(values), values))
    return tf.math.divide_no_nan(total, self.num_valid)

  @property
  def num_valid(self) -> tf.Tensor:
    """The number of pairs that are not masked, float32."""
    return tf.reduce_sum(tf.cast(tf.logical_not(self.masked_pair), tf.float32))


def make_batch(
  steps: Any, *, burn_in_length: int, reward_scale: float, agent_discount: float
) -> Batch:
  """Makes a batch of batch-major steps.

  Args:
    steps: fields of `acme.adders.reverb.Step`, `[B, T', ...]`. An extra `valid_mask`, bool
      `[B, T']`, tells steps from padding; whatever padding holds, NaN included, reaches neither a
      loss nor a gradient.
    burn_in_length: first steps that are not trained on.
    reward_scale: factor of the rewards.
    agent_discount: factor of the discounts.
  """
  fields = (steps.observation, steps.action, steps.reward, steps.discount, steps.start_of_episode)
  valid = steps.extras.get("valid_mask") if isinstance(steps.extras, Mapping) else None
  masks = () if valid is None else (valid,)
  (observation, action, reward, discount, start), masks = sequences.to_time_major((fields, masks))
  masked_pair = start[1:]
  action, reward, discount = (tf.cast(x, tf.float32) for x in (action, reward, discount))
  if masks:
    observation, action, reward, discount = tree.map_structure(
      lambda x: _zero_where_not(masks[0], x), (observation, action, reward, discount)
    )
    masked_pair = tf.logical_not(masks[0][:-1] & masks[0][1:]) | masked_pair
  return Batch(
    observation,
    action,
    reward_scale * reward,
    agent_discount * discount,
    start,
    masked_pair[burn_in_length:],
    burn_in_length,
  )


def _zero_where_not(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
  """Zeroes the rows of `[T', B, ...]` where the mask, bool `[T', B]`, is False."""
  condition = tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (x.shape.rank - 2)], axis=0))
  return tf.where(condition, x, tf.zeros_like(x))
