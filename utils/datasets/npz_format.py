"""Flat arrays in one `.npz` archive of NumPy; `flat_arrays` says which.

The archive may hold the text `environment_name` too, a name for `environments.make_environment`.
"""

from collections.abc import Iterator
import functools
from typing import Optional
import zipfile
import zlib

import numpy as np

from temper.utils.datasets import episodes
from temper.utils.datasets import flat_arrays
from temper.utils.datasets.episodes import DatasetError

_ENVIRONMENT_NAME = "environment_name"


def open_npz(path: str) -> episodes.EpisodeDataset:
  """Reads an archive into memory.

  Raises:
    DatasetError: if the file is damaged or malformed.
  """
  if not zipfile.is_zipfile(path):
    raise DatasetError(
      f"{path} is no whole .npz archive: it is truncated or damaged, or of another format. Copy or "
      "make it again."
    )
  try:
    with np.load(path, allow_pickle=False) as archive:
      arrays = {}
      for name in archive.files:
        arrays[name] = _read(path, archive, name)
  except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
    raise DatasetError(
      f"{path} is a truncated or damaged .npz archive ({error}). Copy or make it again."
    ) from error
  name = arrays.pop(_ENVIRONMENT_NAME, None)
  return flat_arrays.FlatDataset(
    path,
    episodes.DatasetFormat.NPZ,
    functools.partial(flat_arrays.held_arrays, arrays),
    names=arrays,
    environment_name=None if name is None else str(name),
  )


def write_npz(
  path: str, written: Iterator[episodes.Episode], *, environment_name: Optional[str]
) -> None:
  """Writes episodes; all of them are in memory meanwhile."""
  parts: dict[str, list[np.ndarray]] = {}
  for episode in written:
    for name, array in flat_arrays.flatten_episode(episode).items():
      parts.setdefault(name, []).append(array)
  arrays = {name: np.concatenate(part) for name, part in parts.items()}
  if environment_name is not None:
    arrays[_ENVIRONMENT_NAME] = np.asarray(environment_name)
  # By a file object, since NumPy would add an ending to a name.
  with open(path, "wb") as file:
    np.savez(file, **arrays)


def _read(path: str, archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
  """Returns one array of the archive."""
  try:
    array = archive[name]
  except ValueError as error:
    # NumPy says so for pickled objects and for damaged headers.
    raise DatasetError(
      f"{path}: {name} cannot be read as an array of numbers: {error} Save it with a numeric dtype."
    ) from error
  if not isinstance(array, np.ndarray):
    raise DatasetError(f"{path}: {name} is no NumPy array, but a file of another kind.")
  return array
