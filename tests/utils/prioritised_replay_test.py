"""Tests of `temper.utils.prioritised_replay`: the law of sampling, weights, and new priorities."""

import gc
import threading
import time

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import reverb
from scipy import stats
import tensorflow as tf

from temper.utils import prioritised_replay
from temper.utils import replay_server
from temper.utils import replay_watch

_TABLE = "items"


@pytest.fixture(name="serve")
def _serve():
  servers = []

  def serve(exponent, restore_from=None):
    table = reverb.Table(
      _TABLE,
      reverb.selectors.Prioritized(exponent),
      reverb.selectors.Fifo(),
      max_size=100,
      rate_limiter=reverb.rate_limiters.MinSize(1),
      signature=tf.TensorSpec([1], tf.int32),
    )
    servers.append(replay_server.start_server([table], restore_from))
    return servers[-1]

  yield serve
  for server in servers:
    server.stop()


def _fill(server, priorities):
  for i, priority in enumerate(priorities):
    server.client.insert(np.int32(i), {_TABLE: float(priority)})


def _sample(server, count):
  """Returns `count` samples as one batch; nothing is sampled ahead of it."""
  dataset = reverb.TrajectoryDataset.from_table_signature(
    server.client.server_address, _TABLE, max_in_flight_samples_per_worker=100, max_samples=count
  )
  return next(iter(dataset.batch(count)))


def _keys(server):
  """Returns the key of each item by its number."""
  sample = _sample(server, 400)
  return dict(zip(sample.data[:, 0].numpy().tolist(), sample.info.key.numpy().tolist()))


def _priorities(server):
  """Returns the priority of each item by its number."""
  sample = _sample(server, 400)
  return dict(zip(sample.data[:, 0].numpy().tolist(), sample.info.priority.numpy().tolist()))


# The law.


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_items_are_sampled_as_often_as_their_law_says(serve, exponent):
  priorities = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 3.0])
  server = serve(exponent)
  _fill(server, priorities)
  law = priorities**exponent / np.sum(priorities**exponent)
  sample = _sample(server, 20_000)
  items = sample.data[:, 0].numpy()
  np.testing.assert_allclose(sample.info.probability.numpy(), law[items], rtol=1e-6)
  counts = np.bincount(items, minlength=len(law))
  # Wrong once in a million runs.
  assert stats.chisquare(counts, law * len(items)).pvalue > 1e-6
  if exponent:
    # The test tells laws apart.
    assert stats.chisquare(counts, np.full(6, len(items) / 6)).pvalue < 1e-6


def test_importance_weights_make_an_expectation_that_of_uniform_sampling(serve):
  values = np.array([1.0, -2.0, 5.0, 0.5])
  server = serve(0.6)
  _fill(server, [0.1, 1.0, 3.0, 9.0])
  sample = _sample(server, 20_000)
  weights = prioritised_replay.importance_weights(
    sample.info.probability, sample.info.table_size, 1.0
  ).numpy()
  items = sample.data[:, 0].numpy()
  terms = weights * values[items]
  # With exponent 1, weights are 1 / (N P) over their largest, so that E[w x] / E[w] is the mean.
  mean = terms.mean() / weights.mean()
  error = np.std(weights * (values[items] - mean)) / weights.mean() / np.sqrt(len(items))
  assert abs(mean - values.mean()) < 5 * error
  assert abs(values[items].mean() - values.mean()) > 0.1


# The weights.


def test_weights_by_hand():
  # N P is 1/2, 1, 2, 8; its inverse root over the largest, that of 1/2.
  weights = prioritised_replay.importance_weights(
    tf.constant([0.125, 0.25, 0.5, 2.0], tf.float64), tf.constant([4, 4, 4, 4], tf.int64), 0.5
  )
  np.testing.assert_allclose(weights, [1, 0.5**0.5, 0.5, 0.25], rtol=1e-12)
  halved = prioritised_replay.importance_weights(tf.constant([0.5, 0.25]), tf.constant(2), 1.0)
  assert halved.dtype == tf.float32
  np.testing.assert_allclose(halved, [0.5, 1], rtol=1e-6)


@given(
  probability=st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20),
  size=st.integers(1, 10**7),
  exponent=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_weights_are_in_the_unit_interval_and_rarer_items_weigh_more(probability, size, exponent):
  for dtype in (np.float32, np.float64):
    p = np.array(probability, dtype)
    weights = prioritised_replay.importance_weights(tf.constant(p), size, exponent)
    assert weights.dtype == dtype and weights.shape == p.shape
    weights = weights.numpy()
    assert (weights > 0).all() and weights.max() == 1
    assert (np.diff(weights[np.argsort(p)]) <= 1e-5).all()
    expected = (size * p.astype(np.float64)) ** -exponent
    np.testing.assert_allclose(weights, expected / expected.max(), rtol=1e-4)


@given(p=st.floats(1e-9, 1), size=st.integers(1, 10**7), exponent=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_uniform_priorities_give_ones(p, size, exponent):
  weights = prioritised_replay.importance_weights(tf.fill([5], tf.constant(p)), size, exponent)
  assert weights.numpy().tolist() == [1] * 5


def test_replicas_share_the_largest_weight():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  probability = tf.constant([0.5, 0.25, 0.2, 0.05])
  expected = prioritised_replay.importance_weights(probability, 4, 0.7)

  def on_replica():
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    share = probability[2 * replica : 2 * replica + 2]
    return prioritised_replay.importance_weights(share, 4, 0.7)

  run = tf.function(lambda: strategy.run(on_replica), autograph=False)
  shares = strategy.experimental_local_results(run())
  np.testing.assert_allclose(tf.concat(shares, axis=0), expected, rtol=1e-6)


def test_the_exponent_grows_in_a_straight_line_and_stays():
  config = prioritised_replay.PrioritisedReplay(anneal_steps=200)
  expected = {0: 0.4, 50: 0.55, 100: 0.7, 200: 1.0, 10_000: 1.0}
  for step, value in expected.items():
    np.testing.assert_allclose(prioritised_replay.importance_exponent(config, step), value)
  compiled = tf.function(
    lambda s: prioritised_replay.importance_exponent(config, s), autograph=False
  )
  np.testing.assert_allclose(compiled(tf.constant(50, tf.int32)), 0.55)
  down = prioritised_replay.PrioritisedReplay(
    importance_exponent=1.0, final_importance_exponent=0.0, anneal_steps=4
  )
  np.testing.assert_allclose(prioritised_replay.importance_exponent(down, 1), 0.75)


def test_priorities_by_hand():
  errors = tf.constant([-2.0, 0.0, 0.5], tf.float64)
  found = prioritised_replay.priorities(errors, 1e-3)
  assert found.dtype == tf.float64
  np.testing.assert_allclose(found, [2.001, 0.001, 0.501], rtol=1e-12)


def test_priorities_of_sequences_by_hand():
  errors = tf.constant([[1.0, -4.0, np.nan], [-3.0, 100.0, np.nan], [2.0, 0.0, 7.0]])
  valid = tf.constant([[True, True, False], [True, False, False], [True, True, False]])
  found = prioritised_replay.sequence_priorities(errors, valid, 0.5)
  # 0.9 * 3 + 0.1 * 2; 0.9 * 4 + 0.1 * 2, since the 100 does not count; nothing counts.
  np.testing.assert_allclose(found, [2.9 + 0.5, 3.8 + 0.5, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
  "field,value,text",
  [
    ("priority_exponent", -0.1, "at least 0"),
    ("priority_exponent", float("nan"), "finite"),
    ("importance_exponent", 1.1, "at most 1"),
    ("final_importance_exponent", -1, "at least 0"),
    ("anneal_steps", 0, "integer of at least 1"),
    ("anneal_steps", 1.5, "integer"),
    ("min_priority", 0, "above 0"),
  ],
)
def test_a_bad_field_is_refused_by_name(field, value, text):
  with pytest.raises(ValueError, match=f"{field} is {value!r}.*{text}"):
    prioritised_replay.PrioritisedReplay(**{field: value})


# The writer.


def test_written_priorities_are_those_that_are_sampled_by(serve):
  server = serve(1.0)
  _fill(server, [1, 1, 1])
  keys = _keys(server)
  writer = prioritised_replay.PriorityWriter(server.client, _TABLE)
  writer.write(np.array([keys[0], keys[2]], np.uint64), np.array([3.0, 0.0]))
  writer.flush()
  assert _priorities(server) == {0: 3, 1: 1}  # An item of priority 0 is never sampled.
  # Many writes one after the other: the last one counts.
  for i in range(20):
    writer.write(np.array([keys[1]], np.uint64), np.array([1.0 + i], np.float32))
  writer.flush()
  assert _priorities(server) == {0: 3, 1: 20}
  sample = _sample(server, 100)
  expected = np.where(sample.data[:, 0].numpy() == 0, 3 / 23, 20 / 23)
  np.testing.assert_allclose(sample.info.probability, expected, rtol=1e-6)


def test_a_key_that_is_gone_is_passed_over_and_of_two_the_last_counts(serve):
  server = serve(1.0)
  _fill(server, [1])
  key = _keys(server)[0]
  writer = prioritised_replay.PriorityWriter(server.client, _TABLE)
  writer.write(np.array([key, 12345, key], np.uint64), np.array([7.0, 8.0, 9.0]))
  writer.flush()
  assert _priorities(server) == {0: 9}


def test_the_largest_priority_is_kept_and_at_least_one(serve):
  server = serve(1.0)
  _fill(server, [1])
  key = np.array([_keys(server)[0]], np.uint64)
  writer = prioritised_replay.PriorityWriter(server.client, _TABLE)
  assert writer.max_priority == 1
  seen = []
  for priority in (0.5, 4.0, 2.0):
    writer.write(key, np.array([priority]))
    seen.append(writer.max_priority)
  writer.write(np.array([], np.uint64), np.array([]))
  assert seen == [1, 4, 4] and writer.max_priority == 4
  writer.flush()


def test_keys_and_priorities_must_pair(serve):
  writer = prioritised_replay.PriorityWriter(serve(1.0).client, _TABLE)
  for keys, priorities in (([1, 2], [1.0]), ([[1]], [[1.0]])):
    with pytest.raises(ValueError, match="each key needs one priority"):
      writer.write(np.array(keys, np.uint64), np.array(priorities))


def test_priorities_survive_a_replay_checkpoint(serve, tmp_path):
  server = serve(0.6)
  _fill(server, [1, 1, 1])
  keys = _keys(server)
  writer = prioritised_replay.PriorityWriter(server.client, _TABLE)
  writer.write(np.array(list(keys.values()), np.uint64), 1.0 + 2 * np.array(list(keys)))
  writer.flush()
  saved = str(tmp_path / "replay")
  server.save(saved)
  restored = serve(0.6, restore_from=saved)
  assert _priorities(restored) == {0: 1, 1: 3, 2: 5}
  assert _keys(restored) == keys
  sample = _sample(restored, 100)
  law = np.array([1, 3, 5]) ** 0.6
  np.testing.assert_allclose(
    sample.info.probability, (law / law.sum())[sample.data[:, 0].numpy()], rtol=1e-6
  )


def test_a_server_that_is_gone_ends_in_an_error(serve, monkeypatch):
  monkeypatch.setattr(prioritised_replay, "_WRITE_SECONDS", 0.2)
  monkeypatch.setattr(replay_watch.check_server, "__defaults__", (1,))
  server = serve(1.0)
  writer = prioritised_replay.PriorityWriter(server.client, _TABLE)
  server.server.stop()
  writer.write(np.array([1], np.uint64), np.array([1.0]))  # It goes on meanwhile.
  with pytest.raises(replay_watch.ReplayLostError):
    writer.write(np.array([1], np.uint64), np.array([1.0]))


def test_a_server_that_refuses_ends_in_an_error():
  class Refusing:
    server_address = "localhost:1"

    def mutate_priorities(self, table, updates):
      raise RuntimeError("Connection reset by peer")

  writer = prioritised_replay.PriorityWriter(Refusing(), _TABLE)
  writer.write(np.array([1], np.uint64), np.array([1.0]))
  with pytest.raises(replay_watch.ReplayLostError, match="localhost:1 did not take"):
    writer.flush()


class _Frozen:
  """A client whose server takes nothing in until it thaws, and answers questions as it likes."""

  server_address = "localhost:1"

  def __init__(self, answers):
    self.thaw = threading.Event()
    self._answers = answers

  def mutate_priorities(self, table, updates):
    self.thaw.wait(20)

  def server_info(self, timeout):
    if not self._answers:
      raise reverb.DeadlineExceededError("No answer.")


def test_a_server_that_hangs_is_waited_for_only_while_it_answers(monkeypatch):
  monkeypatch.setattr(prioritised_replay, "_WRITE_SECONDS", 0.05)
  silent = _Frozen(answers=False)
  writer = prioritised_replay.PriorityWriter(silent, _TABLE)
  writer.write(np.array([1], np.uint64), np.array([1.0]))
  with pytest.raises(replay_watch.ReplayLostError, match="has not answered"):
    writer.write(np.array([1], np.uint64), np.array([1.0]))
  silent.thaw.set()
  busy = _Frozen(answers=True)
  writer = prioritised_replay.PriorityWriter(busy, _TABLE)
  writer.write(np.array([1], np.uint64), np.array([1.0]))
  threading.Timer(0.3, busy.thaw.set).start()  # Several waits long.
  writer.flush()
  assert busy.thaw.is_set()


def test_a_dropped_writer_ends_its_thread():
  def count():
    return sum(thread.name == "priority_writer" for thread in threading.enumerate())

  client = _Frozen(answers=True)
  client.thaw.set()
  gc.collect()
  before = count()
  writer = prioritised_replay.PriorityWriter(client, _TABLE)
  assert count() == before  # It starts with the first write.
  writer.write(np.array([1], np.uint64), np.array([1.0]))
  assert count() == before + 1
  del writer
  deadline = time.monotonic() + 10
  while count() > before and time.monotonic() < deadline:
    time.sleep(0.01)
  assert count() == before
