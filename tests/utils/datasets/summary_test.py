import json

import numpy as np
import pytest

from temper.utils import datasets


def _dataset(*episodes):
  return datasets.InMemoryDataset(
    episodes,
    path="a.npz",
    format=datasets.DatasetFormat.NPZ,
    notes=["'obs' read as 'observations'"],
    environment_name="gym:Pendulum-v1",
  )


def _episode(length, reward, *, observation=None, terminated=False):
  discount = np.ones((length,), np.float32)
  discount[-1] = 0.0 if terminated else 1.0
  return datasets.Episode(
    np.zeros((length + 1, 1), np.float32) if observation is None else observation,
    np.zeros((length, 1), np.float32),
    np.full((length,), reward, np.float32),
    discount,
  )


def test_one_line_says_what_was_found():
  dataset = _dataset(
    _episode(1000, -1.0),
    _episode(10, 1.0, terminated=True),
    _episode(2, -2.0),
    _episode(5, 4.0),
    _episode(30, 1.0),
  )
  summary = datasets.summarise(dataset, sequence_length=20, normalisation="normalised")
  assert str(summary) == (
    "a.npz (npz, gym:Pendulum-v1): 5 episodes, 1,047 steps, returns -1,000.0 / -4.0 / 10.0 / 20.0 "
    "/ 30.0 (min / 25 % / median / 75 % / max), 1 termination, 4 truncations, sequences of 20, "
    "observations normalised"
  )
  logged = json.loads(json.dumps(summary.as_dict()))
  assert logged["steps"] == 1047
  assert logged["return_quartiles"] == [-1000, -4, 10, 20, 30]
  assert logged["mean_return"] == pytest.approx(-188.8)
  assert logged["notes"] == ["'obs' read as 'observations'"]


def test_statistics_by_hand_numbers():
  # The last observation of each episode, on which nothing was done, does not count.
  first = _episode(2, 0.0, observation=np.float32([[1, 7], [3, 7], [99, 99]]))
  second = _episode(1, 0.0, observation=np.float32([[8, 7], [99, 99]]))
  mean, std = datasets.observation_statistics(_dataset(first, second), minimum_std=0.5)
  np.testing.assert_allclose(mean, [4, 7])
  np.testing.assert_allclose(std, [np.std([1, 3, 8]), 0.5], rtol=1e-6)
  assert mean.dtype == std.dtype == np.float32


def test_statistics_of_nested_observations_in_a_stream(tmp_path, make_episode):
  episodes = [make_episode(length, seed=length, form="dict") for length in (3, 1, 40)]
  for episode in episodes:
    # Far from zero, where sums of squares in float32 would lose all digits.
    episode.observation["at"][:] += 1e5
  datasets.write_dataset(tmp_path / "a", "hdf5", episodes)
  dataset = datasets.open_dataset(tmp_path / "a", in_memory=False)
  mean, std = datasets.observation_statistics(dataset)
  for path in (("arm", "pose"), ("at",)):
    leaves, m, s = [e.observation for e in episodes], mean, std
    for key in path:
      leaves, m, s = [leaf[key] for leaf in leaves], m[key], s[key]
    rows = np.concatenate([leaf[:-1] for leaf in leaves]).astype(np.float64)
    np.testing.assert_allclose(m, rows.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(s, rows.std(axis=0), rtol=1e-4)


def test_statistics_leave_pictures_alone(make_episode):
  mean, std = datasets.observation_statistics(_dataset(make_episode(6, form="pixels")))
  assert mean["pixels"].shape == (4, 5, 3)
  assert not mean["pixels"].any()
  assert (std["pixels"] == 1).all()
  assert mean["speed"].any()


def test_statistics_need_a_positive_least_deviation(make_episode):
  with pytest.raises(ValueError, match="minimum_std is 0"):
    datasets.observation_statistics(_dataset(make_episode(2)), minimum_std=0)
