"""Tests of runs whose nodes are processes: kills, errors, resume, and that nothing is left."""

import os
import signal
import sys
import threading

import cloudpickle
import distributed_cases
import pytest

from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import OnDeath
from temper.launchers.distributed.run import run_distributed
from temper.launchers.outcomes import SettingsError
from temper.launchers.outcomes import TrainingFailed
from temper.launchers.run_directory import RunDirectory
from temper.utils import fakes

# The nodes cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _kill_while(watch, run, kills):
  """Runs, and meanwhile kills nodes at steps; returns what came out: a result or an error."""
  failures = []

  def kill_all():
    try:
      for step, name in kills:
        nodes = watch.wait_for_steps(step, saved=name == "replay")
        os.kill(os.getpid() if name == "launcher" else nodes[name].pid, signal.SIGKILL)
    except BaseException as error:  # Told in the test's own thread.
      failures.append(error)

  thread = threading.Thread(target=kill_all)
  thread.start()
  try:
    outcome = run()
  except TrainingFailed as error:
    outcome = error
  thread.join(60)
  assert not failures, failures
  return outcome


class _SlowPointMass(fakes.PointMass):
  """Slow enough for kills in the middle of a short run."""

  def step(self, action):
    import time

    time.sleep(0.003)
    return super().step(action)


def test_killed_actors_and_learners_come_back_and_the_run_ends_well(tmp_path):
  directory = tmp_path / "run"
  watch = distributed_cases.Watch(directory)
  config = distributed_cases.make_config(directory, steps=1_600, environment=_SlowPointMass)
  launch = LaunchConfig(num_actors=2)
  result = _kill_while(
    watch,
    lambda: run_distributed(config, launch),
    [(450, "actor_1"), (700, "learner"), (900, "evaluator_0")],
  )
  assert result.steps == 1_600
  assert not watch.left(), "processes are left"
  assert not {".program", ".replay_scratch"} & set(os.listdir(directory))
  distributed_cases.check_logs(directory, 1_600)
  *_, last = distributed_cases.rows(directory, "program")
  assert last["restarts"] == "3"
  names = {"replay", "monitor", "learner", "actor_0", "actor_1", "evaluator_0"}
  logs = set(os.listdir(os.path.join(RunDirectory(str(directory)).logs, "nodes")))
  assert {f"{name}.log" for name in names} <= logs


def test_a_killed_replay_ends_the_run_which_resumes(tmp_path):
  directory = tmp_path / "run"
  watch = distributed_cases.Watch(directory)
  config = distributed_cases.make_config(
    directory, steps=2_000, environment=_SlowPointMass, eval_every=0
  )
  launch = LaunchConfig(
    num_evaluators=0,
    num_actors=2,
    actor_failure=OnDeath.CONTINUE,
    learner_failure=OnDeath.END,
  )
  run = lambda: run_distributed(config, launch)
  failed = _kill_while(watch, run, [(450, "replay")])
  assert isinstance(failed, TrainingFailed)
  assert "replay failed: killed by SIGKILL" in str(failed) and "checkpoints/step_" in str(failed)
  assert not watch.left(), "processes are left"
  # It goes on without the actor that is killed now, and ends with the learner.
  failed = _kill_while(watch, run, [(600, "actor_0"), (900, "learner")])
  assert "learner failed: killed by SIGKILL" in str(failed)
  assert not watch.left(), "processes are left"
  rows = distributed_cases.rows(directory, "program")
  assert rows[-1]["actors"] == "1" and rows[-1]["restarts"] == "0"
  distributed_cases.check_logs(directory, 2_000)


def test_an_error_in_a_node_ends_the_run_with_its_words(tmp_path):
  class Broken(fakes.PointMass):
    def step(self, action):
      raise RuntimeError("the joint is broken")

  config = distributed_cases.make_config(tmp_path / "run", environment=Broken, eval_every=0)
  with pytest.raises(TrainingFailed, match="actor_0 failed: RuntimeError: the joint is broken"):
    run_distributed(config, LaunchConfig(num_evaluators=0))


def test_what_cannot_be_sent_to_a_process_is_named_before_anything_starts(tmp_path):
  lock = threading.Lock()

  def make():
    with lock:
      return fakes.PointMass()

  config = distributed_cases.make_config(tmp_path / "run", environment=make)
  with pytest.raises(SettingsError, match="the experiment's environment's variable lock is a lock"):
    run_distributed(config, LaunchConfig())
  assert not os.path.exists(tmp_path / "run")
