"""Tests of `temper.launchers.wandb_log`, with a stand-in for the package."""

import os
import sys
import types

import pytest

from temper.launchers import wandb_log
from temper.utils import run_loggers


class _Run:
  def __init__(self, options):
    self.options, self.rows, self.metrics, self.finished = options, [], [], False

  def define_metric(self, name, step_metric=None):
    self.metrics.append((name, step_metric))

  def log(self, row):
    self.rows.append(row)

  def finish(self):
    self.finished = True


@pytest.fixture(name="runs")
def _runs(monkeypatch):
  made = []

  def init(**options):
    made.append(_Run(options))
    return made[-1]

  monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
  return made


def test_everything_that_tensorboard_gets_is_logged_and_a_resume_goes_on_in_the_same_run(
  tmp_path, runs
):
  for resume_step in (0, 20):
    log = run_loggers.RunLog(str(tmp_path), resume_step=resume_step)
    log.add_sink(
      wandb_log.WandbLog("project", str(tmp_path), name="pendulum", record={"agent": "sac"})
    )
    log.write("learner", resume_step + 10, {"critic_loss": 2.5})
    log.write("train", resume_step + 20, {"episode": 1, "episode_return": -3.0})
    log.close()
  assert [run.finished for run in runs] == [True, True]
  options = runs[0].options
  assert options["project"] == "project" and options["config"] == {"agent": "sac"}
  assert options["resume"] == "allow" and options["dir"] == str(tmp_path)
  assert runs[1].options["id"] == options["id"]
  assert runs[0].rows == [
    {"step": 10, "learner/critic_loss": 2.5},
    {"step": 20, "train/episode": 1.0, "train/episode_return": -3.0},
  ]
  assert ("*", "step") in runs[0].metrics
  # Another run has another name there.
  other = tmp_path / "other"
  os.mkdir(other)
  wandb_log.WandbLog("project", str(other), name="pendulum", record={})
  assert runs[2].options["id"] != options["id"]


def test_a_missing_package_is_named_with_what_to_do(monkeypatch):
  monkeypatch.setitem(sys.modules, "wandb", None)
  with pytest.raises(ImportError, match="pip install wandb, or leave wandb_project out"):
    wandb_log.import_wandb()
