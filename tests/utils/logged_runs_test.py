"""Tests of `temper.utils.logged_runs`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from temper.utils import logged_runs
from temper.utils import run_loggers

_EVALUATION = {"return_low": -2.0, "return_high": 3.0, "episodes": 5, "wall_seconds": 1.5}


def _write(folder, *, resume_step=0, steps=(200, 400)):
  log = run_loggers.RunLog(str(folder / "logs"), resume_step=resume_step)
  for step in steps:
    row = {"episode": 1, "episode_return": step / 7, "episode_length": 9, "wall_seconds": step / 10}
    log.write("train", step, row)
    log.write("learner", step, {"alpha": 1 / step, "learner_steps": step - 200})
    for mode in ("deterministic", "stochastic"):
      log.write("evaluation", step, {"mode": mode, "return_mean": -step, **_EVALUATION})
  log.flush()
  log.close()


def _assert_series(series, steps, values):
  np.testing.assert_array_equal(series.steps, steps)
  np.testing.assert_allclose(series.values, values, rtol=1e-6)


def test_csv_files_are_read_by_the_names_that_tensorboard_has(tmp_path):
  _write(tmp_path)
  (tmp_path / "config.json").write_text(json.dumps({"agent": "sac", "dataset": None}))
  run = logged_runs.read(str(tmp_path))
  _assert_series(run.series["train/episode_return"], [200, 400], [200 / 7, 400 / 7])
  _assert_series(run.series["learner/alpha"], [200, 400], [1 / 200, 1 / 400])
  _assert_series(run.series["evaluation/stochastic/return_mean"], [200, 400], [-200, -400])
  assert run.record["agent"] == "sac" and not run.offline and run.notes == []
  assert run.modes == ["deterministic", "stochastic"]


def test_event_files_hold_the_same_and_forget_what_a_resumed_run_wrote_again(tmp_path):
  whole, resumed = tmp_path / "whole", tmp_path / "resumed"
  _write(whole, steps=(200, 400, 600))
  _write(resumed, steps=(200, 400, 500))
  # A resumed process begins in a later second; file names tell the order.
  for file in (resumed / "logs").glob("*tfevents*"):
    file.rename(file.with_name("events.out.tfevents.1.first"))
  _write(resumed, resume_step=400, steps=(600,))
  for folder in (whole, resumed):
    expected = logged_runs.read(str(folder)).series
    for file in (folder / "logs").glob("*.csv"):
      file.unlink()
    found = logged_runs.read(str(folder))
    assert set(found.series) == set(expected) and found.record == {}
    for tag, series in expected.items():
      _assert_series(found.series[tag], *series)
    assert found.series["learner/alpha"].steps.tolist() == [200, 400, 600]


def test_scalars_of_tensorflows_own_writer_are_read(tmp_path):
  writer = tf.summary.create_file_writer(str(tmp_path))
  with writer.as_default():
    for step in range(15):  # More than TensorBoard keeps unless told to.
      tf.summary.scalar("losses/critic", 0.5 * step, step=step)
  writer.close()
  run = logged_runs.read(str(tmp_path))
  _assert_series(run.series["losses/critic"], np.arange(15), 0.5 * np.arange(15))


def test_rows_that_are_not_whole_are_left_out_with_a_note(tmp_path):
  _write(tmp_path)
  with open(tmp_path / "logs" / "train.csv", "a", encoding="utf-8") as file:
    file.write("600,3,-1")
  run = logged_runs.read(str(tmp_path))
  assert run.series["train/episode_return"].steps.tolist() == [200, 400]
  assert run.notes == [f"{tmp_path}: 1 rows of train.csv are not whole and are left out."]


def test_values_that_are_not_finite_are_left_out_with_a_note(tmp_path):
  (tmp_path / "learner.csv").write_text("step,loss,text\n1,2.5,a\n2,nan,b\n3,inf,\n4,1,c\n")
  run = logged_runs.read(str(tmp_path))
  assert set(run.series) == {"learner/loss"}
  _assert_series(run.series["learner/loss"], [1, 4], [2.5, 1])
  assert run.notes == [f"{tmp_path}: 2 values of learner/loss are not finite and are left out."]


def test_of_two_rows_at_one_step_the_last_counts(tmp_path):
  (tmp_path / "learner.csv").write_text("step,loss\n1,2\n5,3\n5,4\n")
  _assert_series(logged_runs.read(str(tmp_path)).series["learner/loss"], [1, 5], [2, 4])


def test_the_record_lies_beside_the_logs_folder_too(tmp_path):
  _write(tmp_path)
  (tmp_path / "config.json").write_text('{"dataset": {"episodes": 3}}')
  assert logged_runs.read(str(tmp_path / "logs")).offline


def test_what_is_no_run_is_refused(tmp_path):
  with pytest.raises(ValueError, match="nowhere is no folder"):
    logged_runs.read(str(tmp_path / "nowhere"))
  with pytest.raises(ValueError, match="no CSV file and no TensorBoard event file"):
    logged_runs.read(str(tmp_path))
  _write(tmp_path / "seed0", steps=())
  with pytest.raises(ValueError, match="Did you mean .*seed0"):
    logged_runs.read(str(tmp_path))
  with pytest.raises(ValueError, match="are empty. Wait"):
    logged_runs.read(str(tmp_path / "seed0"))
  _write(tmp_path / "seed0")
  (tmp_path / "seed0" / "config.json").write_text("{")
  with pytest.raises(ValueError, match="config.json cannot be read"):
    logged_runs.read(str(tmp_path / "seed0"))
