"""Tests of `temper.launchers.experiment`: runs that end early, and runs from one start state."""

import json

import numpy as np
import pytest

from temper.agents import svg0_prior
from temper.launchers import artefacts
from temper.launchers import early_stop
from temper.launchers import experiment
from temper.launchers import outcomes
from temper.utils import checkpointing
from temper.utils import fakes

_BUILDER = svg0_prior.SVG0Builder(
  svg0_prior.SVG0Config(
    batch_size=4,
    sequence_length=4,
    samples_per_insert=1.0,
    min_replay_size=20,
    max_replay_size=1_000,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
  )
)


def _experiment(directory, **changes):
  settings = {
    "builder": _BUILDER,
    "environment": fakes.PointMass,
    "environment_name": "point mass",
    "steps": 100,
    "directory": str(directory),
    "eval_every": 0,
    "eval_episodes": 2,
    "log_every": 20,
    "gif": False,
  }
  return experiment.ExperimentConfig(**{**settings, **changes})


def test_an_early_stop_finishes_the_run_and_a_resume_finds_it_finished(tmp_path, capfd):
  # Every episode, of 20 steps, is good enough.
  stop = early_stop.EarlyStop(-1e6, patience=3)
  config = _experiment(tmp_path, early_stop=stop)
  result = experiment.run_experiment(config)
  assert result.steps == 60 and result.stop is None and set(result.evaluations)
  said = "at step 60: the last 3 training episodes returned -1e+06 or more"
  assert result.summary["early_stop"] == {
    "return": -1e6,
    "patience": 3,
    "step": 60,
    "outcome": said,
  }
  assert said in artefacts.table(result.summary) and f"Early stop {said}." in capfd.readouterr().err
  assert set(result.summary["artefacts"]) >= {"checkpoint", "policy", "learning curve", "logs"}
  with open(result.summary["artefacts"]["config"], encoding="utf-8") as file:
    assert json.load(file)["run"]["early_stop"] == {"threshold": -1e6, "patience": 3}
  saved = checkpointing.read_state(result.checkpoint)["state"]["run"]
  assert len(saved["last_returns"]) == 3

  again = experiment.run_experiment(config)
  assert again.steps == 60 and again.summary["early_stop"]["step"] == 60
  assert "has met its early stop at step 60" in capfd.readouterr().err

  # Another criterion knows the episodes of before.
  harder = _experiment(tmp_path, early_stop=early_stop.EarlyStop(-1e6, patience=4))
  assert experiment.run_experiment(harder).steps == 80
  unreachable = _experiment(tmp_path, early_stop=early_stop.EarlyStop(1.0, patience=4))
  result = experiment.run_experiment(unreachable)
  assert result.steps == 100 and result.summary["early_stop"]["step"] is None
  assert "not met: the worst of the last 4" in artefacts.table(result.summary)


class _Starts(fakes.PointMass):
  """Keeps the start position of every episode, in the order of the environments made."""

  by_environment: list = []

  def __init__(self, seed=None):
    super().__init__(seed=seed)
    self._starts: list = []
    type(self).by_environment.append(self._starts)

  def reset(self):
    timestep = super().reset()
    self._starts.append(timestep.observation)
    return timestep


def test_a_fixed_start_holds_for_training_and_not_for_evaluations(tmp_path):
  config = _experiment(tmp_path, environment=_Starts, fixed_start=True)
  experiment.run_experiment(config)
  # Another process goes on with the same start.
  experiment.run_experiment(_experiment(tmp_path, environment=_Starts, fixed_start=True, steps=140))
  evaluated, trained, evaluated_again, trained_again = _Starts.by_environment
  first = fakes.PointMass(seed=0).reset().observation
  assert len(trained) >= 5 and len(trained_again) >= 2
  for start in (*trained, *trained_again):
    np.testing.assert_array_equal(start, first)
  assert len({tuple(start) for start in evaluated[-4:]}) == 2  # Two starts in two modes.
  np.testing.assert_array_equal(evaluated[-4:], evaluated_again[-4:])
  with pytest.raises(outcomes.SettingsError, match="fixed_start: True there, False asked for"):
    experiment.run_experiment(_experiment(tmp_path, environment=_Starts))


class _Unseeded(fakes.PointMass):
  seed = None


def test_a_fixed_start_needs_an_environment_that_can_be_seeded(tmp_path):
  directory = tmp_path / "run"
  config = _experiment(directory, environment=_Unseeded, fixed_start=True)
  with pytest.raises(outcomes.SettingsError, match="has no seed"):
    experiment.run_experiment(config)
  assert not directory.exists()
