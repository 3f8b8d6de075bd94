"""Tests of `temper.utils.datasets.window_chunks`: flat rows, and how an epoch is dealt out."""

import numpy as np
import pytest
import tree

from temper.utils.datasets import episodes as episodes_lib
from temper.utils.datasets import window_chunks
from temper.utils.datasets import window_index


def _episode(length, start=0.0, **changes):
  steps = np.arange(length, dtype=np.float32) + start
  fields = dict(
    observation={"a": np.arange(length + 1, dtype=np.float32) + start + 100},
    action=np.stack([steps, -steps], axis=1),
    reward=steps,
    discount=np.ones(length, np.float32),
    extras={"log_prob": steps + 50},
  )
  return episodes_lib.Episode(**{**fields, **changes})


def _dataset(*episodes):
  return episodes_lib.InMemoryDataset(episodes, path="made", format=episodes_lib.DatasetFormat.NPZ)


def _index(dataset, sequence_length=3):
  return window_index.WindowIndex(dataset.lengths, window_index.WindowShape(sequence_length))


def test_rows_end_with_an_observation_alone_and_there_is_one_of_zeros():
  dataset = _dataset(_episode(2, 1), _episode(1, 7))
  rows = window_chunks.read(dataset, _index(dataset), np.array([1, 0]))
  np.testing.assert_array_equal(rows.observation["a"], [107, 108, 101, 102, 103, 0])
  np.testing.assert_array_equal(rows.action[:, 0], [7, 0, 1, 2, 0, 0])
  np.testing.assert_array_equal(rows.reward, [7, 0, 1, 2, 0, 0])
  np.testing.assert_array_equal(rows.discount, [1, 0, 1, 1, 0, 0])
  np.testing.assert_array_equal(rows.extras["log_prob"], [57, 0, 51, 52, 0, 0])


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_chunks", [1, 3, 7, 50])
def test_each_episode_is_in_one_chunk_of_an_epoch(shuffle, num_chunks):
  lengths = np.random.default_rng(0).integers(1, 30, size=50)
  index = window_index.WindowIndex(lengths, window_index.WindowShape(4))
  plan = window_chunks.EpochPlan(num_chunks, seed=3, shuffle=shuffle)
  epochs = [plan.chunks(index, epoch) for epoch in range(2)]
  for chunks in epochs:
    assert sorted(np.concatenate(chunks)) == list(range(50))
    assert len(chunks) <= num_chunks
    for chunk in chunks:
      assert chunk.size and (lengths[chunk] + 1).sum() < (lengths + 1).sum() / num_chunks + 31
  same = [c.tolist() for c in epochs[0]] == [c.tolist() for c in epochs[1]]
  assert same == (not shuffle or num_chunks == 1)
  again = window_chunks.EpochPlan(num_chunks, seed=3, shuffle=shuffle).chunks(index, 1)
  assert [c.tolist() for c in again] == [c.tolist() for c in epochs[1]]


def test_one_episode_may_be_longer_than_a_chunk():
  index = window_index.WindowIndex([1, 100, 1, 1], window_index.WindowShape(2))
  chunks = window_chunks.EpochPlan(4, seed=0, shuffle=False).chunks(index, 0)
  assert [c.tolist() for c in chunks] == [[0, 1], [2, 3]]


class _Counted(episodes_lib.InMemoryDataset):
  """Knows which episodes were read."""

  def read(self, index):
    self.read_ones = [*getattr(self, "read_ones", []), index]
    return super().read(index)


@pytest.mark.parametrize("position,expected", [(0, (0, 0, 0)), (9, (0, 2, 1)), (29, (2, 1, 1))])
def test_a_stream_starts_anywhere_without_reading_what_lies_before(position, expected):
  dataset = _Counted(
    [_episode(4) for _ in range(3)], path="made", format=episodes_lib.DatasetFormat.NPZ
  )
  plan = window_chunks.EpochPlan(3, seed=0, shuffle=False)
  stream = window_chunks.stream(
    dataset, _index(dataset), plan, first_position=position, repeat=True
  )
  chunk = next(stream)
  # Each of the three chunks is an episode of four windows.
  assert (chunk.epoch, chunk.number, chunk.skip) == expected
  assert dataset.read_ones == [chunk.number]
  assert next(stream).skip == 0


@pytest.mark.parametrize(
  "odd,message",
  [
    (_episode(3, extras={}), "episode 1 has other entries"),
    (
      _episode(3, action=np.zeros((3, 5), np.float32)),
      r"episode 1: action is .*\[3, 5\].*\[3, 2\]",
    ),
    (_episode(3, reward=np.zeros(3, np.float64)), "episode 1: reward is float64"),
    (
      _episode(3, observation={"a": np.zeros(3, np.float32)}),
      r"episode 1: observation/a is .*\[3\].*\[4\]",
    ),
  ],
)
def test_an_episode_unlike_the_others_is_refused_by_name(odd, message):
  dataset = _dataset(_episode(2), odd)
  with pytest.raises(episodes_lib.DatasetError, match=f"made: {message}"):
    window_chunks.read(dataset, _index(dataset), np.array([0, 1]))


def test_lists_become_tuples_at_any_depth():
  observation = {"x": [np.zeros((3, 1)), [np.zeros((3, 2))]], "y": (np.zeros(3),)}
  rows = window_chunks.rows_of(_episode(2, observation=observation))
  assert isinstance(rows.observation["x"], tuple) and isinstance(rows.observation["x"][1], tuple)
  assert [leaf.shape for leaf in tree.flatten(rows.observation)] == [(3, 1), (3, 2), (3,)]


def test_bytes_of_a_row():
  # Float32: the observation one, the action two, reward, discount and log_prob one each.
  assert window_chunks.bytes_per_row(window_chunks.rows_of(_episode(9))) == 24
