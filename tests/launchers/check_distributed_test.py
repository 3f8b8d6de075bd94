"""Tests of `temper.launchers.check_distributed`: a few kills, and a signal to the command."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from temper.launchers import check_distributed
from temper.launchers.distributed import killed_program


def test_a_run_with_killed_nodes_ends_well(tmp_path, capsys):
  directory = str(tmp_path / "run")
  code = check_distributed.run(
    [
      "check",
      "--kills=1",
      "--seed=1",
      "--steps=700",
      "--checkpoint_every=300",
      "--target=-2000",
      f"--directory={directory}",
    ]
  )
  captured = capsys.readouterr()
  assert code == 0, captured.err
  assert "kill 1 of 1" in captured.err and "the logs are whole" in captured.out
  assert os.path.exists(os.path.join(directory, "result.json"))


def test_a_folder_that_exists_is_refused(tmp_path, capsys):
  assert check_distributed.run(["check", f"--directory={tmp_path}"]) == 2
  assert "give a folder that does not" in capsys.readouterr().err


def test_sigterm_ends_the_command_with_a_checkpoint_and_its_code(tmp_path):
  directory = str(tmp_path / "run")
  settings = {
    "directory": directory,
    "launch": "local_mp",
    "steps": 10**6,
    "eval_every": 0,
    "num_evaluators": 0,
    "log_every": 50,
    "config.batch_size": 4,
    "config.policy_layer_sizes": 8,
    "config.critic_layer_sizes": 8,
    "config.min_replay_size": 50,
    "gif": "false",
  }
  command = [sys.executable, "-m", "temper.launchers.train"]
  command += [f"--{name}={value}" for name, value in settings.items()]
  with open(tmp_path / "output", "wb") as output:
    process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
  try:
    log, end = os.path.join(directory, "logs", "speed.csv"), time.monotonic() + 120
    while not (os.path.exists(log) and os.path.getsize(log) > 100):
      assert time.monotonic() < end and process.poll() is None, (tmp_path / "output").read_text()
      time.sleep(0.1)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) == 143, (tmp_path / "output").read_text()
    assert not psutil.wait_procs(family, timeout=30)[1]
  finally:
    if process.poll() is None:
      os.killpg(process.pid, signal.SIGKILL)
  said = (tmp_path / "output").read_text()
  assert "SIGTERM received at step" in said and "Resume with: " in said
  assert os.listdir(os.path.join(directory, "checkpoints"))


@pytest.mark.parametrize(
  "text, message",
  [
    ("step,episode\n5,1\n9,3\n", "an episode repeated or missing"),
    ("step,episode\n5,1\n5,2\n", "a row repeated or out of order"),
    ("step,episode\n5,1\n9,2", "a torn row"),
  ],
)
def test_logs_that_a_kill_must_not_leave_are_named(tmp_path, text, message):
  os.makedirs(tmp_path / "run" / "logs")
  (tmp_path / "run" / "logs" / "train.csv").write_text(text)
  (tmp_path / "run.output").write_text("the last words\n")
  program = killed_program.KilledProgram(["false"], str(tmp_path / "run"), every=10)
  with pytest.raises(killed_program.BrokenProgramError, match=f"(?s){message}.*the last words"):
    program._check_rows("train")
