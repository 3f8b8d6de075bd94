"""A picture of the measured points of benchmark_distributed and what the model says of them."""

from collections.abc import Mapping
from typing import Any

from temper.launchers import scaling_tables
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.utils import figure_style

_COLOURS = {OURS: "#1f6feb", THEIRS: "#c2571a"}


def draw(results: Mapping[str, Any], path: str) -> None:
  """Draws environment steps/s against the number of actors.

  Args:
    results: by case; see `scaling_tables.costs`.
    path: of the picture, .png or .svg.

  Raises:
    ImportError: if matplotlib is not installed.
    ValueError: if a case was not measured.
  """
  figure = figure_style.new_figure()
  axes = figure.add_subplot()
  counts = sorted({point["num_actors"] for point in results["scaling"]["points"]})
  for side, colour in _COLOURS.items():
    points = [
      (point["num_actors"], point["environment_steps"])
      for point in results["scaling"]["points"]
      if point["side"] == side and "error" not in point
    ]
    if points:
      axes.plot(*zip(*points), "o", color=colour, markersize=9, label=f"{side}, measured")
    rates = [
      scaling_tables.predicted(results, side, count)[0].environment_steps for count in counts
    ]
    axes.plot(counts, rates, color=colour, linewidth=2, label=f"{side}, model")
  axes.set_ylim(bottom=0)
  axes.set_xticks(counts)
  axes.grid(axis="y", color=figure_style.FAINT)
  figure_style.style(axes)
  figure_style.numbers(axes.yaxis)
  waits = 1e3 * results["scaling"]["environment_seconds"]
  figure_style.title(axes, f"Environment steps a second, {waits:g} ms a step, one machine")
  figure_style.name(axes.xaxis, "actors")
  figure_style.legend_above(axes)
  figure.tight_layout()
  figure_style.save(figure, path)
