"""The picture of a run: returns while training, and evaluations with their intervals."""

from collections.abc import Mapping, Sequence
import os
from typing import Any, NamedTuple, Optional

import numpy as np

from temper.utils import run_loggers

_INK = "#22272e"
_EPISODES = "#9fb3c8"
_TREND = "#1f5fa8"
# Colour, marker and shift to the right, in shares of the width: all modes are evaluated at the same
# steps, and side by side none hides another.
_MODES = {
  "deterministic": ("#c4501b", "o", 0.0),
  "stochastic": ("#3a7d44", "s", 0.008),
  "boltzmann": ("#7b4ea3", "^", 0.016),
}


def trend(values: Sequence[float], window: int) -> np.ndarray:
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
    log_directory: the folder that holds `evaluation.csv` and, of a run that acts, `train.csv`.
    path: the PNG file to write, 1440 × 810 pixels.
    title: the line above the picture.
    steps_label: what the steps of the run are.
    reference: a return to compare with.

  Raises:
    ImportError: if matplotlib is not installed; names the extra that brings it.
  """
  try:
    # The object interface leaves a caller's own pyplot state and backend alone.
    from matplotlib.backends import backend_agg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter
  except ImportError as error:
    raise ImportError(
      "The learning curve needs matplotlib: pip install 'temper-rl[plots]'."
    ) from error
  train = run_loggers.read_csv(os.path.join(log_directory, "train.csv"))
  evaluations = run_loggers.read_csv(os.path.join(log_directory, "evaluation.csv"))

  figure = Figure(figsize=(9.6, 5.4), dpi=150, facecolor="white")
  backend_agg.FigureCanvasAgg(figure)
  axes = figure.add_axes((0.105, 0.125, 0.865, 0.765))
  _draw_training(axes, train)
  _draw_evaluations(axes, evaluations)
  if reference is not None:
    axes.axhspan(reference.low, reference.high, color=_EPISODES, alpha=0.3, linewidth=0)
    axes.axhline(reference.value, color=_INK, linewidth=1.4, linestyle="--", label=reference.label)

  axes.set_title(title, loc="left", fontsize=15, color=_INK, pad=12)
  axes.set_xlabel(steps_label, fontsize=13, color=_INK)
  axes.set_ylabel("Return of an episode (sum of rewards)", fontsize=13, color=_INK)
  axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
  axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
  axes.tick_params(labelsize=11, colors=_INK, length=0)
  axes.grid(axis="y", color="#e3e7ec", linewidth=1)
  axes.set_axisbelow(True)
  axes.set_xlim(left=0)
  for side in ("top", "right", "left"):
    axes.spines[side].set_visible(False)
  axes.spines["bottom"].set_color("#b8c0ca")
  if axes.get_legend_handles_labels()[0]:
    axes.legend(loc="best", fontsize=11, framealpha=0.9, edgecolor="#e3e7ec", labelcolor=_INK)
  # The same logs give the same bytes: no version or date goes into the file.
  figure.savefig(path, format="png", metadata={"Software": None})


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
