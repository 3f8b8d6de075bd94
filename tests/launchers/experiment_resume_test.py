"""Runs that are interrupted, moved, or out of room, and what becomes of them."""

import errno
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from temper.agents import sac
from temper.agents import svg0_prior
from temper.launchers import callbacks
from temper.launchers import experiment
from temper.launchers import outcomes
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils import fakes
from temper.utils import run_loggers

_SAC = sac.SACConfig(
  batch_size=4,
  policy_layer_sizes=(8,),
  critic_layer_sizes=(8,),
  warm_up_steps=30,
  min_replay_size=20,
  max_replay_size=100,
)
_SVG0 = svg0_prior.SVG0Config(
  batch_size=4,
  sequence_length=3,
  samples_per_insert=1.0,
  min_replay_size=40,
  policy_layer_sizes=(8,),
  critic_layer_sizes=(8,),
)


class _Starts(fakes.PointMass):
  """Remembers the start of each episode."""

  seen: list = []

  def reset(self):
    timestep = super().reset()
    self.seen.append(timestep.observation)
    return timestep


def _experiment(directory, **changes):
  settings = {
    "builder": sac.SACBuilder(_SAC),
    "environment": fakes.PointMass,
    "environment_name": "point mass",
    "steps": 200,
    "directory": str(directory),
    "eval_every": 0,
    "eval_episodes": 2,
    "eval_episodes_training": 2,
    "log_every": 20,
    "checkpoint_every": 100,
    "gif": False,
  }
  return experiment.ExperimentConfig(**{**settings, **changes})


def _tensors(path):
  reader = tf.train.load_checkpoint(os.path.join(path, "tensors"))
  return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _log(directory, name):
  rows = run_loggers.read_csv(os.path.join(RunDirectory(str(directory)).logs, f"{name}.csv"))
  timed = ("seconds", "walltime", "per_second")
  return [{k: v for k, v in row.items() if not k.endswith(timed)} for row in rows]


@pytest.fixture(name="whole", scope="module")
def _whole(tmp_path_factory):
  directory = tmp_path_factory.mktemp("runs") / "whole"
  return directory, experiment.run_experiment(_experiment(directory))


def test_an_interrupted_run_is_bit_for_bit_the_uninterrupted_one(whole, tmp_path):
  directory, result = whole
  # 100 and 160 are ends of episodes: in the middle of one, what the environment holds is lost.
  experiment.run_experiment(_experiment(tmp_path, steps=100))
  experiment.run_experiment(_experiment(tmp_path, steps=160))
  resumed = experiment.run_experiment(_experiment(tmp_path))
  assert resumed.steps == result.steps == 200
  ours, theirs = _tensors(resumed.checkpoint), _tensors(result.checkpoint)
  assert ours.keys() == theirs.keys()
  for name, value in theirs.items():
    np.testing.assert_array_equal(ours[name], value, err_msg=name)
  for name in ("train", "learner"):
    assert _log(tmp_path, name) == _log(directory, name) and _log(tmp_path, name)
  states = [checkpointing.read_state(run.checkpoint)["state"] for run in (resumed, result)]
  timed = ("wall_seconds", "acting_seconds", "learning_seconds")
  for state in states:
    for name in timed:
      del state["run"][name]
    del state["counter"]["counts"]["walltime"]
  assert states[0] == states[1]


def test_no_start_is_seen_twice_whenever_the_run_is_interrupted(tmp_path, monkeypatch):
  kept = []
  monkeypatch.setattr(_Starts, "seen", kept)
  before = None
  for steps in (50, 90, 130):
    del kept[:]
    experiment.run_experiment(_experiment(tmp_path, environment=_Starts, steps=steps))
    evaluated = 4  # Two episodes of each of two policies.
    # Environments are reset once when they are made: one to test in, one to train in.
    trained = np.unique(kept[2:-evaluated], axis=0)
    if before is not None:
      assert not any(np.any(np.all(before == start, axis=1)) for start in trained)
    before = trained if before is None else np.concatenate([before, trained])
  assert len(before) == 3 + 2 + 2
  state = checkpointing.read_state(str(tmp_path / "checkpoints" / "step_130"))["state"]["run"]
  assert state["begun_episodes"] == 7 and state["episodes"] == 6


def test_the_largest_priority_is_kept(tmp_path):
  from temper.utils import prioritised_replay

  config = sac.SACConfig(
    **{f: getattr(_SAC, f) for f in ("batch_size", "policy_layer_sizes", "critic_layer_sizes")},
    warm_up_steps=0,
    min_replay_size=20,
    max_replay_size=100,
    reward_scale=50.0,
    prioritised_replay=prioritised_replay.PrioritisedReplay(),
  )
  builder = sac.SACBuilder(config)
  result = experiment.run_experiment(_experiment(tmp_path, builder=builder, steps=60))
  state = checkpointing.read_state(result.checkpoint)["state"]["agent"]["learner"]
  assert state["max_priority"] > 1.0
  again = experiment.run_experiment(_experiment(tmp_path, builder=builder, steps=61))
  later = checkpointing.read_state(again.checkpoint)["state"]["agent"]["learner"]
  assert later["max_priority"] >= state["max_priority"]


def test_a_checkpoint_of_another_run_is_refused_with_the_settings_that_differ(whole, tmp_path):
  directory, result = whole
  experiment.run_experiment(_experiment(tmp_path, seed=3, steps=30))
  shutil.copytree(result.checkpoint, tmp_path / "checkpoints" / "step_200")
  with pytest.raises(checkpointing.CheckpointError) as caught:
    experiment.run_experiment(_experiment(tmp_path, seed=3))
  message = str(caught.value)
  assert "seed: 0 there, 3 asked for" in message and message.endswith("step_30.")
  shutil.rmtree(tmp_path / "checkpoints" / "step_200")
  assert experiment.run_experiment(_experiment(tmp_path, seed=3, steps=40)).steps == 40


def test_the_best_of_the_evaluations_is_kept_and_named(tmp_path):
  told = []

  class Told(callbacks.RunCallbacks):
    def on_episode(self, step, episode, episode_return, length):
      told.append(("episode", step, episode, length))

    def on_evaluation(self, step, result):
      told.append(("evaluation", step, result.mode, result.mean))

    def on_checkpoint(self, step, path):
      assert checkpointing.is_checkpoint(path)
      told.append(("checkpoint", step))

  config = _experiment(tmp_path, steps=90, eval_every=30, checkpoint_every=50, callbacks=[Told()])
  experiment.run_experiment(config)
  assert [call[1:] for call in told if call[0] == "episode"] == [
    (20 * i, i, 20) for i in range(1, 5)
  ]
  assert [call[1] for call in told if call[0] == "checkpoint"] == [50, 90]
  evaluated = [call[1:] for call in told if call[0] == "evaluation"]
  assert [(step, mode) for step, mode, _ in evaluated] == [
    (0, "deterministic"),
    (30, "deterministic"),
    (60, "deterministic"),
    (90, "deterministic"),
    (90, "stochastic"),
  ]
  best = max((30, 60), key=dict((step, mean) for step, _, mean in evaluated[1:3]).get)
  folder = tmp_path / "best" / "deterministic"
  assert os.listdir(folder) == [f"step_{best}"]
  rows = [row["step"] for row in _log(tmp_path, "evaluation")]
  assert rows == ["0", "30", "60", "90", "90"]


def test_a_callback_that_raises_ends_the_run_with_words(tmp_path):
  class Failing(callbacks.RunCallbacks):
    def on_checkpoint(self, step, path):
      raise RuntimeError("no more")

  with pytest.raises(outcomes.TrainingFailed, match="Failing.on_checkpoint raised .*no more") as e:
    experiment.run_experiment(_experiment(tmp_path, callbacks=[Failing()]))
  assert "environment step 100" in str(e.value) and "step_100" in str(e.value)
  assert experiment.run_experiment(_experiment(tmp_path, steps=120)).steps == 120


def test_checkpoints_come_by_the_minute_too(tmp_path):
  steps = []

  class Told(callbacks.RunCallbacks):
    def on_checkpoint(self, step, path):
      steps.append(step)

  config = _experiment(
    tmp_path, steps=60, checkpoint_every=0, checkpoint_minutes=1e-9, callbacks=[Told()]
  )
  experiment.run_experiment(config)
  assert steps == list(range(1, 61))


def _full(*unused, **unused_options):
  raise OSError(errno.ENOSPC, "No space left on device")


def _full_tensors(*unused, **unused_options):
  raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")


@pytest.fixture(name="short", scope="module")
def _short(tmp_path_factory):
  directory = tmp_path_factory.mktemp("runs") / "short"
  experiment.run_experiment(_svg0_experiment(directory, 60))
  return directory


def _svg0_experiment(directory, steps):
  builder = svg0_prior.SVG0Builder(_SVG0)
  return _experiment(directory, builder=builder, steps=steps, checkpoint_every=40)


@pytest.mark.parametrize("what", ["state", "tensors", "replay", "log"])
def test_a_full_disk_leaves_the_last_checkpoint_whole_and_ends_with_words(
  short, tmp_path, monkeypatch, capsys, what
):
  directory = tmp_path / "run"
  shutil.copytree(short, directory)
  newest = directory / "checkpoints" / "step_60"
  before = _tensors(newest)
  with monkeypatch.context() as patch:
    if what == "state":
      patch.setattr(checkpointing.json, "dump", _full)
      # The record of the run is written by the same function.
      patch.setattr(RunDirectory, "open", lambda *unused: None)
    elif what == "tensors":
      patch.setattr(tf.train.Checkpoint, "write", _full_tensors)
    elif what == "replay":
      patch.setattr(shutil, "move", _full)
    else:
      patch.setattr(run_loggers.CsvLog, "write", _full)
    code = outcomes.report(
      lambda: experiment.run_experiment(_svg0_experiment(directory, 200)), str, command="again"
    )
  assert code == 1
  said = capsys.readouterr().err
  assert "No space left on device" in said and str(newest) in said
  assert sorted(os.listdir(directory / "checkpoints")) == ["step_40", "step_60"]
  after = _tensors(newest)
  assert all(np.array_equal(after[name], value) for name, value in before.items())
  if what == "replay":
    assert experiment.run_experiment(_svg0_experiment(directory, 90)).steps == 90


def test_a_disk_that_is_full_before_training_begins_is_told_too(short, monkeypatch, capsys):
  monkeypatch.setattr(run_loggers.csv.DictWriter, "writerow", _full)
  code = outcomes.report(
    lambda: experiment.run_experiment(_svg0_experiment(short, 200)), str, command="again"
  )
  assert code == 1
  said = capsys.readouterr().err
  assert "The disk is full" in said and str(short) in said
