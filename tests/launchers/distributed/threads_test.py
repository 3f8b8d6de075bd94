"""Tests of whole runs whose nodes are threads: counts, rates, endings, resume, every agent."""

import json
import os
import subprocess
import sys

import cloudpickle
import distributed_cases
import numpy as np
import pytest
import tensorflow as tf

from temper.agents import crr
from temper.agents import sac
from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import LaunchKind
from temper.launchers.distributed.run import run_distributed
from temper.launchers.outcomes import SettingsError
from temper.launchers.outcomes import TrainingFailed
from temper.launchers.run_directory import RunDirectory
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import checkpointing
from temper.utils import fakes


def _launch(**changes):
  return LaunchConfig(**{"kind": LaunchKind.LOCAL_MT, "num_actors": 2, **changes})


class _StopAt(StopSignal):
  """As if the user pressed Ctrl-C once so many steps are done."""

  def __init__(self, directory, steps):
    super().__init__()
    self._board = board_lib.Board(os.path.join(str(directory), ".program"))
    self._steps = steps

  def check(self):
    status = self._board.status()
    if status is not None and status["steps"] >= self._steps:
      raise StopRequested(2)


class _BrokenPointMass(fakes.PointMass):
  """Fails in its third episode."""

  episodes = 0

  def reset(self):
    self.episodes += 1
    if self.episodes > 3:
      raise RuntimeError("the joint is broken")
    return super().reset()


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory):
  directory = tmp_path_factory.mktemp("runs") / "threads"
  config = distributed_cases.make_config(directory, steps=4_000)
  return directory, run_distributed(config, _launch(num_caches=1))


def test_a_run_does_exactly_its_steps_and_leaves_what_one_process_does(finished):
  directory, result = finished
  assert result.steps == 4_000 and set(result.evaluations) == {"deterministic", "stochastic"}
  distributed_cases.check_logs(directory, 4_000)
  folder = RunDirectory(str(directory))
  for path in (folder.config, folder.result, folder.policy, folder.learning_curve, folder.best):
    assert os.path.exists(path), path
  assert result.summary["environment_steps"] == 4_000 and result.summary["episodes"] > 150
  assert os.path.basename(result.checkpoint) == "step_4000"
  with open(folder.config, encoding="utf-8") as file:
    record = json.load(file)
  assert record["distributed"] and record["launch"]["kind"] == "local_mt"
  assert not {".program", ".replay_scratch"} & set(os.listdir(directory))


def test_samples_per_insert_is_held_under_load(finished):
  directory, _ = finished
  *_, last = distributed_cases.rows(directory, "program")
  asked = distributed_cases.SAMPLES_PER_INSERT * distributed_cases.SEQUENCE_LENGTH
  np.testing.assert_allclose(float(last["samples_per_insert"]), asked, rtol=0.02)


def test_evaluations_are_played_while_training(finished):
  directory, _ = finished
  steps = [int(row["step"]) for row in distributed_cases.rows(directory, "evaluation")]
  assert steps[0] < 500 and len([s for s in steps if s < 4_000]) >= 2 and steps[-1] == 4_000


def test_the_best_networks_are_kept_whole(finished):
  directory, _ = finished
  (path,) = checkpointing.complete_checkpoints(
    os.path.join(RunDirectory(str(directory)).best, "deterministic")
  )
  assert checkpointing.read_state(path)["trackables"] == ["critic", "policy", "prior"]


def test_variables_reach_the_actors_within_their_period(finished):
  directory, _ = finished
  rows = distributed_cases.rows(directory, "program")
  learnt = [row for row in rows if int(row["learner_steps"]) > 200]
  ages = [float(row["variable_age_steps"]) for row in learnt]
  assert learnt and min(ages) < 0.9 * int(learnt[-1]["learner_steps"])
  # Ten steps from fetch to fetch, of what the cache holds for a second at most; the machine may be
  # busy.
  seconds = [float(row["variable_age_seconds"]) for row in learnt]
  assert 0 < np.median(seconds) < 10


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path):
  directory = tmp_path / "run"
  config = distributed_cases.make_config(directory, steps=1_200, eval_every=0)
  launch = _launch(num_evaluators=0)
  stopped = run_distributed(config, launch, _StopAt(directory, 300))
  assert stopped.stop is not None and stopped.stop.exit_code == 130
  assert 300 <= stopped.steps < 1_200
  saved = checkpointing.read_state(stopped.checkpoint)["state"]
  assert saved["run"]["steps"] == stopped.steps
  result = run_distributed(config, launch)
  assert result.stop is None and result.steps == 1_200
  assert result.summary["learner_steps"] >= saved["counter"].get("learner_steps", 0)
  distributed_cases.check_logs(directory, 1_200)
  # And one that is done is only evaluated again.
  assert run_distributed(config, launch).steps == 1_200


def test_an_error_in_an_actor_ends_the_run_and_is_told(tmp_path):
  config = distributed_cases.make_config(tmp_path / "run", environment=_BrokenPointMass)
  with pytest.raises(TrainingFailed, match="actor_[01] failed: RuntimeError: the joint is broken"):
    run_distributed(config, _launch(num_evaluators=0))
  assert ".program" not in os.listdir(tmp_path / "run")


def test_a_run_of_one_process_is_not_taken_for_a_distributed_one(tmp_path, finished):
  directory, _ = finished
  other = distributed_cases.make_config(directory, seed=5)
  with pytest.raises(SettingsError, match="seed: 0 there, 5 asked for"):
    run_distributed(other, _launch())


@pytest.mark.parametrize("agent", ["sac", "crr"])
def test_other_agents_run_too(tmp_path, agent):
  sizes = {"policy_layer_sizes": (8,), "critic_layer_sizes": (8,), "batch_size": 4}
  if agent == "sac":
    rate = {"samples_per_insert": 2.0}
    builder = sac.SACBuilder(sac.SACConfig(warm_up_steps=30, min_replay_size=50, **sizes, **rate))
  else:
    builder = crr.CRRBuilder(
      crr.CRRConfig(sequence_length=4, lstm_size=None, min_replay_size=50, **sizes)
    )
  steps = 2_000 if agent == "sac" else 300
  config = distributed_cases.make_config(
    tmp_path / "run", builder=builder, steps=steps, eval_every=0, checkpoint_every=0
  )
  result = run_distributed(config, _launch(num_evaluators=0))
  assert result.steps == steps and result.summary["learner_steps"] > 0
  if agent == "sac":
    *_, last = distributed_cases.rows(tmp_path / "run", "program")
    np.testing.assert_allclose(float(last["samples_per_insert"]), 2.0, rtol=0.02)


@pytest.mark.parametrize("batch_size, strategy", [(8, "mirrored"), (7, "mirrored")])
def test_devices_that_do_not_fit_are_refused_before_anything_is_written(
  tmp_path, monkeypatch, batch_size, strategy
):
  if batch_size == 8:
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
  builder = sac.SACBuilder(sac.SACConfig(batch_size=batch_size))
  config = distributed_cases.make_config(tmp_path / "run", builder=builder, strategy=strategy)
  refusal = "needs two devices" if batch_size == 8 else "A batch of 7 cannot be shared equally by 2"
  with pytest.raises(SettingsError, match=refusal):
    run_distributed(config, _launch())
  assert not os.path.exists(tmp_path / "run")


def test_actors_act_in_several_environments_at_once(tmp_path):
  made = []

  def make():
    made.append(fakes.PointMass())
    return made[-1]

  # 2,000 steps are no whole number of rounds of three, and are done exactly all the same.
  config = distributed_cases.make_config(
    tmp_path / "run", environment=make, steps=2_000, eval_every=0
  )
  result = run_distributed(config, _launch(num_evaluators=0, envs_per_actor=3))
  assert result.steps == 2_000 and len(made) >= 6
  assert result.summary["environment_steps"] == 2_000
  distributed_cases.check_logs(tmp_path / "run", 2_000)
  train = distributed_cases.rows(tmp_path / "run", "train")
  # All but the episodes under way at the end, of six environments, have been told.
  assert 2_000 - 6 * 20 <= 20 * len(train) <= 2_000
  assert {int(row["episode_length"]) for row in train} == {20}
  tables = checkpointing.read_state(result.checkpoint)["state"]
  assert tables["run"]["steps"] == 2_000
  *_, last = distributed_cases.rows(tmp_path / "run", "program")
  asked = distributed_cases.SAMPLES_PER_INSERT * distributed_cases.SEQUENCE_LENGTH
  # The limiter has some play, and replay is asked every two seconds only.
  np.testing.assert_allclose(float(last["samples_per_insert"]), asked, rtol=0.05)


def test_the_learner_of_a_program_may_have_several_devices(tmp_path):
  config = distributed_cases.make_config(
    tmp_path / "run", steps=300, eval_every=0, checkpoint_every=0, strategy="mirrored"
  )
  code = """
import pickle, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from temper.launchers.distributed import launch_config
from temper.launchers.distributed.run import run_distributed
config = pickle.load(open(sys.argv[1], "rb"))
launch = launch_config.LaunchConfig(kind="local_mt", num_evaluators=0)
print(run_distributed(config, launch).summary["learner_steps"])
"""
  path = tmp_path / "config.pickle"
  path.write_bytes(cloudpickle.dumps(config))
  ran = subprocess.run(
    [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
  )
  assert ran.returncode == 0, ran.stderr[-3_000:]
  assert "Learning on 2 replicas, CPU:0, CPU:1: 4 of a batch of 8 on each." in ran.stderr
  assert int(ran.stdout.split()[-1]) > 0


def test_environments_of_ones_own_are_made_in_each_node(tmp_path):
  made = []

  def make():
    made.append(fakes.PointMass())
    return made[-1]

  config = distributed_cases.make_config(
    tmp_path / "run", environment=make, steps=100, eval_every=0
  )
  run_distributed(config, _launch(num_evaluators=0))
  assert len(made) == len({id(environment) for environment in made}) >= 3
