"""Averages the curves of groups of runs, and tells how they end and how far they got."""

from collections.abc import Mapping, Sequence
import csv
import dataclasses
from typing import Optional

import numpy as np

from temper.utils import curves_plot
from temper.utils import learning_curves
from temper.utils.learning_curves import Axis
from temper.utils.learning_curves import Curve
from temper.utils.logged_runs import LoggedRun

# Of fewer runs the bootstrap sees too little of how they spread.
_FEW = 5
_UNITS = {Axis.WALL_SECONDS: "Wall-clock seconds", Axis.LEARNER_STEPS: "Learner steps"}


@dataclasses.dataclass(frozen=True)
class CurveTable:
  """The curves of groups of runs.

  Attributes:
    curves: by the names of the groups.
    labels: how pictures and tables call each group: its name with the number of runs in it.
    texts: what is written around them.
    best: whether more is better, so that the highest value is told too.
    notes: a line for each thing that whoever looks at the curves should know.
  """

  curves: Mapping[str, Curve]
  labels: Mapping[str, str]
  texts: curves_plot.Texts
  best: bool
  notes: Sequence[str]

  def __str__(self) -> str:
    header = ["group", "end", "final"] + (["best at", "best"] if self.best else [])
    rows = [header]
    for name, curve in self.curves.items():
      row = [self.labels[name]]
      for place in self._places(curve):
        row += [f"{curve.x[place]:,.0f}", _with_interval(curve, place)]
      rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([f"{self.texts.title}, against {self.texts.x.lower()}", *lines])

  @property
  def labelled(self) -> dict[str, Curve]:
    """The curves by their labels."""
    return {self.labels[name]: curve for name, curve in self.curves.items()}

  def write(self, path: str) -> None:
    """Writes the table as CSV; an interval that nothing tells is left empty."""
    names = ["final", "best"] if self.best else ["final"]
    columns = [f"{name}_{part}" for name in names for part in ("x", "mean", "low", "high")]
    with open(path, "w", encoding="utf-8", newline="") as file:
      writer = csv.writer(file, lineterminator="\n")
      writer.writerow(["group", "runs", *columns])
      for name, curve in self.curves.items():
        ends = [column for column in (curve.low, curve.high) if column is not None]
        parts = [
          f"{column[place]:.7g}"
          for place in self._places(curve)
          for column in (curve.x, curve.mean, *ends)
        ]
        if not ends:
          parts = [cell for at in range(0, len(parts), 2) for cell in (*parts[at : at + 2], "", "")]
        writer.writerow([name, curve.runs, *parts])

  def _places(self, curve: Curve) -> list[int]:
    """Returns where the curve ends and, if that is told, where it is highest."""
    return [len(curve.x) - 1] + ([int(np.argmax(curve.mean))] if self.best else [])


def build(
  groups: Mapping[str, Sequence[LoggedRun]],
  *,
  metric: str,
  mode: Optional[str] = None,
  axis: str = "steps",
  smoothing: int = 1,
  title: Optional[str] = None,
) -> CurveTable:
  """Averages a metric over the runs of each group.

  Args:
    groups: the runs by the name of their group.
    metric: see `learning_curves.find_metric`.
    mode: how the policy of the evaluations acts; None for the mode of which there are most.
    axis: what the curves are drawn against, the value of an `Axis`.
    smoothing: see `learning_curves.run_curve`.
    title: the line above the picture; None for one made of the metric and the environment.

  Raises:
    ValueError: if a run lacks the metric or the axis, or runs cannot be compared.
  """
  runs = [run for members in groups.values() for run in members]
  against = Axis(axis)
  if against is Axis.STEPS and len({run.offline for run in runs}) > 1:
    raise ValueError(
      "Some runs count environment steps and others, which learn from a dataset, learner steps. "
      "Use --x=learner_steps or --x=wall_seconds."
    )
  if metric == "evaluation" and mode is None and any(run.modes for run in runs):
    mode = learning_curves.common_mode(runs)
  curves: dict[str, Curve] = {}
  labels: dict[str, str] = {}
  notes = [note for run in runs for note in run.notes]
  for name, members in groups.items():
    tags = [learning_curves.find_metric(run, metric, mode) for run in members]
    singles = [
      learning_curves.run_curve(run, tag, axis=against, smoothing=smoothing)
      for run, tag in zip(members, tags)
    ]
    try:
      curves[name] = learning_curves.mean_curve(singles)
    except ValueError as error:
      raise ValueError(f"{name}: {error}") from None
    counted = _counted(members)
    labels[name] = f"{name} ({counted})" if counted else name
    notes += _notes(name, members, singles, curves[name])
  texts = curves_plot.Texts(
    title=title or _title(runs, tags[0], mode if metric == "evaluation" else None),
    caption=_caption(list(curves.values()), smoothing),
    x=_UNITS.get(against, "Learner steps" if runs[0].offline else "Environment steps"),
    y=_meaning(tags[0]),
    y_is_return=learning_curves.is_return(tags[0]),
  )
  return CurveTable(curves, labels, texts, texts.y_is_return, notes)


def _with_interval(curve: Curve, place: int) -> str:
  """Writes a value of a curve with its interval."""
  text = f"{curve.mean[place]:.5g}"
  if curve.low is None or curve.high is None:
    return text
  return f"{text} [{curve.low[place]:.5g}, {curve.high[place]:.5g}]"


def _counted(members: Sequence[LoggedRun]) -> str:
  """Says how many runs there are, or which seed the only one has."""
  seeds = [run.record.get("seed") for run in members]
  if len(members) == 1:
    return "" if seeds[0] is None else f"seed {seeds[0]}"
  distinct = None not in seeds and len(set(seeds)) == len(seeds)
  return f"{len(members)} {'seeds' if distinct else 'runs'}"


def _notes(
  name: str, members: Sequence[LoggedRun], singles: Sequence[Curve], curve: Curve
) -> list[str]:
  """Says what limits a group's mean."""
  notes = []
  seeds = [run.record.get("seed") for run in members]
  repeated = sorted({seed for seed in seeds if seed is not None and seeds.count(seed) > 1})
  if repeated:
    notes.append(
      f"{name}: the seed {repeated[0]} is there {seeds.count(repeated[0])} times. Such runs are "
      "alike, and the interval is too narrow."
    )
  if 1 < len(members) < _FEW:
    notes.append(
      f"{name}: over {len(members)} runs the interval is too narrow; give {_FEW} or more."
    )
  longest = max(single.x[-1] for single in singles)
  if longest > curve.x[-1]:
    notes.append(
      f"{name}: the mean ends at {curve.x[-1]:,.0f}, where the shortest of its runs ends; the "
      f"longest goes on to {longest:,.0f}."
    )
  return notes


def _meaning(tag: str) -> str:
  """Says what the vertical axis shows."""
  if learning_curves.is_return(tag):
    return "Return of an episode (sum of rewards)"
  return tag.rpartition("/")[2].replace("_", " ")


def _title(runs: Sequence[LoggedRun], tag: str, mode: Optional[str]) -> str:
  """Words what is drawn, and on which environment if that is one and known."""
  if mode is not None:
    what = f"Evaluation returns, {mode}"
  elif tag == "train/episode_return":
    what = "Returns while training"
  else:
    what = f"{_meaning(tag)} ({tag.rpartition('/')[0]})"
  environments = {run.record.get("environment") for run in runs}
  (environment,) = environments if len(environments) == 1 else (None,)
  return f"{what}, {environment}" if environment else what


def _caption(curves: Sequence[Curve], smoothing: int) -> str:
  """Words what lines and bands are."""
  several = [curve.runs > 1 for curve in curves]
  own = [curve.runs == 1 and curve.low is not None for curve in curves]
  parts = []
  if any(several):
    parts.append("mean and 95 % bootstrap interval over runs")
  if any(own):
    parts.append(f"{'single runs: ' if any(several) else ''}95 % interval over episodes")
  if smoothing > 1:
    parts.append(f"each point the mean of the last {smoothing}")
  return "; ".join(parts)
