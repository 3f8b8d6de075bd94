"""Tests of the train-offline launcher: its command line, and one run of the real command."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from temper.launchers import train_offline
from temper.utils.datasets import episodes
from temper.utils.datasets import writing

_TINY = [
  "--config.policy_layer_sizes=(8,)",
  "--config.critic_layer_sizes=8",
  "--config.lstm_size=none",
  "--config.batch_size=8",
  "--config.sequence_length=4",
  "--eval_episodes=2",
  "--nogif",
]


@pytest.fixture(name="pendulum", scope="module")
def _pendulum(tmp_path_factory):
  """Three episodes with the observations and actions of Pendulum-v1, which the file names."""
  random = np.random.default_rng(0)
  recorded = [
    episodes.Episode(
      observation=random.normal(size=(41, 3)).astype(np.float32),
      action=random.uniform(-2, 2, size=(40, 1)).astype(np.float32),
      reward=-random.uniform(0, 9, size=40).astype(np.float32),
      discount=np.ones(40, np.float32),
    )
    for _ in range(3)
  ]
  path = tmp_path_factory.mktemp("data") / "swings.npz"
  writing.write_dataset(path, "npz", recorded, environment_name="gym:Pendulum-v1")
  return str(path)


def test_help_names_every_flag_and_comes_without_tensorflow():
  program = (
    "import sys\n"
    "from temper.launchers import train_offline\n"
    "code = train_offline.run(['temper train-offline', '--help'])\n"
    "assert 'tensorflow' not in sys.modules\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout.startswith("usage: temper train-offline ")
  for flag in ("dataset", "env", "steps", "eval_policy", "beta", "normalise_observations"):
    assert f"--{flag} " in done.stdout
  assert "vmin and vmax are set from the data" in done.stdout and "crr: " in done.stdout
  assert all(len(line) <= 110 for line in done.stdout.splitlines())


def test_helpfull_lists_the_agents_fields(capsys):
  assert train_offline.run(["temper train-offline", "--helpfull", "--env=gym:Pendulum-v1"]) == 0
  text = capsys.readouterr().out
  assert "--config.vmin=" in text and "--config.policy_improvement_modes=exp" in text
  assert "--config.lstm_size=none  (an integer or none)" in text


@pytest.mark.parametrize(
  "words, message",
  [
    (["--dataset="], "--dataset is missing"),
    (["--dataset=nowhere.npz"], "there is no file or folder nowhere.npz"),
    (["--format=hdf5"], "swings.npz"),
    (["--format=csv"], "npz|hdf5|minari|rlds"),
    (["--agent=dqn"], "agent 'dqn' does not exist"),
    (["--env=gym:Pendulm-v1"], "Pendulum-v1"),
    (["--env=gym:MountainCarContinuous-v0"], "swings.npz"),
    (["--preset=pendulm"], "Did you mean 'pendulum'?"),
    (["--stpes=3"], "Did you mean --steps?"),
    (["--eval_policy=raw,best"], "'best'; choose among mean, raw, boltzmann"),
    (["--eval_policy=raw,raw"], "each kind once"),
    (["--beta=-1"], "beta"),
    (["--directory="], "directory is empty"),
    (["--config.vmax=-1e9"], "vmax"),
    (["--config.batchsize=3"], "Did you mean 'batch_size'?"),
    (["--agent=svg0"], "log_prob"),
    (["--observation_indices=a"], "observation_indices is 'a'"),
  ],
)
def test_what_is_refused_gets_one_clear_line_and_no_folder(
  words, message, pendulum, tmp_path, capsys
):
  directory = tmp_path / "run"
  argv = ["temper train-offline", f"--dataset={pendulum}", f"--directory={directory}", *words]
  assert train_offline.run(argv) == 2
  captured = capsys.readouterr()
  last = captured.err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert "Traceback" not in captured.err and not captured.out
  assert not directory.exists()


def test_the_environment_is_the_datasets_own_unless_said_otherwise(
  pendulum, tmp_path, monkeypatch, capfd
):
  monkeypatch.chdir(tmp_path)
  argv = ["temper train-offline", f"--dataset={pendulum}", "--steps=20", *_TINY]
  assert train_offline.run([*argv, "--eval_policy=boltzmann", "--beta=0.25", "--eval_every=0"]) == 0
  assert os.listdir(tmp_path / "runs") == ["crr-swings-seed0"]
  captured = capfd.readouterr()
  assert "Evaluating in gym:Pendulum-v1, as the dataset says." in captured.err
  assert "3 episodes, 120 steps" in captured.err and "boltzmann (beta 0.25" in captured.err
  assert "the data " in captured.out and "boltzmann, final" in captured.out
  with open(tmp_path / "runs" / "crr-swings-seed0" / "config.json", encoding="utf-8") as file:
    record = json.load(file)
  assert record["environment"] == "gym:Pendulum-v1" and record["preset"] == "pendulum"
  assert record["dataset_path"] == pendulum and record["config"]["vmax"] <= 0
  assert record["command"].startswith("temper train-offline --dataset=")

  given = ["--env=none", "--seed=1", "--config.vmin=-1000", "--config.vmax=5"]
  assert train_offline.run([*argv, *given]) == 0
  captured = capfd.readouterr()
  assert "Nothing is evaluated, as --env=none says." in captured.err
  assert "from the data's discounted returns" not in captured.err
  with open(tmp_path / "runs" / "crr-swings-seed1" / "config.json", encoding="utf-8") as file:
    config = json.load(file)["config"]
  assert (config["vmin"], config["vmax"]) == (-1000, 5)


def test_ctrl_c_on_the_real_command_and_resuming_it(pendulum, tmp_path):
  directory = tmp_path / "run"
  # The file may have moved in between: what is in it tells that it is the same.
  moved = tmp_path / "moved.npz"
  words = [f"--directory={directory}", "--env=none", "--log_every=10", *_TINY]
  command = [sys.executable, "-m", "temper.launchers.train_offline", f"--dataset={pendulum}"]
  process = subprocess.Popen(
    [*command, *words, "--steps=1000000"],
    stderr=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    log = directory / "logs" / "learner.csv"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.read_text().count("\n") > 3):
      assert process.poll() is None and time.monotonic() < deadline
      time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
  finally:
    process.kill()
  assert process.returncode == 130, err
  assert "SIGINT received at step" in err and "Resume with: python -m temper.launchers" in err
  assert "Traceback" not in err and not out
  steps = int(os.listdir(directory / "checkpoints")[0].partition("_")[2])

  shutil.copy(pendulum, moved)
  argv = ["temper train-offline", f"--dataset={moved}", *words, f"--steps={steps + 25}"]
  assert train_offline.run(argv) == 0
  with open(directory / "result.json", encoding="utf-8") as file:
    assert json.load(file)["learner_steps"] == steps + 25
