"""Tests of `temper.launchers.benchmark_export`."""

import re

from temper.agents import policies
from temper.launchers import benchmark_export
from temper.launchers import export_cases


def test_a_row_for_each_batch_size_has_the_speed_of_each_form(monkeypatch):
  make = export_cases.CASES["crr, recurrent"]
  monkeypatch.setattr(export_cases, "TIMED", {"small": (make, policies.MEAN)})
  monkeypatch.setattr(benchmark_export, "_LEAST_SECONDS", 0.0)
  rows = list(benchmark_export.rows(["savedmodel", "tflite"], rounds=1))
  assert len(rows) == 2
  for row, batch_size in zip(rows, (1, 256)):
    name, batch, *cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (name, batch, len(cells)) == ("small", str(batch_size), 3)
    for cell in cells:
      micros, per_second = re.fullmatch(r"([\d,]+) µs, ([\d,]+)/s", cell).groups()
      micros, per_second = (int(number.replace(",", "")) for number in (micros, per_second))
      assert abs(micros * per_second / 1e6 - batch_size) <= 0.05 * batch_size + per_second / 1e6


def test_what_cannot_be_is_refused(capsys):
  assert benchmark_export.run(["temper benchmark-export", "--formats=pickle"]) == 2
  assert "savedmodel, onnx and tflite" in capsys.readouterr().err
