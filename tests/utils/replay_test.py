"""Tests of `temper.utils.replay`: what the adder writes, what it loses (nothing), and the rates."""

import fractions
import json
import logging as std_logging
import os
import threading
import time

from acme import specs
from acme.adders import reverb as reverb_adders
import dm_env
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import reverb
import tensorflow as tf

from temper.utils import checkpointing
from temper.utils import replay
from temper.utils import replay_server
from temper.utils import replay_watch

_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((), np.float32),
  actions=specs.BoundedArray((), np.float32, -1e9, 1e9),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0, 1),
)
_EXTRAS = {"log_prob": specs.Array((), np.float32)}
_TABLE = "steps"


def _server(sequence_length, max_size=1000, limiter=None, restore_from=None):
  table = replay.sequence_table(
    _TABLE,
    _SPEC,
    _EXTRAS,
    sequence_length,
    max_size,
    limiter or reverb.rate_limiters.MinSize(1),
  )
  return replay_server.start_server([table], restore_from)


def _step(reward, observation, last=False):
  make = dm_env.truncation if last else dm_env.transition
  return make(np.float32(reward), np.float32(observation), np.float32(1))


def _feed(adder, lengths, begun=0):
  """Adds whole episodes; step i has observation i, action 10 i, reward 100 i."""
  i = begun
  for length in lengths:
    adder.add_first(dm_env.restart(np.float32(i)))
    for step in range(1, length + 1):
      next_timestep = _step(100 * i, i + 1, last=step == length)
      adder.add(np.float32(10 * i), next_timestep, {"log_prob": np.float32(-i)})
      i += 1
    i += 1
  return i


def _items(server):
  """Returns the items of the table in the order of their insertion, as dicts of arrays."""
  # So many draws that each of a handful of items is among them.
  dataset = replay.make_dataset(server.client.server_address, _TABLE, 1, 0, timeout_ms=2000)
  found = {int(sample.info.key.numpy()[0]): sample.data for sample in dataset.take(400)}
  items = [
    {
      "observation": d.observation[0].numpy(),
      "action": d.action[0].numpy(),
      "reward": d.reward[0].numpy(),
      "discount": d.discount[0].numpy(),
      "start_of_episode": d.start_of_episode[0].numpy(),
      "log_prob": d.extras["log_prob"][0].numpy(),
    }
    for d in found.values()
  ]
  return sorted(items, key=lambda item: (item["observation"][0], item["observation"][-1]))


def _assert_same_items(ours, theirs):
  assert len(ours) == len(theirs)
  for one, other in zip(ours, theirs):
    for name in one:
      np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(name="serve")
def _serve():
  servers = []

  def serve(*args, **kwargs):
    servers.append(_server(*args, **kwargs))
    return servers[-1]

  yield serve
  for server in servers:
    server.stop()


@pytest.mark.parametrize(
  "length,period,episodes",
  [
    (4, 3, [5, 5, 2]),
    (4, 3, [1, 1, 1, 7, 3]),
    (2, 1, [1, 4]),
    (6, 5, [2, 2, 9]),
    (5, 2, [3, 8]),
    (4, 4, [6, 1, 4]),
  ],
)
def test_items_equal_those_of_acmes_adder(serve, length, period, episodes):
  ours, theirs = serve(length), serve(length)
  adder = replay.SequenceAdder(ours.client, length, period, _TABLE)
  original = reverb_adders.SequenceAdder(
    theirs.client,
    length,
    period,
    priority_fns={_TABLE: None},
    end_of_episode_behavior=reverb_adders.EndBehavior.CONTINUE,
  )
  for each in (adder, original):
    _feed(each, episodes)
    each._writer.flush()
  items = _items(ours)
  _assert_same_items(items, _items(theirs))
  # And once without the original: the first item begins with the first step, one item a period.
  rows = sum(episodes) + len(episodes)
  assert len(items) == (rows - length) // period + 1
  assert items[0]["observation"].tolist() == list(range(length))


@pytest.mark.parametrize("episodes", [[5, 5, 2], [4], [3, 3, 3], [1, 1, 1, 7], [11]])
@pytest.mark.parametrize("length", [2, 4])
def test_flush_writes_every_step_once_it_can_and_nothing_twice(serve, length, episodes):
  server = serve(length)
  adder = replay.SequenceAdder(server.client, length, length - 1, _TABLE)
  rows = _feed(adder, episodes)
  adder.flush()
  items = _items(server)
  assert {float(o) for item in items for o in item["observation"]} == set(range(rows))
  for item in items:
    first = int(item["observation"][0])
    assert item["observation"].tolist() == list(range(first, first + length))
  count = server.sizes()[_TABLE]
  adder.flush()
  assert server.sizes()[_TABLE] == count


def test_flushed_rows_hold_what_belongs_together(serve):
  server = serve(4)
  adder = replay.SequenceAdder(server.client, 4, 3, _TABLE)
  _feed(adder, [2, 3])  # Rows 0 1 [2] 3 4 5 [6]: 2 and 6 close their episodes.
  adder.flush()
  last = _items(server)[-1]
  assert last["observation"].tolist() == [3, 4, 5, 6]
  assert last["start_of_episode"].tolist() == [True, False, False, False]
  assert last["action"].tolist() == [30, 40, 50, 0]
  assert last["reward"].tolist() == [300, 400, 500, 0]
  # A truncation keeps discount 1; the closing row has Acme's zeros.
  assert last["discount"].tolist() == [1, 1, 1, 0]
  assert last["log_prob"].tolist() == [-3, -4, -5, 0]
  first = _items(server)[0]
  assert first["start_of_episode"].tolist() == [True, False, False, True]
  assert first["log_prob"].tolist() == [0, -1, 0, -3]


def test_flush_in_the_middle_of_an_episode_and_right_after_its_start(serve):
  server = serve(3)
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  begun = _feed(adder, [3])  # Rows 0 1 2 [3]; the regular item is 0 1 2.
  adder.add_first(dm_env.restart(np.float32(begun)))
  adder.flush()
  assert [i["observation"].tolist() for i in _items(server)] == [[0, 1, 2], [1, 2, 3]]
  log_prob = {"log_prob": np.float32(0)}
  adder.add(np.float32(40), _step(1, 5), log_prob)
  adder.flush()  # Row 4 is complete; that of 5 has no action yet. Item 2 3 4 is due too.
  items = [i["observation"].tolist() for i in _items(server)]
  assert items == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
  adder.add(np.float32(50), _step(1, 6, last=True), log_prob)
  adder.flush()
  assert _items(server)[-1]["observation"].tolist() == [4, 5, 6]


def test_flush_with_too_little_or_nothing_writes_nothing(serve):
  server = serve(4)
  adder = replay.SequenceAdder(server.client, 4, 3, _TABLE)
  adder.flush()
  adder.add_first(dm_env.restart(np.float32(0)))
  adder.flush()
  adder.add(np.float32(0), _step(0, 1), {"log_prob": np.float32(0)})
  adder.flush()
  assert server.sizes()[_TABLE] == 0


def test_an_episode_left_half_way_counts_as_truncated(serve):
  server = serve(3)
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  adder.add_first(dm_env.restart(np.float32(0)))
  for i in range(2):
    adder.add(np.float32(i), _step(i, i + 1), {"log_prob": np.float32(-1)})
  _feed(adder, [2], begun=3)
  adder.flush()
  items = _items(server)
  assert [i["observation"].tolist() for i in items] == [[0, 1, 2], [2, 3, 4], [3, 4, 5]]
  assert items[0]["discount"].tolist() == [1, 1, 0]
  assert items[1]["start_of_episode"].tolist() == [False, True, False]


def test_a_first_episode_begun_twice_is_refused(serve):
  adder = replay.SequenceAdder(serve(3).client, 3, 2, _TABLE)
  adder.add_first(dm_env.restart(np.float32(0)))
  with pytest.raises(ValueError, match="begun twice"):
    adder.add_first(dm_env.restart(np.float32(0)))


# The schedule.


def test_updates_due_by_hand():
  schedule = replay.UpdateSchedule(samples_per_insert=1.5, batch_size=4, min_size=10)
  assert [schedule.updates_due(s) for s in (0, 9, 10, 12, 13, 15, 16, 18)] == [
    0,
    0,
    1,
    1,
    2,
    2,
    3,
    4,
  ]
  every_step = replay.UpdateSchedule(samples_per_insert=None, batch_size=7, min_size=3)
  assert [every_step.updates_due(s) for s in (2, 3, 4, 5)] == [0, 1, 2, 3]
  # 32 sequences a step and batches of 32: an update each step; of 256: one each eight steps.
  assert replay.UpdateSchedule(32.0, 256, 1000).updates_due(1016) == 3


@given(
  ratio=st.sampled_from([0.1, 0.5, 1.0, 1.5, 32.0, 256.0]),
  batch_size=st.integers(1, 256),
  min_size=st.integers(1, 150),
)
@settings(max_examples=200, deadline=None)
def test_the_ratio_holds_within_one_batch_at_every_step(ratio, batch_size, min_size):
  schedule = replay.UpdateSchedule(ratio, batch_size, min_size)
  exact = fractions.Fraction(str(ratio))
  before = 0
  for steps in range(1, 201):
    due = schedule.updates_due(steps)
    assert due >= before
    before = due
    if steps < min_size:
      assert due == 0
    else:
      surplus = due * batch_size - exact * (steps - min_size)
      assert 0 < surplus <= batch_size


@pytest.mark.parametrize(
  "ratio,min_size,batch_size,period",
  [
    (0.5, 8, 16, 3),
    (1, 1, 1, 10),
    (1.5, 20, 7, 2),
    (32, 5, 64, 4),
    (256, 1, 3, 1),
    (None, 6, 2, 3),
  ],
)
def test_the_limiter_of_two_processes_never_deadlocks_and_keeps_the_ratio(
  serve, ratio, min_size, batch_size, period
):
  limiter = replay.rate_limiter(ratio, min_size, batch_size, period)
  server = serve(period + 1, limiter=limiter)
  stopping = threading.Event()
  steps = [0]

  def write():
    adder = replay.SequenceAdder(server.client, period + 1, period, _TABLE)
    while not stopping.is_set() and steps[0] < 400:
      _feed(adder, [5])
      steps[0] += 6

  writer = threading.Thread(target=write, daemon=True)
  writer.start()
  dataset = replay.make_dataset(server.client.server_address, _TABLE, batch_size, 0, 20_000)
  batches = 0
  limit = 300 if ratio is None else max(3, int(60 * ratio / batch_size))
  for _ in dataset.take(limit):
    batches += 1
    if ratio is None and batches >= 20:
      break
  info = server.tables[0].info.rate_limiter_info
  stopping.set()
  if ratio is not None:
    assert batches == limit  # Neither side waited for ever.
    per_item = ratio * period
    drift = (info.insert_stats.completed - max(1, -(-min_size // period))) * per_item
    drift -= info.sample_stats.completed
    assert abs(drift) <= 2 * max(batch_size, per_item, 1) + per_item + 1
  # What the writer still waits for is let through before the server goes.
  for _ in dataset.take(max(1, int(40 * (ratio or 1) / batch_size))):
    if not writer.is_alive():
      break
  writer.join(timeout=30)


# Tables, memory, datasets.


def test_the_memory_estimate_by_hand(serve):
  table = serve(4, max_size=10).tables[0]
  # observation, action, reward, discount, log_prob: 5 float32; start_of_episode: 1 byte.
  assert replay.estimate_bytes(table.info.signature, 10) == 10 * 4 * (5 * 4 + 1)


def test_the_estimate_is_logged_and_too_much_is_a_warning(caplog):
  signature = {"x": tf.TensorSpec([1000], tf.float32)}
  with caplog.at_level(std_logging.INFO, logger="absl"):
    assert replay.report_memory("small", signature, 268_435) == 268_435 * 4000
  assert "'small': up to 268,435 items, 1.00 GiB" in caplog.text
  assert not [r for r in caplog.records if r.levelno >= std_logging.WARNING]
  caplog.clear()
  replay.report_memory("huge", signature, 10**12)
  (record,) = caplog.records
  assert record.levelno == std_logging.WARNING and "Lower max_replay_size" in record.message


def test_a_dataset_has_full_batches_of_the_table_signature(serve):
  server = serve(3)
  _feed(replay.SequenceAdder(server.client, 3, 2, _TABLE), [9])
  dataset = replay.make_dataset(server.client.server_address, _TABLE, 5, 1, 5000)
  assert dataset.element_spec.data.observation.shape == (5, 3)
  batch = next(iter(dataset))
  assert batch.data.extras["log_prob"].shape == (5, 3)
  assert (batch.data.extras["log_prob"].numpy() == -batch.data.observation.numpy()).all()


def test_a_dataset_of_an_empty_table_ends_after_its_timeout(serve):
  dataset = replay.make_dataset(serve(3).client.server_address, _TABLE, 1, 0, timeout_ms=300)
  with pytest.raises(StopIteration):
    next(iter(dataset))


# Saving.


def test_a_saved_replay_is_full_again(serve, tmp_path):
  server = serve(3)
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  _feed(adder, [4, 7])
  adder.flush()
  saved = str(tmp_path / "replay")
  server.save(saved)
  assert os.listdir(tmp_path) == ["replay"]
  restored = serve(3, restore_from=saved)
  _assert_same_items(_items(restored), _items(server))
  # The saved one stays: it can be restored again.
  assert len(_items(serve(3, restore_from=saved))) == 6


def test_restoring_from_nowhere_is_refused(tmp_path):
  with pytest.raises(checkpointing.CheckpointError, match="no whole replay in .*absent"):
    _server(3, restore_from=str(tmp_path / "absent"))


@pytest.mark.parametrize("name", ["tables.tfrecord", "chunks.tfrecord", "items.tfrecord", "DONE"])
def test_a_saved_replay_with_a_file_missing_or_cut_short_is_refused(serve, tmp_path, name):
  server = serve(3)
  _feed(replay.SequenceAdder(server.client, 3, 2, _TABLE), [12])
  saved = str(tmp_path / "replay")
  server.save(saved)
  size = os.path.getsize(os.path.join(saved, name))
  if size:
    os.truncate(os.path.join(saved, name), size // 2)
    with pytest.raises(checkpointing.CheckpointError, match=f"is damaged: {name} has"):
      _server(3, restore_from=saved)
  os.remove(os.path.join(saved, name))
  with pytest.raises(checkpointing.CheckpointError, match=f"is damaged: {name} is missing"):
    _server(3, restore_from=saved)


def test_a_saved_replay_with_spoilt_contents_is_refused(serve, tmp_path):
  server = serve(3)
  _feed(replay.SequenceAdder(server.client, 3, 2, _TABLE), [12])
  saved = str(tmp_path / "replay")
  server.save(saved)
  manifest = os.path.join(saved, "manifest.json")
  with open(manifest, encoding="utf-8") as file:
    document = json.load(file)
  document["items"][_TABLE] += 1
  with open(manifest, "w", encoding="utf-8") as file:
    json.dump(document, file)
  scratch = tmp_path / "scratch"
  table = replay.sequence_table(_TABLE, _SPEC, _EXTRAS, 3, 9, reverb.rate_limiters.MinSize(1))
  with pytest.raises(checkpointing.CheckpointError, match="items by table; .* were read"):
    replay_server.start_server([table], saved, scratch=str(scratch))
  assert not scratch.exists()


def test_stopping_leaves_no_scratch_folder():
  server = _server(3)
  assert os.path.isdir(server.scratch)
  server.stop()
  assert not os.path.exists(server.scratch)


# A server that is gone.


def test_an_adder_ends_with_an_error_when_its_server_is_gone(serve, monkeypatch):
  monkeypatch.setattr(replay, "_CONFIRM_TIMEOUT_MS", 200)
  monkeypatch.setattr(replay_watch.check_server, "__defaults__", (1,))
  server = serve(3)
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  _feed(adder, [6])
  server.server.stop()
  with pytest.raises(replay_watch.ReplayLostError, match="has not answered"):
    _feed(adder, [50])
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=100)


def test_an_adder_waits_for_a_limiter_as_long_as_the_server_lives(serve, monkeypatch):
  monkeypatch.setattr(replay, "_CONFIRM_TIMEOUT_MS", 50)
  server = serve(3, limiter=reverb.rate_limiters.Queue(1))
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  thread = threading.Thread(target=_feed, args=(adder, [20]), daemon=True)
  thread.start()
  time.sleep(0.5)  # Several timeouts long.
  assert thread.is_alive()
  dataset = replay.make_dataset(server.client.server_address, _TABLE, 1, 0, timeout_ms=20_000)
  assert sum(1 for _ in dataset.take(10)) == 10  # 21 rows.
  thread.join(timeout=20)
  assert not thread.is_alive()


def test_flush_is_bounded_while_a_limiter_blocks(serve):
  server = serve(3, limiter=reverb.rate_limiters.Queue(1))
  adder = replay.SequenceAdder(server.client, 3, 2, _TABLE)
  _feed(adder, [4])
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=200)
  assert server.sizes() == {_TABLE: 1}
  # Nothing is lost: a sample makes room, and what was left arrives.
  dataset = replay.make_dataset(server.client.server_address, _TABLE, 1, 0, timeout_ms=20_000)
  next(iter(dataset))
  adder.flush(timeout_ms=20_000)
  assert server.sizes() == {_TABLE: 2}


def test_a_client_is_adapted_once(serve):
  client = serve(3).client
  assert replay.adapt_client(client) is client
  plain = reverb.Client(client.server_address)
  assert replay.adapt_client(plain).server_address == client.server_address
  writer = replay.adapt_client(plain).trajectory_writer(2, get_signature_timeout_ms=5)
  assert isinstance(writer, reverb.TrajectoryWriter)


def test_another_dtype_than_the_tables_is_refused(serve):
  adder = replay.SequenceAdder(serve(3).client, 3, 2, _TABLE)
  adder.add_first(dm_env.restart(np.float64(0)))
  with pytest.raises(ValueError, match="column 0 to be a float .* got a double"):
    for i in range(4):
      step = _step(0, 0)._replace(observation=np.float64(i))
      adder.add(np.float32(0), step, {"log_prob": np.float32(0)})
