"""Tests of `temper.utils.replay_sequence_adder`: what is written, and that nothing is lost."""

import threading
import time

from acme.adders import reverb as reverb_adders
import dm_env
import numpy as np
import pytest
import reverb

from temper.utils import replay_client
from temper.utils import replay_sequence_adder
from temper.utils import replay_watch


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
def test_items_equal_those_of_acmes_adder(sequences, length, period, episodes):
  ours, theirs = sequences.serve(length), sequences.serve(length)
  adder = sequences.make_adder(ours, length, period)
  original = reverb_adders.SequenceAdder(
    theirs.client,
    length,
    period,
    priority_fns={sequences.table: None},
    end_of_episode_behavior=reverb_adders.EndBehavior.CONTINUE,
  )
  for each in (adder, original):
    sequences.feed(each, episodes)
    each._writer.flush()
  items = sequences.items(ours)
  sequences.assert_same_items(items, sequences.items(theirs))
  # And once without the original: the first item begins with the first step, one item a period.
  rows = sum(episodes) + len(episodes)
  assert len(items) == (rows - length) // period + 1
  assert items[0]["observation"].tolist() == list(range(length))


@pytest.mark.parametrize("episodes", [[5, 5, 2], [4], [3, 3, 3], [1, 1, 1, 7], [11]])
@pytest.mark.parametrize("length", [2, 4])
def test_flush_writes_every_step_once_it_can_and_nothing_twice(sequences, length, episodes):
  server = sequences.serve(length)
  adder = sequences.make_adder(server, length, length - 1)
  rows = sequences.feed(adder, episodes)
  adder.flush()
  items = sequences.items(server)
  assert {float(o) for item in items for o in item["observation"]} == set(range(rows))
  for item in items:
    first = int(item["observation"][0])
    assert item["observation"].tolist() == list(range(first, first + length))
  count = server.sizes()[sequences.table]
  adder.flush()
  assert server.sizes()[sequences.table] == count


def test_flushed_rows_hold_what_belongs_together(sequences):
  server = sequences.serve(4)
  adder = sequences.make_adder(server, 4, 3)
  sequences.feed(adder, [2, 3])  # Rows 0 1 [2] 3 4 5 [6]: 2 and 6 close their episodes.
  adder.flush()
  last = sequences.items(server)[-1]
  assert last["observation"].tolist() == [3, 4, 5, 6]
  assert last["start_of_episode"].tolist() == [True, False, False, False]
  assert last["action"].tolist() == [30, 40, 50, 0]
  assert last["reward"].tolist() == [300, 400, 500, 0]
  # A truncation keeps discount 1; the closing row has Acme's zeros.
  assert last["discount"].tolist() == [1, 1, 1, 0]
  assert last["log_prob"].tolist() == [-3, -4, -5, 0]
  first = sequences.items(server)[0]
  assert first["start_of_episode"].tolist() == [True, False, False, True]
  assert first["log_prob"].tolist() == [0, -1, 0, -3]


def test_flush_in_the_middle_of_an_episode_and_right_after_its_start(sequences):
  server = sequences.serve(3)
  adder = sequences.make_adder(server, 3, 2)
  begun = sequences.feed(adder, [3])  # Rows 0 1 2 [3]; the regular item is 0 1 2.
  adder.add_first(dm_env.restart(np.float32(begun)))
  adder.flush()
  assert [i["observation"].tolist() for i in sequences.items(server)] == [[0, 1, 2], [1, 2, 3]]
  log_prob = {"log_prob": np.float32(0)}
  adder.add(np.float32(40), sequences.step(1, 5), log_prob)
  adder.flush()  # Row 4 is complete; that of 5 has no action yet. Item 2 3 4 is due too.
  items = [i["observation"].tolist() for i in sequences.items(server)]
  assert items == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
  adder.add(np.float32(50), sequences.step(1, 6, last=True), log_prob)
  adder.flush()
  assert sequences.items(server)[-1]["observation"].tolist() == [4, 5, 6]


def test_flush_with_too_little_or_nothing_writes_nothing(sequences):
  server = sequences.serve(4)
  adder = sequences.make_adder(server, 4, 3)
  adder.flush()
  adder.add_first(dm_env.restart(np.float32(0)))
  adder.flush()
  adder.add(np.float32(0), sequences.step(0, 1), {"log_prob": np.float32(0)})
  adder.flush()
  assert server.sizes()[sequences.table] == 0


def test_an_episode_left_half_way_counts_as_truncated(sequences):
  server = sequences.serve(3)
  adder = sequences.make_adder(server, 3, 2)
  adder.add_first(dm_env.restart(np.float32(0)))
  for i in range(2):
    adder.add(np.float32(i), sequences.step(i, i + 1), {"log_prob": np.float32(-1)})
  sequences.feed(adder, [2], begun=3)
  adder.flush()
  items = sequences.items(server)
  assert [i["observation"].tolist() for i in items] == [[0, 1, 2], [2, 3, 4], [3, 4, 5]]
  assert items[0]["discount"].tolist() == [1, 1, 0]
  assert items[1]["start_of_episode"].tolist() == [False, True, False]


def test_a_first_episode_begun_twice_is_refused(sequences):
  adder = sequences.make_adder(sequences.serve(3), 3, 2)
  adder.add_first(dm_env.restart(np.float32(0)))
  with pytest.raises(ValueError, match="begun twice"):
    adder.add_first(dm_env.restart(np.float32(0)))


def test_an_adder_ends_with_an_error_when_its_server_is_gone(sequences, monkeypatch):
  monkeypatch.setattr(replay_client, "_CONFIRM_TIMEOUT_MS", 200)
  monkeypatch.setattr(replay_watch.check_server, "__defaults__", (1,))
  server = sequences.serve(3)
  adder = sequences.make_adder(server, 3, 2)
  sequences.feed(adder, [6])
  server.server.stop()
  with pytest.raises(replay_watch.ReplayLostError, match="has not answered"):
    sequences.feed(adder, [50])
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=100)


def test_an_adder_waits_for_a_limiter_as_long_as_the_server_lives(sequences, monkeypatch):
  monkeypatch.setattr(replay_client, "_CONFIRM_TIMEOUT_MS", 50)
  server = sequences.serve(3, limiter=reverb.rate_limiters.Queue(1))
  adder = sequences.make_adder(server, 3, 2)
  thread = threading.Thread(target=sequences.feed, args=(adder, [20]), daemon=True)
  thread.start()
  time.sleep(0.5)  # Several timeouts long.
  assert thread.is_alive()
  dataset = sequences.make_dataset(server, 1, 0, timeout_ms=20_000)
  assert sum(1 for _ in dataset.take(10)) == 10  # 21 rows.
  thread.join(timeout=20)
  assert not thread.is_alive()


def test_flush_is_bounded_while_a_limiter_blocks(sequences):
  server = sequences.serve(3, limiter=reverb.rate_limiters.Queue(1))
  adder = sequences.make_adder(server, 3, 2)
  sequences.feed(adder, [4])
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=200)
  assert server.sizes() == {sequences.table: 1}
  # Nothing is lost: a sample makes room, and what was left arrives.
  dataset = sequences.make_dataset(server, 1, 0, timeout_ms=20_000)
  next(iter(dataset))
  adder.flush(timeout_ms=20_000)
  assert server.sizes() == {sequences.table: 2}


def test_another_dtype_than_the_tables_is_refused(sequences):
  adder = sequences.make_adder(sequences.serve(3), 3, 2)
  adder.add_first(dm_env.restart(np.float64(0)))
  with pytest.raises(ValueError, match="column 0 to be a float .* got a double"):
    for i in range(4):
      step = sequences.step(0, 0)._replace(observation=np.float64(i))
      adder.add(np.float32(0), step, {"log_prob": np.float32(0)})


def test_new_items_get_the_priority_that_is_asked_for(sequences):
  server = sequences.serve(3, priority_exponent=1.0)
  priorities = iter([1.0, 4.0, 5.0])
  adder = replay_sequence_adder.SequenceAdder(
    server.client, 3, 2, sequences.table, lambda: next(priorities)
  )
  sequences.feed(adder, [5])  # Rows 0 to 5: items from 0, from 2, and at the end from 3.
  adder.flush()
  (sample,) = sequences.make_dataset(server, 300).take(1)
  found = dict(zip(sample.data.observation[:, 0].numpy(), sample.info.priority.numpy()))
  assert found == {0: 1, 2: 4, 3: 5}
