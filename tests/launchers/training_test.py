"""Tests of `temper.launchers.training`: when the loop does what."""

import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.launchers import early_stop
from temper.launchers import training


class _Episodes(dm_env.Environment):
  """Episodes of `length` steps with reward 1 each; with `rewards`, each episode has its own."""

  def __init__(self, length, rewards=()):
    self._length = length
    self._step = 0
    self._rewards = iter(rewards)
    self._reward = 1.0

  def reset(self):
    self._step = 0
    self._reward = next(self._rewards, 1.0)
    return dm_env.restart(np.zeros(1, np.float32))

  def step(self, action):
    self._step += 1
    make = dm_env.truncation if self._step == self._length else dm_env.transition
    return make(reward=np.float32(self._reward), observation=np.zeros(1, np.float32))

  def observation_spec(self):
    return specs.Array((1,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1, 1)

  def reward_spec(self):
    return specs.Array((), np.float32)


class _Agent:
  """Counts what it is asked to do; learns from step 5 on."""

  def __init__(self):
    self.calls = []
    self.learner = self
    self.num_steps = 0

  def select_action(self, observation):
    return np.zeros(1, np.float32)

  def observe_first(self, timestep):
    self.calls.append("first")

  def observe(self, action, next_timestep):
    self.calls.append("observe")

  def update(self, wait=False):
    self.calls.append("update")
    self.num_steps += self.calls.count("update") >= 5

  def metrics(self):
    return {"critic_loss": 1.0} if self.num_steps else {}


class _Log:
  def __init__(self):
    self.rows = []

  def write(self, name, step, row):
    self.rows.append((name, step, row))

  def steps(self, name):
    return [step for written, step, _ in self.rows if written == name]


class _Progress:
  def advance(self, step):
    self.step = step

  def summarise(self, **shown):
    self.shown = shown


class _Stop(Exception):
  pass


def _train(
  length,
  total,
  *,
  state=None,
  stop_at=None,
  early_stop=None,
  rewards=(),
  progress=None,
  **periods,
):
  """Runs a Trainer and returns what it did."""
  state = state or training.RunState()
  agent, log, events = _Agent(), _Log(), []

  def check_stop():
    if stop_at is not None and state.steps >= stop_at:
      raise _Stop()

  schedule = {"log_every": 0, "evaluate_every": 0, "checkpoint_every": 0, **periods}
  trainer = training.Trainer(
    agent,
    _Episodes(length, rewards),
    state=state,
    schedule=training.Schedule(total=total, **schedule),
    log=log,
    progress=progress or _Progress(),
    check_stop=check_stop,
    evaluate=lambda: events.append(("evaluate", state.steps)),
    save=lambda: events.append(("save", state.steps)),
    early_stop=early_stop,
  )
  try:
    trainer.run()
  except _Stop:
    events.append(("stop", state.steps))
  return agent, state, log, events


@pytest.mark.parametrize("length, total", [(5, 20), (7, 20), (50, 20), (1, 3), (20, 20)])
def test_it_takes_exactly_the_steps_asked_for(length, total):
  agent, state, log, _ = _train(length, total)
  assert state.steps == total
  assert agent.calls.count("observe") == agent.calls.count("update") == total
  # Every step that ends an episode on time is reported, an episode cut by the end is not.
  assert log.steps("train") == list(range(length, total + 1, length))
  assert state.episodes == total // length
  assert all(row["episode_return"] == length for name, _, row in log.rows if name == "train")


@pytest.mark.parametrize("length", [4, 7, 100])
def test_periods_are_met_to_the_step(length):
  _, _, log, events = _train(length, 20, log_every=4, evaluate_every=6, checkpoint_every=10)
  assert [step for event, step in events if event == "evaluate"] == [0, 6, 12, 18]
  # The end of a run is saved by whoever runs it.
  assert [step for event, step in events if event == "save"] == [10]
  assert log.steps("speed") == [4, 8, 12, 16, 20]
  # There is nothing to log of a learner that has not begun.
  assert log.steps("learner") == [8, 12, 16, 20]


def test_what_is_due_at_an_episodes_end_comes_after_its_report():
  _, _, log, events = _train(10, 20, log_every=10, checkpoint_every=10)
  assert [(name, step) for name, step, _ in log.rows] == [
    ("train", 10),
    ("speed", 10),
    ("learner", 10),
    ("train", 20),
    ("speed", 20),
    ("learner", 20),
  ]
  assert events == [("save", 10)]


@pytest.mark.parametrize("stop_at", [1, 9, 10, 13])
def test_a_stop_comes_at_a_step_boundary(stop_at):
  agent, state, _, events = _train(10, 100, stop_at=stop_at)
  assert events == [("stop", stop_at)] and state.steps == stop_at
  assert agent.calls[-1] == "update" and agent.calls.count("observe") == stop_at
  assert state.episodes == stop_at // 10


def test_resuming_goes_on_from_the_counts_and_evaluates_nothing_twice():
  state = training.RunState(steps=30, episodes=3, wall_seconds=50.0, evaluated_at=30)
  agent, state, log, events = _train(
    10, 50, state=state, evaluate_every=10, checkpoint_every=0, log_every=0
  )
  assert agent.calls.count("update") == 20
  assert [step for event, step in events if event == "evaluate"] == [40]
  assert [row["episode"] for name, _, row in log.rows if name == "train"] == [4, 5]
  assert state.wall_seconds > 50.0


def test_what_was_logged_and_saved_before_a_resume_is_not_again():
  state = training.RunState(steps=30, episodes=3, evaluated_at=30)
  _, _, log, events = _train(10, 60, state=state, log_every=10, checkpoint_every=10)
  assert [step for name, step, _ in log.rows if name == "speed"] == [40, 50, 60]
  assert [step for event, step in events if event == "save"] == [40, 50]


def test_a_checkpoint_is_due_by_steps_or_by_minutes(monkeypatch):
  now = 0.0
  monkeypatch.setattr(training.time, "monotonic", lambda: now)
  schedule = training.Schedule(
    total=100, log_every=0, evaluate_every=0, checkpoint_every=10, checkpoint_minutes=2.0
  )
  clock = training.CheckpointClock(schedule, steps=0)
  assert not clock.due(0) and not clock.due(9) and clock.due(10)
  now = 119.0
  assert not clock.due(11)
  now = 120.0
  assert clock.due(12) and not clock.due(13)
  # One by steps puts off the one by minutes.
  now = 239.0
  assert clock.due(20)
  now = 241.0
  assert not clock.due(21)


def test_the_episodes_that_were_begun_are_counted():
  _, state, _, _ = _train(10, 25)
  assert state.begun_episodes == 3 and state.episodes == 2
  assert training.RunState(steps=50, episodes=5).begun_episodes == 5


def test_an_evaluation_that_was_broken_off_is_made_up_for():
  state = training.RunState(steps=30, evaluated_at=20)
  _, _, _, events = _train(10, 40, state=state, evaluate_every=10)
  assert events == [("evaluate", 30)]


def test_a_run_that_has_its_steps_does_nothing():
  agent, _, _, events = _train(
    10, 30, state=training.RunState(steps=30), evaluate_every=10, checkpoint_every=10
  )
  assert not agent.calls and not events


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"total": 0}, "steps is 0"),
    ({"evaluate_every": -1}, "evaluate_every is -1"),
    ({"checkpoint_every": -5}, "checkpoint_every is -5"),
    ({"checkpoint_minutes": -1.0}, "checkpoint_minutes is -1"),
  ],
)
def test_schedules_that_make_no_sense_are_refused(changes, message):
  settings = {"total": 1, "log_every": 0, "evaluate_every": 0, "checkpoint_every": 0}
  with pytest.raises(ValueError, match=message):
    training.Schedule(**{**settings, **changes})


def test_an_early_stop_ends_training_with_the_episode_that_meets_it():
  stop = early_stop.EarlyStop(10.0, patience=2)
  # Five steps an episode: returns 5, 15, 5, 10, 10.
  agent, state, log, events = _train(
    5, 100, early_stop=stop, rewards=[1, 3, 1, 2, 2, 9], evaluate_every=5, checkpoint_every=5
  )
  assert state.steps == agent.calls.count("update") == 25
  assert [row["episode_return"] for name, _, row in log.rows if name == "train"] == [
    5.0,
    15.0,
    5.0,
    10.0,
    10.0,
  ]
  # The end is evaluated and saved by whoever runs it.
  assert [step for event, step in events if event == "evaluate"] == [0, 5, 10, 15, 20]
  assert [step for event, step in events if event == "save"] == [5, 10, 15, 20]
  assert training.finished(state, 100, stop) and not training.finished(state, 100, None)


def test_the_last_returns_carry_over_a_resume():
  stop = early_stop.EarlyStop(5.0, patience=3)
  state = training.RunState(steps=20, episodes=4, last_returns=[1.0, 5.0, 6.0])
  agent, state, _, _ = _train(5, 100, state=state, early_stop=stop)
  assert state.steps == 25 and state.last_returns == [1.0, 5.0, 6.0, 5.0]
  assert agent.calls.count("update") == 5
  # It is met, so that there is nothing left to do; a harder one goes on.
  agent, state, _, _ = _train(5, 100, state=state, early_stop=stop)
  assert not agent.calls
  _, state, _, _ = _train(5, 40, state=state, early_stop=early_stop.EarlyStop(6.0, 3))
  assert state.steps == 40


def test_returns_are_remembered_for_an_early_stop_that_is_asked_for_later():
  _, state, _, _ = _train(1, 150)
  assert state.last_returns == [1.0] * early_stop.REMEMBERED_RETURNS
  _, state, _, _ = _train(1, 150, early_stop=early_stop.EarlyStop(2.0, patience=120))
  assert len(state.last_returns) == 120


def test_progress_tells_of_an_early_stop_only_if_there_is_one():
  progress = _Progress()
  _train(5, 20, progress=progress, log_every=5)
  assert progress.shown["goal"] is None and progress.shown["episode_return"] == 5.0
  _train(5, 20, progress=progress, log_every=5, early_stop=early_stop.EarlyStop(7.0))
  assert progress.shown["goal"] == "worst of 4 5, stops at 7"
