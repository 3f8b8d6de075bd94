"""The picture of a comparison: mean returns with their intervals, group beside group."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from temper.utils import figure_style
from temper.utils import plotting

_COLOURS = ("#3a7d44", "#7b4ea3", "#c4501b", "#1f5fa8")
_MARKERS = ("s", "^", "o", "D")
_PARTS = "each seed"
# Share of the distance between two groups over which the points of one are spread.
_SPREAD = 0.6


class Point(NamedTuple):
  """A mean return.

  Attributes:
    group: its place on the axis.
    series: chooses its colour and marker.
    hollow: whether its marker is only drawn in outline.
    label: its name in the legend.
    mean: mean return.
    low, high: ends of its interval.
    parts: what it is the mean of, the means of single seeds, drawn faintly.
  """

  group: str
  series: str
  hollow: bool
  label: str
  mean: float
  low: float
  high: float
  parts: Sequence[float] = ()


def plot_comparison(
  points: Sequence[Point], paths: Sequence[str], *, title: str, reference: plotting.Reference
) -> None:
  """Draws points with their intervals, and a line to compare them with.

  Args:
    points: in the order in which they stand, the same series in each group.
    paths: files to write; their endings, .png or .svg, say how.
    title: the line above the picture.
    reference: the line across.

  Raises:
    ImportError: if matplotlib is not installed; names the extra that brings it.
  """
  figure = figure_style.new_figure()
  axes = figure.add_axes((0.105, 0.1, 0.865, 0.79))
  axes.axhspan(reference.low, reference.high, color="#9fb3c8", alpha=0.3, linewidth=0)
  axes.axhline(
    reference.value, color=figure_style.INK, linewidth=1.4, linestyle="--", label=reference.label
  )
  _draw_points(axes, points)

  groups = list(dict.fromkeys(point.group for point in points))
  axes.set_xticks(range(len(groups)), groups)
  axes.set_xlim(-0.6, len(groups) - 0.4)
  figure_style.title(axes, title)
  figure_style.name(axes.yaxis, "Return of an episode (sum of rewards)")
  figure_style.style(axes)
  figure_style.numbers(axes.yaxis)
  axes.tick_params(axis="x", labelsize=figure_style.LABEL_SIZE)
  axes.grid(axis="y", color=figure_style.FAINT, linewidth=1)
  figure_style.legend(axes)
  for path in paths:
    figure_style.save(figure, path)


def _draw_points(axes: Any, points: Sequence[Point]) -> None:
  """Draws the points of each group side by side."""
  groups = list(dict.fromkeys(point.group for point in points))
  series = list(dict.fromkeys(point.series for point in points))
  labelled: set[str] = set()
  for number, group in enumerate(groups):
    members = [point for point in points if point.group == group]
    for place, point in enumerate(members):
      x = number + _SPREAD * ((place + 0.5) / len(members) - 0.5)
      style = series.index(point.series)
      colour = _COLOURS[style % len(_COLOURS)]
      axes.errorbar(
        [x],
        [point.mean],
        # The ends can sit a rounding error inside the mean when all returns are alike.
        yerr=[[max(point.mean - point.low, 0.0)], [max(point.high - point.mean, 0.0)]],
        color=colour,
        marker=_MARKERS[style % len(_MARKERS)],
        markersize=8,
        markerfacecolor="white" if point.hollow else colour,
        linestyle="none",
        elinewidth=1.8,
        capsize=5,
        label=None if point.label in labelled else point.label,
      )
      labelled.add(point.label)
      if len(point.parts) > 1:
        axes.plot(
          [x + 0.04] * len(point.parts),
          point.parts,
          linestyle="none",
          marker=".",
          color=colour,
          alpha=0.5,
          label=None if _PARTS in labelled else _PARTS,
        )
        labelled.add(_PARTS)
