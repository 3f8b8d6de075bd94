"""The rows of episodes as flat arrays, all at once or in chunks that fit into memory."""

from collections.abc import Iterator
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from temper.utils.datasets import episodes as episodes_lib
from temper.utils.datasets import window_index


class Rows(NamedTuple):
  """The rows of N - 1 episode steps, one episode after the other, and one of zeros for padding.

  Each leaf is `[N, ...]`. Row i of an episode has the observation, the action taken there, and the
  reward and discount that follow it; its last row has an observation alone and zeros beside it.
  """

  observation: Any
  action: Any
  reward: Any
  discount: Any
  extras: dict[str, Any]


class Chunk(NamedTuple):
  """Some episodes of an epoch, in memory.

  Attributes:
    rows: their rows.
    table: where the windows lie in them.
    epoch: int64 scalar, the epoch that they are read for.
    number: int64 scalar, number of the chunk in its epoch.
    num_windows: int64 scalar, windows of these episodes.
    skip: int64 scalar, how many of those were already used.
  """

  rows: Rows
  table: window_index.EpisodeTable
  epoch: Any
  number: Any
  num_windows: Any
  skip: Any


@dataclasses.dataclass(frozen=True)
class EpochPlan:
  """How epochs are cut into chunks.

  Every epoch deals the episodes into chunks anew, by a random order of the seed and the epoch.
  Within a chunk they are read in the order of the dataset, which is the quickest. A chunk exceeds
  an equal share of the rows by less than one episode.

  Attributes:
    num_chunks: at most so many chunks an epoch.
    seed: chooses the order of the episodes.
    shuffle: whether there is a random order, or the dataset's.
  """

  num_chunks: int
  seed: int
  shuffle: bool

  def chunks(self, index: window_index.WindowIndex, epoch: int) -> list[np.ndarray]:
    """Returns the indices of each chunk's episodes, none of them empty."""
    order = np.arange(len(index.lengths))
    if self.shuffle:
      order = np.random.default_rng([self.seed, epoch]).permutation(order)
    rows = index.lengths[order] + 1
    number = (np.cumsum(rows) - rows) * self.num_chunks // rows.sum()
    cuts = np.flatnonzero(np.diff(number)) + 1
    return [np.sort(chunk) for chunk in np.split(order, cuts)]


def rows_of(episode: episodes_lib.Episode) -> Rows:
  """Returns an episode's own arrays, of which all but the observation lack the last row."""
  return Rows(
    _without_lists(episode.observation),
    _without_lists(episode.action),
    episode.reward,
    episode.discount,
    dict(episode.extras),
  )


def bytes_per_row(rows: Rows) -> int:
  """Returns the bytes that one row takes."""
  return sum(leaf.dtype.itemsize * int(np.prod(leaf.shape[1:])) for leaf in tree.flatten(rows))


def read(
  dataset: episodes_lib.EpisodeDataset, index: window_index.WindowIndex, episodes: np.ndarray
) -> Rows:
  """Reads episodes into flat arrays.

  Args:
    dataset: the episodes.
    index: of the same dataset.
    episodes: int64 [E'], indices of those to be read, at least one.

  Raises:
    DatasetError: if an episode differs from the others in structure, shape or dtype, or from what
      the dataset says of its length.
  """
  num_rows = int((index.lengths[episodes] + 1).sum()) + 1
  made: Any = None
  begin = 0
  for episode_number in episodes:
    rows = rows_of(dataset.read(int(episode_number)))
    if made is None:
      made = tree.map_structure(lambda a: np.zeros((num_rows, *a.shape[1:]), a.dtype), rows)
    length = int(index.lengths[episode_number])
    _check_alike(dataset, int(episode_number), rows, made, length)
    for target, source in zip(tree.flatten(made), tree.flatten(rows)):
      target[begin : begin + len(source)] = source
    begin += length + 1
  return made


def stream(
  dataset: episodes_lib.EpisodeDataset,
  index: window_index.WindowIndex,
  plan: EpochPlan,
  *,
  first_position: int,
  repeat: bool,
) -> Iterator[Chunk]:
  """Reads chunk after chunk, epoch after epoch, from a position on; earlier ones are not read.

  Args:
    dataset: the episodes.
    index: of the same dataset.
    plan: how to cut an epoch.
    first_position: number of the first window that is wanted, counted from the first epoch on.
    repeat: whether the first epoch is followed by others.
  """
  epoch, skip = divmod(first_position, index.num_windows)
  while repeat or epoch == 0:
    for number, episodes in enumerate(plan.chunks(index, epoch)):
      num_windows = int(index.counts[episodes].sum())
      if skip >= num_windows:
        skip -= num_windows
        continue
      rows = read(dataset, index, episodes)
      scalars = (np.int64(value) for value in (epoch, number, num_windows, skip))
      yield Chunk(rows, index.table(episodes), *scalars)
      skip = 0
    epoch += 1


def chunk_signature(rows: Rows) -> Chunk:
  """Returns the `tf.TensorSpec`s of chunks whose rows are like these."""
  column = tf.TensorSpec([None], tf.int64)
  scalar = tf.TensorSpec([], tf.int64)
  return Chunk(
    tree.map_structure(lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), rows),
    window_index.EpisodeTable(*[column] * len(window_index.EpisodeTable._fields)),
    *[scalar] * 4,
  )


def _check_alike(
  dataset: episodes_lib.EpisodeDataset, number: int, rows: Rows, made: Rows, length: int
) -> None:
  where = f"{dataset.path}: episode {number}"
  try:
    tree.assert_same_structure(rows, made)
  except (TypeError, ValueError) as error:
    raise episodes_lib.DatasetError(
      f"{where} has other entries than the episodes before: {error}"
    ) from error
  expected = [length + 1] * len(tree.flatten(rows.observation))
  for i, ((path, leaf), target) in enumerate(zip(tree.flatten_with_path(rows), tree.flatten(made))):
    size = expected[i] if i < len(expected) else length
    if leaf.shape != (size, *target.shape[1:]) or leaf.dtype != target.dtype:
      raise episodes_lib.DatasetError(
        f"{where}: {'/'.join(map(str, path))} is {leaf.dtype} {list(leaf.shape)}; by the lengths "
        f"and the episodes before it must be {target.dtype} {[size, *target.shape[1:]]}."
      )


def _without_lists(nest: Any) -> Any:
  """Turns lists into tuples, because tf.data takes a list for one tensor."""
  if isinstance(nest, dict):
    return {key: _without_lists(value) for key, value in nest.items()}
  if isinstance(nest, list):
    return tuple(map(_without_lists, nest))
  if isinstance(nest, tuple):
    values = map(_without_lists, nest)
    return type(nest)(*values) if hasattr(nest, "_fields") else tuple(values)
  return nest
