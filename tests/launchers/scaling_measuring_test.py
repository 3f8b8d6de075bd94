"""Tests of `temper.launchers.scaling_measuring`: one real program, and processes that fail."""

import psutil
import pytest

from temper.launchers import scaling_measuring
from temper.launchers import timed_worker


def test_a_program_is_measured_and_leaves_no_process():
  before = {process.pid for process in psutil.Process().children(recursive=True)}
  rates = scaling_measuring.measure_program("temper", 2, 0.02, "local_mt", 3.0)
  # Two actors whose steps sleep 20 ms do 100 steps/s at the most, about 16 samples an item.
  assert 0 < rates["environment_steps"] <= 105
  assert rates["learner_steps"] >= 0
  after = {process.pid for process in psutil.Process().children(recursive=True)}
  assert after <= before


def test_a_program_that_ends_says_why(monkeypatch):
  monkeypatch.setattr(scaling_measuring.programs, "__name__", "temper.launchers.missing")
  with pytest.raises(timed_worker.WorkerError, match="No module named"):
    scaling_measuring.measure_program("temper", 1, 0.0, "local_mt", 1.0)


def test_a_side_that_fails_is_kept_as_an_error(monkeypatch):
  def measure(side, *arguments):
    del arguments
    if side == "dm-acme":
      raise timed_worker.WorkerError("no such module")
    return {"environment_steps": 1.0, "learner_steps": 1.0, "busy_cpus": 1.0}

  monkeypatch.setattr(scaling_measuring, "measure_program", measure)
  said = []
  record = scaling_measuring.measure_scaling((1,), 0.04, "local_mt", 1.0, said.append)
  ours, theirs = record["points"]
  assert ours["environment_steps"] == 1.0
  assert theirs == {"side": "dm-acme", "num_actors": 1, "error": "no such module"}
  assert len(said) == 2
