import collections

from acme import specs
import numpy as np
import pytest
import tensorflow as tf

from temper.utils import replay_row_store
from temper.utils import replay_rows


def _rows(observation=None):
  spec = specs.EnvironmentSpec(
    observations=observation or specs.Array((2,), np.float32),
    actions=specs.BoundedArray((1,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )
  return replay_rows.TransitionRows.of_specs(spec, {"version": specs.Array((), np.int32)})


def _fill(store, rows, numbers):
  for number in numbers:
    two = np.full(2, number, np.float32)
    leaves = [two, two[:1], float(number), 0.5, two + 1, np.int32(number)]
    store.append(rows.pack(leaves))


@pytest.fixture(name="rows")
def fixture_rows():
  return _rows()


def test_a_draw_returns_whole_transitions_with_their_probability(rows):
  store = replay_row_store.RowStore(rows, 10)
  _fill(store, rows, range(4))
  sample = next(store.draws(6, seed=1))
  number = sample.data.reward.numpy()
  assert set(number) <= {0.0, 1.0, 2.0, 3.0}
  np.testing.assert_array_equal(sample.data.observation, np.stack([number, number], 1))
  np.testing.assert_array_equal(sample.data.next_observation, np.stack([number, number], 1) + 1)
  np.testing.assert_array_equal(sample.data.action[:, 0], number)
  np.testing.assert_array_equal(sample.data.extras["version"], number.astype(np.int32))
  np.testing.assert_array_equal(sample.data.discount, np.full(6, 0.5, np.float32))
  np.testing.assert_array_equal(sample.info.probability, np.full(6, 0.25))
  np.testing.assert_array_equal(sample.info.table_size, np.full(6, 4))


@pytest.mark.parametrize("count", [3, 5, 8, 12, 23])
def test_the_oldest_rows_are_replaced(rows, count, monkeypatch):
  monkeypatch.setattr(replay_row_store, "_FIRST_CAPACITY", 2)  # Grows on the way.
  store = replay_row_store.RowStore(rows, 8)
  _fill(store, rows, range(count))
  assert len(store) == min(count, 8)
  seen = set(next(store.draws(400, seed=0)).data.reward.numpy())
  assert seen == set(range(max(0, count - 8), count))


def test_all_rows_are_drawn_alike(rows):
  store = replay_row_store.RowStore(rows, 10)
  _fill(store, rows, range(10))
  draws = store.draws(5_000, seed=3)
  counts = collections.Counter(next(draws).data.reward.numpy())
  # Five standard deviations of a binomial of 5,000 trials and a tenth.
  assert all(abs(counts[i] - 500) < 5 * np.sqrt(5_000 * 0.1 * 0.9) for i in range(10))


def test_draws_depend_on_the_seed_and_on_their_number_alone(rows):
  store = replay_row_store.RowStore(rows, 50)
  _fill(store, rows, range(50))
  draws = store.draws(8, seed=1)
  first, second = (next(draws).data.reward.numpy() for _ in range(2))
  assert not np.array_equal(first, second) and store.num_batches == 2
  store.num_batches = 1
  np.testing.assert_array_equal(next(draws).data.reward, second)
  store.num_batches = 1
  assert not np.array_equal(next(store.draws(8, seed=2)).data.reward, second)


def test_each_call_of_a_graph_draws_anew_and_sees_new_rows(rows):
  store = replay_row_store.RowStore(rows, 100)
  _fill(store, rows, [7])
  draws = store.draws(16, seed=0)
  step = tf.function(lambda: next(draws).data.reward, autograph=False)
  assert set(step().numpy()) == {7.0}
  _fill(store, rows, range(10, 109))
  seen = [step().numpy() for _ in range(2)]
  assert max(seen[0]) >= 10 and not np.array_equal(*seen)
  assert store.num_batches == 3


@pytest.mark.parametrize("count", [3, 20])
def test_saved_rows_come_back_in_their_places(rows, count, tmp_path):
  store = replay_row_store.RowStore(rows, 8)
  _fill(store, rows, range(count))
  store.save(str(tmp_path))
  restored = replay_row_store.RowStore(rows, 8)
  assert restored.restore(str(tmp_path)) and len(restored) == len(store)
  for one in (store, restored):
    _fill(one, rows, [100, 101])
  drawn = [next(one.draws(64, seed=4)).data.reward.numpy() for one in (store, restored)]
  np.testing.assert_array_equal(*drawn)


def test_a_folder_without_rows_or_with_others_is_told_apart(rows, tmp_path):
  store = replay_row_store.RowStore(rows, 8)
  assert not store.restore(str(tmp_path)) and len(store) == 0
  _fill(store, rows, range(8))
  store.save(str(tmp_path))
  with pytest.raises(ValueError, match="8, .*at most 4"):
    replay_row_store.RowStore(rows, 4).restore(str(tmp_path))
  with pytest.raises(ValueError, match="bytes are expected"):
    replay_row_store.RowStore(_rows(specs.Array((3,), np.float32)), 8).restore(str(tmp_path))


def test_observations_that_have_columns_of_their_own_are_refused():
  pixels = specs.BoundedArray((32, 32, 3), np.uint8, 0, 255)
  with pytest.raises(ValueError, match="columns of their own"):
    replay_row_store.RowStore(_rows(pixels), 8)
