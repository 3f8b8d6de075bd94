"""Tests of the record launcher: the film, and what is refused."""

import os
import shutil
import signal
import sys

from PIL import Image
import pytest

from temper.launchers import record
from temper.launchers import stopping
from temper.utils import evaluation
from temper.utils import recording


def _record(*words):
  return record.run(["temper record", *words])


def test_defaults_in_the_help_are_those_of_the_library(capsys):
  assert _record("--help") == 0
  text = capsys.readouterr().out
  assert text.startswith("usage: temper record RUN_OR_POLICY [--flag=value ...]\n")
  start = evaluation.start_seeds(1)[0]
  for flag, value in {
    "seed": start,
    "fps": recording.FRAMES_PER_SECOND,
    "max_frames": recording.MAX_FRAMES,
    "size": recording.SIZE,
  }.items():
    row = text[text.index(f"--{flag} ") :].partition("\n  --")[0]
    assert row.endswith(f"[{value}]")


@pytest.mark.parametrize(
  "words, message",
  [
    ([], "none is given"),
    (["RUN", "--output=film.avi"], "end it with .gif or .mp4"),
    (["RUN", "--fps=60"], "1 to 50"),
    (["RUN", "--size=0"], "size"),
    (["RUN", "--checkpoint=best"], "no best checkpoint"),
  ],
)
def test_what_is_refused_gets_one_clear_line(
  words, message, pendulum_run, capsys, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  assert _record(*(word.replace("RUN", pendulum_run) for word in words)) == 2
  last = capsys.readouterr().err.splitlines()[-1]
  assert last.startswith("error: ") and message in last
  assert not os.listdir(tmp_path) and not os.path.exists(f"{pendulum_run}/recordings")


def test_an_mp4_needs_its_package(pendulum_run, tmp_path, capsys, monkeypatch):
  monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
  assert _record(pendulum_run, f"--output={tmp_path}/film.mp4") == 1
  assert "temper-rl[video]" in capsys.readouterr().err


def test_a_run_is_filmed_from_the_start_that_is_asked_for(pendulum_run, tmp_path, capsys):
  run = shutil.copytree(pendulum_run, tmp_path / "run")
  words = ["--seed=5", "--max_frames=10", "--size=200", "--fps=10", "--max_episode_steps=25"]
  assert _record(str(run), *words) == 0
  path = run / "recordings" / "mean-step60-seed5.gif"
  said = capsys.readouterr().out
  assert said.startswith(f"{path}: 8 frames of 25 steps, return -") and "by truncation" in said
  with Image.open(path) as film:
    assert film.width == 200 and film.n_frames == 8 and film.info["duration"] == 100


def test_an_exported_policy_is_filmed(pendulum_run, tmp_path, capsys):
  for source in (pendulum_run, f"{pendulum_run}/policy"):
    words = ["--max_episode_steps=5", f"--output={tmp_path}/new/film.gif"]
    assert _record(source, *words) == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0] == lines[1]


def test_a_stop_writes_nothing(pendulum_run, tmp_path, capsys, monkeypatch):
  checks = []

  def check(self):
    checks.append(1)
    if len(checks) == 9:
      raise stopping.StopRequested(signal.SIGTERM)

  monkeypatch.setattr(stopping.StopSignal, "check", check)
  assert _record(pendulum_run, f"--output={tmp_path}/film.gif") == 143
  assert "nothing is written" in capsys.readouterr().err and not os.listdir(tmp_path)
