import os

from dm_env import specs
import h5py
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import minari
import numpy as np
import pytest
import tensorflow_datasets as tfds

from temper.utils import datasets
from temper.utils.datasets import DatasetFormat

# Minari would keep pixels as JPEG, and refuses them; see below.
_FORMS = [
  (format, form)
  for format in DatasetFormat
  for form in ("array", "scalar", "matrix", "integers", "dict", "tuple", "pixels")
  if (format, form) != (DatasetFormat.MINARI, "pixels")
]


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("format, form", _FORMS)
def test_what_is_written_reads_back_equal(
  tmp_path, make_episode, assert_same, format, form, in_memory
):
  written = [
    make_episode(length, seed=length, terminated=length % 2 == 0, form=form) for length in (4, 1, 2)
  ]
  path = tmp_path / "folder" / "set-v0"
  datasets.write_dataset(path, format, iter(written), environment_name="gym:Pendulum-v1")
  dataset = datasets.open_dataset(path, in_memory=in_memory)
  assert dataset.format is format
  assert dataset.environment_name == "gym:Pendulum-v1"
  assert dataset.in_memory == (in_memory or format is DatasetFormat.NPZ)
  np.testing.assert_array_equal(dataset.lengths, [4, 1, 2])
  np.testing.assert_array_equal(dataset.terminated, [True, False, True])
  np.testing.assert_allclose(dataset.returns, [e.total_return for e in written], rtol=1e-6)
  # An estimate from the first episode, or from what is kept for the rows.
  assert 0.5 < dataset.nbytes / sum(episode.nbytes for episode in written) < 2
  for actual, expected in zip(dataset, written):
    assert_same(actual, expected)
  assert dataset.notes == []
  assert os.listdir(path.parent) == ["set-v0"]


@pytest.mark.parametrize("format", DatasetFormat)
@settings(
  max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
  episodes=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6),
  extras=st.booleans(),
)
def test_any_lengths_and_endings(
  tmp_path_factory, make_episode, assert_same, format, episodes, extras
):
  written = [
    make_episode(length, seed=i, terminated=terminated, extras=extras)
    for i, (length, terminated) in enumerate(episodes)
  ]
  path = tmp_path_factory.mktemp("any") / "set-v0"
  datasets.write_dataset(path, format, written)
  dataset = datasets.open_dataset(path)
  assert dataset.environment_name is None
  assert len(dataset) == len(written)
  for actual, expected in zip(dataset, written):
    assert_same(actual, expected)


def test_d4rl_files_have_the_names_that_others_read(tmp_path, make_episode):
  path = tmp_path / "a.hdf5"
  episodes = [make_episode(3, terminated=True), make_episode(2, seed=1)]
  datasets.write_dataset(path, "hdf5", episodes)
  with h5py.File(path) as file:
    assert sorted(file) == [
      "actions",
      "extras",
      "next_observations",
      "observations",
      "rewards",
      "terminals",
      "timeouts",
    ]
    np.testing.assert_array_equal(file["terminals"], [0, 0, 1, 0, 0])
    np.testing.assert_array_equal(file["timeouts"], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(file["next_observations"][2], episodes[0].observation[3])


def test_minari_loads_by_id_with_the_bounds(tmp_path, make_episode, monkeypatch):
  episode = make_episode(3, terminated=True)
  datasets.write_dataset(
    tmp_path / "swing-v3",
    "minari",
    [episode],
    action_spec=specs.BoundedArray((2,), np.float32, [-2, -3], [2, 3]),
    environment_name="gym:Pendulum-v1",
  )
  monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
  loaded = minari.load_dataset("swing-v3")
  np.testing.assert_array_equal(loaded.action_space.high, [2, 3])
  np.testing.assert_array_equal(loaded[0].observations, episode.observation)
  np.testing.assert_array_equal(loaded[0].terminations, [False, False, True])
  assert loaded.recover_environment().spec.id == "Pendulum-v1"
  assert list(minari.list_local_datasets()) == ["swing-v3"]


def test_tfds_loads_rlds(tmp_path, make_episode):
  episode = make_episode(3, terminated=True, form="dict")
  datasets.write_dataset(tmp_path / "set", "rlds", [episode])
  loaded = tfds.builder_from_directory(str(tmp_path / "set")).as_dataset(split="train")
  steps = list(next(iter(loaded))["steps"])
  assert len(steps) == 4
  np.testing.assert_array_equal([s["is_first"] for s in steps], [1, 0, 0, 0])
  np.testing.assert_array_equal([s["is_last"] for s in steps], [0, 0, 0, 1])
  np.testing.assert_array_equal([s["is_terminal"] for s in steps], [0, 0, 0, 1])
  np.testing.assert_array_equal([s["reward"] for s in steps][:3], episode.reward)
  np.testing.assert_array_equal(
    [s["observation"]["arm"]["pose"] for s in steps], episode.observation["arm"]["pose"]
  )


def test_rlds_keeps_any_discount_and_others_refuse(tmp_path, make_episode, assert_same):
  episode = make_episode(3)
  episode.discount[:] = [0.5, 1.0, 0.25]
  datasets.write_dataset(tmp_path / "rlds", "rlds", [episode])
  assert_same(datasets.open_dataset(tmp_path / "rlds").read(0), episode)
  for format in ("npz", "hdf5", "minari"):
    with pytest.raises(datasets.DatasetError, match=r"episode 1: discount\[0\] is 0.5.*'rlds'"):
      datasets.write_dataset(tmp_path / format, format, [make_episode(3), episode])
  assert os.listdir(tmp_path) == ["rlds"]


@pytest.mark.parametrize("format", DatasetFormat)
def test_nothing_is_left_of_a_failed_write(tmp_path, make_episode, format):
  def fail():
    yield make_episode(3)
    raise RuntimeError("the actor died")

  with pytest.raises(RuntimeError, match="the actor died"):
    datasets.write_dataset(tmp_path / "a", format, fail())
  assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", DatasetFormat)
def test_what_exists_is_not_overwritten(tmp_path, make_episode, format):
  (tmp_path / "a").write_text("precious")
  with pytest.raises(datasets.DatasetError, match="exists already"):
    datasets.write_dataset(tmp_path / "a", format, [make_episode(3)])
  assert (tmp_path / "a").read_text() == "precious"


@pytest.mark.parametrize("format", DatasetFormat)
def test_no_episodes_are_refused(tmp_path, format):
  with pytest.raises(datasets.DatasetError, match="no episode to write"):
    datasets.write_dataset(tmp_path / "a", format, iter([]))
  assert os.listdir(tmp_path) == []


def test_minari_refuses_pixels(tmp_path, make_episode):
  with pytest.raises(datasets.DatasetError, match="observation/pixels is uint8.*JPEG.*'hdf5'"):
    datasets.write_dataset(tmp_path / "a", "minari", [make_episode(3, form="pixels")])


def _nan_reward(episode):
  episode.reward[1] = np.nan
  return episode


def _replace(**fields):
  return lambda episode: datasets.Episode(**{**vars(episode), **fields})


@pytest.mark.parametrize(
  "spoil, message",
  [
    (_nan_reward, r"episode 1: reward\[1\] is nan"),
    (_replace(observation=np.zeros((3, 3))), "episode 1: observation has 3 rows; it must have 4"),
    (_replace(action=np.zeros((2, 2))), "episode 1: action has 2 rows; it must have 3"),
    (_replace(reward=np.zeros((0,))), "episode 1 has no step"),
    (_replace(action=np.zeros((3, 5))), r"episode 1 has the arrays .*\[5\].*but episode 0"),
    (_replace(extras={}), "episode 1 has the arrays"),
    (_replace(action=np.array(["a"] * 3)), "episode 1: action has dtype text"),
  ],
)
def test_malformed_episodes_are_refused(tmp_path, make_episode, spoil, message):
  with pytest.raises(datasets.DatasetError, match=message):
    datasets.write_dataset(tmp_path / "a", "npz", [make_episode(3), spoil(make_episode(3, seed=1))])


@pytest.mark.parametrize("key", ["a/b", "", "_index_0", 3])
def test_keys_that_cannot_be_names_are_refused(tmp_path, make_episode, key):
  episode = _replace(observation={key: np.zeros((4, 1)), "b": np.zeros((4, 1))})(make_episode(3))
  with pytest.raises(datasets.DatasetError, match="cannot name an array"):
    datasets.write_dataset(tmp_path / "a", "npz", [episode])


def test_an_unknown_format_is_refused(tmp_path, make_episode):
  with pytest.raises(ValueError, match="'csv'.*'npz'"):
    datasets.write_dataset(tmp_path / "a", "csv", [make_episode(3)])
