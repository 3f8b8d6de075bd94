"""Flat arrays in one HDF5 file, as D4RL has them; `flat_arrays` says which.

The file may have the attribute `environment_name`, a name for `environments.make_environment`.
Episodes are read one by one, so that files larger than memory can be used.
"""

from collections.abc import Iterator
import contextlib
from typing import Any, Optional

import numpy as np

from temper.utils.datasets import episodes
from temper.utils.datasets import flat_arrays
from temper.utils.datasets import packages
from temper.utils.datasets.episodes import DatasetError

_ENVIRONMENT_NAME = "environment_name"

# Bytes of a chunk: what is read or written at a time.
_CHUNK_BYTES = 2**18


def open_hdf5(path: str) -> episodes.EpisodeDataset:
  """Finds the episodes of a file.

  Raises:
    DatasetError: if the file is damaged or malformed.
    ImportError: if h5py is not installed.
  """
  h5py = packages.load("h5py", "HDF5 datasets")

  @contextlib.contextmanager
  def open_arrays() -> Iterator[Any]:
    try:
      with h5py.File(path, "r") as file:
        yield file
    # h5py raises a KeyError too where it cannot follow an address in a damaged file.
    except (OSError, KeyError) as error:
      raise DatasetError(
        f"{path} is a truncated or damaged HDF5 file ({error}). Copy or make it again."
      ) from error

  names: list[str] = []
  with open_arrays() as file:
    file.visititems(lambda name, item: names.append(name) if _is_array(h5py, item) else None)
    environment_name = file.attrs.get(_ENVIRONMENT_NAME)
    if "episode_0" in file:
      raise DatasetError(
        f"{path} is a file from inside a Minari dataset: give the folder that holds its 'data'."
      )
  return flat_arrays.FlatDataset(
    path,
    episodes.DatasetFormat.HDF5,
    open_arrays,
    names=names,
    environment_name=None if environment_name is None else str(environment_name),
  )


def write_hdf5(
  path: str, written: Iterator[episodes.Episode], *, environment_name: Optional[str]
) -> None:
  """Writes episodes, one after the other."""
  h5py = packages.load("h5py", "HDF5 datasets")
  with h5py.File(path, "w") as file:
    if environment_name is not None:
      file.attrs[_ENVIRONMENT_NAME] = environment_name
    for episode in written:
      for name, array in flat_arrays.flatten_episode(episode).items():
        _append(file, name, array)


def _append(file: Any, name: str, array: np.ndarray) -> None:
  """Adds rows to an array of the file."""
  if name not in file:
    row = max(1, array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)))
    file.create_dataset(
      name,
      shape=(0, *array.shape[1:]),
      maxshape=(None, *array.shape[1:]),
      chunks=(max(1, _CHUNK_BYTES // row), *array.shape[1:]),
      dtype=array.dtype,
    )
  dataset = file[name]
  dataset.resize(len(dataset) + len(array), axis=0)
  dataset[len(dataset) - len(array) :] = array


def _is_array(h5py: Any, item: Any) -> bool:
  """Whether an item of a file is an array with at least one axis."""
  return isinstance(item, h5py.Dataset) and item.shape is not None
