"""Tests of `temper.launchers.benchmark_distributed` with measurements that are made up."""

import json

import pytest

from temper.launchers import benchmark_distributed
from temper.launchers import scaling_measuring
from temper.launchers import scaling_tables

# Ours takes 50 ms a step with its environment, dm-acme's 100 ms.
_POINTS = [
  {
    "side": side,
    "num_actors": count,
    "environment_steps": rate * count,
    "learner_steps": rate * count / 20,
    "busy_cpus": 0.5,
  }
  for count in (1, 4)
  for side, rate in (("temper", 20.0), ("dm-acme", 10.0))
]
_RESULTS = {
  "scaling": {"environment_seconds": 0.049, "launch": "local_mp", "points": _POINTS},
  "actor": {"temper": [1000.0, 900.0, 1000.0], "dm-acme": [100.0, 300.0, 100.0]},
  "learner": {"temper": [100.0], "dm-acme": [50.0]},
  "replay": [
    {"work": work, "item_bytes": size, "clients": clients, "items": items}
    for size in (1_000, 100_000)
    for work, items in (("writer", 5e3), ("reader", 4e4))
    for clients in (1, 2)
  ],
  "variables": [
    {"parameters": count, "latency": 1e-8 * count, "fetches": 1e8 / count}
    for count in (1_000, 100_000)
  ],
}


@pytest.fixture(name="options")
def _options(tmp_path, monkeypatch):
  measures = {
    "measure_scaling": lambda counts, wait, launch, seconds, say: _RESULTS["scaling"],
    "measure_node": lambda work, rounds, seconds, say: _RESULTS[work],
    "measure_replay": lambda seconds, say: _RESULTS["replay"],
    "measure_variables": lambda rounds, seconds, say: _RESULTS["variables"],
  }
  for name, measure in measures.items():
    monkeypatch.setattr(scaling_measuring, name, measure)
  return ["temper benchmark-distributed", f"--results={tmp_path}/runs/results.json"]


def test_all_cases_are_measured_kept_and_judged(options, tmp_path, capsys):
  picture = tmp_path / "scaling.png"
  assert benchmark_distributed.run([*options, f"--picture={picture}"]) == 0
  text = capsys.readouterr().out
  assert "temper: 4 actors are 4.00 times one; at least 3.40 met" in text
  assert "10.00x [3.00, 10.00]   5.0x met" in text
  assert json.loads((tmp_path / "runs" / "results.json").read_text()) == _RESULTS
  assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_model_is_made_of_kept_measurements(options, tmp_path, capsys):
  (tmp_path / "runs").mkdir()
  (tmp_path / "runs" / "results.json").write_text(json.dumps(_RESULTS))
  assert benchmark_distributed.run([*options, "--cases=model"]) == 0
  rows = [line.split() for line in capsys.readouterr().out.splitlines()]
  ours = next(row for row in rows if row[:2] == ["temper", "4"])
  # Measured, model: both 80 environment and 4 learner steps/s.
  assert ours[2:6] == ["80.0", "4.00", "80.0", "4.00"]
  assert ours[-2:] == ["+0%", "actors"]


def test_a_case_that_the_model_lacks_is_named(options, capsys):
  assert benchmark_distributed.run([*options, "--cases=replay,model"]) == 2
  assert "needs the cases actor, learner, scaling, variables" in capsys.readouterr().err


@pytest.mark.parametrize(
  "word",
  ["--cases=speed", "--num_actors=0", "--turn_seconds=0", "--picture=x.png", "--launch=thread"],
)
def test_what_is_not_possible_is_refused(options, word, capsys):
  cases = [] if word.startswith("--cases") else ["--cases=actor"]
  assert benchmark_distributed.run([*options, *cases, word]) == 2
  assert word.split("=")[1] in capsys.readouterr().err


def test_a_file_that_holds_no_measurements_is_refused(options, tmp_path, capsys):
  (tmp_path / "runs").mkdir()
  (tmp_path / "runs" / "results.json").write_text("half")
  assert benchmark_distributed.run([*options, "--cases=actor"]) == 2
  assert "no file of measurements" in capsys.readouterr().err


def test_a_program_that_did_not_run_is_told_and_not_judged():
  failed = {"side": "temper", "num_actors": 4, "error": "trace\nNoPort: none is free"}
  record = {**_RESULTS["scaling"], "points": [_POINTS[0], failed]}
  text = "\n".join(scaling_tables.scaling(record))
  assert "did not run: NoPort: none is free" in text
  assert "times one" not in text


def test_less_than_linear_is_missed():
  points = [_POINTS[0], {**_POINTS[0], "num_actors": 4, "environment_steps": 67.0}]
  text = "\n".join(scaling_tables.scaling({**_RESULTS["scaling"], "points": points}))
  assert "4 actors are 3.35 times one; at least 3.40 MISSED" in text


def test_costs_are_those_of_the_single_nodes():
  costs = scaling_tables.costs(_RESULTS, "dm-acme")
  assert (costs.environment, costs.acting, costs.learning) == pytest.approx((0.049, 0.01, 0.02))
  assert (costs.insert, costs.sample) == pytest.approx((2e-4, 2.5e-5))
  # 1e-8 s for each of 7,000 parameters.
  assert costs.fetch == pytest.approx(7e-5)
