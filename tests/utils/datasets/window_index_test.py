"""Tests of `temper.utils.datasets.window_index`: which windows there are, and their order."""

import collections

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from temper.utils.datasets import window_index


def _placement(index, numbers=None):
  """Places windows of all episodes; returns arrays."""
  if numbers is None:
    numbers = np.arange(index.num_windows)
  table = index.table(np.arange(len(index.lengths)))
  placement = window_index.place(table, tf.constant(numbers, tf.int64), index.shape)
  return window_index.Placement(*(leaf.numpy() for leaf in placement))


def _pair_counts(index):
  """Counts in how many windows each pair of each episode is trained, by (episode, pair)."""
  placement = _placement(index)
  first_rows = np.cumsum(index.lengths + 1) - (index.lengths + 1)
  counts = collections.Counter()
  burn_in = index.shape.burn_in_length
  for rows, valid in zip(placement.rows[:, burn_in:], placement.valid[:, burn_in:]):
    for row, is_pair in zip(rows, valid[:-1] & valid[1:]):
      if is_pair:
        episode = np.searchsorted(first_rows, row, side="right") - 1
        counts[episode, row - first_rows[episode]] += 1
  return counts


def _rows(lengths, sequence_length, **shape):
  index = window_index.WindowIndex(lengths, window_index.WindowShape(sequence_length, **shape))
  return _placement(index).rows.tolist()


def test_windows_of_an_episode_by_hand():
  # Six transitions, seven rows, four pairs a window: six windows, of which three are distinct.
  assert _rows([6], 5) == [
    [0, 1, 2, 3, 4],
    [0, 1, 2, 3, 4],
    [1, 2, 3, 4, 5],
    [2, 3, 4, 5, 6],
    [2, 3, 4, 5, 6],
    [2, 3, 4, 5, 6],
  ]


def test_the_last_window_is_shifted_back():
  assert _rows([6], 4, period=3) == [[0, 1, 2, 3], [3, 4, 5, 6]]
  assert _rows([7], 4, period=3) == [[0, 1, 2, 3], [3, 4, 5, 6], [4, 5, 6, 7]]


def test_a_short_episode_is_padded_at_the_end_and_repeated():
  # Row 3 is the row of zeros: the episode has the rows 0 to 2.
  assert _rows([2], 5) == [[0, 1, 2, 3, 3]] * 4
  assert _rows([2], 5, period=4) == [[0, 1, 2, 3, 3]]


def test_burn_in_is_padded_in_front_of_an_episode():
  index = window_index.WindowIndex([1, 4], window_index.WindowShape(3, 2, 2))
  placement = _placement(index)
  # Rows 0 and 1, 2 to 6; 7 is the row of zeros.
  assert placement.rows.tolist() == [[7, 7, 0, 1, 7], [7, 7, 2, 3, 4], [2, 3, 4, 5, 6]]
  assert placement.valid.astype(int).tolist() == [[0, 0, 1, 1, 0], [0, 0, 1, 1, 1], [1] * 5]
  assert placement.starts.astype(int).tolist() == [
    [0, 0, 1, 0, 0],
    [0, 0, 1, 0, 0],
    [1, 0, 0, 0, 0],
  ]
  assert placement.key.tolist() == [0, 1, 2]


def test_part_of_the_episodes_keeps_the_keys_of_all():
  index = window_index.WindowIndex([3, 5, 4], window_index.WindowShape(3))
  whole = _placement(index)
  part = window_index.place(index.table(np.array([2])), tf.range(4, dtype=tf.int64), index.shape)
  assert part.key.numpy().tolist() == whole.key[-4:].tolist()
  # Episodes of four and six rows lie before it.
  assert (part.rows.numpy() + 10).tolist() == whole.rows[-4:].tolist()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_each_pair_is_drawn_about_equally_often(data):
  lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
  sequence_length = data.draw(st.integers(2, 12))
  period = data.draw(st.integers(1, sequence_length - 1))
  shape = window_index.WindowShape(sequence_length, data.draw(st.integers(0, 3)), period)
  index = window_index.WindowIndex(lengths, shape)
  counts = _pair_counts(index)
  fair = shape.num_pairs / period
  for episode, length in enumerate(lengths):
    mine = np.array([counts[episode, pair] for pair in range(length)])
    assert mine.min() >= max(1, np.floor(fair / 2))
    assert mine.max() <= 2 * np.ceil(fair) + 1
    # On average over the episode nothing is preferred, but that windows are rounded up.
    assert fair - 1e-9 <= mine.mean() <= fair + shape.num_pairs / max(length, shape.num_pairs)


def test_a_period_of_all_pairs_draws_each_once():
  index = window_index.WindowIndex([9, 3], window_index.WindowShape(4, period=3))
  assert set(_pair_counts(index).values()) == {1}


@pytest.mark.parametrize("num_windows", [1, 2, 3, 64, 1000])
def test_the_order_is_a_permutation(num_windows):
  positions = tf.range(num_windows, dtype=tf.int64)
  order = _shuffled(positions, num_windows)
  assert sorted(order) == list(range(num_windows))


def _shuffled(positions, num_windows, seed=0, epoch=0, chunk=0):
  as_tensor = lambda value: tf.constant(value, tf.int64)
  return window_index.shuffled(
    positions, as_tensor(num_windows), seed=seed, epoch=as_tensor(epoch), chunk=as_tensor(chunk)
  ).numpy()


def test_the_order_depends_on_seed_epoch_and_chunk_and_looks_random():
  positions = tf.range(4096, dtype=tf.int64)
  orders = [
    _shuffled(positions, 4096, **which) for which in ({}, {"seed": 1}, {"epoch": 1}, {"chunk": 1})
  ]
  np.testing.assert_array_equal(orders[0], _shuffled(positions, 4096))
  bound = 4 / np.sqrt(4096)  # Four standard deviations of a correlation of independent numbers.
  for i, order in enumerate(orders):
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < bound
    for other in orders[:i]:
      assert abs(np.corrcoef(order, other)[0, 1]) < bound


def test_each_order_of_a_few_windows_is_as_likely_as_any_other():
  orders = _shuffled(tf.tile(tf.range(3, dtype=tf.int64), [600]), 3, epoch=np.arange(600).repeat(3))
  counts = collections.Counter(map(tuple, orders.reshape(600, 3).tolist()))
  assert len(counts) == 6
  chi_square = sum((count - 100) ** 2 / 100 for count in counts.values())
  assert chi_square < 20.5  # Its 99.9 % point for five degrees of freedom.


@pytest.mark.parametrize(
  "arguments,message",
  [
    (dict(sequence_length=1), "sequence_length is 1; it must be an integer of at least 2"),
    (dict(sequence_length=5, burn_in_length=-1), "burn_in_length is -1"),
    (dict(sequence_length=5, period=0), "period is 0"),
    (dict(sequence_length=5, period=5), "period is 5; .* it must be at most 4.*Lower the period"),
  ],
)
def test_a_wrong_shape_is_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    window_index.WindowShape(**arguments)


@pytest.mark.parametrize("lengths,message", [([], "no episode"), ([3, 0], "episode 1 has none")])
def test_episodes_without_a_pair_are_refused(lengths, message):
  with pytest.raises(ValueError, match=message):
    window_index.WindowIndex(lengths, window_index.WindowShape(3))
