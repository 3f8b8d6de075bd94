"""Learning curves of runs, and their mean over runs with the interval it lies in."""

from collections.abc import Sequence
import difflib
import enum
from typing import NamedTuple, Optional

import numpy as np
from scipy import stats

from temper.utils import plotting
from temper.utils.logged_runs import LoggedRun

# More points than this are not seen apart in a picture.
_MOST_POINTS = 500
_RESAMPLES = 10_000
_SHORT_NAMES = {"train": "train/episode_return"}


class Axis(enum.Enum):
  """What a curve is drawn against."""

  STEPS = "steps"
  """Steps of the run: environment steps, or learner steps where nothing acts."""
  WALL_SECONDS = "wall_seconds"
  """Time that the run has taken so far, seconds."""
  LEARNER_STEPS = "learner_steps"
  """Steps of the learner."""


class Curve(NamedTuple):
  """A metric against an axis.

  Attributes:
    x: [N] float64, rising.
    mean: [N] float64.
    low, high: [N] float64 each, the ends of the 95 % interval; None where nothing says how far the
      metric spreads.
    runs: of how many runs it is the mean.
  """

  x: np.ndarray
  mean: np.ndarray
  low: Optional[np.ndarray]
  high: Optional[np.ndarray]
  runs: int = 1


def common_mode(runs: Sequence[LoggedRun]) -> str:
  """Returns the way to act with the most evaluations in every run, deterministic among equals.

  Raises:
    ValueError: if the runs have none in common.
  """
  modes = set(runs[0].modes).intersection(*(run.modes for run in runs))
  if not modes:
    found = "; ".join(f"{run.path} has {', '.join(run.modes) or 'none'}" for run in runs)
    raise ValueError(f"The runs have no mode of evaluation in common: {found}.")

  def fewest(mode: str) -> int:
    return min(len(run.series[f"evaluation/{mode}/return_mean"].steps) for run in runs)

  return max(sorted(modes), key=lambda mode: (fewest(mode), mode == "deterministic"))


def find_metric(run: LoggedRun, metric: str, mode: Optional[str] = None) -> str:
  """Returns the full name of a metric of a run.

  Args:
    run: the run.
    metric: "evaluation" and "train" for returns; any other by its full name, such as
      `learner/alpha`, or by the last part of it if only one has it.
    mode: with "evaluation", how the policy acts.

  Raises:
    ValueError: if there is no such metric, or several; names those that there are.
  """
  if metric == "evaluation":
    tag = f"evaluation/{mode}/return_mean"
    if run.modes and tag not in run.series:
      raise ValueError(
        f"{run.path} has no evaluation with mode {mode!r}; its modes are {', '.join(run.modes)}."
      )
  else:
    tag = _SHORT_NAMES.get(metric, metric)
  if tag in run.series:
    return tag
  alike = [name for name in run.series if name.rpartition("/")[2] == metric]
  if len(alike) == 1:
    return alike[0]
  if alike:
    raise ValueError(f"{metric!r} is in several logs; say which: {', '.join(sorted(alike))}.")
  known = (["evaluation"] if run.modes else []) + [
    short for short, name in _SHORT_NAMES.items() if name in run.series
  ]
  known += sorted(run.series)
  endings = {name.rpartition("/")[2] for name in known}
  close = difflib.get_close_matches(metric, sorted(endings.union(known)), n=1)
  hint = f" Did you mean {close[0]}?" if close else ""
  raise ValueError(f"{run.path} has no metric {metric!r}.{hint} It has {', '.join(known)}.")


def is_return(tag: str) -> bool:
  """Whether a metric is a return, of which more is better."""
  return tag.rpartition("/")[2] in ("return_mean", "episode_return")


def run_curve(run: LoggedRun, tag: str, *, axis: Axis = Axis.STEPS, smoothing: int = 1) -> Curve:
  """Returns the curve of one run.

  Args:
    run: the run.
    tag: full name of the metric. Evaluations bring their own interval, over their episodes.
    axis: what it is drawn against. Points outside what the logs tell of the axis are left out.
    smoothing: how many points, the last of them the present one, are averaged into each. The ends
      of an interval are averaged likewise, which is on the safe side.

  Raises:
    ValueError: if the logs say nothing of the axis, or `smoothing` is less than 1.
  """
  prefix, _, name = tag.rpartition("/")
  steps, values = run.series[tag]
  columns = [values]
  if name == "return_mean":
    ends = [run.series.get(f"{prefix}/return_{end}") for end in ("low", "high")]
    columns += [end.values for end in ends if end is not None and len(end.steps) == len(steps)]
  x = _positions(run, prefix, steps, axis)
  known = np.isfinite(x)
  if not known.any():
    raise ValueError(f"The logs of {run.path} do not tell the {axis.value} of any {tag}.")
  columns = [plotting.trend(column, smoothing)[known] for column in columns]
  # Two rows at one place, such as a time of one digit, would make the mean ambiguous.
  x, last = np.unique(x[known][::-1], return_index=True)
  columns = [column[::-1][last] for column in columns]
  low, high = columns[1:] if len(columns) == 3 else (None, None)
  return Curve(x, columns[0], low, high)


def _positions(run: LoggedRun, prefix: str, steps: np.ndarray, axis: Axis) -> np.ndarray:
  """Returns where steps lie on an axis, NaN where the logs do not tell."""
  if axis is Axis.STEPS or (axis is Axis.LEARNER_STEPS and run.offline):
    return steps
  # The same rows tell it exactly; else the other files do, in between by interpolation.
  named = {tag: series for tag, series in run.series.items() if tag.endswith(f"/{axis.value}")}
  own = named.get(f"{prefix}/{axis.value}")
  sources = [own] if own is not None else list(named.values())
  if not sources:
    raise ValueError(f"The logs of {run.path} say nothing of {axis.value}. Choose another --x.")
  known = {step: place for source in sources for step, place in zip(*source)}
  if axis is Axis.LEARNER_STEPS:
    known.setdefault(0.0, 0.0)  # A run begins without any.
  at = np.asarray(sorted(known))
  places = np.maximum.accumulate([known[step] for step in at])
  return np.interp(steps, at, places, left=np.nan, right=np.nan)


def mean_curve(curves: Sequence[Curve]) -> Curve:
  """Returns the mean of curves of single runs with its 95 % bootstrap interval over the runs.

  The curves are interpolated onto all places where one of them has a point, between the last of
  their beginnings and the first of their ends: none is extrapolated. Whole runs are drawn again
  with replacement, the percentile method of `scipy.stats.bootstrap` (Efron and Tibshirani, An
  Introduction to the Bootstrap, 1993, chapter 13). Of two or three runs that interval is too
  narrow. One curve alone is returned as it is, with its own interval.

  Args:
    curves: one a run, at least one.

  Raises:
    ValueError: if the curves have no stretch in common.
  """
  if len(curves) == 1:
    return curves[0]
  first = max(curve.x[0] for curve in curves)
  last = min(curve.x[-1] for curve in curves)
  if first > last:
    spans = ", ".join(f"{curve.x[0]:,.0f} to {curve.x[-1]:,.0f}" for curve in curves)
    raise ValueError(f"Curves of one group have no stretch in common: they go from {spans}.")
  x = np.unique(np.concatenate([curve.x for curve in curves]))
  x = x[(x >= first) & (x <= last)]
  if len(x) > _MOST_POINTS:
    x = np.linspace(first, last, _MOST_POINTS)
  values = np.stack([np.interp(x, curve.x, curve.mean) for curve in curves])
  interval = stats.bootstrap(
    (values,),
    np.mean,
    axis=0,
    confidence_level=0.95,
    n_resamples=_RESAMPLES,
    batch=500,  # Keeps the redrawn curves in a few megabytes.
    method="percentile",
    random_state=np.random.default_rng(0),
  ).confidence_interval
  return Curve(x, values.mean(axis=0), interval.low, interval.high, len(curves))
