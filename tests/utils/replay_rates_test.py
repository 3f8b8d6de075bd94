"""Tests of `temper.utils.replay_rates`: learning keeps pace with acting, and neither waits."""

import fractions
import threading

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import pytest

from temper.utils import replay_rates


def test_updates_due_by_hand():
  schedule = replay_rates.UpdateSchedule(samples_per_insert=1.5, batch_size=4, min_size=10)
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
  every_step = replay_rates.UpdateSchedule(samples_per_insert=None, batch_size=7, min_size=3)
  assert [every_step.updates_due(s) for s in (2, 3, 4, 5)] == [0, 1, 2, 3]
  # 32 sequences a step and batches of 32: an update each step; of 256: one each eight steps.
  assert replay_rates.UpdateSchedule(32.0, 256, 1000).updates_due(1016) == 3


@given(
  ratio=st.sampled_from([0.1, 0.5, 1.0, 1.5, 32.0, 256.0]),
  batch_size=st.integers(1, 256),
  min_size=st.integers(1, 150),
)
@settings(max_examples=200, deadline=None)
def test_the_ratio_holds_within_one_batch_at_every_step(ratio, batch_size, min_size):
  schedule = replay_rates.UpdateSchedule(ratio, batch_size, min_size)
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
  sequences, ratio, min_size, batch_size, period
):
  limiter = replay_rates.rate_limiter(ratio, min_size, batch_size, period)
  server = sequences.serve(period + 1, limiter=limiter)
  stopping = threading.Event()
  steps = [0]

  def write():
    adder = sequences.make_adder(server, period + 1, period)
    while not stopping.is_set() and steps[0] < 400:
      sequences.feed(adder, [5])
      steps[0] += 6

  writer = threading.Thread(target=write, daemon=True)
  writer.start()
  dataset = sequences.make_dataset(server, batch_size, 0, 20_000)
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
