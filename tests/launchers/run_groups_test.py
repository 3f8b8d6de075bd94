"""Tests of how runs are sorted into groups and named."""

import pytest

from temper.launchers import run_groups
from temper.utils import logged_runs


def _run(path, **record):
  return logged_runs.LoggedRun(path, record, {}, [])


def _paths(groups):
  return {name: [run.path for run in runs] for name, runs in groups.items()}


def _svg0(path, seed, env="gym:Pendulum-v1", **config):
  return _run(path, agent="svg0", environment=env, seed=seed, config=config, run={"steps": 9})


_RUNS = [
  _svg0("a/0", 0, sigma=0.3, discount=0.99, vmax=0.0),
  _svg0("a/1", 1, sigma=0.3, discount=0.99, vmax=-0.0),
  _svg0("b/0", 0, sigma=0.5, discount=0.99, vmax=0),
]


def test_runs_that_differ_in_the_seed_alone_are_one_group_named_by_what_differs():
  groups = run_groups.group_runs(_RUNS, "settings")
  assert _paths(groups) == {"svg0, sigma=0.3": ["a/0", "a/1"], "svg0, sigma=0.5": ["b/0"]}
  assert list(run_groups.group_runs(_RUNS[:2], "settings")) == ["svg0"]
  sac = _run("c", agent="sac", environment="gym:Pendulum-v1", seed=0, config={"alpha": 1})
  assert list(run_groups.group_runs([_RUNS[0], sac], "settings")) == ["svg0", "sac"]
  cheetah = _svg0("d", 0, "dm_control:cheetah:run", sigma=0.3, discount=0.99, vmax=0.0)
  names = list(run_groups.group_runs([_RUNS[0], cheetah], "settings"))
  assert names == ["svg0, Pendulum-v1", "svg0, cheetah:run"]


def test_folders_name_what_settings_would_name_at_length():
  layers = [
    _svg0(f"runs/{name}-seed{seed}", seed, policy_layer_sizes=sizes, critic_layer_sizes=sizes)
    for name, sizes in (("wide", [256, 256]), ("deep", [64, 64, 64]))
    for seed in (0, 1)
  ]
  assert list(run_groups.group_runs(layers, "settings")) == ["wide", "deep"]


def test_runs_without_a_record_stand_alone_or_with_those_in_their_folder():
  runs = [_run("x/0"), _run("x/1"), _run("y/2")]
  alone = {"0": ["x/0"], "1": ["x/1"], "2": ["y/2"]}
  assert _paths(run_groups.group_runs(runs, "settings")) == alone
  assert _paths(run_groups.group_runs(runs, "parent")) == {"x": ["x/0", "x/1"], "y": ["y/2"]}
  with pytest.raises(ValueError, match="x/0 has no config.json, so its agent is not known"):
    run_groups.group_runs(runs, "agent")


def test_directory_keeps_runs_apart_and_tells_equal_names_apart():
  assert list(run_groups.group_runs(_RUNS, "directory")) == ["a/0", "1", "b/0"]


@pytest.mark.parametrize(
  "by, names",
  [
    ("agent", ["svg0"]),
    ("environment", ["gym:Pendulum-v1"]),
    ("config.sigma", ["sigma=0.3", "sigma=0.5"]),
    ("run.steps", ["run.steps=9"]),
    ("seed", ["seed=0", "seed=1"]),
  ],
)
def test_entries_of_the_record_group_runs(by, names):
  assert list(run_groups.group_runs(_RUNS, by)) == names


def test_an_unknown_setting_is_refused_with_the_nearest():
  with pytest.raises(ValueError, match="no such setting. Did you mean config.sigma. Use settings"):
    run_groups.group_runs(_RUNS, "config.sgma")


def test_what_cannot_be_averaged_is_refused():
  cheetah = _svg0("d", 1, "dm_control:cheetah:run", sigma=0.3)
  with pytest.raises(ValueError, match="cheetah:run and gym:Pendulum-v1, whose returns cannot"):
    run_groups.group_runs([_RUNS[0], cheetah], "agent")
  offline = _run("e", agent="svg0", environment="gym:Pendulum-v1", dataset={"steps": 3})
  with pytest.raises(ValueError, match="runs that act and runs that learn from a dataset"):
    run_groups.group_runs([_RUNS[0], offline], "agent")
