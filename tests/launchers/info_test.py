"""Tests of the info launcher: what it says of each kind of path."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from temper.launchers import info
from temper.launchers import path_info
from temper.launchers import run_directory
from temper.utils import evaluation
from temper.utils.policy_kinds import PolicyKind


def _info(path, *words):
  return info.run(["temper info", str(path), *words])


def test_a_run_is_shown_without_tensorflow(pendulum_run):
  program = (
    "import sys\n"
    "from temper.launchers import info\n"
    "code = info.run(['temper info', sys.argv[1]])\n"
    "assert 'tensorflow' not in sys.modules\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program, pendulum_run],
    capture_output=True,
    text=True,
    timeout=60,
    check=True,
  )
  for words in (
    f"{pendulum_run}: SVG0 on gym:Pendulum-v1, seed 0",
    "finished: 60 of 60 steps, 0 episodes",
    "step 30, ",
    "checkpoints/step_60",
    "2 logged",
    "newest deterministic, step 60: mean return -",
    "learner.csv ends  step ",
    "made by",
    "temper-rl 0.1.0",
    "in all",
  ):
    assert words in done.stdout
  assert not done.stderr


def test_a_run_in_json(pendulum_run, capsys):
  assert _info(pendulum_run, "--json") == 0
  found = json.loads(capsys.readouterr().out)
  assert found["kind"] == "run" and found["state"] == "finished"
  assert [entry["step"] for entry in found["checkpoints"]] == [30, 60]
  assert found["steps"] == found["steps_asked_for"] == 60
  assert {file["name"] for file in found["files"]} >= {"config.json", "logs", "policy"}
  assert found["bytes"] == sum(file["bytes"] for file in found["files"])
  assert {row["mode"] for row in found["newest_evaluations"]} == {"deterministic", "stochastic"}


def test_the_state_of_a_run(pendulum_run, tmp_path):
  path = shutil.copytree(pendulum_run, tmp_path / "run")
  directory = run_directory.RunDirectory(str(path))
  state = lambda: path_info.describe_run(directory)["state"]
  assert state() == "finished"
  claim = directory.claim()
  try:
    assert state() == "running"
  finally:
    claim.release()
  shutil.rmtree(path / "checkpoints" / "step_60")
  assert state() == "unfinished" and path_info.describe_run(directory)["steps"] == 30
  shutil.rmtree(path / "checkpoints")
  (path / "result.json").unlink()
  found = path_info.describe_run(directory)
  assert found["state"] == "unfinished" and found["steps"] == 0 and not found["checkpoints"]
  assert "none yet" in info.in_words(found)


def test_best_checkpoints_early_stop_and_further_evaluations_are_shown(pendulum_run, tmp_path):
  path = shutil.copytree(pendulum_run, tmp_path / "run")
  best = shutil.copytree(path / "checkpoints" / "step_30", path / "best" / "stochastic" / "step_30")
  document = json.loads((best / "state.json").read_text())
  document["state"]["mean_return"] = -12.5
  (best / "state.json").write_text(json.dumps(document))
  result = json.loads((path / "result.json").read_text())
  result["early_stop"] = {"step": 60, "outcome": "met at step 60"}
  (path / "result.json").write_text(json.dumps(result))
  evaluated = evaluation.summarise(
    [1, 2], [evaluation.Outcome(-3.0, 5, evaluation.EpisodeEnd.TERMINATION)] * 2, PolicyKind.MEAN
  )
  folder = path / "evaluations" / "mean-step60"
  os.makedirs(folder)
  entry = {"policy_in_words": "mean", "environment": "gym:X", **evaluated.as_dict()}
  run_directory.write_json(str(folder / "result.json"), entry)
  text = info.in_words(path_info.describe(str(path)))
  for words in (
    "stochastic: step 30, mean return -12.5",
    "early stop",
    "met at step 60",
    "mean-step60: mean on gym:X, mean return -3.0 [-3.0, -3.0] over 2 episodes",
  ):
    assert words in text


def test_a_checkpoint(pendulum_run, capsys):
  path = f"{pendulum_run}/checkpoints/step_30"
  assert _info(path) == 0
  text = capsys.readouterr().out
  assert f"{path}: a checkpoint" in text and "target_critic" in text and "steps 30" in text
  found = path_info.describe(path)
  assert found["step"] == 30 and 0 < found["replay_bytes"] < found["bytes"]


def test_an_exported_policy(pendulum_run, capsys):
  assert _info(f"{pendulum_run}/policy") == 0
  text = capsys.readouterr().out
  for words in (
    "an exported policy",
    "savedmodel",
    "svg0",
    "takes observation float32",
    "log_prob",
  ):
    assert words in text


def test_a_dataset(point_mass_file, capsys):
  assert _info(point_mass_file) == 0
  text = capsys.readouterr().out
  for words in ("a dataset", "30, 600 steps", "30 by truncation", "float32 [2]", "not named"):
    assert words in text
  assert _info(point_mass_file, "--json") == 0
  found = json.loads(capsys.readouterr().out)
  assert found["kind"] == "dataset" and found["episodes"] == 30
  assert found["bytes"] == os.path.getsize(point_mass_file)


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda path: None, "does not exist"),
    (lambda path: path.mkdir(), "is no run (it has no config.json), no checkpoint"),
    (lambda path: path.write_text("words"), "and no dataset"),
  ],
)
def test_what_is_nothing_known_is_refused(make, message, tmp_path, capsys):
  make(tmp_path / "thing")
  assert _info(tmp_path / "thing") == 2
  last = capsys.readouterr().err.splitlines()[-1]
  assert last.startswith("error: ") and message in last


def test_a_folder_of_runs_is_named_as_such(pendulum_run, capsys):
  assert _info(os.path.dirname(pendulum_run)) == 2
  assert f"holds runs; give one of them: {pendulum_run}" in capsys.readouterr().err


def test_a_path_is_needed_and_a_damaged_checkpoint_fails(pendulum_run, tmp_path, capsys):
  assert info.run(["temper info"]) == 2
  assert "A path is missing" in capsys.readouterr().err
  path = shutil.copytree(f"{pendulum_run}/checkpoints/step_30", tmp_path / "step_30")
  (path / "state.json").write_text("{")
  assert _info(path) == 1
  assert "not a complete checkpoint" in capsys.readouterr().err
