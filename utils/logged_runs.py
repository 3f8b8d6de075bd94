"""Reads back what a run has logged, from its CSV files or from TensorBoard's event files."""

from collections.abc import Mapping, Sequence
import dataclasses
import glob
import json
import math
import os
from typing import Any, NamedTuple

import numpy as np

from temper.utils import run_loggers

_EVENTS = "*tfevents*"


class Series(NamedTuple):
  """The values of one metric.

  Attributes:
    steps: [N] float64, rising, steps of the run.
    values: [N] float64, finite.
  """

  steps: np.ndarray
  values: np.ndarray


@dataclasses.dataclass(frozen=True)
class LoggedRun:
  """What is on the disk of one run.

  Attributes:
    path: its folder, as it was given.
    record: what its `config.json` says; empty where there is none.
    series: the metrics by their names in TensorBoard, such as `learner/alpha` and
      `evaluation/deterministic/return_mean`.
    notes: a line for each thing that was left out.
  """

  path: str
  record: Mapping[str, Any]
  series: Mapping[str, Series]
  notes: Sequence[str]

  @property
  def offline(self) -> bool:
    """Whether it learns from a dataset, so that its steps are the learner's."""
    return self.record.get("dataset") is not None

  @property
  def modes(self) -> list[str]:
    """The ways to act that have evaluations."""
    parts = (tag.split("/") for tag in self.series)
    return [at[1] for at in parts if at[0] == "evaluation" and at[2:] == ["return_mean"]]


class _Collector:
  """Gathers points; of several at one step the last one counts."""

  def __init__(self) -> None:
    self._points: dict[str, dict[float, float]] = {}
    self._left_out: dict[str, int] = {}

  def add(self, tag: str, step: float, value: float) -> None:
    """Adds a point; one that is not finite is counted instead."""
    if math.isfinite(value):
      self._points.setdefault(tag, {})[step] = value
    else:
      self._left_out[tag] = self._left_out.get(tag, 0) + 1

  def series(self) -> dict[str, Series]:
    """Returns all series, each in the order of its steps."""
    return {
      tag: Series(*np.asarray(sorted(points.items()), dtype=np.float64).T)
      for tag, points in self._points.items()
    }

  def notes(self) -> list[str]:
    """Returns a line for each metric of which values were left out."""
    return [
      f"{count} values of {tag} are not finite and are left out."
      for tag, count in self._left_out.items()
    ]


def read(path: str) -> LoggedRun:
  """Reads a run: its CSV files, or the event files where there are no CSV files.

  Rows that are not whole, such as the last of a killed process, are left out with a note.

  Args:
    path: the folder of a run, whose logs lie in `logs`, or a folder of logs itself.

  Raises:
    ValueError: if there is no such folder, there are no logs in it, or its `config.json` or a CSV
      file cannot be read.
  """
  if not os.path.isdir(path):
    raise ValueError(f"{path} is no folder. Give the folder of a run, which holds its logs.")
  inner = os.path.join(path, "logs")
  logs = inner if os.path.isdir(inner) else path
  collector, notes = _Collector(), []
  for file in sorted(glob.glob(os.path.join(glob.escape(logs), "*.csv"))):
    notes += _read_csv(file, collector)
  series = collector.series()
  if not series and glob.glob(os.path.join(glob.escape(logs), _EVENTS)):
    _read_events(logs, collector)
    series = collector.series()
  if not series:
    raise ValueError(f"{path} holds no logs of a run: {_what_lies_there(path, logs)}")
  notes = [f"{path}: {note}" for note in (*notes, *collector.notes())]
  return LoggedRun(path, _read_record(path), series, notes)


def _what_lies_there(path: str, logs: str) -> str:
  """Words why a folder has no logs, and where there are some."""
  if any(glob.glob(os.path.join(glob.escape(logs), name)) for name in ("*.csv", _EVENTS)):
    return "the files of its logs are empty. Wait until the run has written some."
  below = sorted(glob.glob(os.path.join(glob.escape(path), "*", "logs")))
  hint = f" Did you mean {os.path.dirname(below[0])}?" if below else ""
  return f"there is no CSV file and no TensorBoard event file in {logs}.{hint}"


def _read_record(path: str) -> Mapping[str, Any]:
  """Reads the run's `config.json`, beside its logs or above them."""
  above = os.path.dirname(os.path.abspath(path))
  folders = [path, above] if os.path.basename(os.path.abspath(path)) == "logs" else [path]
  for folder in folders:
    file_name = os.path.join(folder, "config.json")
    if not os.path.exists(file_name):
      continue
    try:
      with open(file_name, encoding="utf-8") as file:
        record = json.load(file)
    except (OSError, ValueError) as error:
      raise ValueError(f"{file_name} cannot be read: {error}. Move it away.") from error
    if not isinstance(record, dict):
      raise ValueError(f"{file_name} holds a {type(record).__name__}, not the record of a run.")
    return record
  return {}


def _read_csv(path: str, collector: _Collector) -> list[str]:
  """Adds what a CSV file holds; returns notes of rows that were left out."""
  rows = run_loggers.read_csv(path)
  with open(path, encoding="utf-8", newline="") as file:
    lines = sum(1 for line in file if line.strip())
  name = os.path.splitext(os.path.basename(path))[0]
  torn = max(lines - 1, 0) - len(rows)
  for row in rows:
    step = _number(row.get("step"))
    if step is None or not math.isfinite(step):
      torn += 1
      continue
    prefix = f"{name}/{row['mode']}" if "mode" in row else name
    for column, text in row.items():
      value = _number(text)
      if column != "step" and value is not None:
        collector.add(f"{prefix}/{column}", step, value)
  file_name = os.path.basename(path)
  return [f"{torn} rows of {file_name} are not whole and are left out."] if torn else []


def _number(text: Any) -> "float | None":
  """Returns what a cell says, None for text and for an empty one."""
  try:
    return float(text)
  except (TypeError, ValueError):
    return None


def _read_events(logs: str, collector: _Collector) -> None:
  """Adds what the event files of a folder hold, without what a resumed run wrote again."""
  # Only here: it takes seconds, and runs with CSV files do without it.
  from tensorboard.backend.event_processing import event_accumulator
  from tensorboard.util import tensor_util

  # 0: keeps every point.
  keep = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}
  events = event_accumulator.EventAccumulator(logs, size_guidance=keep)
  events.Reload()
  tags = events.Tags()
  for tag in tags["scalars"]:
    for event in events.Scalars(tag):
      collector.add(tag, float(event.step), float(event.value))
  # TensorFlow 2's own writer puts scalars into tensors.
  for tag in tags["tensors"]:
    if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
      for event in events.Tensors(tag):
        value = tensor_util.make_ndarray(event.tensor_proto)
        collector.add(tag, float(event.step), float(value))
