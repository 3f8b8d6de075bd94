"""Tests of `temper.launchers.artefacts`."""

from unittest import mock

import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.launchers import artefacts
from temper.launchers.run_directory import RunDirectory
from temper.utils import evaluation
from temper.utils.policy_kinds import PolicyKind

_SUMMARY = {
  "title": "SVG0 on gym:Pendulum-v1, seed 0",
  "evaluations": {
    "deterministic": {
      "mean": -150.04,
      "low": -200.0,
      "high": -100.0,
      "returns": [-250.0, -50.08],
      "episodes": 2,
    },
    "stochastic": {
      "mean": -7.0,
      "low": -9.0,
      "high": -5.0,
      "returns": [-9.0, -5.0],
      "episodes": 2,
    },
  },
  "environment_steps": 20_000,
  "episodes": 100,
  "early_stop": {"outcome": "at step 20,000: it was good enough"},
  "learner_steps": 4_876,
  "wall_seconds": 125.4,
  "acting_steps_per_second": 1234.5,
  "learning_steps_per_second": 60.4,
  "artefacts": {"policy": "runs/a/policy"},
}


def test_the_table_is_silent_of_an_early_stop_that_nobody_asked_for():
  assert "early stop" not in artefacts.table({**_SUMMARY, "early_stop": None})


def test_the_table_holds_every_number():
  text = artefacts.table(_SUMMARY)
  lines = text.splitlines()
  assert lines[1] == "SVG0 on gym:Pendulum-v1, seed 0"
  assert "-150.0  [-200.0, -100.0]  -250.0  -50.1         2" in text
  for words in (
    "20,000 in 100 episodes",
    "4,876",
    "early stop         at step 20,000: it was good enough",
    "2 min 05 s",
    "1,234 environment steps/s",
    "60 learner steps/s",
    "runs/a/policy",
  ):
    assert words in text
  # Numbers of one column end under each other.
  deterministic, stochastic = lines[4], lines[5]
  assert len(deterministic) == len(stochastic)
  assert deterministic.index("]") == stochastic.index("]")


def test_only_what_exists_is_listed(tmp_path):
  directory = RunDirectory(str(tmp_path))
  (tmp_path / "policy").mkdir()
  found = artefacts.existing(directory, "")
  assert found == {"policy": directory.policy, "result": directory.result}


@pytest.mark.parametrize("length, frames", [(20, 21), (250, 251), (251, 127), (1000, 251)])
def test_the_film_shows_the_median_episode_in_a_bounded_number_of_frames(
  monkeypatch, length, frames
):
  class _Slope(dm_env.Environment):
    """Its rewards are the seed's last digit."""

    def seed(self, seed):
      self._digit = seed % 10

    def reset(self):
      self._step = 0
      return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
      self._step += 1
      make = dm_env.termination if self._step == length else dm_env.transition
      return make(reward=float(self._digit), observation=np.zeros(1, np.float32))

    def render(self):
      return np.zeros((8, 16, 3), np.uint8)

    def observation_spec(self):
      return specs.Array((1,), np.float32)

    def action_spec(self):
      return specs.BoundedArray((1,), np.float32, -1, 1)

  actor = mock.Mock()
  environment = _Slope()
  evaluated = evaluation.evaluate(
    environment, actor, seeds=evaluation.start_seeds(5), kind=PolicyKind.MEAN
  )
  written = {}
  monkeypatch.setattr(
    artefacts.recording, "write_film", lambda film, path: written.update({path: len(film)})
  )
  filmed = artefacts.film(environment, actor, evaluated, "episode.gif")
  assert filmed == np.median(evaluated.returns)
  assert written == {"episode.gif": frames}
