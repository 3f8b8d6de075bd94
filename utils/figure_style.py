"""How every picture of Temper looks: size, type, colours, frame, and files that can be repeated."""

import os
from typing import Any

INK = "#22272e"
FAINT = "#e3e7ec"
FRAME = "#b8c0ca"

# Points, at 150 dots an inch: the smallest letters are 25 pixels high in a picture of 1440 × 810.
TITLE_SIZE = 15
LABEL_SIZE = 13
TEXT_SIZE = 12


def new_figure() -> Any:
  """Returns an empty figure of 1440 × 810 pixels with a canvas of its own.

  Raises:
    ImportError: if matplotlib is not installed; names the extra that brings it.
  """
  try:
    # The object interface leaves a caller's own pyplot state and backend alone.
    from matplotlib.backends import backend_agg
    from matplotlib.figure import Figure
  except ImportError as error:
    raise ImportError("Pictures need matplotlib: pip install 'temper-rl[plots]'.") from error
  figure = Figure(figsize=(9.6, 5.4), dpi=150, facecolor="white")
  backend_agg.FigureCanvasAgg(figure)
  return figure


def style(axes: Any) -> None:
  """Leaves no frame but the line below, and sets the type of the ticks."""
  axes.tick_params(which="both", labelsize=TEXT_SIZE, colors=INK, length=0)
  axes.set_axisbelow(True)
  for side in ("top", "right", "left"):
    axes.spines[side].set_visible(False)
  axes.spines["bottom"].set_color(FRAME)


def title(axes: Any, text: str, pad: float = 12) -> None:
  """Writes the line above the picture."""
  axes.set_title(text, loc="left", fontsize=TITLE_SIZE, color=INK, pad=pad)


def name(axis: Any, text: str) -> None:
  """Says at an axis what it shows."""
  axis.set_label_text(text, fontsize=LABEL_SIZE, color=INK)


def thousands(axis: Any) -> None:
  """Writes the ticks of an axis of whole numbers, such as steps, with commas."""
  from matplotlib.ticker import FuncFormatter

  axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def numbers(axis: Any) -> None:
  """Writes the ticks of an axis with at most five digits, and with commas."""
  from matplotlib.ticker import FuncFormatter

  axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))


def logarithmic(axes: Any, low: float, high: float) -> None:
  """Makes the vertical axis logarithmic, from `low` to `high`, with ticks in sight."""
  from matplotlib.ticker import FuncFormatter
  from matplotlib.ticker import LogLocator
  from matplotlib.ticker import NullLocator

  axes.set_yscale("log")
  axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
  axes.yaxis.set_minor_locator(NullLocator())
  axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
  axes.set_ylim(low, high)


def legend(axes: Any) -> None:
  """Puts a legend where it covers least, if anything in the axes has a name."""
  if axes.get_legend_handles_labels()[0]:
    axes.legend(loc="best", fontsize=TEXT_SIZE, framealpha=0.9, edgecolor=FAINT, labelcolor=INK)


def legend_above(axes: Any) -> None:
  """Puts a legend between the axes and their title, where it covers nothing; the title moves up."""
  count = len(axes.get_legend_handles_labels()[0])
  if count:
    rows = -(-count // 2)
    place = dict(loc="lower left", bbox_to_anchor=(-0.012, 1.0), ncol=2, frameon=False)
    axes.legend(fontsize=TEXT_SIZE, labelcolor=INK, borderaxespad=0.3, **place)
    title(axes, axes.get_title(loc="left"), pad=12 + 1.6 * TEXT_SIZE * rows)


def save(figure: Any, path: str) -> None:
  """Writes a figure; the same figure gives the same bytes.

  Args:
    figure: what to write.
    path: the file; its ending, .png or .svg, says how.
  """
  import matplotlib

  kind = os.path.splitext(path)[1][1:].lower()
  # No version, date or random name goes into the file.
  metadata: dict[str, Any] = {"Software": None} if kind == "png" else {"Date": None}
  with matplotlib.rc_context({"svg.hashsalt": "temper", "svg.fonttype": "none"}):
    figure.savefig(path, format=kind, metadata=metadata)
