"""A batch of sequences as SVG0's losses take it, time-major, and how its rows are cut."""

from typing import NamedTuple, Union

from acme import types
import reverb
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import sequences


class Batch(NamedTuple):
  """A batch of sequences of T + 1 steps, time-major."""

  # Nest of [(T+1) B, ...], all sequences' first steps before the second ones.
  observation: types.NestedTensor
  action: tf.Tensor  # [(T+1) B, A]
  r_t: tf.Tensor  # [T, B]
  discount_t: tf.Tensor  # [T, B]
  restart_t: tf.Tensor  # [T, B], whether the next step starts an episode.
  behaviour_log_prob_tm1: tf.Tensor  # [T, B]


def make_batch(sample: reverb.ReplaySample, reward_scale: float) -> Batch:
  """Makes the batch of a sample, leaves `[B, T + 1, ...]`, with its rewards scaled."""
  data = sample.data
  length, batch_size = data.reward.shape[1], sequences.batch_size(data.reward)
  # One gather of rows, since transposing each tensor costs more than all else that is done to it
  # here.
  order = tf.reshape(
    tf.transpose(tf.reshape(tf.range(batch_size * length), [batch_size, length])), [-1]
  )
  by_row = lambda x: tf.gather(snt.merge_leading_dims(x, 2), order)
  by_step = lambda x: tf.reshape(by_row(x), [length, batch_size])
  return Batch(
    observation=tree.map_structure(by_row, data.observation),
    action=tf.cast(by_row(data.action), tf.float32),
    r_t=reward_scale * tf.cast(by_step(data.reward)[:-1], tf.float32),
    discount_t=tf.cast(by_step(data.discount)[:-1], tf.float32),
    restart_t=by_step(data.start_of_episode)[1:],
    behaviour_log_prob_tm1=tf.cast(by_step(data.extras["log_prob"])[:-1], tf.float32),
  )


def rows(
  x: tf.Tensor, begin: Union[int, tf.Tensor], size: Union[int, tf.Tensor], axis: int
) -> tf.Tensor:
  """Cuts `size` rows along an axis, from row `begin` on."""
  starts = [begin if i == axis else 0 for i in range(x.shape.rank)]
  sizes = [size if i == axis else -1 for i in range(x.shape.rank)]
  cut = tf.slice(x, starts, sizes)
  # Without a known size TensorFlow forgets the other axes' sizes too.
  cut.set_shape([*x.shape[:axis], size if isinstance(size, int) else None, *x.shape[axis + 1 :]])
  return cut
