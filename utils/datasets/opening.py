"""Opens a dataset by what its files are, whatever they are called."""

import os
import time
from typing import Optional, Union
import zipfile

from absl import logging

from temper.utils import checks
from temper.utils.datasets import episodes
from temper.utils.datasets import hdf5_format
from temper.utils.datasets import minari_format
from temper.utils.datasets import npz_format
from temper.utils.datasets import rlds_format
from temper.utils.datasets.episodes import DatasetError
from temper.utils.datasets.episodes import DatasetFormat

# Datasets up to this size are read into memory when they are opened, unless it is said otherwise.
IN_MEMORY_BYTES = 2**30

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_NPY_MAGIC = b"\x93NUMPY"
# An HDF5 file may begin with a block of the user's own, of one of these lengths or none.
_HDF5_OFFSETS = (0, 512, 1024, 2048, 4096)

# Seconds between two reports of progress.
_REPORT_SECONDS = 10.0

_OPENERS = {
  DatasetFormat.NPZ: npz_format.open_npz,
  DatasetFormat.HDF5: hdf5_format.open_hdf5,
  DatasetFormat.MINARI: minari_format.MinariEpisodes,
  DatasetFormat.RLDS: rlds_format.RldsEpisodes,
}


def open_dataset(
  path: Union[str, os.PathLike],
  format: Union[DatasetFormat, str, None] = None,
  *,
  in_memory: Optional[bool] = None,
) -> episodes.EpisodeDataset:
  """Opens a dataset of episodes.

  Actions and observations are the environment's own, as stored, floats as float32; `conform` gives
  them the form that an agent expects.

  Args:
    path: a `.npz` or HDF5 file, the folder of a Minari or RLDS dataset, or the id of a Minari
      dataset that is installed on this machine.
    format: what the files are; None finds it out from the files.
    in_memory: True reads and checks every episode now, False reads each when it is asked for. None
      is True up to `IN_MEMORY_BYTES`. A `.npz` is in memory either way.

  Raises:
    DatasetError: if there is no such dataset, or it is malformed; the message names file, key and
      index.
    ImportError: if a package for the format is not installed.
    ValueError: if `format` is not one.
  """
  path = os.fspath(path)
  if not os.path.exists(path):
    path = _installed_minari(path)
  if format is None:
    format = recognise(path)
  format = checks.member("format", format, DatasetFormat)
  if os.path.isdir(path) != (format in (DatasetFormat.MINARI, DatasetFormat.RLDS)):
    kind = "folder" if os.path.isdir(path) else "file"
    raise DatasetError(f"{path} is a {kind}, so it is no dataset of format {format.value!r}.")
  dataset = _OPENERS[format](path)
  if in_memory is None:
    in_memory = dataset.nbytes <= IN_MEMORY_BYTES
  if not in_memory and format is not DatasetFormat.NPZ:
    return dataset
  return load(dataset)


def load(dataset: episodes.EpisodeDataset) -> episodes.EpisodeDataset:
  """Reads every episode into memory, which checks them all; reports progress if it takes long.

  Raises:
    DatasetError: if an episode is malformed.
  """
  if dataset.in_memory:
    return dataset
  held = []
  reported = time.monotonic()
  for index in range(len(dataset)):
    held.append(dataset.read(index))
    if time.monotonic() - reported > _REPORT_SECONDS:
      reported = time.monotonic()
      logging.info("Reading %s: %d of %d episodes.", dataset.path, index + 1, len(dataset))
  return episodes.InMemoryDataset(
    held,
    path=dataset.path,
    format=dataset.format,
    notes=dataset.notes,
    environment_name=dataset.environment_name,
  )


def recognise(path: str) -> DatasetFormat:
  """Returns the format of a file or folder, from what is in it.

  Raises:
    DatasetError: if it is none; the message says what was looked for.
  """
  if os.path.isdir(path):
    return _recognise_folder(path)
  size = os.path.getsize(path)
  if size == 0:
    raise DatasetError(f"{path} is empty, 0 bytes.")
  with open(path, "rb") as file:
    for offset in _HDF5_OFFSETS:
      file.seek(offset)
      head = file.read(len(_HDF5_MAGIC))
      if head == _HDF5_MAGIC:
        return DatasetFormat.HDF5
      if offset == 0 and head.startswith(_ZIP_MAGICS):
        return _recognise_zip(path)
      if offset == 0 and head.startswith(_NPY_MAGIC):
        raise DatasetError(
          f"{path} is a single NumPy array. A dataset needs several under their names: save them "
          "with numpy.savez(path, observations=..., actions=..., rewards=..., terminals=..., "
          "timeouts=...)."
        )
  raise DatasetError(
    f"{path} is neither an .npz archive nor an HDF5 file: it begins with neither's mark. Formats "
    f"are {', '.join(f.value for f in DatasetFormat)}."
  )


def _recognise_zip(path: str) -> DatasetFormat:
  """Returns NPZ if the archive holds NumPy arrays, or is too damaged to tell."""
  try:
    with zipfile.ZipFile(path) as archive:
      names = archive.namelist()
  except zipfile.BadZipFile:
    return DatasetFormat.NPZ
  if names and not any(name.endswith(".npy") for name in names):
    raise DatasetError(
      f"{path} is a zip archive without NumPy arrays; it holds {names[:5]}. If a dataset is in it, "
      "unpack it and give its folder."
    )
  return DatasetFormat.NPZ


def _recognise_folder(path: str) -> DatasetFormat:
  """Returns the format of a folder."""
  if _holds(path, "dataset_info.json", "features.json"):
    return DatasetFormat.RLDS
  if _holds(path, os.path.join("data", "metadata.json")) or _holds(path, "metadata.json"):
    return DatasetFormat.MINARI
  found = []
  for folder, inner, files in os.walk(path):
    inner.sort()
    if {"dataset_info.json", "features.json"} <= set(files) or "metadata.json" in files:
      found.append(os.path.dirname(folder) if os.path.basename(folder) == "data" else folder)
  there = f" Datasets inside it: {', '.join(found[:5])}." if found else ""
  raise DatasetError(
    f"{path} is no dataset's folder: one of RLDS holds dataset_info.json and features.json, one of "
    f"Minari holds data/metadata.json.{there}"
  )


def _holds(path: str, *names: str) -> bool:
  """Whether all these files are in a folder."""
  return all(os.path.isfile(os.path.join(path, name)) for name in names)


def _installed_minari(dataset_id: str) -> str:
  """Returns the folder of an installed Minari dataset, or raises DatasetError."""
  # Minari's own look-up would make the folder.
  default = os.path.join(os.path.expanduser("~"), ".minari", "datasets")
  root = os.environ.get("MINARI_DATASETS_PATH") or default
  folder = os.path.join(root, dataset_id)
  if os.path.isabs(dataset_id) or not _holds(folder, os.path.join("data", "metadata.json")):
    raise DatasetError(
      f"there is no file or folder {dataset_id}, and no Minari dataset of that id in {root}."
    )
  return folder
