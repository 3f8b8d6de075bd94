"""Tests of the collect launcher: what it records, and what a stop leaves."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from temper.launchers import collect
from temper.launchers import collection
from temper.launchers import episode_sources
from temper.launchers import stopping
from temper.utils import datasets

_PENDULUM = "gym:Pendulum-v1"


def _collect(*words):
  return collect.run(["temper collect", *words])


def test_help_comes_without_tensorflow():
  program = (
    "import sys\n"
    "from temper.launchers import collect\n"
    "code = collect.run(['temper collect', '--help'])\n"
    "assert 'tensorflow' not in sys.modules\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  for flag in ("env", "output", "format", "policy", "run", "agent", "episodes", "steps", "noise"):
    assert f"--{flag} " in done.stdout
  assert "examples:" in done.stdout


@pytest.mark.parametrize(
  "words, message",
  [
    ([], "none is given; exactly one source"),
    (["--policy=random", "--agent=svg0"], "--policy and --agent are given"),
    (["--policy=expert"], "expert"),
    (["--agent=dqn"], "agent 'dqn' does not exist"),
    (["--policy=random"], "give --episodes or --steps"),
    (["--policy=random", "--steps=3", "--episodes=3"], "give --episodes or --steps"),
    (["--policy=random", "--steps=3", "--noise=0.1"], "--noise is for --run"),
    (["--run=nowhere", "--steps=3", "--preset=none"], "--preset is for --agent"),
    (["--run=nowhere", "--steps=3"], "nowhere holds no run"),
    (["--policy=random", "--steps=0"], "steps"),
    (["--policy=random", "--steps=3", "--env=gym:Pendulm-v1"], "Pendulum-v1"),
    (["--policy=random", "--steps=3", "--observation_indices=7"], "from 0 to 2"),
    (["--policy=random", "--steps=3", "--config.batch_size=3"], "no such flag"),
    (["--agent=svg0", "--steps=3", "--config.batch_size=0"], "batch_size is 0"),
  ],
)
def test_what_is_refused_gets_one_clear_line_and_no_file(words, message, tmp_path, capsys):
  assert _collect(f"--output={tmp_path}/data.npz", *words) == 2
  captured = capsys.readouterr()
  last = captured.err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert "Traceback" not in captured.err and not captured.out
  assert os.listdir(tmp_path) == []


def test_the_format_must_be_known(tmp_path, capsys):
  assert _collect(f"--output={tmp_path}/data", "--policy=random", "--steps=3") == 2
  assert "does not tell the format" in capsys.readouterr().err


@pytest.mark.parametrize(
  "name, words",
  [
    ("data.npz", []),
    ("data.h5", []),
    ("pendulum-v0", ["--format=minari"]),
    ("data", ["--format=rlds"]),
  ],
)
def test_random_episodes_in_each_format(name, words, tmp_path, capsys):
  path = str(tmp_path / "new" / name)
  assert _collect(f"--output={path}", "--policy=random", "--steps=250", "--seed=4", *words) == 0
  out = capsys.readouterr().out.splitlines()
  assert len(out) == 1 and path in out[0] and "2 episodes, 250 steps" in out[0]
  assert "2 truncations" in out[0]
  dataset = datasets.open_dataset(path)
  assert dataset.lengths.tolist() == [200, 50] and dataset.environment_name == _PENDULUM
  first = dataset.read(0)
  # The environment's own torques, which go from -2 to 2, and all of its observations.
  assert first.observation.shape == (201, 3)
  assert 1.8 < np.abs(first.action).max() <= 2.0
  np.testing.assert_allclose(np.hypot(*first.observation[:, :2].T), 1.0, atol=1e-5)


def test_an_existing_output_is_refused_and_kept(tmp_path, capsys):
  path = tmp_path / "data.npz"
  path.write_text("precious")
  assert _collect(f"--output={path}", "--policy=random", "--steps=3") == 2
  assert "exists already. Give another output" in capsys.readouterr().err
  assert path.read_text() == "precious"


def test_the_seed_decides_and_the_mask_leaves_the_recorded_observations_whole(tmp_path):
  returns = {}
  for name, words in {
    "a": ["--seed=1"],
    "b": ["--seed=1", "--observation_indices=0,1"],
    "c": ["--seed=2"],
  }.items():
    path = f"{tmp_path}/{name}.npz"
    assert _collect(f"--output={path}", "--policy=random", "--episodes=2", *words) == 0
    dataset = datasets.open_dataset(path)
    assert dataset.read(0).observation.shape == (201, 3)
    returns[name] = dataset.returns.tolist()
  assert returns["a"] == returns["b"] != returns["c"]


_TINY = [
  "--config.policy_layer_sizes=8",
  "--config.critic_layer_sizes=8",
  "--config.prior_layer_sizes=8",
  "--config.batch_size=4",
  "--config.min_replay_size=40",
]


def test_an_agent_learns_and_its_episodes_are_recorded(tmp_path, monkeypatch):
  learnt = []
  close = episode_sources.local.LocalAgent.close

  def spy(self):
    learnt.append(self.learner.num_steps)
    close(self)

  monkeypatch.setattr(episode_sources.local.LocalAgent, "close", spy)
  path = f"{tmp_path}/data.npz"
  assert _collect(f"--output={path}", "--agent=svg0", "--steps=230", *_TINY) == 0
  dataset = datasets.open_dataset(path)
  assert dataset.lengths.tolist() == [200, 30]
  assert learnt[0] > 0


def test_a_runs_policy_is_played(pendulum_run, tmp_path):
  played = {}
  for name, words in {
    "mean": ["--eval_policy=mean"],
    "again": ["--eval_policy=mean"],
    "noisy": ["--eval_policy=mean", "--noise=0.3"],
    "boltzmann": ["--eval_policy=boltzmann", "--num_action_samples=4", "--beta=0"],
  }.items():
    path = f"{tmp_path}/{name}.npz"
    assert _collect(f"--output={path}", f"--run={pendulum_run}", "--steps=40", *words) == 0
    dataset = datasets.open_dataset(path)
    assert dataset.environment_name == _PENDULUM
    played[name] = dataset.read(0).action[:, 0]
  np.testing.assert_array_equal(played["mean"], played["again"])
  noise = played["noisy"][0] - played["mean"][0]
  assert 0 < abs(noise) < 2 * 0.3 * 5  # Torques are twice the canonical actions.
  assert np.abs(played["noisy"]).max() <= 2.0
  assert not np.array_equal(played["boltzmann"], played["mean"])


def test_the_newest_or_a_given_checkpoint_is_taken(pendulum_run, tmp_path, capsys):
  newest = f"{pendulum_run}/checkpoints/step_60"
  actions = []
  for name, words in {"a": [], "b": [f"--checkpoint={newest}"]}.items():
    path = f"{tmp_path}/{name}.npz"
    assert _collect(f"--output={path}", f"--run={pendulum_run}", "--steps=5", *words) == 0
    actions.append(datasets.open_dataset(path).read(0).action)
  np.testing.assert_array_equal(*actions)
  words = [f"--run={pendulum_run}", "--steps=5", f"--checkpoint={pendulum_run}/checkpoints/step_7"]
  assert _collect(f"--output={tmp_path}/c.npz", *words) == 2
  assert "step_7" in capsys.readouterr().err and not os.path.exists(tmp_path / "c.npz")


class _StopsAfter:
  """Like a StopSignal whose signal comes after so many checks."""

  def __init__(self, checks):
    self._left = checks

  def check(self):
    self._left -= 1
    if self._left < 0:
      raise stopping.StopRequested(signal.SIGINT)


def _config(path, **options):
  return collection.CollectionConfig(
    environment=_PENDULUM,
    output=str(path),
    format=datasets.DatasetFormat.NPZ,
    parts=(
      collection.Part(episode_sources.RandomSource(), episodes=1),
      collection.Part(episode_sources.RandomSource(), steps=100),
    ),
    **options,
  )


def test_parts_follow_each_other(tmp_path):
  path = tmp_path / "data.npz"
  collected = collection.collect(_config(path), _StopsAfter(10**6))
  assert collected.stop is None and collected.summary.steps == 300
  dataset = datasets.open_dataset(path)
  assert dataset.lengths.tolist() == [200, 100]
  # Each part has a seed of its own.
  assert not np.array_equal(dataset.read(0).action[:100], dataset.read(1).action)


@pytest.mark.parametrize("checks, lengths", [(50, None), (250, [200])])
def test_a_stop_keeps_what_there_is_or_nothing(checks, lengths, tmp_path):
  kept = tmp_path / "kept" / "data.npz"
  collected = collection.collect(_config(kept), _StopsAfter(checks))
  assert collected.stop is not None
  found = datasets.open_dataset(kept).lengths.tolist()
  assert found[: len(lengths or [])] == (lengths or []) and sum(found) < 300
  dropped = tmp_path / "dropped" / "data.npz"
  with pytest.raises(stopping.StopRequested):
    collection.collect(_config(dropped, keep_when_stopped=False), _StopsAfter(checks))
  assert os.listdir(tmp_path / "dropped") == []


def test_a_stop_before_the_first_step_leaves_nothing(tmp_path):
  with pytest.raises(stopping.StopRequested):
    collection.collect(_config(tmp_path / "data.npz"), _StopsAfter(0))
  assert os.listdir(tmp_path) == []


def test_ctrl_c_on_the_real_command_leaves_a_whole_dataset_and_says_so(tmp_path):
  path = tmp_path / "data.npz"
  words = ["--policy=random", "--episodes=1000000", f"--output={path}"]
  with subprocess.Popen(
    [sys.executable, "-m", "temper.launchers.collect", *words],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  ) as process:
    # The bar's first line comes when it plays.
    assert process.stderr.readline().startswith("episode ")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
  assert process.returncode == 130
  assert "SIGINT received; the episodes until then" in err and "Traceback" not in err
  dataset = datasets.open_dataset(path)
  assert f"{len(dataset):,} episodes" in out and os.listdir(tmp_path) == ["data.npz"]


@pytest.mark.parametrize(
  "options", [dict(), dict(episodes=2, steps=2), dict(episodes=0), dict(steps=1.5)]
)
def test_a_part_says_how_much_in_one_way(options):
  with pytest.raises(ValueError, match="episodes|steps"):
    collection.Part(episode_sources.RandomSource(), **options)
