"""Tests of the evaluate launcher: what it plays, writes and refuses."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from temper.launchers import evaluate
from temper.launchers import evaluation_run
from temper.launchers import stopping


def _evaluate(*words):
  return evaluate.run(["temper evaluate", *words])


def _result(folder):
  with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
    return json.load(file)


def test_help_comes_without_tensorflow():
  program = (
    "import sys\n"
    "from temper.launchers import evaluate\n"
    "code = evaluate.run(['temper evaluate', '--help'])\n"
    "assert 'tensorflow' not in sys.modules\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout.startswith("usage: temper evaluate RUN_OR_POLICY [--flag=value ...]\n")
  for flag in ("episodes", "seeds", "checkpoint", "eval_policy", "environments", "output", "env"):
    assert f"--{flag} " in done.stdout
  assert "[20]" in done.stdout and "[latest]" in done.stdout and "examples:" in done.stdout
  assert "config" not in done.stdout


@pytest.mark.parametrize(
  "words, message",
  [
    ([], "none is given"),
    (["a", "b"], "'b' is one RUN_OR_POLICY too many"),
    (["a", "--directory=b"], "a and b is given"),
    (["nowhere"], "nowhere does not exist"),
    (["RUN", "--checkpoint=7"], r"no checkpoint of step 7, only of the steps [30, 60]"),
    (["RUN", "--checkpoint=best"], "no best checkpoint"),
    (["RUN", "--seeds=3-1"], "'3-1' is no seed"),
    (["RUN", "--seeds=1,x"], "'x' is no seed"),
    (["RUN", "--seeds=0-4", "--episodes=3"], "--seeds=0-4 are 5, one an episode"),
    (["RUN", "--environments=0"], "auto or a number from 1 on"),
    (["RUN", "--environments=many"], "auto or a number from 1 on"),
    (["RUN", "--beta=2"], "--beta is for --eval_policy=boltzmann"),
    (["RUN", "--eval_policy=best"], "best"),
    (["RUN", "--env=gym:Pendulm-v1"], "Pendulum-v1"),
    (["RUN", "--output="], "output is empty"),
    (["RUN", "--batch=3"], "there is no such flag"),
    (["RUN/policy", "--checkpoint=latest"], "an exported policy and has no checkpoints"),
    (["RUN/policy", "--eval_policy=boltzmann"], "'boltzmann' is needed"),
    (["RUN/policy", "--env=gym:MountainCarContinuous-v0"], "takes observation float32 [3]"),
  ],
)
def test_what_is_refused_gets_one_clear_line(words, message, pendulum_run, capsys):
  assert _evaluate(*(word.replace("RUN", pendulum_run) for word in words)) == 2
  captured = capsys.readouterr()
  last = captured.err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert "Traceback" not in captured.err and not captured.out
  assert not os.path.exists(f"{pendulum_run}/evaluations")


def test_another_environment_that_does_not_fit_fails_in_words(pendulum_run, capsys):
  assert _evaluate(pendulum_run, "--env=gym:MountainCarContinuous-v0") == 1
  assert "networks do not fit the checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("kind, mode", [("mean", "deterministic"), ("raw", "stochastic")])
def test_one_environment_finds_what_the_run_itself_found(kind, mode, pendulum_run, tmp_path):
  words = [f"--eval_policy={kind}", "--episodes=2", "--environments=1", f"--output={tmp_path}"]
  assert _evaluate(pendulum_run, *words) == 0
  found, trained = _result(tmp_path), _result(pendulum_run)["evaluations"][mode]
  assert {name: found[name] for name in trained} == trained
  assert found["deterministic"] is (kind == "mean") and found["environments_at_once"] == 1


def test_several_environments_find_what_one_finds(pendulum_run, tmp_path, capsys):
  for count in (1, 3):
    words = ["--seeds=5,0-2", f"--environments={count}", f"--output={tmp_path}/{count}"]
    assert _evaluate(f"--directory={pendulum_run}", *words) == 0
  captured = capsys.readouterr()
  assert "deterministic: yes, nothing is drawn" in captured.err
  assert "3 environments at once" in captured.err and "5,0,1,2" in captured.out
  one, three = _result(tmp_path / "1"), _result(tmp_path / "3")
  assert one["seeds"] == three["seeds"] == [5, 0, 1, 2]
  assert one["ended_by"] == ["truncation"] * 4 and one["lengths"] == [200] * 4
  # Up to the rounding of a product with more rows.
  assert three["returns"] == pytest.approx(one["returns"], rel=1e-4)


def test_it_is_measured_which_is_quicker_and_said(pendulum_run, tmp_path, capsys):
  assert _evaluate(pendulum_run, "--episodes=2", f"--output={tmp_path}") == 0
  assert "A step of the environment takes" in capsys.readouterr().err
  assert _result(tmp_path)["environments_reason"]


def test_files_and_table(pendulum_run, tmp_path, capsys):
  run = shutil.copytree(pendulum_run, tmp_path / "run")
  words = ["--checkpoint=30", "--seeds=7-8", "--eval_policy=boltzmann", "--num_action_samples=3"]
  assert _evaluate(str(run), *words, "--environments=2") == 0
  folder = run / "evaluations" / "boltzmann-step30"
  table = capsys.readouterr().out
  for words in ("SVG0 on gym:Pendulum-v1", "boltzmann (beta 1, 3 samples)", "7,8", str(folder)):
    assert words in table
  assert "200 an episode, ended 2 by truncation" in table
  with open(folder / "episodes.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
  found = _result(folder)
  assert [row["seed"] for row in rows] == ["7", "8"]
  assert [float(row["return"]) for row in rows] == found["returns"]
  assert {row["ended_by"] for row in rows} == {"truncation"}
  assert found["low"] <= found["mean"] <= found["high"]
  assert found["step"] == 30 and found["beta"] == 1.0 and found["num_action_samples"] == 3
  assert found["command"].startswith(f"temper evaluate {run} --checkpoint=30")
  assert sorted(os.listdir(folder)) == ["episodes.csv", "result.json"]


def test_an_exported_policy_finds_what_its_run_finds(pendulum_run, tmp_path, capsys):
  policy = shutil.copytree(f"{pendulum_run}/policy", tmp_path / "policy")
  assert _evaluate(pendulum_run, "--seeds=1,2", f"--output={tmp_path}/run") == 0
  assert _evaluate(str(policy), "--seeds=1,2", "--environments=2") == 0
  assert "exported policy" in capsys.readouterr().out
  found = _result(policy / "evaluations" / "mean")
  assert found["returns"] == pytest.approx(_result(tmp_path / "run")["returns"], rel=1e-4)
  drawn = []
  for seed in (1, 1, 2):
    words = ["--eval_policy=raw", f"--seed={seed}", f"--output={tmp_path}/raw"]
    assert _evaluate(str(policy), "--seeds=1", *words) == 0
    drawn.append(_result(tmp_path / "raw")["returns"])
  assert drawn[0] == drawn[1] != drawn[2]


def test_another_environment_has_a_folder_of_its_own(pendulum_run):
  saved = evaluation_run.saved_policy.open_saved(pendulum_run, environment="gym:Other-v0")
  choice = evaluation_run.policies.MEAN
  path = evaluation_run.output_path(saved, choice, "evaluations")
  assert path == f"{pendulum_run}/evaluations/mean-step60-gym-Other-v0"


def test_a_stop_writes_nothing(pendulum_run, tmp_path, capsys, monkeypatch):
  checks = []

  def check(self):
    checks.append(1)
    if len(checks) == 50:
      raise stopping.StopRequested(signal.SIGINT)

  monkeypatch.setattr(stopping.StopSignal, "check", check)
  assert _evaluate(pendulum_run, f"--output={tmp_path}/out") == 130
  assert "SIGINT received; nothing is written." in capsys.readouterr().err
  assert not os.path.exists(tmp_path / "out")


def test_a_folder_that_cannot_be_written_fails_in_words(pendulum_run, tmp_path, capsys):
  (tmp_path / "file").write_text("")
  assert _evaluate(pendulum_run, "--episodes=1", f"--output={tmp_path}/file/out") == 1
  assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
  "seeds, text", [([3], "3"), ([3, 4], "3,4"), ([3, 4, 5], "3-5"), ([5, 4, 3], "5,4,3")]
)
def test_seeds_are_worded_as_they_are_typed(seeds, text):
  assert evaluation_run.seeds_in_words(seeds) == text
  assert list(evaluate._seeds(text, None)) == seeds
