import os
import re
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest

from temper.utils import datasets
from temper.utils.datasets import opening
from temper.utils.datasets import packages


@pytest.mark.parametrize("format", datasets.DatasetFormat)
@pytest.mark.parametrize("name", ["plain", "misleading.csv", "a.hdf5", "b.npz"])
def test_formats_are_told_by_their_content(tmp_path, make_episode, format, name):
  path = tmp_path / name
  datasets.write_dataset(path, format, [make_episode(2)])
  for asked in (None, format, format.value):
    assert datasets.open_dataset(str(path), asked).format is format


def test_an_hdf5_file_may_begin_with_a_users_block(tmp_path, make_episode):
  datasets.write_dataset(tmp_path / "a", "hdf5", [make_episode(2)])
  with h5py.File(tmp_path / "a") as source:
    with h5py.File(tmp_path / "b", "w", userblock_size=1024) as target:
      for key in source:
        source.copy(key, target)
  assert datasets.open_dataset(tmp_path / "b").format is datasets.DatasetFormat.HDF5


def test_what_is_no_dataset_is_refused(tmp_path, make_episode):
  (tmp_path / "empty").write_bytes(b"")
  (tmp_path / "text.hdf5").write_text("observations,actions\n")
  np.save(tmp_path / "single.npy", np.zeros(3))
  with zipfile.ZipFile(tmp_path / "archive.npz", "w") as archive:
    archive.writestr("readme.txt", "nothing")
  (tmp_path / "folder").mkdir()
  for name, message in (
    ("empty", "is empty, 0 bytes"),
    ("text.hdf5", "neither an .npz archive nor an HDF5 file"),
    ("single.npy", "a single NumPy array.*numpy.savez"),
    ("archive.npz", r"without NumPy arrays; it holds \['readme.txt'\]"),
    ("folder", "no dataset's folder.*dataset_info.json.*metadata.json"),
  ):
    path = str(tmp_path / name)
    with pytest.raises(datasets.DatasetError, match=f"{re.escape(path)} .*{message}"):
      datasets.open_dataset(path)


def test_a_folder_above_datasets_names_them(tmp_path, make_episode):
  datasets.write_dataset(tmp_path / "set" / "1.0.0", "rlds", [make_episode(2)])
  datasets.write_dataset(tmp_path / "set" / "mini-v0", "minari", [make_episode(2)])
  with pytest.raises(datasets.DatasetError) as raised:
    datasets.open_dataset(tmp_path)
  for folder in ("1.0.0", "mini-v0"):
    assert os.fspath(tmp_path / "set" / folder) + ("," if folder == "1.0.0" else ".") in str(
      raised.value
    )


def test_an_asked_format_that_the_files_are_not_is_refused(tmp_path, make_episode):
  datasets.write_dataset(tmp_path / "a", "hdf5", [make_episode(2)])
  datasets.write_dataset(tmp_path / "b", "rlds", [make_episode(2)])
  for name, format in (("a", "npz"), ("a", "minari"), ("a", "rlds"), ("b", "npz"), ("b", "minari")):
    with pytest.raises(datasets.DatasetError, match=re.escape(str(tmp_path / name))):
      datasets.open_dataset(tmp_path / name, format)
  with pytest.raises(ValueError, match="'csv'"):
    datasets.open_dataset(tmp_path / "a", "csv")


def test_an_unknown_name_is_refused_without_making_folders(tmp_path, monkeypatch):
  monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
  monkeypatch.setenv("HOME", str(tmp_path))
  with pytest.raises(
    datasets.DatasetError, match="no file or folder D4RL/pen/human-v2, and no Min"
  ):
    datasets.open_dataset("D4RL/pen/human-v2")
  assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", ["hdf5", "minari", "rlds"])
def test_size_decides_what_is_held_in_memory(tmp_path, make_episode, format, monkeypatch):
  path = tmp_path / "a-v0"
  datasets.write_dataset(path, format, [make_episode(20)])
  assert datasets.open_dataset(path).in_memory
  monkeypatch.setattr(opening, "IN_MEMORY_BYTES", 100)
  assert not datasets.open_dataset(path).in_memory
  assert datasets.open_dataset(path, in_memory=True).in_memory


def test_importing_loads_no_optional_package():
  # TensorFlow itself imports h5py where it is installed.
  code = (
    "import sys, temper.utils.datasets; "
    "print([m for m in ('minari', 'tensorflow_datasets', 'rlds', 'gymnasium') "
    "if m in sys.modules])"
  )
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
  assert result.stdout.strip() == "[]", result.stderr


def test_a_missing_package_names_the_extra(tmp_path, make_episode, monkeypatch):
  path = tmp_path / "a"
  datasets.write_dataset(path, "hdf5", [make_episode(2)])
  monkeypatch.setitem(sys.modules, "h5py", None)
  with pytest.raises(ImportError, match=r"HDF5 datasets need .* h5py: pip.*temper-rl\[datasets\]"):
    datasets.open_dataset(path)
  with pytest.raises(ImportError, match="Kites need"):
    packages.load("no_such_package", "Kites")
