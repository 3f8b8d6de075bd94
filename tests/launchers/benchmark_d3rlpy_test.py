"""The comparison with d3rlpy: all of it that runs where d3rlpy is not installed."""

import dataclasses
import json
import sys
import types

import gymnasium
import numpy as np
import pytest

from temper.launchers import benchmark_d3rlpy
from temper.launchers import comparison
from temper.launchers import config_flags
from temper.launchers import d3rlpy_sides
from temper.launchers import d3rlpy_worker
from temper.launchers import peer_environment
from temper.utils import datasets
from temper.utils import environments
from temper.utils import evaluation
from temper.utils import policy_kinds

_JOB = d3rlpy_worker.Job(
  dataset="data.npz",
  environment="Pendulum-v1",
  start_seeds=(1, 2),
  seed=3,
  steps=20,
  eval_every=10,
  normalise_observations=True,
  threads=1,
  config=d3rlpy_worker.Config(layer_sizes=(8, 4), beta=0.5),
)
_BOLTZMANN = policy_kinds.PolicyKind.BOLTZMANN


def _episode(length: int, terminated: bool, start: float = 0.0) -> datasets.Episode:
  discount = np.ones(length, np.float32)
  discount[-1] = 0.0 if terminated else 1.0
  steps = start + np.arange(length + 1, dtype=np.float32)
  return datasets.Episode(
    observation=np.stack([steps, -steps, 10 * steps], axis=1),
    action=steps[:-1, None] / 100,
    reward=-steps[:-1],
    discount=discount,
  )


def _dataset(*episodes: datasets.Episode) -> datasets.InMemoryDataset:
  return datasets.InMemoryDataset(episodes, path="data.npz", format=datasets.DatasetFormat.NPZ)


@pytest.fixture(name="peer_episode")
def _peer_episode(monkeypatch):
  """Converts an episode as the worker does, with d3rlpy's class played by a named tuple."""
  episode_class = lambda *fields: types.SimpleNamespace(
    **dict(zip(("observations", "actions", "rewards", "terminated"), fields))
  )
  module = types.SimpleNamespace(dataset=types.SimpleNamespace(Episode=episode_class))
  monkeypatch.setitem(sys.modules, "d3rlpy", module)
  return lambda episode: d3rlpy_worker._to_peer(
    episode.observation, episode.action, episode.reward, episode.terminated
  )


class TestWorker:
  def test_job_survives_json(self):
    assert d3rlpy_worker.Job.from_json(json.loads(json.dumps(_JOB.to_json()))) == _JOB

  @pytest.mark.parametrize(
    ("field", "value", "allowed"), [("mode", "all", "binary"), ("baseline", "min", "max")]
  )
  def test_config_refuses_what_d3rlpy_lacks(self, field, value, allowed):
    with pytest.raises(ValueError, match=f"{field} is '{value}'.*{allowed}"):
      d3rlpy_worker.Config(**{field: value})

  @pytest.mark.parametrize(("steps", "eval_every"), [(25, 10), (0, 1), (10, 0)])
  def test_job_must_end_with_an_evaluation(self, steps, eval_every):
    with pytest.raises(ValueError, match=f"steps is {steps} and eval_every {eval_every}"):
      dataclasses.replace(_JOB, steps=steps, eval_every=eval_every)

  def test_defaults_are_those_of_crr_where_both_have_them(self):
    config_module = pytest.importorskip("temper.agents.crr.config")
    ours, both = config_module.CRRConfig(), d3rlpy_worker.Config()
    for name in ("discount", "batch_size", "target_update_period", "ratio_upper_bound", "beta"):
      assert getattr(both, name) == getattr(ours, name)
    assert both.num_action_samples == ours.num_action_samples_policy_weight
    assert both.max_gradient_norm == ours.max_gradient_norm

  def test_truncated_episode_keeps_every_transition(self, peer_episode):
    episode = _episode(4, terminated=False)
    peer = peer_episode(episode)
    # d3rlpy makes one transition less than there are rows.
    np.testing.assert_array_equal(peer.observations, episode.observation)
    np.testing.assert_array_equal(peer.actions[:, 0], [*episode.action[:, 0], 0.0])
    np.testing.assert_array_equal(peer.rewards[:, 0], [*episode.reward, 0.0])
    assert peer.terminated is False

  def test_terminated_episode_has_as_many_rows_as_transitions(self, peer_episode):
    episode = _episode(4, terminated=True)
    peer = peer_episode(episode)
    np.testing.assert_array_equal(peer.observations, episode.observation[:-1])
    np.testing.assert_array_equal(peer.actions, episode.action)
    np.testing.assert_array_equal(peer.rewards[:, 0], episode.reward)
    assert peer.terminated is True

  def test_play_returns_what_our_evaluation_returns(self):
    gains = np.array([1.5, -2.5, -1.2], np.float32)
    names, seeds = "gym:Pendulum-v1", evaluation.start_seeds(3)
    ours = environments.make_environment(names)

    class Linear:
      select_action = staticmethod(lambda observation: np.tanh(observation @ gains)[None])
      observe_first = observe = staticmethod(lambda *args, **kwargs: None)

    expected = [evaluation.run_episode(ours, Linear(), seed=seed)[0] for seed in seeds]
    peers = [gymnasium.make("Pendulum-v1") for _ in seeds]
    act = lambda observations: 2 * np.tanh(observations @ gains)[:, None]
    returns = d3rlpy_worker.play(peers, seeds, act)
    np.testing.assert_allclose(returns, expected, rtol=1e-5)
    assert len(set(returns)) == 3

  def test_play_goes_on_with_the_episodes_that_have_not_ended(self):
    class Counter:
      """Ends after as many steps as its seed says, paying its action, which is clipped to 1."""

      action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

      def reset(self, seed):
        self._left = seed
        return np.zeros(1), {}

      def step(self, action):
        self._left -= 1
        return np.zeros(1), action[0], self._left == 0, False, {}

    rows = []
    act = lambda observations: rows.append(len(observations)) or np.full((len(observations), 1), 5)
    assert d3rlpy_worker.play([Counter(), Counter(), Counter()], [2, 1, 4], act) == [2.0, 1.0, 4.0]
    assert rows == [3, 2, 1, 1]

  def test_probe_is_equal_on_both_sides(self):
    ours = d3rlpy_sides.probe("gym:Pendulum-v1", 11)
    theirs = d3rlpy_worker.probe(gymnasium.make("Pendulum-v1"), 11)
    d3rlpy_sides.check_probe(ours, theirs, "gym:Pendulum-v1")
    with pytest.raises(d3rlpy_sides.ComparisonError, match="not the same environment"):
      d3rlpy_sides.check_probe(ours, theirs - 10, "gym:Pendulum-v1")


class TestDatasetForThePeer:
  def test_holds_the_same_episodes(self, tmp_path):
    episodes = [_episode(3, True), _episode(1, False, start=50.0), _episode(5, False)]
    path = d3rlpy_sides.write_for_peer(_dataset(*episodes), tmp_path)
    read = d3rlpy_worker.read_episodes(str(path))
    assert len(read) == 3
    for (observations, actions, rewards, terminated), episode in zip(read, episodes):
      np.testing.assert_array_equal(observations, episode.observation)
      np.testing.assert_array_equal(actions, episode.action)
      np.testing.assert_array_equal(rewards, episode.reward)
      assert terminated is episode.terminated
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]

  def test_has_a_name_by_its_content(self, tmp_path):
    name = lambda *episodes: d3rlpy_sides.write_for_peer(_dataset(*episodes), tmp_path).name
    first = name(_episode(3, True))
    assert name(_episode(3, True)) == first
    assert name(_episode(3, False)) != first

  def test_refuses_what_is_no_vector(self, tmp_path):
    episode = dataclasses.replace(_episode(3, True), observation={"a": np.zeros((4, 2))})
    with pytest.raises(datasets.DatasetError, match="episode 1 must be vectors"):
      d3rlpy_sides.write_for_peer(_dataset(_episode(2, True), episode), tmp_path)


class TestTheirs:
  def _interpreter(self, tmp_path, body: str) -> str:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)

  def test_runs_a_job_once(self, tmp_path):
    folder = tmp_path / "run"
    # $3 is the job, $4 the result.
    python = self._interpreter(
      tmp_path, f'echo x >> {tmp_path}/count; echo "{{\\"job\\": $(cat $3), \\"n\\": 1}}" > $4'
    )
    first = d3rlpy_sides.train_theirs(_JOB, folder, python)
    assert first["n"] == 1 and first["job"] == _JOB.to_json()
    assert d3rlpy_sides.train_theirs(_JOB, folder, python) == first
    assert (tmp_path / "count").read_text() == "x\n"
    other = dataclasses.replace(_JOB, seed=4)
    assert d3rlpy_sides.train_theirs(other, folder, python)["job"]["seed"] == 4

  def test_failure_shows_what_it_said(self, tmp_path):
    python = self._interpreter(tmp_path, "echo out of luck >&2; exit 3")
    with pytest.raises(d3rlpy_sides.ComparisonError, match="(?s)ended with 3.*out of luck"):
      d3rlpy_sides.train_theirs(_JOB, tmp_path / "run", python)

  def test_curve_is_that_of_one_policy(self):
    entries = [
      {"step": step, "policy": policy, "returns": [step + add, step - add]}
      for step in (10, 20)
      for policy, add in (("mean", 1), ("boltzmann", 2))
    ]
    curve = d3rlpy_sides.peer_curve({"evaluations": entries}, _BOLTZMANN)
    assert [(point.step, point.mean, point.low, point.high) for point in curve] == [
      (10, 10.0, 8.0, 12.0),
      (20, 20.0, 18.0, 22.0),
    ]


def test_our_command_line_gives_a_config_like_theirs(tmp_path):
  config_module = pytest.importorskip("temper.agents.crr.config")
  options = {"dataset": "d.npz", "env": "gym:Pendulum-v1", "ours": "--config.vmin=-170 --x='a b'"}
  kinds = [_BOLTZMANN, policy_kinds.PolicyKind.RAW]
  words = d3rlpy_sides.our_flags(_JOB, tmp_path, kinds, options)
  assert {"--steps=20", "--eval_every=10", "--eval_episodes=2", "--seed=3"} <= set(words)
  assert {"--eval_policy=boltzmann,raw", "--num_action_samples=4"} <= set(words)
  assert words[-2:] == ["--config.vmin=-170", "--x=a b"]
  base = config_module.CRRConfig()
  hints = config_flags.field_types(base)
  pairs = [word[len("--config.") :].split("=", 1) for word in words if "--config." in word]
  read = {name: config_flags.parse(name, hints[name], text) for name, text in pairs}
  config = dataclasses.replace(base, **read)
  assert config.sequence_length == 2 and config.lstm_size is None
  assert config.beta == 0.5 and config.vmin == -170
  assert config.policy_layer_sizes == config.critic_layer_sizes == (8, 4)
  assert config.policy_improvement_modes.value == "exp"


class TestCommand:
  @pytest.fixture(name="flags")
  def _flags(self, tmp_path, monkeypatch):
    """Flags of a run whose two sides are stand-ins that return what their seed says."""
    dataset = tmp_path / "data.npz"
    datasets.write_dataset(
      str(dataset), datasets.DatasetFormat.NPZ, [_episode(3, False), _episode(5, False)]
    )
    theirs = lambda job, *_: {
      "evaluations": [
        {"step": step, "policy": policy, "returns": [add - 100.0 * (job.seed + 1) + step]}
        for step in (10, 20)
        for policy, add in (("mean", 0), ("raw", -5), ("boltzmann", 500))
      ],
      "probe_return": d3rlpy_sides.probe("gym:Pendulum-v1", job.start_seeds[0]),
      "updates_per_second": 50.0,
      "versions": {"d3rlpy": "2"},
    }
    ours = lambda job, directory, kinds, options: {
      kind: [comparison.Evaluation(step, -50.0 * (job.seed + 1), -60.0, -40.0) for step in (10, 20)]
      for kind in kinds
    }
    monkeypatch.setattr(d3rlpy_sides, "train_theirs", theirs)
    monkeypatch.setattr(d3rlpy_sides, "train_ours", ours)
    monkeypatch.setattr(peer_environment, "prepare", lambda *args: sys.executable)
    return [
      "benchmark_d3rlpy",
      f"--dataset={dataset}",
      f"--directory={tmp_path / 'runs'}",
      "--steps=20",
      "--eval_every=10",
      "--seeds=0,1",
      "--eval_policy=mean,boltzmann",
    ]

  def test_prints_the_table(self, flags, capsys):
    assert benchmark_d3rlpy.run(flags) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "2 episodes" in lines[0]
    assert lines[1].startswith("Mean return of the data -6.5; 20 episodes an evaluation")
    assert "50 updates/s" in lines[2]
    starts = [index for index, line in enumerate(lines) if line.startswith("Acting by")]
    assert [lines[index] for index in starts] == ["Acting by mean", "Acting by boltzmann"]
    differences = [line for line in lines if line.startswith("temper less d3rlpy")]
    assert differences[0].startswith("temper less d3rlpy: final +55.0")
    assert differences[1].startswith("temper less d3rlpy: final -445.0")

  @pytest.mark.parametrize(
    ("word", "message"),
    [
      ("--env=dm_control:cartpole:swingup", "gym:<id>"),
      ("--config.mode=all", "mode is 'all'"),
      ("--config.bta=1", "Did you mean 'beta'"),
      ("--eval_every=7", "multiple of eval_every"),
      ("--eval_policy=best", "boltzmann"),
      ("--dataset=/nowhere.npz", "/nowhere.npz"),
      ("--seeds=a", "--seeds=a"),
      ("--seeds=1,1", "different"),
      ("stray", "'stray' is no flag"),
    ],
  )
  def test_refuses_in_words(self, flags, capsys, word, message):
    assert benchmark_d3rlpy.run([*flags, word]) == 2
    assert message in capsys.readouterr().err

  def test_a_dataset_is_needed(self, capsys):
    assert benchmark_d3rlpy.run(["benchmark_d3rlpy"]) == 2
    assert "--dataset" in capsys.readouterr().err

  def test_help_lists_flags_and_fields(self, capsys):
    assert benchmark_d3rlpy.run(["benchmark_d3rlpy", "--helpfull"]) == 0
    shown = capsys.readouterr().out
    assert "--peer_folder" in shown and "target_update_period" in shown
