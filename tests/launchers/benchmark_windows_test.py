"""Tests of `temper.launchers.benchmark_windows`: that it measures what a step waits for."""

import dataclasses
import time

import pytest

from temper.launchers import benchmark_windows

_SMALL = benchmark_windows.WindowsSize(
  batch_size=3,
  sequence_length=4,
  observation_size=2,
  action_size=1,
  num_episodes=4,
  episode_steps=9,
)


def test_a_slow_step_is_not_taken_for_waiting():
  taken = []

  def make_step(size, iterator):
    del size

    def step():
      taken.append(next(iterator).data.observation.shape)
      time.sleep(0.05)

    return step

  waiting = benchmark_windows.measure(_SMALL, make_step, steps=4)
  assert taken == [(3, 4, 2)] * 6
  assert waiting.step_ms >= 50
  assert waiting.step_ms - waiting.wait_ms >= 50
  assert 0 < waiting.share < 1
  assert waiting.batches_per_second > 0


def test_a_step_that_only_waits_does_nothing_else():
  def make_step(size, iterator):
    del size
    return lambda: [next(iterator) for _ in range(50)]

  assert benchmark_windows.measure(_SMALL, make_step, steps=4).share > 0.5


def test_the_learner_learns_from_windows(monkeypatch):
  short = dataclasses.replace(_SMALL, sequence_length=2)
  monkeypatch.setitem(benchmark_windows.SIZES, "windows_long", short)
  text = benchmark_windows.row("windows_long", steps=2)
  assert "batch 3, length 2, in memory" in text
  with pytest.raises(KeyError):
    benchmark_windows.row("no such case")
