"""Tests of `temper.utils.run_loggers`."""

import glob
import os

import pytest
from tensorboard.backend.event_processing import event_accumulator

from temper.utils import run_loggers


def _text(path):
  with open(path, encoding="utf-8") as file:
    return file.read()


def test_csv_rows_by_hand(tmp_path):
  path = str(tmp_path / "log.csv")
  log = run_loggers.CsvLog(path, resume_step=0, fields=["name", "value"])
  log.write(5, {"name": "a,b", "value": 1 / 3})
  log.write(10, {"value": 12345678})
  assert _text(path) == 'step,name,value\n5,"a,b",0.3333333\n10,,12345678\n'
  log.close()


def test_csv_columns_come_from_the_first_row_and_stay(tmp_path):
  path = str(tmp_path / "log.csv")
  log = run_loggers.CsvLog(path, resume_step=0)
  assert log.fields is None
  log.write(1, {"loss": 2.0, "age": 3})
  with pytest.raises(ValueError, match="surprise"):
    log.write(2, {"surprise": 1.0})
  log.close()
  again = run_loggers.CsvLog(path, resume_step=1)
  again.write(2, {"age": 4, "loss": 1.0})
  again.close()
  assert _text(path) == "step,loss,age\n1,2,3\n2,1,4\n"


def test_resuming_drops_rows_that_will_be_written_again_and_a_torn_one(tmp_path):
  path = str(tmp_path / "log.csv")
  log = run_loggers.CsvLog(path, resume_step=0, fields=["value"])
  for step in (100, 200, 300, 400):
    log.write(step, {"value": step})
  log.close()
  with open(path, "a", encoding="utf-8") as file:
    file.write("450,4")  # Killed while it wrote.
  resumed = run_loggers.CsvLog(path, resume_step=250, fields=["value"])
  resumed.write(300, {"value": -1})
  resumed.close()
  assert _text(path) == "step,value\n100,100\n200,200\n300,-1\n"
  assert os.listdir(tmp_path) == ["log.csv"]


@pytest.mark.parametrize(
  "text",
  ["", "step,val", "step,value\n", "step,value\n1", "step,value\n10,3\n20,"],
  ids=["empty", "torn header", "no rows", "torn first row", "torn second row"],
)
def test_resuming_from_whatever_a_kill_left(tmp_path, text):
  path = str(tmp_path / "log.csv")
  with open(path, "w", encoding="utf-8") as file:
    file.write(text)
  log = run_loggers.CsvLog(path, resume_step=50, fields=["value"])
  log.write(60, {"value": 1.5})
  log.close()
  rows = run_loggers.read_csv(path)
  assert rows[-1] == {"step": "60", "value": "1.5"}
  assert [row["step"] for row in rows] == (["10", "60"] if "10,3" in text else ["60"])


def test_other_columns_are_refused_and_the_file_is_left_alone(tmp_path):
  path = str(tmp_path / "log.csv")
  run_loggers.CsvLog(path, resume_step=0, fields=["old"]).close()
  with pytest.raises(ValueError, match="old.*new"):
    run_loggers.CsvLog(path, resume_step=10, fields=["new"])
  assert _text(path) == "step,old\n"


def test_a_new_run_starts_the_file_anew(tmp_path):
  path = str(tmp_path / "log.csv")
  log = run_loggers.CsvLog(path, resume_step=0, fields=["value"])
  log.write(0, {"value": 1})
  log.close()
  run_loggers.CsvLog(path, resume_step=0, fields=["value"]).close()
  assert run_loggers.read_csv(path) == []


def test_reading_a_missing_file_gives_no_rows(tmp_path):
  assert run_loggers.read_csv(str(tmp_path / "absent.csv")) == []


def _scalars(directory, tag):
  events = event_accumulator.EventAccumulator(str(directory))
  events.Reload()
  return [(event.step, event.value) for event in events.Scalars(tag)]


def test_run_log_writes_csv_and_tensorboard_and_forgets_what_a_resume_repeats(tmp_path):
  directory = str(tmp_path / "logs")
  evaluation = {
    "mode": "stochastic",
    "return_mean": -3.0,
    "return_low": -4.0,
    "return_high": -2.0,
    "episodes": 5,
    "wall_seconds": 1.0,
  }
  log = run_loggers.RunLog(directory, resume_step=0)
  for step in (10, 20, 30):
    log.write("learner", step, {"critic_loss": float(step), "note": "text"})
  log.write("evaluation", 20, evaluation)
  log.close()

  resumed = run_loggers.RunLog(directory, resume_step=20)
  resumed.write("learner", 30, {"critic_loss": 7.0, "note": "text"})
  resumed.flush()
  resumed.close()
  assert _scalars(directory, "learner/critic_loss") == [(10, 10.0), (20, 20.0), (30, 7.0)]
  assert _scalars(directory, "evaluation/stochastic/return_mean") == [(20, -3.0)]
  rows = run_loggers.read_csv(os.path.join(directory, "learner.csv"))
  assert [(row["step"], row["critic_loss"]) for row in rows] == [
    ("10", "10"),
    ("20", "20"),
    ("30", "7"),
  ]
  assert len(glob.glob(os.path.join(directory, "events*"))) == 2
  assert len(run_loggers.read_csv(os.path.join(directory, "evaluation.csv"))) == 1


def test_evaluating_again_replaces_the_last_evaluation_only(tmp_path):
  directory = str(tmp_path)
  log = run_loggers.RunLog(directory, resume_step=0)
  log.write("evaluation", 10, {"mode": "deterministic", "return_mean": 1.0})
  log.write("evaluation", 20, {"mode": "deterministic", "return_mean": 2.0})
  log.write("train", 20, {"episode": 1, "episode_return": 5.0})
  log.close()
  again = run_loggers.RunLog(directory, resume_step=20, evaluate_again=True)
  again.write("evaluation", 20, {"mode": "deterministic", "return_mean": 3.0})
  again.close()
  rows = run_loggers.read_csv(os.path.join(directory, "evaluation.csv"))
  assert [row["return_mean"] for row in rows] == ["1", "3"]
  assert len(run_loggers.read_csv(os.path.join(directory, "train.csv"))) == 1
