"""Checks and converts arrays of a dataset, and says where in the file one is at fault."""

from collections.abc import Mapping, Sequence
import dataclasses
import re
from typing import Any, Callable

import numpy as np

from temper.utils.datasets.episodes import DatasetError

# How the items of a tuple are named where a format has names only, as in Minari's files.
_TUPLE_KEY = re.compile(r"_index_(0|[1-9]\d*)")


@dataclasses.dataclass(frozen=True)
class Place:
  """Where an array was found.

  Attributes:
    path: the file or folder.
    key: the array's name in it.
    episode: which episode the array belongs to, such as "episode 3"; empty if it holds many.
    first_row: row of the file's array at which this one begins.
  """

  path: str
  key: str
  episode: str = ""
  first_row: int = 0

  def __str__(self) -> str:
    return ": ".join(part for part in (self.path, self.episode, self.key) if part)

  def at(self, index: Sequence[int]) -> str:
    """Returns the place of one element; `index` counts from the array's own first row."""
    numbers = [int(index[0]) + self.first_row, *(int(i) for i in index[1:])]
    return f"{self}[{', '.join(map(str, numbers))}]"

  def part(self, name: str) -> "Place":
    """Returns the place of the array `name` within this group."""
    return dataclasses.replace(self, key=f"{self.key}/{name}")


def note(notes: list[str], text: str) -> None:
  """Adds a line unless it is there."""
  if text not in notes:
    notes.append(text)


def numbers(place: Place, array: Any, notes: list[str]) -> np.ndarray:
  """Returns finite numbers: float32 for any float dtype; integers and bools as they are.

  Raises:
    DatasetError: if the array holds something else, NaN or infinity.
  """
  array = np.asarray(array)
  if array.dtype.kind not in "fiub":
    raise DatasetError(
      f"{place} has dtype {_kind(array.dtype)}; allowed are float, integer and bool numbers. Drop "
      "it from the dataset or turn it into numbers."
    )
  if array.dtype.kind != "f":
    return array
  if array.dtype != np.float32:
    note(notes, f"{place.key}: {array.dtype} converted to float32")
  return finite_float32(place, array)


def finite_float32(place: Place, array: np.ndarray) -> np.ndarray:
  """Returns the numbers as float32, or raises DatasetError if one is not finite in it."""
  with np.errstate(over="ignore"):
    converted = np.asarray(array, np.float32)
  finite = np.isfinite(converted)
  if not finite.all():
    index = np.argwhere(~finite)[0]
    raise DatasetError(
      f"{place.at(index)} is {array[tuple(index)]}, which is no finite float32 number. Nothing can "
      f"be learnt from it ({int((~finite).sum())} of {array.size} are not finite): mend the data, "
      "or leave out the episodes that hold it."
    )
  return converted


def scalars(place: Place, array: Any, notes: list[str]) -> np.ndarray:
  """Returns one float32 number a row, [N], from [N] or [N, 1] of any numeric dtype."""
  array = _column(place, np.asarray(array), notes)
  if array.dtype.kind in "iub":
    note(notes, f"{place.key}: {array.dtype} converted to float32")
  return np.asarray(numbers(place, array, notes), np.float32)


def flags(place: Place, array: Any, notes: list[str]) -> np.ndarray:
  """Returns bool [N] from [N] or [N, 1] of bools, or of numbers that are all 0 or 1."""
  array = _column(place, np.asarray(array), notes)
  if array.dtype == bool:
    return array
  if array.dtype.kind not in "fiu":
    raise DatasetError(f"{place} has dtype {_kind(array.dtype)}; a flag is a bool, or 0 or 1.")
  wrong = (array != 0) & (array != 1)
  if wrong.any():
    index = np.argwhere(wrong)[0]
    raise DatasetError(f"{place.at(index)} is {array[tuple(index)]}; a flag is a bool, or 0 or 1.")
  note(notes, f"{place.key}: {array.dtype} converted to bool")
  return array.astype(bool)


def check_rows(place: Place, array: Any, rows: int, reason: str) -> None:
  """Raises DatasetError unless `array` has `rows` rows; `reason` says why it must."""
  shape = np.shape(array)
  if not shape:
    raise DatasetError(f"{place} is one number; it must be an array with one row a step.")
  if shape[0] != rows:
    raise DatasetError(f"{place} has {shape[0]} rows; it must have {rows}, {reason}.")


def map_named(
  function: Callable[[Place, Any], Any], structure: Any, place: Place, *others: Any
) -> Any:
  """Maps the leaves of nested dicts and tuples with their places; lists become tuples."""
  if isinstance(structure, Mapping):
    return {
      key: map_named(function, item, place.part(key), *(other[key] for other in others))
      for key, item in structure.items()
    }
  if isinstance(structure, (tuple, list)):
    return tuple(
      map_named(function, item, place.part(tuple_key(i)), *(other[i] for other in others))
      for i, item in enumerate(structure)
    )
  return function(place, structure, *others)


def tuple_key(index: int) -> str:
  """Returns the name of a tuple's item in formats that have names only."""
  return f"_index_{index}"


def names_to_tuples(structure: Any) -> Any:
  """Turns each dict whose keys are all those of a tuple's items into that tuple."""
  if not isinstance(structure, Mapping):
    return structure
  items = {key: names_to_tuples(item) for key, item in structure.items()}
  keys = [tuple_key(i) for i in range(len(items))]
  return tuple(items[key] for key in keys) if items and set(items) == set(keys) else items


def tuples_to_names(structure: Any) -> Any:
  """Turns each tuple into a dict of its items: the inverse of `names_to_tuples`.

  Raises:
    ValueError: if a key of a dict cannot be a name in a file.
  """
  if isinstance(structure, (tuple, list)):
    return {tuple_key(i): tuples_to_names(item) for i, item in enumerate(structure)}
  if not isinstance(structure, Mapping):
    return structure
  for key in structure:
    if not isinstance(key, str) or not key or "/" in key or _TUPLE_KEY.fullmatch(key):
      raise ValueError(
        f"the key {key!r} cannot name an array in a file: a key is a text without '/', and not of "
        f"the form {tuple_key(0)!r}, which stands for a tuple's item."
      )
  return {key: tuples_to_names(item) for key, item in structure.items()}


def _column(place: Place, array: np.ndarray, notes: list[str]) -> np.ndarray:
  """Returns [N] from [N] or [N, 1]."""
  if array.ndim == 2 and array.shape[1] == 1:
    note(notes, f"{place.key}: shape [N, 1] read as [N]")
    return array[:, 0]
  if array.ndim != 1:
    raise DatasetError(f"{place} has shape {list(array.shape)}; it must hold one number a step.")
  return array


def _kind(dtype: np.dtype) -> str:
  """Returns how a dtype that holds no numbers is best called."""
  return "text or Python objects" if dtype.kind in "OSU" else str(dtype)
