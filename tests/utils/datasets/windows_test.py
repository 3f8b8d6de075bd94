"""Tests of `temper.utils.datasets.windows`: what is in a window, and which batches come when."""

import collections
import logging as std_logging

from absl import logging
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import reverb
import tensorflow as tf
import tree

from temper.utils.datasets import available_memory
from temper.utils.datasets import episodes as episodes_lib
from temper.utils.datasets import window_index
from temper.utils.datasets import windows

# Streaming: an episode or two a chunk.
_SMALL_BUFFER = 2_000


def _episode(number, length):
  """Makes an episode whose every number tells the episode (from 1) and the step (from 1)."""
  steps = 1000.0 * (number + 1) + 1 + np.arange(length + 1, dtype=np.float32)
  return episodes_lib.Episode(
    observation={"x": np.stack([steps, -steps], axis=1), "n": (steps.astype(np.int32),)},
    action=steps[:-1, np.newaxis] + 0.5,
    reward=steps[:-1] + 0.25,
    discount=np.where(np.arange(length) == length - 1, number % 2, 1).astype(np.float32),
    extras={"log_prob": -steps[:-1]},
  )


def _dataset(lengths):
  return episodes_lib.InMemoryDataset(
    [_episode(number, length) for number, length in enumerate(lengths)],
    path="made",
    format=episodes_lib.DatasetFormat.NPZ,
  )


def _make(lengths, sequence_length=4, batch_size=3, **arguments):
  return windows.make_windows(
    _dataset(lengths), sequence_length=sequence_length, batch_size=batch_size, **arguments
  )


def _take(dataset, count=-1):
  return list(dataset.take(count).as_numpy_iterator())


def _keys(batches):
  return [batch.info.key.tolist() for batch in batches]


def _assert_equal(batches, others):
  assert len(batches) == len(others)
  for batch, other in zip(batches, others):
    tree.map_structure(np.testing.assert_array_equal, batch, other)


def _check_window(data, lengths, burn_in):
  """Checks one window's rows against the episodes; returns the (episode, pair)s that it trains."""
  valid = data.extras["valid_mask"]
  leaves = tree.flatten((data.observation, data.action, data.reward, data.discount, data.extras))
  assert all(not leaf[~valid].any() for leaf in leaves)
  # Valid rows are consecutive steps of one episode, without a hole.
  where = np.flatnonzero(valid)
  np.testing.assert_array_equal(where, np.arange(where[0], where[-1] + 1))
  ids = data.observation["x"][valid, 0].astype(int)
  np.testing.assert_array_equal(ids, np.arange(ids[0], ids[0] + len(ids)))
  episode, step = ids[0] // 1000 - 1, ids % 1000 - 1
  length = lengths[episode]
  assert step[0] >= 0 and step[-1] <= length
  # Padding is met only where the episode has no row: nothing is cut off.
  assert step[0] == 0 or where[0] == 0
  assert where[0] <= burn_in
  assert step[-1] == length or where[-1] == len(valid) - 1
  # The contents are those of `_episode`; the last row holds an observation alone.
  last = step == length
  np.testing.assert_array_equal(data.observation["x"][valid, 1], -ids)
  np.testing.assert_array_equal(data.observation["n"][0][valid], ids)
  np.testing.assert_array_equal(data.action[valid, 0], np.where(last, 0, ids + 0.5))
  np.testing.assert_array_equal(data.reward[valid], np.where(last, 0, ids + 0.25))
  np.testing.assert_array_equal(data.extras["log_prob"][valid], np.where(last, 0, -ids))
  ends = np.where(step == length - 1, episode % 2, 1)
  np.testing.assert_array_equal(data.discount[valid], np.where(last, 0, ends))
  np.testing.assert_array_equal(data.start_of_episode[valid], step == 0)
  assert not data.start_of_episode[~valid].any()
  trained = where[where >= burn_in]
  return [(episode, step[row - where[0]]) for row in trained[:-1]]


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_windows_hold_the_episodes_rows_and_an_epoch_holds_every_pair(data):
  lengths = data.draw(st.lists(st.integers(1, 15), min_size=1, max_size=5))
  sequence_length = data.draw(st.integers(2, 8))
  burn_in = data.draw(st.integers(0, 4))
  period = data.draw(st.integers(1, sequence_length - 1))
  batch_size = data.draw(st.integers(1, 7))
  in_memory = data.draw(st.booleans())
  batches = _take(
    _make(
      lengths,
      sequence_length,
      batch_size,
      burn_in_length=burn_in,
      period=period,
      shuffle=data.draw(st.booleans()),
      seed=data.draw(st.integers(-5, 2**40)),
      repeat=False,
      in_memory=in_memory,
      buffer_bytes=_SMALL_BUFFER,
    )
  )
  assert all(len(batch.info.key) == batch_size for batch in batches[:-1])
  keys = np.concatenate([batch.info.key for batch in batches])
  shape = window_index.WindowShape(sequence_length, burn_in, period)
  assert sorted(keys) == list(range(window_index.WindowIndex(lengths, shape).num_windows))
  pairs = set()
  for batch in batches:
    assert batch.data.reward.shape[1] == burn_in + sequence_length
    for i in range(len(batch.info.key)):
      window = tree.map_structure(lambda leaf, i=i: leaf[i], batch.data)
      pairs.update(_check_window(window, lengths, burn_in))
  assert pairs == {(e, pair) for e, length in enumerate(lengths) for pair in range(length)}


@pytest.mark.parametrize("in_memory", [True, False])
def test_shapes_are_static_and_dtypes_the_datasets(in_memory):
  spec = _make([9, 2], 5, 3, burn_in_length=2, in_memory=in_memory).element_spec
  assert isinstance(spec, reverb.ReplaySample)
  assert spec.data.observation["x"] == tf.TensorSpec([3, 7, 2], tf.float32)
  assert spec.data.observation["n"][0] == tf.TensorSpec([3, 7], tf.int32)
  assert spec.data.action == tf.TensorSpec([3, 7, 1], tf.float32)
  assert spec.data.reward == spec.data.discount == tf.TensorSpec([3, 7], tf.float32)
  assert spec.data.start_of_episode == tf.TensorSpec([3, 7], tf.bool)
  assert spec.data.extras == {
    "log_prob": tf.TensorSpec([3, 7], tf.float32),
    "valid_mask": tf.TensorSpec([3, 7], tf.bool),
  }
  for leaf, dtype in zip(spec.info, reverb.SampleInfo.tf_dtypes()):
    assert leaf == tf.TensorSpec([3], dtype)


def test_info_counts_windows_and_epochs():
  batches = _take(_make([3, 3], 4, 4, period=3), 2)
  assert [sorted(batch.info.key[:2].tolist()) for batch in batches] == [[0, 1]] * 2
  assert batches[0].info.times_sampled.tolist() == [1, 1, 2, 2]
  assert batches[1].info.times_sampled.tolist() == [3, 3, 4, 4]
  assert set(batches[0].info.table_size) == {2} and set(batches[0].info.probability) == {0.5}


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_seed_decides_and_epochs_differ(in_memory):
  make = lambda seed: _make([8, 3, 12, 5], 3, 4, seed=seed, in_memory=in_memory, buffer_bytes=2000)
  # 28 windows: seven batches an epoch.
  batches = _take(make(5), 21)
  _assert_equal(batches, _take(make(5), 21))
  epochs = [sum(_keys(batches[i : i + 7]), []) for i in (0, 7, 14)]
  other = sum(_keys(_take(make(6), 7)), [])
  assert all(sorted(epoch) == list(range(28)) for epoch in [*epochs, other])
  orders = {tuple(epoch) for epoch in [*epochs, other, list(range(28))]}
  assert len(orders) == 5


@pytest.mark.parametrize("in_memory", [True, False])
def test_without_shuffling_windows_come_in_the_datasets_order(in_memory):
  batches = _take(_make([4, 3], 3, 5, shuffle=False, in_memory=in_memory, buffer_bytes=1), 3)
  assert _keys(batches) == [[0, 1, 2, 3, 4], [5, 6, 0, 1, 2], [3, 4, 5, 6, 0]]


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("repeat,start_steps", [(True, (1, 9, 10, 25)), (False, (3, 9, 10))])
def test_a_later_start_continues_the_same_batches(in_memory, repeat, start_steps):
  # 28 windows and batches of three: each epoch ends within a batch.
  arguments = dict(in_memory=in_memory, buffer_bytes=_SMALL_BUFFER, repeat=repeat, seed=1)
  whole = _take(_make([8, 3, 12, 5], 3, 3, **arguments), 30 if repeat else -1)
  for start_step in start_steps:
    rest = _make([8, 3, 12, 5], 3, 3, start_step=start_step, **arguments)
    _assert_equal(_take(rest, 30 - start_step if repeat else -1), whole[start_step:])


def test_a_start_after_very_many_steps_is_as_quick():
  # Nothing could run through so many batches.
  (batch,) = _take(_make([8, 3], start_step=10**9), 1)
  # Batches of three from eleven windows.
  assert batch.info.times_sampled.tolist() == [(3 * 10**9 + i) // 11 + 1 for i in range(3)]


def test_one_chunk_from_a_stream_gives_the_very_batches_of_memory():
  make = lambda in_memory: _make([8, 3, 12], in_memory=in_memory, buffer_bytes=2**20)
  _assert_equal(_take(make(False), 20), _take(make(True), 20))


def test_memory_and_stream_give_windows_of_the_same_set():
  counts = []
  for in_memory in (True, False):
    make = _make([8, 3, 12], 5, 2, repeat=False, in_memory=in_memory, buffer_bytes=_SMALL_BUFFER)
    rows = [row.tobytes() for batch in _take(make) for row in batch.data.reward]
    counts.append(collections.Counter(rows))
  assert counts[0] == counts[1] and sum(counts[0].values()) == 8 + 4 + 12


class _Lazy(episodes_lib.EpisodeDataset):
  """Makes episodes when they are read, and knows which were."""

  def __init__(self, lengths):
    super().__init__(
      path="lazy",
      format=episodes_lib.DatasetFormat.HDF5,
      lengths=lengths,
      returns=[0.0] * len(lengths),
      terminated=[False] * len(lengths),
      nbytes=1,
      in_memory=False,
    )
    self.read_ones = []

  def read(self, index):
    self.read_ones.append(index)
    return _episode(index, int(self.lengths[index]))


@pytest.mark.parametrize("available,reads_all", [(10**4, False), (10**9, True)])
def test_what_does_not_fit_into_memory_is_streamed(monkeypatch, available, reads_all):
  monkeypatch.setattr(available_memory, "available_bytes", lambda: available)
  dataset = _Lazy([10] * 60)
  made = windows.make_windows(
    dataset, sequence_length=4, batch_size=2, prefetch_size=0, buffer_bytes=10_000
  )
  assert set(dataset.read_ones) == (set(range(60)) if reads_all else {0})
  _take(made, 1)
  if not reads_all:
    # Twelve chunks, of which one is drawn from, one waits and one may be under way.
    assert 5 <= len(set(dataset.read_ones)) <= 3 * 6 + 1


def test_a_malformed_episode_is_named_by_the_iterator():
  class Broken(_Lazy):
    def read(self, index):
      if index == 2:
        raise episodes_lib.DatasetError("lazy: rewards[17] is nan.")
      return super().read(index)

  made = windows.make_windows(
    Broken([5] * 4), sequence_length=3, batch_size=2, in_memory=False, buffer_bytes=1
  )
  with pytest.raises(tf.errors.OpError, match=r"rewards\[17\] is nan"):
    _take(made, 20)


@pytest.mark.parametrize("in_memory", [True, False])
def test_it_feeds_a_compiled_step(in_memory):
  iterator = iter(_make([8, 3], in_memory=in_memory))
  step = tf.function(lambda: tf.reduce_sum(next(iterator).data.reward))
  expected = [batch.data.reward.sum() for batch in _take(_make([8, 3], in_memory=in_memory), 5)]
  assert [float(step()) for _ in range(5)] == pytest.approx(expected)


@pytest.mark.parametrize("in_memory", [True, False])
def test_each_replica_gets_its_share_of_the_batch(in_memory):
  make = lambda: _make([8, 3, 12], batch_size=6, in_memory=in_memory, buffer_bytes=_SMALL_BUFFER)
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  iterator = iter(strategy.experimental_distribute_dataset(make()))
  for batch in _take(make(), 5):
    parts = next(iterator)
    for leaf, whole in zip(tree.flatten(parts), tree.flatten(batch)):
      shares = strategy.experimental_local_results(leaf)
      assert [share.shape[0] for share in shares] == [3, 3]
      np.testing.assert_array_equal(np.concatenate([share.numpy() for share in shares]), whole)


def test_a_batch_may_exceed_the_windows():
  assert _make([2], 3, 10).element_spec.data.reward.shape == [10, 3]
  assert sorted(_keys(_take(_make([2], 3, 10), 1))[0]) == [0] * 5 + [1] * 5
  assert [len(keys) for keys in _keys(_take(_make([2], 3, 10, repeat=False)))] == [2]


def test_lists_of_observations_become_tuples():
  episode = episodes_lib.Episode(
    observation=[np.zeros((3, 2), np.float32), np.ones(3, np.float32)],
    action=np.zeros((2, 1), np.float32),
    reward=np.zeros(2, np.float32),
    discount=np.ones(2, np.float32),
  )
  dataset = episodes_lib.InMemoryDataset(
    [episode], path="made", format=episodes_lib.DatasetFormat.NPZ
  )
  (batch,) = _take(windows.make_windows(dataset, sequence_length=3, batch_size=2), 1)
  assert isinstance(batch.data.observation, tuple)
  assert [leaf.shape for leaf in batch.data.observation] == [(2, 3, 2), (2, 3)]
  assert list(batch.data.extras) == ["valid_mask"]


@pytest.mark.parametrize(
  "arguments,message",
  [
    (dict(sequence_length=1), "sequence_length is 1; it must be an integer of at least 2"),
    (dict(batch_size=0), "batch_size is 0"),
    (dict(period=4), "period is 4; .* at most 3"),
    (dict(burn_in_length=1.5), "burn_in_length is 1.5"),
    (dict(start_step=-1), "start_step is -1"),
    (dict(buffer_bytes=0), "buffer_bytes is 0"),
    (dict(prefetch_size=-1), "prefetch_size is -1"),
    (dict(repeat=False, start_step=5), "start_step is 5; without repeat there are 3 batches"),
  ],
)
def test_wrong_arguments_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    _make([8], **arguments)


def test_an_extra_of_the_masks_name_is_refused():
  episode = _episode(0, 5)
  episode.extras["valid_mask"] = np.ones(5, bool)
  dataset = episodes_lib.InMemoryDataset(
    [episode], path="made", format=episodes_lib.DatasetFormat.NPZ
  )
  with pytest.raises(ValueError, match="made has an extra named 'valid_mask'.*Rename"):
    windows.make_windows(dataset, sequence_length=3, batch_size=2)


@pytest.mark.parametrize(
  "arguments,message",
  [
    (dict(sequence_length=20), "sequence_length is 20, but the longest episode has 9 rows"),
    (dict(in_memory=False, buffer_bytes=1), "So few episodes make the windows of a batch alike"),
  ],
)
def test_wasteful_settings_are_warned_of(caplog, arguments, message):
  logging.use_absl_handler()
  with caplog.at_level(std_logging.WARNING, logger="absl"):
    _make([8, 2], **arguments)
  assert message in caplog.text
