"""Tests of `temper.launchers.environment_count`, with a clock that only the parts move."""

import contextlib

import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.launchers import environment_count
from temper.launchers import stopping


class _Clock:
  """Stands for the module `time`."""

  def __init__(self):
    self.now = 0.0

  def monotonic(self):
    return self.now


class _Environment(dm_env.Environment):
  """Episodes of ten steps."""

  def __init__(self, clock, seconds):
    self._clock, self._seconds = clock, seconds
    self.closed = False

  def reset(self):
    self._step = 0
    return dm_env.restart(np.zeros(2, np.float32))

  def step(self, action):
    self._clock.now += self._seconds
    self._step += 1
    make = dm_env.transition if self._step < 10 else dm_env.truncation
    return make(1.0, np.zeros(2, np.float32))

  def observation_spec(self):
    return specs.Array((2,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1, 1)

  def close(self):
    self.closed = True


class _Actor:
  """Takes a while, and three seconds more for its first call."""

  def __init__(self, clock, rows, seconds):
    self._clock, self._rows, self._seconds = clock, rows, seconds
    self.calls = self.restarts = 0

  def restart(self):
    self.restarts += 1

  def begin(self, row):
    assert row < self._rows

  def select_actions(self, observations):
    assert observations.shape == (self._rows, 2)
    self._clock.now += self._seconds + (0 if self.calls else 3.0)
    self.calls += 1
    return np.zeros((self._rows, 1), np.float32)


def _choose(monkeypatch, episodes, *, step, policy, batched, making=0.0, check_stop=lambda: None):
  clock = _Clock()
  monkeypatch.setattr(environment_count, "time", clock)
  made = []

  def make_environment():
    clock.now += making
    made.append(_Environment(clock, step))
    return made[-1]

  def make_actor(rows):
    return _Actor(clock, rows, policy if rows == 1 else batched)

  with contextlib.ExitStack() as cleanup:
    chosen = environment_count.choose(
      _Environment(clock, step),
      make_environment,
      make_actor,
      range(episodes),
      check_stop=check_stop,
      cleanup=cleanup,
    )
    assert not any(environment.closed for environment in made)
  assert all(environment.closed for environment in made)
  assert len(chosen.environments) == 1 or len(made) == len(chosen.environments) - 1
  return chosen


def test_a_slow_policy_is_called_for_many(monkeypatch):
  chosen = _choose(monkeypatch, 20, step=0.001, policy=0.1, batched=0.2)
  assert len(chosen.environments) == 20
  assert chosen.reason == (
    "A step of the environment takes 1 ms and the policy 1e+02 ms, 2e+02 ms for 20 at once: one "
    "by one would take about 20 s, 20 at once 2 s."
  )
  # What the measuring drew is drawn again.
  assert chosen.actor.restarts == 1


def test_little_work_is_done_by_one(monkeypatch):
  chosen = _choose(monkeypatch, 20, step=0.5, policy=0.001, batched=0.001)
  assert len(chosen.environments) == 1 and "too little to gain" in chosen.reason
  assert chosen.actor.restarts == 1


def test_a_batch_that_is_as_slow_as_its_rows_is_not_taken(monkeypatch):
  chosen = _choose(monkeypatch, 20, step=0.001, policy=0.1, batched=2.5)
  assert len(chosen.environments) == 1 and "20 at once 25 s" in chosen.reason


def test_environments_that_are_slow_to_make_are_not_made(monkeypatch):
  chosen = _choose(monkeypatch, 20, step=0.001, policy=0.1, batched=0.1, making=30.0)
  assert len(chosen.environments) == 1


@pytest.mark.parametrize("episodes, count", [(1, 1), (20, 20), (32, 32), (33, 17), (100, 25)])
def test_as_few_environments_as_possible_idle(episodes, count):
  assert environment_count.balanced(episodes) == count


def test_the_user_can_stop_it(monkeypatch):
  def stop():
    raise stopping.StopRequested(2)

  with pytest.raises(stopping.StopRequested):
    _choose(monkeypatch, 20, step=0.1, policy=0.1, batched=0.1, check_stop=stop)
