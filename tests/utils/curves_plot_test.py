"""Tests of `temper.utils.curves_plot`."""

import numpy as np
from PIL import Image
import pytest

from temper.utils import curves_plot
from temper.utils.learning_curves import Curve

_TEXTS = curves_plot.Texts("Two agents", "mean and interval", "Environment steps", "Return")
_BLUE, _VERMILION = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


def _curve(mean, spread=5.0, steps=20):
  x = np.linspace(0, 1e4, steps)
  values = np.broadcast_to(mean, x.shape).astype(np.float64)
  return Curve(x, values, values - spread, values + spread, 5)


def _draw(curves, path):
  curves_plot.plot_curves(curves, str(path), _TEXTS)
  with Image.open(path) as picture:
    return np.asarray(picture.convert("RGB"))


def _rows(pixels, colour):
  return np.flatnonzero(np.all(pixels == colour, axis=2).sum(axis=1) > 100)


def test_curves_lie_where_they_belong_in_a_picture_of_full_size(tmp_path):
  pixels = _draw({"upper": _curve(100.0), "lower": _curve(10.0)}, tmp_path / "curves.png")
  assert pixels.shape == (810, 1440, 3)
  upper, lower = _rows(pixels, _BLUE), _rows(pixels, _VERMILION)
  assert len(upper) and len(lower) and upper.max() < lower.min()


def test_an_svg_holds_its_words_and_the_same_curves_give_the_same_bytes(tmp_path):
  for name in ("a.svg", "b.svg", "a.png", "b.png"):
    curves_plot.plot_curves({"sac (5 seeds)": _curve(1.0)}, str(tmp_path / name), _TEXTS)
  for kind in ("svg", "png"):
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
  text = (tmp_path / "a.svg").read_text(encoding="utf-8")
  for word in (*_TEXTS[:4], "sac (5\xa0seeds)", "10,000"):
    assert word in text


def test_single_points_have_bars_side_by_side(tmp_path):
  points = {name: _curve(100.0, 30.0, steps=1) for name in ("a", "b")}
  pixels = _draw(points, tmp_path / "points.png")
  columns = [
    np.flatnonzero(np.all(pixels[:, :1150] == colour, axis=2).sum(axis=0) > 200)
    for colour in (_BLUE, _VERMILION)
  ]
  assert len(columns[0]) and len(columns[1]) and columns[0].max() < columns[1].min()


def test_the_picture_grows_with_the_names(tmp_path):
  curves = {f"a rather long name of a group {i} (5 seeds)": _curve(i) for i in range(14)}
  pixels = _draw(curves, tmp_path / "many.png")
  assert pixels.shape[0] > 810 and pixels.shape[1] == 1440


def test_curves_without_an_interval_are_drawn(tmp_path):
  x = np.arange(1.0, 60.0)
  # From 1 to 3600: the axis is logarithmic, so that half way up is 60, early on.
  pixels = _draw({"a": Curve(x, x**2, None, None)}, tmp_path / "plain.png")
  blue = np.argwhere(np.all(pixels[:, :1100] == _BLUE, axis=2))
  middle = blue[np.abs(blue[:, 0] - blue[:, 0].mean()) < 400]
  at_half = middle[np.abs(middle[:, 0] - (blue[:, 0].min() + blue[:, 0].max()) / 2) < 3, 1]
  share = (at_half.mean() - blue[:, 1].min()) / (blue[:, 1].max() - blue[:, 1].min())
  assert share < 0.2


def test_returns_keep_a_linear_axis(tmp_path):
  x = np.arange(1.0, 60.0)
  texts = _TEXTS._replace(y_is_return=True)
  curves_plot.plot_curves({"a": Curve(x, x**2, None, None)}, str(tmp_path / "a.png"), texts)
  pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
  blue = np.argwhere(np.all(pixels[:, :1100] == _BLUE, axis=2))
  at_half = blue[np.abs(blue[:, 0] - (blue[:, 0].min() + blue[:, 0].max()) / 2) < 3, 1]
  share = (at_half.mean() - blue[:, 1].min()) / (blue[:, 1].max() - blue[:, 1].min())
  assert 0.6 < share < 0.8  # √½ of the way along.


@pytest.mark.parametrize("count", [0, curves_plot.MOST_CURVES + 1])
def test_more_than_can_be_told_apart_are_refused(count, tmp_path):
  with pytest.raises(ValueError, match=f"There are {count} curves; from 1 to 14"):
    curves_plot.plot_curves({str(i): _curve(i) for i in range(count)}, str(tmp_path / "a"), _TEXTS)


def test_names_are_spread_out_by_hand():
  spread = curves_plot.spread_out
  assert spread([0.5], [0.1], 0, 1) == [0.5]
  np.testing.assert_allclose(spread([0.5, 0.5], [0.1, 0.1], 0, 1), [0.5, 0.4])
  np.testing.assert_allclose(spread([0.02, 0.03], [0.1, 0.2], 0, 1), [0.05, 0.2])
  np.testing.assert_allclose(spread([0.99, 0.1], [0.1, 0.1], 0, 1), [0.95, 0.1])
