"""Where the windows of a set of episodes lie, and in which order they are drawn.

An episode of L transitions has L + 1 rows. A window of `sequence_length` T rows trains the T - 1
pairs of neighbours in it, and may have `burn_in_length` rows more in front.

Windows start at the rows 0, `period`, 2 `period`, ... and the last one is shifted back so that it
ends at the episode's last row. None hangs over an end, so the pairs near an end lie in fewer of
them, the very last one in a single window where others lie in (T - 1) / `period`. To make up for
that, an episode of L transitions has max(L, T - 1) / `period` windows, rounded up, and what is
lacking are repeats of its first and of its last window, half each (the last has the odd one). So
each episode is drawn as often as its pairs ask for: on average over an episode every pair is drawn
equally often, and none much less than half as often as that. With a period of T - 1 every pair is
drawn exactly once an epoch, but for those that the shift of the last window repeats. An episode of
fewer than T rows has one window, padded at the end, which is repeated as often as longer episodes
repeat each pair.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from temper.utils import checks

# With TensorFlow's default of four rounds the order is visibly not random: neighbours correlate.
_SHUFFLE_ROUNDS = 12


@dataclasses.dataclass(frozen=True)
class WindowShape:
  """How long windows are and how they follow each other.

  Attributes:
    sequence_length: T, the rows that are trained on; a window has T - 1 pairs.
    burn_in_length: rows in front of those, which only warm up a recurrent state.
    period: rows between the starts of two windows, at most T - 1.
  """

  sequence_length: int
  burn_in_length: int = 0
  period: int = 1

  def __post_init__(self) -> None:
    checks.integer("sequence_length", self.sequence_length, minimum=2)
    checks.integer("burn_in_length", self.burn_in_length, minimum=0)
    checks.integer("period", self.period, minimum=1)
    if self.period > self.num_pairs:
      raise ValueError(
        f"period is {self.period}; with a sequence_length of {self.sequence_length} it must be at "
        f"most {self.num_pairs}, or the pairs between two windows would never be trained. Lower "
        "the period or raise the sequence_length."
      )

  @property
  def num_pairs(self) -> int:
    """T - 1, the pairs that a window trains."""
    return self.sequence_length - 1

  @property
  def num_rows(self) -> int:
    """Rows of a window, those of burn-in included."""
    return self.burn_in_length + self.sequence_length


class EpisodeTable(NamedTuple):
  """Where the windows and rows of some episodes lie; int64 [E] each, arrays or tensors.

  Windows are numbered through, episode by episode, and so are rows.

  Attributes:
    windows_before: windows of the episodes in front of this one.
    first_row: number of the episode's first row.
    num_rows: its rows, L + 1.
    front_repeats: how often its first window is repeated.
    key: number of its first window among those of the whole dataset.
  """

  windows_before: tf.Tensor
  first_row: tf.Tensor
  num_rows: tf.Tensor
  front_repeats: tf.Tensor
  key: tf.Tensor


class Placement(NamedTuple):
  """Where B windows lie in the rows of some episodes.

  Attributes:
    rows: int64 [B, burn_in + T], numbers of the rows; at padding, one more than the last row.
    valid: bool [B, burn_in + T], False at padding.
    starts: bool [B, burn_in + T], True at an episode's first row.
    key: int64 [B], numbers of the windows among those of the whole dataset.
  """

  rows: tf.Tensor
  valid: tf.Tensor
  starts: tf.Tensor
  key: tf.Tensor


class WindowIndex:
  """The windows of a dataset, from the lengths of its episodes alone.

  Attributes:
    shape: the windows' shape.
    lengths: int64 [E], transitions of each episode.
    counts: int64 [E], windows of each episode, repeats included.
    num_windows: windows of the dataset, thus of an epoch.
  """

  def __init__(self, lengths: npt.ArrayLike, shape: WindowShape):
    """Counts the windows.

    Args:
      lengths: [E], transitions of each episode.
      shape: the windows' shape.

    Raises:
      ValueError: if there is no episode, or one has no transition.
    """
    self.shape = shape
    self.lengths = np.asarray(lengths, np.int64)
    if not self.lengths.size or self.lengths.min() < 1:
      where = np.flatnonzero(self.lengths < 1)
      what = f"episode {where[0]} has none" if where.size else "there is no episode"
      raise ValueError(
        f"Windows need episodes of at least one transition (two rows); {what}. Leave such "
        "episodes out."
      )
    self.counts = -(-np.maximum(self.lengths, shape.num_pairs) // shape.period)
    distinct = -(-np.maximum(self.lengths - shape.num_pairs, 0) // shape.period) + 1
    self._front_repeats = (self.counts - distinct) // 2
    self._keys = np.cumsum(self.counts) - self.counts
    self.num_windows = int(self.counts.sum())

  def table(self, episodes: np.ndarray) -> EpisodeTable:
    """Returns where windows lie when only some episodes are there, in the order given.

    Args:
      episodes: int64 [E'], indices of the episodes.
    """
    counts, rows = self.counts[episodes], self.lengths[episodes] + 1
    return EpisodeTable(
      windows_before=np.cumsum(counts) - counts,
      first_row=np.cumsum(rows) - rows,
      num_rows=rows,
      front_repeats=self._front_repeats[episodes],
      key=self._keys[episodes],
    )


def place(table: EpisodeTable, numbers: tf.Tensor, shape: WindowShape) -> Placement:
  """Says which rows the windows of some numbers consist of.

  Args:
    table: the episodes that are there.
    numbers: int64 [B], numbers of windows in the table.
    shape: the windows' shape.
  """
  episode = tf.searchsorted(table.windows_before, numbers, side="right", out_type=tf.int64) - 1
  before, first_row, num_rows, front_repeats, key = (tf.gather(c, episode) for c in table)
  in_episode = numbers - before
  last_start = tf.maximum(num_rows - shape.sequence_length, 0)
  start = tf.clip_by_value((in_episode - front_repeats) * shape.period, 0, last_start)
  offsets = tf.range(-shape.burn_in_length, shape.sequence_length, dtype=tf.int64)
  row = start[:, tf.newaxis] + offsets
  valid = (row >= 0) & (row < num_rows[:, tf.newaxis])
  padding = table.first_row[-1] + table.num_rows[-1]
  rows = tf.where(valid, first_row[:, tf.newaxis] + row, padding)
  return Placement(rows, valid, row == 0, key + in_episode)


def shuffled(
  positions: tf.Tensor, num_windows: tf.Tensor, *, seed: int, epoch: tf.Tensor, chunk: tf.Tensor
) -> tf.Tensor:
  """Returns which windows stand at some positions of a random order.

  It is a permutation that is computed point by point: nothing is stored and no state is kept, so
  any position of any epoch is as near as the first.

  Args:
    positions: int64 [B], from 0 to `num_windows - 1`.
    num_windows: int64 scalar, how many windows are permuted.
    seed: chooses the order, with the next two.
    epoch: int64, scalar or [B].
    chunk: int64 scalar, number of the part of the epoch that is permuted.

  Returns:
    int64 [B], numbers of windows.
  """
  like = tf.zeros_like(positions)
  return tf.raw_ops.RandomIndexShuffle(
    index=positions,
    seed=tf.stack([like + seed, like + epoch, like + chunk], axis=1),
    max_index=num_windows - 1,
    rounds=_SHUFFLE_ROUNDS,
  )
