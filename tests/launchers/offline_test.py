"""Tests of the offline launcher: statistics by hand, files, resuming, and a whole small study."""

import csv
import dataclasses
import json
import os

import numpy as np
import pytest

from temper.launchers import offline
from temper.launchers import offline_comparison
from temper.launchers import offline_experiment
from temper.launchers import offline_studies
from temper.launchers import offline_study
from temper.launchers import stopping
from temper.utils import comparison_plot
from temper.utils import plotting
from temper.utils.policy_kinds import PolicyKind

_RAW = PolicyKind.RAW


def _result(raw, best):
  return {
    "evaluations": {"stochastic": {"policy": "raw", "returns": raw}},
    "best": {"stochastic": {"policy": "raw", "returns": best}},
  }


def _study(**changes):
  return dataclasses.replace(offline_studies.STUDIES["modes"], **changes)


_TWO_ARMS = _study(
  arms=(offline_studies.Arm("good", {}), offline_studies.Arm("poor", {})),
  claims=(
    offline_studies.Claim(("good", _RAW), ("poor", _RAW)),
    offline_studies.Claim(("poor", _RAW), ("good", _RAW)),
    offline_studies.Claim(("good", _RAW), None),
  ),
)
_RESULTS = {
  "good": {0: _result([-1.0, -3.0], [-1.0, -1.0]), 4: _result([-2.0, -2.0], [0.0, 0.0])},
  "poor": {0: _result([-90.0, -92.0], [-80.0, -80.0]), 4: _result([-91.0, -91.0], [-80.0, -80.0])},
}


def test_a_comparison_by_hand():
  comparison = offline_comparison.compare(_TWO_ARMS, _RESULTS, [-2.0, -2.0, -2.0])
  found = {(e.arm, e.policy, e.networks): (e.mean, e.seed_means) for e in comparison.entries}
  assert found == {
    ("the data", "", ""): (-2.0, [-2.0]),
    ("good", "raw", "final"): (-2.0, [-2.0, -2.0]),
    ("good", "raw", "best"): (-0.5, [-1.0, 0.0]),
    ("poor", "raw", "final"): (-91.0, [-91.0, -91.0]),
    ("poor", "raw", "best"): (-80.0, [-80.0, -80.0]),
  }
  assert comparison.seeds == (0, 4)
  above, below, equal = comparison.verdicts
  assert above.difference == 89.0 and above.word == "above" and 86.0 < above.low < above.high < 92.0
  assert below.difference == -89.0 and below.word == "BELOW"
  assert equal.difference == 0.0 and equal.word == "equal within the interval"
  text = offline_comparison.table(comparison, [("picture", "x.png")])
  assert "good raw over poor raw" in text and "+89.0" in text and "seeds 0, 4" in text
  assert "x.png" in text


def test_the_interval_holds_the_spread_of_episodes_and_of_seeds():
  rng = np.random.default_rng(0)
  episodes = rng.normal(0.0, 10.0, 400)
  one = offline_comparison.bootstrap_means([episodes], seed=0)
  # One seed: the standard error of the episodes' mean.
  assert one.std() == pytest.approx(episodes.std() / 20, rel=0.05)
  assert one.mean() == pytest.approx(episodes.mean(), abs=0.05)
  # Seeds without a spread of episodes: the standard error of the seeds' mean.
  offsets = np.array([-3.0, 0.0, 6.0])
  three = offline_comparison.bootstrap_means([[offset] * 5 for offset in offsets], seed=0)
  assert three.std() == pytest.approx(offsets.std() / np.sqrt(3), rel=0.05)
  assert np.ptp(offline_comparison.bootstrap_means([[7.0, 7.0], [7.0, 7.0]], seed=0)) == 0.0


def test_numbers_are_written_as_json_and_csv(tmp_path):
  comparison = offline_comparison.compare(_TWO_ARMS, _RESULTS, [-2.0, -2.0, -2.0])
  comparison.write(str(tmp_path / "comparison"))
  with open(tmp_path / "comparison.json", encoding="utf-8") as file:
    numbers = json.load(file)
  assert numbers["seeds"] == [0, 4] and numbers["entries"][2]["seed_means"] == [-1.0, 0.0]
  assert numbers["verdicts"][0]["word"] == "above"
  with open(tmp_path / "comparison.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
  assert [row["arm"] for row in rows] == ["the data", "good", "good", "poor", "poor"]
  assert float(rows[1]["mean"]) == -2.0 and rows[1]["episodes"] == "4"
  assert sorted(os.listdir(tmp_path)) == ["comparison.csv", "comparison.json"]


def test_the_picture_is_the_same_for_the_same_points(tmp_path):
  points = [
    comparison_plot.Point(
      arm, "raw", hollow, f"raw {hollow}", mean, mean - 1, mean + 2, (mean,) * 2
    )
    for arm, mean in (("good", -2.0), ("poor", -91.0))
    for hollow in (False, True)
  ]
  written = []
  for name in ("a", "b"):
    paths = [str(tmp_path / f"{name}.{kind}") for kind in ("png", "svg")]
    reference = plotting.Reference("the data's mean", -50.0, -60.0, -40.0)
    comparison_plot.plot_comparison(points, paths, title="Returns", reference=reference)
    written.append([open(path, "rb").read() for path in paths])
  assert written[0] == written[1]
  assert written[0][0].startswith(b"\x89PNG")
  for text in (b"good", b"poor", b"raw False", b"the data's mean"):
    assert text in written[0][1]


_SMALL = _study(
  random_episodes=2,
  learning_steps=230,  # Less than the agent's replay must hold before it learns.
  arms=(
    offline_studies.Arm("exp", {"policy_layer_sizes": (8,), "critic_layer_sizes": (8,)}),
    offline_studies.Arm(
      "masked",
      {"policy_layer_sizes": (8,), "critic_layer_sizes": (8,), "lstm_size": 4},
      {"observation_indices": (0, 1)},
    ),
  ),
  steps=3,
  eval_every=0,
  claims=(offline_studies.Claim(("exp", _RAW), ("masked", _RAW)),),
)


def _run(directory, study=_SMALL, **options):
  config = offline_study.StudyConfig(study, str(directory), eval_episodes=1, **options)
  with stopping.StopSignal() as stop:
    return offline_study.run_study(config, stop)


@pytest.fixture(scope="module", name="done")
def _done(tmp_path_factory):
  folder = tmp_path_factory.mktemp("study") / "offline"
  return folder, _run(folder)


def test_a_study_records_learns_and_compares(done):
  folder, result = done
  assert result.stop is None
  assert set(os.listdir(folder)) == {
    "study.json",
    "data.npz",
    "exp-seed0",
    "masked-seed0",
    *(f"comparison.{ending}" for ending in ("json", "csv", "png", "svg")),
  }
  names = [(e.arm, e.policy, e.networks) for e in result.comparison.entries]
  assert names[0] == ("the data", "", "") and len(names) == 1 + 2 * 2 * 2
  assert ("masked", "boltzmann", "best") in names
  data = result.comparison.data
  assert len(data.samples[0]) == 4  # Two random ones, and 230 steps of learning.
  with open(folder / "masked-seed0" / "config.json", encoding="utf-8") as file:
    record = json.load(file)
  assert record["environment_options"] == {"observation_indices": [0, 1]}
  assert record["config"]["lstm_size"] == 4


def test_what_is_finished_is_not_done_again(done, monkeypatch):
  folder, first = done
  ran = []
  run = offline_experiment.run_offline_experiment
  monkeypatch.setattr(
    offline_experiment,
    "run_offline_experiment",
    lambda config, stop: ran.append(config.directory) or run(config, stop),
  )
  again = _run(folder)
  assert not ran and again.comparison == first.comparison
  os.remove(folder / "exp-seed0" / "result.json")
  again = _run(folder)
  assert [os.path.basename(path) for path in ran] == ["exp-seed0"]
  assert again.comparison.entries == first.comparison.entries


def test_a_folder_of_another_study_is_refused(done):
  folder, _ = done
  with pytest.raises(ValueError, match="holds a study with another steps, claims"):
    _run(folder, dataclasses.replace(_SMALL, steps=4, claims=()))
  with pytest.raises(ValueError, match="holds no study"):
    _run(folder / "exp-seed0")


@pytest.mark.parametrize(
  "words, message",
  [
    (["--study=sizes"], "sizes"),
    (["--seeds=a"], "seeds is 'a'"),
    (["--seeds=1,1"], "seeds is (1, 1)"),
    (["--directory="], "directory is empty"),
    (["--eval_episodes=0"], "eval_episodes"),
    (["--seed=1"], "Did you mean --seeds?"),
  ],
)
def test_what_is_refused_gets_one_clear_line(words, message, capsys, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert offline.run(["temper offline", *words]) == 2
  last = capsys.readouterr().err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert os.listdir(tmp_path) == []


def test_the_command_says_how_to_go_on_when_it_is_stopped(tmp_path, monkeypatch, capsys):
  def stopped(*unused):
    raise stopping.StopRequested(2)

  monkeypatch.setattr(offline_study, "run_study", stopped)
  words = [f"--directory={tmp_path}/x", "--seeds=0,1"]
  assert offline.run(["temper offline", *words]) == 130
  err = capsys.readouterr().err
  assert "what is finished stays" in err and f"Resume with: temper offline {words[0]}" in err


def test_help_names_the_studies(capsys):
  assert offline.run(["temper offline", "--help"]) == 0
  out = capsys.readouterr().out
  for name in offline_studies.STUDIES:
    assert name in out


@pytest.mark.parametrize("name", sorted(offline_studies.STUDIES))
def test_each_studys_claims_name_its_arms(name):
  study = offline_studies.STUDIES[name]
  arms = {arm.name for arm in study.arms}
  for claim in study.claims:
    assert claim.better[0] in arms and (claim.worse is None or claim.worse[0] in arms)
