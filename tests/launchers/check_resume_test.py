"""Tests of `temper.launchers.check_resume` and `killed_run`: kills, and what they must see."""

import os
import random

import pytest

from temper.launchers import check_resume
from temper.launchers import killed_run
from temper.launchers.killed_run import Moment


def test_a_run_that_is_killed_goes_on_from_its_newest_checkpoint(tmp_path, capsys):
  directory = str(tmp_path / "run")
  code = check_resume.run(
    ["check", "--kills=3", "--seed=3", f"--directory={directory}", "--checkpoint_every=50"]
  )
  captured = capsys.readouterr()
  assert code == 0, captured.err
  assert captured.err.count("the newest checkpoint is of step") == 3
  assert "logs are whole" in captured.out and captured.out.split()[:2] == ["kills", "3"]
  assert os.path.exists(os.path.join(directory, "result.json"))


def _run(tmp_path, **logs):
  folder = tmp_path / "run" / "logs"
  os.makedirs(folder)
  for name, text in logs.items():
    (folder / f"{name}.csv").write_text(text)
  (tmp_path / "run.output").write_text("the last words\n")
  return killed_run.KilledRun(["false"], str(tmp_path / "run"), every=20, log_every=10)


@pytest.mark.parametrize(
  "name, text, message",
  [
    ("speed", "step,x\n10,1\n20,1\n20,1\n", "20 then 20"),
    ("speed", "step,x\n10,1\n30,1\n40,1\n", "10 then 30"),
    ("speed", "step,x\n10,1\n20\n30,1\n", r"the torn row \['20'\]"),
    ("train", "step,episode\n5,1\n9,3\n", "an episode repeated or missing"),
    ("learner", "step,x\n10,1\n10,1\n", "a row repeated: "),
  ],
)
def test_logs_that_a_kill_must_not_leave_are_named(tmp_path, name, text, message):
  with pytest.raises(killed_run.BrokenRunError, match=f"{name}.csv.*{message}"):
    _run(tmp_path, **{name: text})._rows(name)


def test_a_torn_last_row_is_what_a_kill_may_leave(tmp_path):
  run = _run(tmp_path, speed="step,x\n10,1\n20,1\n3")
  assert run.last_logged() == 20
  with pytest.raises(killed_run.BrokenRunError, match="ends with a torn row"):
    run._rows("speed", torn=False)


def test_a_run_that_ends_by_itself_is_told_with_its_last_words(tmp_path):
  run = _run(tmp_path)
  run._command = ["sh", "-c", "echo out of luck; exit 3"]
  with pytest.raises(killed_run.BrokenRunError, match="(?s)ended with 3 by itself.*out of luck"):
    run.kill_once(Moment.TRAINING, random.Random(0))


def test_half_of_the_kills_are_aimed_at_saving():
  chosen = check_resume.moments(100, random.Random(0))
  assert [chosen.count(moment) for moment in Moment] == [50, 40, 10]
  assert chosen[:50].count(Moment.SAVING) not in (0, 50)


@pytest.mark.parametrize("flag", ["--checkpoint_every=15", "--kills=0", "--directory={}"])
def test_what_makes_no_sense_is_refused(tmp_path, flag, capsys):
  assert check_resume.run(["check", flag.format(tmp_path)]) == 2
  assert "error: " in capsys.readouterr().err
