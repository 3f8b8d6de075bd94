"""The picture of a run: returns while training, and evaluations with their intervals."""

from collections.abc import Mapping, Sequence
import os
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from temper.utils import figure_style
from temper.utils import run_loggers

_EPISODES = "#9fb3c8"
_TREND = "#1f5fa8"
_ALPHA = "#a8356b"
_ENTROPY = "#2b7a78"
# Colour, marker and shift to the right, in shares of the width: all modes are evaluated at the same
# steps, and side by side none hides another.
_MODES = {
  "deterministic": ("#c4501b", "o", 0.0),
  "stochastic": ("#3a7d44", "s", 0.008),
  "boltzmann": ("#7b4ea3", "^", 0.016),
}


def trend(values: Union[Sequence[float], np.ndarray], window: int) -> np.ndarray:
  """Returns the mean of each value and up to `window - 1` values before it.

  Args:
    values: a sequence in time order.
    window: how many values to average, at least 1.

  Returns:
    float64 array as long as `values`.
  """
  if window < 1:
    raise ValueError(f"window must be at least 1, got {window}.")
  sums = np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=np.float64))])
  last = np.arange(1, len(values) + 1)
  first = np.maximum(last - window, 0)
  return (sums[last] - sums[first]) / (last - first)


class Reference(NamedTuple):
  """A return to compare with, drawn as a line across the picture.

  Attributes:
    label: its name in the legend.
    value: the mean return.
    low, high: the ends of its interval, a band around the line.
  """

  label: str
  value: float
  low: float
  high: float


def plot_learning_curve(
  log_directory: str,
  path: str,
  *,
  title: str,
  steps_label: str = "Environment steps",
  reference: Optional[Reference] = None,
) -> None:
  """Draws the learning curve of a run from its CSV files.

  Args:
    log_directory: the folder that holds `evaluation.csv` and, of a run that acts, `train.csv`. A
      panel below is drawn where `learner.csv` has a temperature `alpha`, with `entropy` if it is
      there.
    path: the PNG file to write, 1440 × 810 pixels.
    title: the line above the picture.
    steps_label: what the steps of the run are.
    reference: a return to compare with.

  Raises:
    ImportError: if matplotlib is not installed; names the extra that brings it.
  """
  figure = figure_style.new_figure()
  train = run_loggers.read_csv(os.path.join(log_directory, "train.csv"))
  evaluations = run_loggers.read_csv(os.path.join(log_directory, "evaluation.csv"))
  learner = run_loggers.read_csv(os.path.join(log_directory, "learner.csv"))
  temperature = [row for row in learner if row.get("alpha")]

  if temperature:
    axes = figure.add_axes((0.105, 0.37, 0.8, 0.38))
    axes.tick_params(labelbottom=False)
    lowest = figure.add_axes((0.105, 0.125, 0.8, 0.2), sharex=axes)
    _draw_temperature(lowest, temperature)
  else:
    lowest = axes = figure.add_axes((0.105, 0.125, 0.865, 0.625))
  _draw_training(axes, train)
  _draw_evaluations(axes, evaluations)
  if reference is not None:
    axes.axhspan(reference.low, reference.high, color=_EPISODES, alpha=0.3, linewidth=0)
    axes.axhline(
      reference.value, color=figure_style.INK, linewidth=1.4, linestyle="--", label=reference.label
    )
  figure_style.title(axes, title)
  meaning = "" if temperature else " (sum of rewards)"  # There is less room above a panel.
  figure_style.name(axes.yaxis, f"Return of an episode{meaning}")
  axes.grid(axis="y", color=figure_style.FAINT, linewidth=1)
  figure_style.name(lowest.xaxis, steps_label)
  axes.set_xlim(left=0)
  for drawn in figure.axes:
    figure_style.style(drawn)
  figure_style.thousands(axes.xaxis)
  figure_style.numbers(axes.yaxis)
  figure_style.legend_above(axes)
  figure_style.save(figure, path)


def _draw_temperature(axes: Any, rows: Sequence[Mapping[str, str]]) -> None:
  """Draws the temperature on a logarithmic scale, and the entropy on another."""
  steps = [float(row["step"]) for row in rows]
  alphas = [float(row["alpha"]) for row in rows]
  axes.plot(steps, alphas, color=_ALPHA, linewidth=1.8)
  if min(alphas) > 0:
    # However little it moves, some ticks are in sight.
    figure_style.logarithmic(axes, min(alphas) / 1.6, max(alphas) * 1.6)
  else:
    figure_style.numbers(axes.yaxis)
  axes.set_ylabel("alpha", fontsize=figure_style.TEXT_SIZE, color=_ALPHA)
  if rows[0].get("entropy"):
    entropy = axes.twinx()
    entropy.plot(steps, [float(row["entropy"]) for row in rows], color=_ENTROPY, linewidth=1.4)
    entropy.set_ylabel("entropy", fontsize=figure_style.TEXT_SIZE, color=_ENTROPY)


def _draw_training(axes: Any, rows: Sequence[Mapping[str, str]]) -> None:
  """Draws every training episode faintly and their moving mean boldly."""
  if not rows:
    return
  steps = [float(row["step"]) for row in rows]
  returns = [float(row["episode_return"]) for row in rows]
  axes.plot(
    steps,
    returns,
    linestyle="none",
    marker=".",
    markersize=6,
    color=_EPISODES,
    label="training episode",
  )
  window = max(2, min(10, len(returns) // 5))
  if len(returns) > window:
    axes.plot(
      steps,
      trend(returns, window),
      color=_TREND,
      linewidth=2,
      label=f"mean of the last {window} training episodes",
    )


def _draw_evaluations(axes: Any, rows: Sequence[Mapping[str, str]]) -> None:
  """Draws evaluation means with their 95 % intervals, one series a mode."""
  for mode, (colour, marker, share) in _MODES.items():
    chosen = [row for row in rows if row["mode"] == mode]
    if not chosen:
      continue
    column = {
      name: np.array([float(row[name]) for row in chosen])
      for name in ("step", "return_mean", "return_low", "return_high")
    }
    mean = column["return_mean"]
    # The ends can sit a rounding error inside the mean when all returns are alike.
    spread = np.maximum([mean - column["return_low"], column["return_high"] - mean], 0.0)
    axes.errorbar(
      column["step"] + share * float(rows[-1]["step"]),
      mean,
      yerr=spread,
      color=colour,
      marker=marker,
      markersize=6,
      linewidth=1.6,
      elinewidth=1.6,
      capsize=4,
      clip_on=False,
      label=f"evaluation, {mode} (mean, 95 % interval)",
    )
