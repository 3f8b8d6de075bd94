"""Tests of the train launcher: its command line, and one run of the real command."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from temper.launchers import train

_TINY = [
  "--config.policy_layer_sizes=(8,)",
  "--config.critic_layer_sizes=8",
  "--config.prior_layer_sizes",
  "8",
  "--config.batch_size=8",
  "--config.samples_per_insert",
  "1",
  "--config.min_replay_size=40",
  "--eval_every=0",
  "--eval_episodes=2",
  "--nogif",
]


def test_help_names_every_flag_and_comes_without_tensorflow():
  program = (
    "import sys\n"
    "from temper.launchers import train\n"
    "code = train.run(['temper train', '--help'])\n"
    "assert 'tensorflow' not in sys.modules\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout.startswith("usage: temper train ")
  for flag in ("agent", "env", "steps", "directory", "seed", "preset", "eval_episodes"):
    assert f"--{flag} " in done.stdout
  assert "example:" in done.stdout and "pendulum" in done.stdout
  assert all(len(line) <= 110 for line in done.stdout.splitlines())


def test_helpfull_lists_the_agents_fields_with_the_presets_values(capsys):
  assert train.run(["temper train", "--helpfull"]) == 0
  text = capsys.readouterr().out
  assert "--config.batch_size=64  (an integer)" in text
  assert "--config.policy_layer_sizes=(128,128)  (a tuple of int" in text
  assert "--config.entropy_estimator=" in text and "policy_optimizer" not in text


@pytest.mark.parametrize(
  "words, message",
  [
    (["--agent=dqn"], "agent 'dqn' does not exist. Choose one of ['crr', 'sac', 'svg0']"),
    (["--env=gym:Pendulm-v1"], "Pendulum-v1"),
    (["--env=Pendulum-v1"], "gym:<id>"),
    (["--env=dm_control:cartpole:swngup"], "swingup"),
    (["--preset=pendulm"], "Did you mean 'pendulum'?"),
    (["--stpes=3"], "--stpes: there is no such flag. Did you mean --steps? Flags: steps, "),
    (["--gif=maybe"], "'maybe' is not true or false"),
    (["--directory="], "directory is empty"),
    (["--seed=2147483648"], "seed is 2147483648"),
    (["--config.batch_size=1e400"], "'1e400' is not an integer"),
    (["--steps=many"], "'many' is not an integer"),
    (["--steps=0"], "steps"),
    (["--seed=-1"], "seed"),
    (["steps=3"], "'steps=3' is no flag"),
    (["--config.batchsize=3"], "Did you mean 'batch_size'?"),
    (["--config.batch_size=lots"], "'lots' is not an integer"),
    (["--config.batch_size=0"], "batch_size is 0"),
    (["--config.discount", "2"], "discount is 2.0"),
    (["--eval_policy=best"], "should be one of <raw|mean|boltzmann>"),
    (["--behaviour_policy=mean"], "should be one of <raw|boltzmann>"),
    (["--beta=-1"], "beta"),
    (["--beta=nan"], "beta is nan"),
    (["--num_action_samples=0"], "num_action_samples"),
    (["--early_stop_return=nan"], "early_stop_return is nan"),
    (["--early_stop_return=high"], "early_stop_return"),
    (["--early_stop_return=0", "--early_stop_patience=0"], "early_stop_patience"),
    (["--early_stop_patience=5"], "early_stop_return is not given"),
  ],
)
def test_what_is_refused_gets_one_clear_line_and_no_folder(words, message, tmp_path, capsys):
  directory = tmp_path / "run"
  assert train.run(["temper train", f"--directory={directory}", *words]) == 2
  captured = capsys.readouterr()
  # The last line: a process that has used TensorFlow is told first that it keeps its threads.
  last = captured.err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert "Traceback" not in captured.err and not captured.out
  assert not directory.exists()


def test_the_default_directory_is_under_the_current_folder(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert train.run(["temper train", "--steps=60", "--seed=3", *_TINY]) == 0
  assert os.listdir(tmp_path) == ["runs"]
  assert os.listdir(tmp_path / "runs") == ["svg0-gym-Pendulum-v1-seed3"]
  out = capsys.readouterr().out
  assert "SVG0 on gym:Pendulum-v1, seed 3" in out
  assert "deterministic" in out and "stochastic" in out and "95 % interval" in out
  directory = tmp_path / "runs" / "svg0-gym-Pendulum-v1-seed3"
  with open(directory / "config.json", encoding="utf-8") as file:
    record = json.load(file)
  assert record["agent"] == "svg0" and record["preset"] == "pendulum"
  assert record["config"]["prior_layer_sizes"] == [8] and record["config"]["batch_size"] == 8
  assert record["command"].startswith("temper train --steps=60 --seed=3")


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_while_tensorflow_loads_ends_cleanly(tmp_path, signum, code):
  program = (
    "import os, sys\n"
    "from temper.launchers import agent_table, train\n"
    "find = agent_table.find\n"
    f"agent_table.find = lambda name: os.kill(os.getpid(), {int(signum)}) or find(name)\n"
    f"sys.exit(train.run(['temper train', '--directory={tmp_path}/run']))"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
  )
  assert done.returncode == code
  assert "aborted before training began" in done.stderr and "Traceback" not in done.stderr
  assert os.listdir(tmp_path) == []


def test_ctrl_c_on_the_real_command_and_resuming_it(tmp_path):
  directory = tmp_path / "run"
  words = [
    sys.executable,
    "-m",
    "temper.launchers.train",
    f"--directory={directory}",
    "--max_episode_steps=50",
    *_TINY,
  ]
  process = subprocess.Popen(
    [*words, "--steps=1000000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
  )
  try:
    train_log = directory / "logs" / "train.csv"
    deadline = time.monotonic() + 120
    while not (train_log.exists() and train_log.read_text().count("\n") > 3):
      assert process.poll() is None and time.monotonic() < deadline
      time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
  finally:
    process.kill()
  assert process.returncode == 130, err
  assert "SIGINT received at step" in err and "Resume with: python -m temper.launchers.train" in err
  assert "Traceback" not in err and not out
  checkpoints = os.listdir(directory / "checkpoints")
  assert len(checkpoints) == 1
  steps = int(checkpoints[0].partition("_")[2])
  assert f"step {steps:,}" in err

  code = train.run(["temper train", *words[3:], f"--steps={steps + 75}"])
  assert code == 0
  with open(directory / "result.json", encoding="utf-8") as file:
    assert json.load(file)["environment_steps"] == steps + 75
