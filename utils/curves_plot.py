"""The picture of several learning curves with their intervals, each named beside its end."""

from collections.abc import Mapping, Sequence
import re
import textwrap
from typing import Any, NamedTuple

import numpy as np

from temper.utils import figure_style
from temper.utils.learning_curves import Curve

# Told apart by people of every colour vision (Okabe and Ito, Color Universal Design, 2008). Their
# yellow is left out, which is hard to see on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#22272e")
_DASHES = ("-", (0, (4, 1.5)))
MOST_CURVES = len(_COLOURS) * len(_DASHES)

_GREY = "#57606a"

# In shares of the figure's width: where the axes begin, and how far they stay from the names.
_LEFT, _GAP = 0.105, 0.042
_ABOVE, _BELOW = 0.756, 0.675  # Room for the title and for the ticks, inches.
_LINES_APART = 1.15  # Of names, in shares of their height.
_LABEL_WIDTH = 26  # Letters in a line of a name.
_MOST_MARKED = 40  # With more points than these, markers would hide the line.
_LOGARITHMIC_FROM = 100  # Ratio of the largest to the smallest mean.


class Texts(NamedTuple):
  """What is written around the curves.

  Attributes:
    title: above the picture.
    caption: a line below the title, smaller.
    x: what the horizontal axis shows.
    y: what the vertical one does.
    y_is_return: whether that is a return, whose axis is always linear.
  """

  title: str
  caption: str
  x: str
  y: str
  y_is_return: bool = False


def plot_curves(curves: Mapping[str, Curve], path: str, texts: Texts) -> None:
  """Draws curves, 1440 × 810 pixels, or higher where the names need it.

  The vertical axis is logarithmic where the means are positive and far apart, unless they are
  returns.

  Args:
    curves: by their names.
    path: the file to write; its ending, .png or .svg, says how.
    texts: what is written around them.

  Raises:
    ImportError: if matplotlib is not installed; names the extra that brings it.
    ValueError: if there are more curves than can be told apart.
  """
  if not 1 <= len(curves) <= MOST_CURVES:
    raise ValueError(
      f"There are {len(curves)} curves; from 1 to {MOST_CURVES} can be told apart in a picture. "
      "Group the runs more coarsely, or give fewer."
    )
  figure = figure_style.new_figure()
  axes = figure.add_axes((_LEFT, 0.1, 0.8, 0.8))
  first = min(curve.x[0] for curve in curves.values())
  last = max(curve.x[-1] for curve in curves.values())
  for number, curve in enumerate(curves.values()):
    if len(curve.x) > 1:
      _draw(axes, curve, **_look(number))
    else:
      _draw_point(axes, curve, 0.02 * number * (last - first or 1.0), **_look(number))
  figure_style.thousands(axes.xaxis)
  figure_style.numbers(axes.yaxis)
  if last > first:
    axes.set_xlim(0 if 0 <= first < 0.1 * last else first, last)
  else:
    axes.set_xlim(last - 0.5, last + 0.5)
    axes.set_xticks([last])
  means = np.concatenate([curve.mean for curve in curves.values()])
  if not texts.y_is_return and means.min() > 0 and means.max() > _LOGARITHMIC_FROM * means.min():
    figure_style.logarithmic(axes, means.min() / 1.3, means.max() * 1.3)
  figure_style.name(axes.xaxis, texts.x)
  figure_style.name(axes.yaxis, texts.y)
  axes.grid(axis="y", color=figure_style.FAINT, linewidth=1)
  figure_style.style(axes)
  _name_ends(figure, axes, curves)
  height = figure.get_figheight()
  for text, size, colour, inches in (
    (texts.title, figure_style.TITLE_SIZE, figure_style.INK, 0.27),
    (texts.caption, figure_style.TEXT_SIZE, _GREY, 0.57),
  ):
    figure.text(_LEFT, 1 - inches / height, text, fontsize=size, color=colour)
  figure_style.save(figure, path)


def _look(number: int) -> dict[str, Any]:
  """Returns colour and dashes of the curve of a number."""
  dashes, colour = divmod(number, len(_COLOURS))
  return {"color": _COLOURS[colour], "linestyle": _DASHES[dashes]}


def _draw(axes: Any, curve: Curve, color: str, linestyle: Any) -> None:
  """Draws a mean and its band."""
  axes.plot(
    curve.x,
    curve.mean,
    color=color,
    linestyle=linestyle,
    linewidth=2,
    marker="o" if len(curve.x) <= _MOST_MARKED else "",
    markersize=5,
    clip_on=False,
    zorder=3,
  )
  if curve.low is not None and curve.high is not None:
    axes.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)


def _draw_point(axes: Any, curve: Curve, shift: float, color: str, linestyle: Any) -> None:
  """Draws a curve of a single point with a bar, beside those that may be at the same place."""
  spread = None
  if curve.low is not None and curve.high is not None:
    # The ends can sit a rounding error inside the mean when all returns are alike.
    spread = np.maximum([curve.mean - curve.low, curve.high - curve.mean], 0.0)
  axes.errorbar(
    curve.x + shift,
    curve.mean,
    yerr=spread,
    color=color,
    linestyle=linestyle,
    marker="o",
    markersize=6,
    elinewidth=1.8,
    capsize=5,
    clip_on=False,
  )


def _name_ends(figure: Any, axes: Any, curves: Mapping[str, Curve]) -> None:
  """Writes the name of each curve to the right, as high as its end, with a stroke of its line."""
  from matplotlib import lines

  texts = []
  renderer = figure.canvas.get_renderer()
  for name in curves:
    whole = re.sub(r"(\(\S+) (\S+\))$", "\\1\xa0\\2", name)  # "(5 seeds)" stays in one line.
    # A setting that is too long for a line goes on behind its "=".
    whole = re.sub(rf"(?=\S{{{_LABEL_WIDTH + 1}}})(\S+?=)", "\\1 ", whole)
    wrapped = "\n".join(textwrap.wrap(whole, _LABEL_WIDTH, break_on_hyphens=False))
    texts.append(
      figure.text(
        0, 0, wrapped, fontsize=figure_style.TEXT_SIZE, color=figure_style.INK, va="center"
      )
    )
  boxes = [text.get_window_extent(renderer) for text in texts]
  width, height = figure.canvas.get_width_height()
  heights = [_LINES_APART * box.height for box in boxes]
  height = max(height, sum(heights) + (_ABOVE + _BELOW) * figure.dpi)
  figure.set_size_inches(width / figure.dpi, height / figure.dpi)
  bottom, top = _BELOW * figure.dpi / height, 1 - _ABOVE * figure.dpi / height
  right = 1 - max(box.width for box in boxes) / width - 0.015
  edge = right - _GAP
  axes.set_position((_LEFT, bottom, edge - _LEFT, top - bottom))

  axes.get_ylim()  # Brings limits up to date that are not set, which moves the ends.
  ends = axes.transData.transform([(curve.x[-1], curve.mean[-1]) for curve in curves.values()])
  wanted = np.clip(ends[:, 1] / height, bottom, top)
  places = spread_out(wanted, [each / height for each in heights], bottom, top)
  for number, (text, place) in enumerate(zip(texts, places)):
    text.set_position((right, place))
    xs, ys = [right - 0.025, right - 0.006], [place, place]
    if ends[number, 0] / width > edge - 0.01:
      # A line across the axes would look like data: only ends at their edge are joined.
      xs, ys = [edge + 0.004, *xs], [wanted[number], *ys]
    figure.add_artist(lines.Line2D(xs, ys, linewidth=2, **_look(number)))


def spread_out(
  wanted: Sequence[float], heights: Sequence[float], lowest: float, highest: float
) -> list[float]:
  """Returns the middles of boxes near where they should be, none over another.

  Args:
    wanted: where each middle should be.
    heights: how high each box is, in the same unit.
    lowest: no box goes below it, unless there is too little room for all.
    highest: no box goes above it.

  Returns:
    The middles, in the order given and one above the other in the order of `wanted`.
  """
  order = sorted(range(len(wanted)), key=lambda index: -wanted[index])
  places = [0.0] * len(wanted)
  # Down from the top, then up from the bottom as far as there is too little room.
  edge = highest
  for index in order:
    places[index] = min(wanted[index], edge - heights[index] / 2)
    edge = places[index] - heights[index] / 2
  edge = lowest
  for index in reversed(order):
    places[index] = max(places[index], edge + heights[index] / 2)
    edge = places[index] + heights[index] / 2
  return places
