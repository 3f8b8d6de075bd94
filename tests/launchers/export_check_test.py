"""Tests of `temper.launchers.export_check` and of the worker that it runs elsewhere."""

import contextlib
import sys

import numpy as np
import pytest

from temper.launchers import export_cases
from temper.launchers import export_check
from temper.launchers import exported_policy_worker as worker


@pytest.fixture(name="this_environment")
def _this_environment(monkeypatch):
  """Takes this interpreter for the clean one, and one policy for all."""
  monkeypatch.setattr(
    export_check, "clean_environment", lambda package: contextlib.nullcontext(sys.executable)
  )
  name = "sac, twin target"
  monkeypatch.setattr(export_cases, "CASES", {name: export_cases.CASES[name]})


def test_every_function_is_compared(this_environment, capsys):
  code = export_check.run(["temper export-check", "--formats=savedmodel", "--observations=5"])
  printed = capsys.readouterr().out
  assert code == 0
  for function in ("deterministic", "sample", "boltzmann"):
    for mode in ("batched", "single"):
      assert f"savedmodel  sac, twin target           {function}/{mode}" in printed
  assert "matches the actor: largest difference" in printed and "on 5 observations" in printed


def test_what_differs_is_told(this_environment, monkeypatch, capsys):
  report = {"differences": {}, "modules": []}
  monkeypatch.setattr(export_check, "run_worker", lambda python, folders: report)
  monkeypatch.setattr(export_check, "_export_all", lambda *_: {"folder": "sac"})
  for differences, code, words in (({"sample/single": 2e-5}, 1, "DIFFERS"), ({}, 0, "matches")):
    report["differences"] = {"folder": differences}
    assert export_check.run(["temper export-check", "--formats=tflite"]) == code
    assert words in capsys.readouterr().out
  report["modules"] = ["numpy", "temper"]
  assert export_check.run(["temper export-check", "--formats=tflite"]) == 1
  assert "not clean: it has temper" in capsys.readouterr().err


def test_without_an_index_no_environment_is_made(monkeypatch):
  monkeypatch.setenv("PIP_NO_INDEX", "1")
  monkeypatch.setenv("PIP_FIND_LINKS", "")
  with pytest.raises(export_check.CheckError, match="pip install.*failed"):
    with export_check.clean_environment("onnxruntime"):
      pass


def test_a_worker_that_fails_is_told(tmp_path):
  with pytest.raises(export_check.CheckError, match="reference.npz"):
    export_check.run_worker(sys.executable, [str(tmp_path)])


@pytest.mark.parametrize("words", [["--formats=pickle"], ["--observations=0"], ["x"]])
def test_what_cannot_be_is_refused(words, capsys):
  assert export_check.run(["temper export-check", *words]) == 2
  assert "error:" in capsys.readouterr().err


def test_differences_are_relative_to_one_and_of_an_action_to_its_range():
  wanted = np.array([0.0, 99.0], np.float32)
  found = wanted + np.array([1e-3, 0.0], np.float32)
  assert worker.difference("log_prob", found, wanted) == pytest.approx(1e-3)
  assert worker.difference("action", found, wanted) == pytest.approx(1e-5)
  assert worker.difference("action", found, wanted.astype(np.float64)) == float("inf")
  assert worker.difference("action", found[:1], wanted) == float("inf")
  assert worker.difference("action", found * np.nan, wanted) == float("inf")
