import json
import re

import gymnasium
import h5py
import minari
from minari.data_collector import EpisodeBuffer
import numpy as np
import pytest

from temper.utils import datasets


def _buffers():
  """Episodes of 3 steps (terminated) and 2 (truncated); observations in float64."""
  return [
    EpisodeBuffer(
      observations=np.arange(4.0)[:, np.newaxis],
      actions=np.array([[0.1], [0.2], [0.3]], np.float32),
      rewards=[1.0, 2.0, 3.0],
      terminations=[False, False, True],
      truncations=[False, False, True],
      infos={"speed": [1.0, 2.0, 3.0, 4.0]},
    ),
    EpisodeBuffer(
      observations=np.arange(10.0, 13.0)[:, np.newaxis],
      actions=np.array([[0.4], [0.5]], np.float32),
      rewards=[4.0, 5.0],
      terminations=[False, False],
      truncations=[False, True],
      infos={"speed": [1.0, 2.0, 3.0]},
    ),
  ]


@pytest.fixture
def make_minari(tmp_path, monkeypatch):
  """Makes a dataset by Minari's own function, and returns its folder."""
  monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

  def make(data_format="hdf5", buffers=None):
    minari.create_dataset_from_buffers(
      "pendulum/test-v0",
      _buffers() if buffers is None else buffers,
      observation_space=gymnasium.spaces.Box(-100, 100, (1,), np.float64),
      action_space=gymnasium.spaces.Box(-2, 2, (1,), np.float32),
      data_format=data_format,
    )
    return tmp_path / "pendulum" / "test-v0"

  return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_reads_what_minari_writes(make_minari, data_format, in_memory):
  folder = make_minari(data_format)
  # By its folder, by the data inside, and by its id.
  for path in (folder, folder / "data", "pendulum/test-v0"):
    dataset = datasets.open_dataset(path, in_memory=in_memory)
    assert dataset.format is datasets.DatasetFormat.MINARI
    np.testing.assert_array_equal(dataset.lengths, [3, 2])
    np.testing.assert_array_equal(dataset.returns, [6, 9])
    np.testing.assert_array_equal(dataset.terminated, [True, False])
    first, second = dataset
    np.testing.assert_array_equal(first.observation, [[0], [1], [2], [3]])
    np.testing.assert_array_equal(first.discount, [1, 1, 0])
    np.testing.assert_array_equal(second.action, np.float32([[0.4], [0.5]]))
    np.testing.assert_array_equal(second.discount, [1, 1])
    assert second.extras == {}
    assert first.observation.dtype == first.reward.dtype == np.float32
    assert "observations: float64 converted to float32" in dataset.notes
    assert "episodes that both terminate and are truncated: read as terminations" in dataset.notes


def _replace(key, array):
  def change(group):
    del group[key]
    group[key] = array

  return change


def _delete(key):
  def change(group):
    del group[key]

  return change


_MALFORMED = {
  "NaN reward": (_replace("rewards", [4.0, np.nan]), "rewards[1] is nan"),
  "NaN observation": (
    _replace("observations", [[0.0], [np.inf], [0.0]]),
    "observations[1, 0] is inf",
  ),
  "NaN action": (_replace("actions", [[np.nan], [0.0]]), "actions[0, 0] is nan"),
  "no rewards": (_delete("rewards"), "rewards"),
  "no truncations": (_delete("truncations"), "truncations"),
  "no observations": (_delete("observations"), "observations"),
  "too few observations": (
    _replace("observations", [[0.0], [1.0]]),
    "observations has 2 rows; it must have 3, one more than 'rewards'",
  ),
  "too many actions": (_replace("actions", np.zeros((3, 1))), "actions has 3 rows; it must have 2"),
  "short flags": (_replace("terminations", [False]), "terminations has 1 rows; it must have 2"),
  "an end in the middle": (_replace("terminations", [True, False]), "terminations[0] is True"),
  "text": (_replace("actions", np.array([[b"a"], [b"b"]])), "actions has dtype text"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", _MALFORMED)
def test_malformed_episodes_are_refused_with_file_key_and_index(make_minari, case):
  spoil, message = _MALFORMED[case]
  folder = make_minari()
  with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
    spoil(file["episode_1"])
  with pytest.raises(datasets.DatasetError) as raised:
    datasets.open_dataset(folder)
  for part in (str(folder), "episode 1", message):
    assert part in str(raised.value)


@pytest.mark.filterwarnings("ignore")
def test_conversions_are_said(make_minari):
  folder = make_minari()
  with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
    _replace("rewards", np.array([4, 5]))(file["episode_1"])
    _replace("truncations", [False, False])(file["episode_1"])
  dataset = datasets.open_dataset(folder)
  np.testing.assert_array_equal(dataset.read(1).reward, np.float32([4, 5]))
  assert "rewards: int64 converted to float32" in dataset.notes
  assert "episodes that end with neither flag: read as truncations" in dataset.notes


@pytest.mark.filterwarnings("ignore")
def test_empty_episodes_are_left_out(make_minari):
  folder = make_minari()
  with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
    for key in ("actions", "rewards", "terminations", "truncations"):
      _replace(key, file["episode_0"][key][:0])(file["episode_0"])
  dataset = datasets.open_dataset(folder)
  np.testing.assert_array_equal(dataset.lengths, [2])
  np.testing.assert_array_equal(dataset.read(0).reward, [4, 5])
  assert "1 episodes without a step are left out, the first 0" in dataset.notes


@pytest.mark.filterwarnings("ignore")
def test_damaged_datasets_are_refused(make_minari):
  folder = make_minari()
  metadata = folder / "data" / "metadata.json"
  sound = metadata.read_text()
  for content, message in (
    ("", "Minari cannot open it"),
    (sound[: len(sound) // 2], "Minari cannot open it"),
    (json.dumps({**json.loads(sound), "total_episodes": 0}), "there is no episode"),
    (json.dumps({**json.loads(sound), "total_episodes": 3}), "episode 2 cannot be read"),
    (json.dumps({**json.loads(sound), "minari_version": "0.0.1"}), "does not support"),
  ):
    metadata.write_text(content)
    with pytest.raises(datasets.DatasetError, match=f"{re.escape(str(folder))}.*{message}"):
      datasets.open_dataset(folder)
  metadata.write_text(sound)
  main = folder / "data" / "main_data.hdf5"
  main.write_bytes(main.read_bytes()[:1000])
  with pytest.raises(datasets.DatasetError, match=f"{re.escape(str(folder))}: episode 0 cannot be"):
    datasets.open_dataset(folder)
  with pytest.raises(datasets.DatasetError, match="main_data.hdf5 is a truncated"):
    datasets.open_dataset(main)


@pytest.mark.filterwarnings("ignore")
def test_the_file_inside_is_no_dataset(make_minari):
  folder = make_minari()
  with pytest.raises(datasets.DatasetError, match="from inside a Minari dataset: give the folder"):
    datasets.open_dataset(folder / "data" / "main_data.hdf5")
