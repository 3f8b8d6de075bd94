"""Datasets that are flat arrays, the episodes one after the other: D4RL's layout.

    observations       [N, ...]  what the action was chosen on
    actions            [N, *A]
    rewards            [N]       what the action led to
    terminals          [N]       True where the action ended the episode: nothing follows
    timeouts           [N]       True where the episode was cut short after the action
    next_observations  [N, ...]  optional; what the action led to
    extras/<name>      [N, ...]  optional; anything else

Observations that are dicts are stored as `observations/<key>`, tuples as `observations/_index_<i>`.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
from typing import Any, Callable, Optional

import numpy as np
import tree

from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets import flat_columns
from temper.utils.datasets.episodes import DatasetError

# Rows of two observation arrays that are compared at a time.
_COMPARED_ROWS = 65536
# Two observations are the same one if they differ by no more than rounding, relative and absolute.
_SAME = 1e-5

Arrays = Mapping[str, Any]


class FlatDataset(episodes.EpisodeDataset):
  """Episodes cut from flat arrays, which are read episode by episode."""

  def __init__(
    self,
    path: str,
    format: episodes.DatasetFormat,
    open_arrays: Callable[[], contextlib.AbstractContextManager[Arrays]],
    *,
    names: Iterable[str],
    environment_name: Optional[str],
  ):
    """Reads the rewards and flags and finds the episodes.

    Without `timeouts`, episodes are cut at terminals and wherever an observation is not the one
    that the row before led to; without `next_observations` too, the file is refused, because two
    episodes could be taken for one.

    Without `next_observations`, nobody knows what the last action of a truncated episode led to:
    that transition is left out.

    Args:
      path: for messages.
      format: of the file.
      open_arrays: returns a context in which the arrays can be sliced by rows.
      names: of the file's arrays.
      environment_name: see `EpisodeDataset`.

    Raises:
      DatasetError: if the arrays are malformed.
    """
    self._open_arrays = open_arrays
    self._columns = flat_columns.Columns.find(path, names)
    self._notes = list(self._columns.notes)
    self._path = path
    self._has_next = "next_observations" in self._columns.keys
    with open_arrays() as arrays:
      rows = self._check_shapes(arrays)
      reward_key = self._columns.keys["rewards"]
      self._rewards = checking.scalars(
        checking.Place(path, reward_key), arrays[reward_key][:], self._notes
      )
      terminals = self._read_flags(arrays, "terminals")
      timeouts = self._read_timeouts(arrays, rows, terminals)
      nbytes = self._estimate_bytes(arrays, rows)
    starts, stops, terminated = self._cut(terminals, timeouts)
    sums = np.concatenate([[0.0], np.cumsum(self._rewards, dtype=np.float64)])
    super().__init__(
      path=path,
      format=format,
      lengths=stops - starts,
      returns=sums[stops] - sums[starts],
      terminated=terminated,
      nbytes=nbytes,
      in_memory=False,
      notes=self._notes,
      environment_name=environment_name,
    )
    self._notes = self.notes
    self._starts, self._stops = starts, stops

  def read(self, index: int) -> episodes.Episode:
    self.check_index(index)
    start, stop = int(self._starts[index]), int(self._stops[index])
    terminated = bool(self.terminated[index])
    discount = np.ones((stop - start,), np.float32)
    discount[-1] = 0.0 if terminated else 1.0
    with self._open_arrays() as arrays:
      return episodes.Episode(
        observation=self._read_observations(arrays, start, stop, terminated),
        action=self._slice(arrays, "actions", start, stop),
        reward=self._rewards[start:stop],
        discount=discount,
        extras=self._slice(arrays, "extras", start, stop) if "extras" in self._columns.keys else {},
      )

  def _read_observations(self, arrays: Arrays, start: int, stop: int, terminated: bool) -> Any:
    """Returns the nested observations [stop - start + 1, ...] of the rows."""
    if not self._has_next and not terminated:
      # The row after is the last one of this episode, the one whose transition is left out.
      return self._slice(arrays, "observations", start, stop + 1)
    observations = self._slice(arrays, "observations", start, stop)
    last = (
      self._slice(arrays, "next_observations", stop - 1, stop)
      if self._has_next
      else tree.map_structure(lambda array: array[-1:], observations)
    )
    return tree.map_structure(lambda *parts: np.concatenate(parts), observations, last)

  def _slice(self, arrays: Arrays, role: str, start: int, stop: int) -> Any:
    """Returns the checked rows of the arrays of a role."""
    return tree.map_structure(
      lambda key: checking.numbers(
        checking.Place(self._path, key, first_row=start), arrays[key][start:stop], self._notes
      ),
      self._columns.keys[role],
    )

  def _check_shapes(self, arrays: Arrays) -> int:
    """Returns N, or raises DatasetError if the arrays do not belong together."""
    keys = self._columns.keys
    first = tree.flatten(keys["observations"])[0]
    if not arrays[first].shape:
      raise DatasetError(f"{self._path}: {first} is one number; it must hold one row a step.")
    rows = arrays[first].shape[0]
    for key in tree.flatten(keys):
      place = checking.Place(self._path, key)
      checking.check_rows(place, arrays[key], rows, f"as many as {first!r}")
    if self._has_next:
      try:
        tree.assert_same_structure(keys["observations"], keys["next_observations"])
      except (TypeError, ValueError) as error:
        raise DatasetError(
          f"{self._path}: {self._columns.key_of('next_observations')!r} is not nested like "
          f"{self._columns.key_of('observations')!r}: {error}"
        ) from error
      for key, next_key in zip(
        tree.flatten(keys["observations"]), tree.flatten(keys["next_observations"])
      ):
        if arrays[key].shape != arrays[next_key].shape:
          raise DatasetError(
            f"{self._path}: {next_key} has the shape {list(arrays[next_key].shape)} where {key} "
            f"has {list(arrays[key].shape)}."
          )
    return rows

  def _read_flags(self, arrays: Arrays, role: str) -> np.ndarray:
    """Returns bool [N]."""
    key = self._columns.keys[role]
    return checking.flags(checking.Place(self._path, key), arrays[key][:], self._notes)

  def _read_timeouts(self, arrays: Arrays, rows: int, terminals: np.ndarray) -> np.ndarray:
    """Returns bool [N], where episodes were cut short; never where they terminated."""
    if "timeouts" in self._columns.keys:
      timeouts = self._read_flags(arrays, "timeouts")
      both = terminals & timeouts
      if both.any():
        checking.note(
          self._notes,
          f"{int(both.sum())} rows, the first {int(np.argmax(both))}, are both terminal and "
          "timeout: read as terminations",
        )
      return timeouts & ~terminals
    if not self._has_next:
      raise DatasetError(
        f"{self._path}: there is no 'timeouts' and no 'next_observations', so that nobody can tell "
        "where episodes that did not terminate were cut. Add 'timeouts', True at the last step of "
        "each such episode, or all False if every episode terminates."
      )
    timeouts = self._find_breaks(arrays, rows) & ~terminals
    checking.note(
      self._notes,
      "there is no 'timeouts': episodes end at terminals and where next_observations[i] is not "
      f"observations[i + 1] ({int(timeouts.sum())} truncations)",
    )
    return timeouts

  def _find_breaks(self, arrays: Arrays, rows: int) -> np.ndarray:
    """Returns bool [N]: whether row i leads to something other than row i + 1's observation."""
    breaks = np.zeros((rows,), bool)
    keys, next_keys = self._columns.keys["observations"], self._columns.keys["next_observations"]
    for key, next_key in zip(tree.flatten(keys), tree.flatten(next_keys)):
      for start in range(0, rows - 1, _COMPARED_ROWS):
        stop = min(start + _COMPARED_ROWS, rows - 1)
        led_to = checking.numbers(
          checking.Place(self._path, next_key, first_row=start), arrays[next_key][start:stop], []
        ).astype(np.float64)
        follows = checking.numbers(
          checking.Place(self._path, key, first_row=start + 1),
          arrays[key][start + 1 : stop + 1],
          [],
        ).astype(np.float64)
        differ = ~np.isclose(led_to, follows, rtol=_SAME, atol=_SAME)
        breaks[start:stop] |= differ.reshape(stop - start, -1).any(axis=1)
    return breaks

  def _cut(self, terminals: np.ndarray, timeouts: np.ndarray) -> tuple:
    """Returns the episodes' first rows, the rows after their last transitions, and endings."""
    rows = len(terminals)
    ends = terminals | timeouts
    if rows and not ends[-1]:
      ends[-1] = True
      checking.note(self._notes, f"row {rows - 1}, the last, ends no episode: read as a truncation")
    stops = np.flatnonzero(ends) + 1
    starts = np.concatenate([[0], stops[:-1]]).astype(stops.dtype)
    terminated = terminals[stops - 1]
    if not self._has_next:
      cut = int((~terminated).sum())
      if cut:
        checking.note(
          self._notes,
          f"there is no 'next_observations': the last transition of {cut} truncated episodes is "
          "left out",
        )
      stops = np.where(terminated, stops, stops - 1)
    kept = stops > starts
    if not kept.all():
      checking.note(
        self._notes,
        f"{int((~kept).sum())} episodes with no transition left are left out, the first at row "
        f"{int(starts[~kept][0])}",
      )
    return starts[kept], stops[kept], terminated[kept]

  def _estimate_bytes(self, arrays: Arrays, rows: int) -> int:
    """Returns the bytes of all episodes in memory, floats as float32."""
    keys = {
      k: v for k, v in self._columns.keys.items() if k in ("observations", "actions", "extras")
    }
    row = 8  # Reward and discount.
    for key in tree.flatten(keys):
      dtype = arrays[key].dtype
      size = 4 if dtype.kind == "f" else dtype.itemsize
      row += size * int(np.prod(arrays[key].shape[1:], dtype=np.int64))
    return rows * row


def flatten_episode(episode: episodes.Episode) -> dict[str, np.ndarray]:
  """Returns an episode's rows under D4RL's names, the inverse of reading."""
  length = episode.num_steps
  ended = np.zeros((length,), bool)
  ended[-1] = True
  return {
    **_named("observations", tree.map_structure(lambda array: array[:-1], episode.observation)),
    **_named("next_observations", tree.map_structure(lambda array: array[1:], episode.observation)),
    "actions": episode.action,
    "rewards": episode.reward,
    "terminals": ended & episode.terminated,
    "timeouts": ended & (not episode.terminated),
    **_named("extras", episode.extras),
  }


@contextlib.contextmanager
def held_arrays(arrays: Arrays) -> Iterator[Arrays]:
  """Lets arrays that are in memory be opened like those of a file."""
  yield arrays


def _named(name: str, structure: Any) -> dict[str, np.ndarray]:
  """Returns the leaves of a nest under their names in the file."""
  leaves = {}
  checking.map_named(
    lambda place, leaf: leaves.update({place.key: leaf}), structure, checking.Place("", name)
  )
  return leaves
