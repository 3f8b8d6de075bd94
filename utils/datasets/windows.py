"""Windows of fixed length, cut from episodes on the fly and batched by tf.data."""

import functools
from typing import Callable, Optional

from absl import logging
from acme.adders.reverb import base as adder_base
import numpy as np
import reverb
import tensorflow as tf
import tree

from temper.utils import checks
from temper.utils.datasets import available_memory
from temper.utils.datasets import episodes as episodes_lib
from temper.utils.datasets import window_chunks
from temper.utils.datasets import window_index

VALID_MASK = "valid_mask"

# One is drawn from, the next waits, the one after is being read; handing over takes copies.
_CHUNKS_IN_MEMORY = 5
# With fewer episodes at a time the windows of a batch are alike, and learning suffers.
_FEW_EPISODES = 8

# Draws windows from a chunk, at the given positions of its order in an epoch.
_Draw = Callable[[window_chunks.Chunk, tf.Tensor, tf.Tensor], reverb.ReplaySample]


def make_windows(
  dataset: episodes_lib.EpisodeDataset,
  *,
  sequence_length: int,
  batch_size: int,
  burn_in_length: int = 0,
  period: int = 1,
  shuffle: bool = True,
  seed: int = 0,
  repeat: bool = True,
  start_step: int = 0,
  in_memory: Optional[bool] = None,
  buffer_bytes: int = 2**30,
  prefetch_size: int = 2,
) -> tf.data.Dataset:
  """Makes batches of windows of episodes.

  A window holds `burn_in_length + T` consecutive rows of one episode, T the sequence length. An
  episode of L transitions has L + 1 rows, as dm-acme's adders store them: row i has the
  observation, the action taken there, and the reward and discount that follow it; the last row has
  zeros beside its observation. The T - 1 pairs of neighbours in the last T rows are to be trained;
  the rows before only warm up a recurrent state. Where an episode is too short, rows of zeros fill
  up the window: at its front when burn-in would begin before the episode does, and at its end when
  the episode has fewer than T rows. `window_index` says which windows there are, and why each pair
  is drawn about equally often.

  The order depends on the seed and the batch's number alone. An epoch is a permutation of all
  windows, a new one each time; batches run on from one epoch into the next.

  Rows, not windows, are held in memory, each once: those of all episodes where they fit. Where they
  do not, an epoch deals the episodes into chunks at random, and windows are drawn at random from
  one chunk while the next is read. That takes `buffer_bytes` and the rows of a few episodes, and
  gives the very same windows in each epoch.

  Args:
    dataset: the episodes.
    sequence_length: T, at least 2.
    batch_size: windows a batch.
    burn_in_length: rows in front of those that are trained.
    period: rows between the starts of two windows, 1 to T - 1.
    shuffle: whether windows are in random order; else in that of the dataset.
    seed: chooses the order; any integer.
    repeat: whether there is no end. Otherwise there is one epoch, whose last batch is smaller when
      the windows do not fill it.
    start_step: how many batches to leave out, which costs no time: a learner that goes on after
      so many steps gets what it would have got uninterrupted.
    in_memory: whether all rows are held in memory; None decides by what is available.
    buffer_bytes: memory for rows when they are not all held, bytes.
    prefetch_size: batches made ahead.

  Returns:
    Dataset of `reverb.ReplaySample`. Its data is a `Step` with leaves
    `[batch_size, burn_in_length + T, ...]` in the dataset's dtypes; lists in observations become
    tuples. `start_of_episode` is True at an episode's first row only. Extras are the dataset's own
    and `valid_mask`, bool, False at padding. The `key` of its info is the window's number, and
    `times_sampled` the number of the epoch, from 1.

  Raises:
    ValueError: if an argument is out of its range, or the dataset has an extra named `valid_mask`.
  """
  shape = window_index.WindowShape(sequence_length, burn_in_length, period)
  checks.integer("batch_size", batch_size, minimum=1)
  checks.integer("start_step", start_step, minimum=0)
  checks.integer("buffer_bytes", buffer_bytes, minimum=1)
  checks.integer("prefetch_size", prefetch_size, minimum=0)
  index = window_index.WindowIndex(dataset.lengths, shape)
  example = window_chunks.rows_of(dataset.read(0))
  _check(dataset, index, example, batch_size, start_step, repeat)
  seed = int(seed) % 2**31
  draw = functools.partial(
    _draw, shape=shape, seed=seed, shuffle=shuffle, dataset_windows=index.num_windows
  )
  first_position = start_step * batch_size
  num_bytes = window_chunks.bytes_per_row(example) * int((index.lengths + 1).sum())
  if in_memory is None:
    # Reading needs the rows twice for a moment.
    in_memory = 2 * num_bytes <= available_memory.available_bytes()
  if in_memory:
    rows = window_chunks.read(dataset, index, np.arange(len(dataset)))
    batches = _from_memory(rows, index, draw, batch_size, first_position, repeat)
  else:
    num_chunks = min(-(-num_bytes * _CHUNKS_IN_MEMORY // buffer_bytes), len(dataset))
    _report_chunks(dataset, num_bytes, num_chunks, buffer_bytes)
    plan = window_chunks.EpochPlan(num_chunks, seed, shuffle)
    chunks = tf.data.Dataset.from_generator(
      lambda: window_chunks.stream(
        dataset, index, plan, first_position=first_position, repeat=repeat
      ),
      output_signature=window_chunks.chunk_signature(example),
    )
    batches = _from_chunks(chunks.prefetch(1), draw, batch_size, repeat)
  return batches.prefetch(prefetch_size).with_options(_options())


def _options() -> tf.data.Options:
  options = tf.data.Options()
  # Every worker of a strategy draws from all windows; there are no files to share out.
  options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
  # Rewriting the pipeline copies the rows that are in memory, and gains nothing here.
  options.experimental_optimization.apply_default_optimizations = False
  # An iterator that is dropped waits up to a minute for the thread that tunes its parallelism, and
  # so does the end of a program. Nothing here is to be tuned.
  options.autotune.enabled = False
  return options


def _from_memory(
  rows: window_chunks.Rows,
  index: window_index.WindowIndex,
  draw: _Draw,
  batch_size: int,
  first_position: int,
  repeat: bool,
) -> tf.data.Dataset:
  """Draws batches from all episodes, which are one chunk that serves every epoch."""
  with tf.device("CPU:0"):
    chunk = window_chunks.Chunk(
      rows=tree.map_structure(tf.convert_to_tensor, rows),
      table=tree.map_structure(tf.constant, index.table(np.arange(len(index.lengths)))),
      epoch=None,
      number=tf.constant(0, tf.int64),
      num_windows=tf.constant(index.num_windows, tf.int64),
      skip=None,
    )

  @tf.autograph.experimental.do_not_convert
  def batch(begin: tf.Tensor) -> reverb.ReplaySample:
    positions = begin + tf.range(batch_size, dtype=tf.int64)
    if not repeat:
      positions = positions[: index.num_windows - begin]
    epoch, positions = positions // index.num_windows, positions % index.num_windows
    return draw(chunk, positions, epoch)

  end = np.iinfo(np.int64).max if repeat else index.num_windows
  return tf.data.Dataset.range(first_position, end, batch_size).map(batch)


def _from_chunks(
  chunks: tf.data.Dataset, draw: _Draw, batch_size: int, repeat: bool
) -> tf.data.Dataset:
  """Draws batches from chunk after chunk; one that lies across a border is put together."""

  @tf.autograph.experimental.do_not_convert
  def parts(chunk: window_chunks.Chunk) -> tf.data.Dataset:
    @tf.autograph.experimental.do_not_convert
    def part(begin: tf.Tensor) -> reverb.ReplaySample:
      end = tf.minimum(begin + batch_size, chunk.num_windows)
      return draw(chunk, tf.range(begin, end), chunk.epoch)

    return tf.data.Dataset.range(chunk.skip, chunk.num_windows, batch_size).map(part)

  return chunks.flat_map(parts).rebatch(batch_size, drop_remainder=repeat)


def _draw(
  chunk: window_chunks.Chunk,
  positions: tf.Tensor,
  epoch: tf.Tensor,
  *,
  shape: window_index.WindowShape,
  seed: int,
  shuffle: bool,
  dataset_windows: int,
) -> reverb.ReplaySample:
  """Returns the windows at some positions, int64 [B], of a chunk's order in an epoch."""
  numbers = positions
  if shuffle:
    numbers = window_index.shuffled(
      positions, chunk.num_windows, seed=seed, epoch=epoch, chunk=chunk.number
    )
  placement = window_index.place(chunk.table, numbers, shape)
  rows = tree.map_structure(lambda leaf: tf.gather(leaf, placement.rows), chunk.rows)
  ones = tf.ones_like(positions, tf.float64)
  info = reverb.SampleInfo(
    key=tf.cast(placement.key, tf.uint64),
    probability=ones / dataset_windows,
    table_size=tf.fill(tf.shape(positions), tf.constant(dataset_windows, tf.int64)),
    priority=ones,
    times_sampled=tf.cast(tf.zeros_like(positions) + epoch + 1, tf.int32),
  )
  data = adder_base.Step(
    observation=rows.observation,
    action=rows.action,
    reward=rows.reward,
    discount=rows.discount,
    start_of_episode=placement.starts,
    extras={**rows.extras, VALID_MASK: placement.valid},
  )
  return reverb.ReplaySample(info=info, data=data)


def _check(
  dataset: episodes_lib.EpisodeDataset,
  index: window_index.WindowIndex,
  example: window_chunks.Rows,
  batch_size: int,
  start_step: int,
  repeat: bool,
) -> None:
  if VALID_MASK in example.extras:
    raise ValueError(
      f"{dataset.path} has an extra named {VALID_MASK!r}, which is what windows mark padding with. "
      "Rename the dataset's."
    )
  num_batches = -(-index.num_windows // batch_size)
  if not repeat and start_step > num_batches:
    raise ValueError(
      f"start_step is {start_step}; without repeat there are {num_batches} batches of {batch_size} "
      f"for {index.num_windows} windows. Lower start_step or set repeat."
    )
  longest = int(index.lengths.max()) + 1
  if longest < index.shape.sequence_length:
    logging.warning(
      "%s: sequence_length is %d, but the longest episode has %d rows (%d steps), so that every "
      "window is padded. A sequence_length of at most %d wastes less.",
      dataset.path,
      index.shape.sequence_length,
      longest,
      longest - 1,
      longest,
    )


def _report_chunks(
  dataset: episodes_lib.EpisodeDataset, num_bytes: int, num_chunks: int, buffer_bytes: int
) -> None:
  episodes = len(dataset) // num_chunks
  text = (
    f"{dataset.path}: {num_bytes / 2**30:.2f} GiB are not held in memory, but read in "
    f"{num_chunks:,} chunks of about {episodes:,} episodes each epoch"
  )
  if episodes < _FEW_EPISODES and num_chunks > 1:
    logging.warning(
      "%s. So few episodes make the windows of a batch alike; raise buffer_bytes, which is %d.",
      text,
      buffer_bytes,
    )
  else:
    logging.info("%s.", text)
