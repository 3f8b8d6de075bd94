"""Tests of the plot launcher: pictures and tables of runs that are on the disk."""

import csv
import json
import os
import subprocess
import sys

from PIL import Image
import pytest

from temper.launchers import main
from temper.launchers import plot
from temper.utils import run_loggers


def _write_run(folder, seed, *, agent="svg0", final=-150.0, steps=4, dataset=None, **config):
  """Writes what training leaves, a few rows of it."""
  log = run_loggers.RunLog(str(folder / "logs"), resume_step=0)
  for index in range(steps):
    step, mean = 1000 * index, -1300.0 + (final + 1300.0) * index / (steps - 1)
    row = {"episode": index, "episode_return": mean, "episode_length": 1000}
    log.write("train", step, {**row, "wall_seconds": 2.0 * index})
    log.write("learner", step, {"alpha": 0.1 * (index + 1), "learner_steps": step / 2})
    modes = ("deterministic", "stochastic") if index == steps - 1 else ("deterministic",)
    for mode in modes:
      ends = {"return_low": mean - 20, "return_high": mean + 10}
      row = {"mode": mode, "return_mean": mean, **ends, "episodes": 5, "wall_seconds": 2.0 * index}
      log.write("evaluation", step, row)
  log.close()
  record = {
    "agent": agent,
    "environment": "gym:Pendulum-v1",
    "seed": seed,
    "dataset": dataset,
    "config": config,
  }
  (folder / "config.json").write_text(json.dumps(record))
  return str(folder)


@pytest.fixture(name="runs")
def _runs(tmp_path):
  """Two seeds of SVG0 and one of SAC."""
  return [
    _write_run(tmp_path / "svg0_0", 0, final=-150.0),
    _write_run(tmp_path / "svg0_1", 1, final=-170.0),
    _write_run(tmp_path / "sac", 0, agent="sac", final=-140.0),
  ]


def _plot(*words):
  return plot.run(["temper plot", *map(str, words)])


def test_help_comes_without_what_is_slow():
  program = (
    "import sys\n"
    "from temper.launchers import plot\n"
    "code = plot.run(['temper plot', '--help'])\n"
    "assert not {'tensorflow', 'scipy', 'matplotlib'} & set(sys.modules)\n"
    "sys.exit(code)"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout.startswith("usage: temper plot RUN [RUN ...] [--flag=value ...]\n")
  for flag in ("output", "metric", "mode", "group_by", "x", "smoothing", "title", "csv", "help"):
    assert f"--{flag} " in done.stdout
  assert "examples:" in done.stdout and "config.field" not in done.stdout.split("examples:")[0]


def test_a_picture_and_a_table_of_seeds_and_agents(runs, tmp_path, capsys):
  picture, table = tmp_path / "new" / "curve.png", tmp_path / "new" / "table.csv"
  assert main.run(["temper", "plot", *runs, f"--output={picture}", f"--csv={table}"]) == 0
  with Image.open(picture) as image:
    assert image.size == (1440, 810)
  out, err = capsys.readouterr()
  lines = out.splitlines()
  assert lines[0] == "Evaluation returns, deterministic, gym:Pendulum-v1, against environment steps"
  assert lines[1].split() == ["group", "end", "final", "best", "at", "best"]
  assert lines[2].startswith("svg0 (2 seeds)  3,000  -160 [-170, -150]  3,000")
  assert lines[3].startswith("sac (seed 0)    3,000  -140 [-160, -130]  3,000")
  assert "svg0: over 2 runs the interval is too narrow; give 5 or more." in err
  with open(table, encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
  assert [row["group"] for row in rows] == ["svg0", "sac"]
  assert [row["runs"] for row in rows] == ["2", "1"]
  assert [float(rows[0][f"best_{part}"]) for part in ("x", "mean", "low", "high")] == [
    3000,
    -160,
    -170,
    -150,
  ]


def test_a_metric_without_an_interval_over_another_axis_as_svg(runs, tmp_path, capsys):
  picture, table = tmp_path / "alpha.svg", tmp_path / "alpha.csv"
  words = (runs[2], f"--output={picture}", f"--csv={table}", "--metric=alpha", "--x=wall_seconds")
  assert _plot(*words, "--title=Temperature", "--smoothing=2") == 0
  text = picture.read_text(encoding="utf-8")
  for word in ("Temperature", "Wall-clock seconds", "sac", "alpha", "mean of the last 2"):
    assert word in text
  # The mean of 0.3 and 0.4, and nothing said of a best.
  assert "sac (seed 0)  6    0.35" in capsys.readouterr().out
  assert table.read_text() == (
    "group,runs,final_x,final_mean,final_low,final_high\nsac,1,6,0.35,,\n"
  )


def test_the_shorter_of_two_runs_ends_their_mean_with_a_note(runs, tmp_path, capsys):
  longer = _write_run(tmp_path / "svg0_2", 2, steps=7)
  assert _plot(*runs[:2], longer, f"--output={tmp_path}/curve.png") == 0
  err = capsys.readouterr().err
  assert "svg0: the mean ends at 3,000, where the shortest of its runs ends" in err
  assert "the longest goes on to 6,000" in err


def test_torn_rows_equal_seeds_and_files_are_told(runs, tmp_path, capsys):
  with open(os.path.join(runs[0], "logs", "evaluation.csv"), "a", encoding="utf-8") as file:
    file.write("4000,deterministic,-1")
  again = _write_run(tmp_path / "svg0_again", 0)
  stray = tmp_path / "notes.txt"
  stray.write_text("")
  assert _plot(*runs[:2], again, stray, f"--output={tmp_path}/curve.png") == 0
  err = capsys.readouterr().err
  assert f"{runs[0]}: 1 rows of evaluation.csv are not whole and are left out." in err
  assert "svg0: the seed 0 is there 2 times" in err
  assert f"files are no runs: {stray}." in err


def test_steps_of_learners_and_of_environments_share_no_axis(runs, tmp_path, capsys):
  offline = _write_run(tmp_path / "crr", 0, agent="crr", dataset={"episodes": 3})
  assert _plot(runs[0], offline, f"--output={tmp_path}/curve.png") == 2
  assert "Use --x=learner_steps" in capsys.readouterr().err
  assert _plot(runs[0], offline, f"--output={tmp_path}/curve.png", "--x=learner_steps") == 0
  out = capsys.readouterr().out
  assert "svg0 (seed 0)  1,500" in out and "crr (seed 0)   3,000" in out


@pytest.mark.parametrize(
  "words, message",
  [
    (["--output=curve.png"], "No run is given"),
    (["RUN"], "--output is missing"),
    (["RUN", "--output=curve.jpg"], "must end with .png or .svg"),
    (["RUN", "RUN", "--output=curve.png"], "is given twice"),
    (["RUN", "--output=curve.png", "--metric=train", "--mode=stochastic"], "Leave it out"),
    (["RUN", "--output=curve.png", "--mode=boltzmann"], "its modes are deterministic, stochastic"),
    (["RUN", "--output=curve.png", "--metric=alhpa"], "Did you mean alpha?"),
    (["RUN", "--output=curve.png", "--group_by=config.sigma"], "no such setting"),
    (["RUN", "--output=curve.png", "--smoothing=0"], "smoothing"),
    (["RUN", "--output=curve.png", "--x=days"], "days"),
    (["RUN", "--output=curve.png", "--config.sigma=1"], "no such flag"),
    (["nowhere", "--output=curve.png"], "nowhere is no folder"),
  ],
)
def test_what_is_refused_gets_one_clear_line_and_no_file(
  words, message, tmp_path, capsys, monkeypatch
):
  _write_run(tmp_path / "RUN", 0)
  monkeypatch.chdir(tmp_path)
  assert _plot(*words) == 2
  captured = capsys.readouterr()
  last = captured.err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert not captured.out and os.listdir(tmp_path) == ["RUN"]


def test_a_picture_that_cannot_be_written_fails_with_a_line(runs, tmp_path, capsys):
  (tmp_path / "file").write_text("")
  assert _plot(runs[0], f"--output={tmp_path}/file/curve.png") == 1
  assert capsys.readouterr().err.startswith("error: ")
