"""Curves of two sides: read, compared and laid out."""

import numpy as np
import pytest

from temper.launchers import comparison

_HEADER = "step,mode,return_mean,return_low,return_high,episodes,wall_seconds\n"


def _curve(*means: float) -> list[comparison.Evaluation]:
  return [
    comparison.Evaluation(100 * (index + 1), mean, mean - 1, mean + 1)
    for index, mean in enumerate(means)
  ]


def test_read_curve_takes_one_mode_in_order_and_the_last_row_of_a_step(tmp_path):
  path = tmp_path / "evaluation.csv"
  path.write_text(
    _HEADER
    + "200,deterministic,-5,-6,-4,5,2\n"
    + "100,deterministic,-9,-10,-8,5,1\n"
    + "200,stochastic,-7,-8,-6,5,2\n"
    + "200,deterministic,-4,-4.5,-3.5,20,3\n"
  )
  assert comparison.read_curve(str(path), "deterministic") == [
    comparison.Evaluation(100, -9.0, -10.0, -8.0),
    comparison.Evaluation(200, -4.0, -4.5, -3.5),
  ]


def test_read_curve_names_the_modes_that_there_are(tmp_path):
  path = tmp_path / "evaluation.csv"
  path.write_text(_HEADER + "100,stochastic,-7,-8,-6,5,2\n")
  with pytest.raises(ValueError, match="'boltzmann'.*stochastic"):
    comparison.read_curve(str(path), "boltzmann")


def test_of_returns_has_the_mean_inside_its_interval():
  point = comparison.Evaluation.of_returns(10, [1.0, 2.0, 6.0])
  assert point.step == 10
  assert point.mean == 3.0
  assert 1.0 <= point.low < 3.0 < point.high <= 6.0


def test_final_and_best():
  curve = _curve(-3.0, -1.0, -1.0, -2.0)
  assert comparison.final(curve).step == 400
  assert comparison.best(curve).step == 200


def test_interval_of_a_difference_is_that_of_two_independent_means():
  random = np.random.default_rng(1)
  ours, theirs = random.normal(3.0, 1.0, 400), random.normal(1.0, 2.0, 400)
  low, high = comparison.difference_interval(ours, theirs)
  spread = 1.96 * np.sqrt(ours.var() / 400 + theirs.var() / 400)
  centre = ours.mean() - theirs.mean()
  np.testing.assert_allclose([low, high], [centre - spread, centre + spread], atol=0.02)
  assert comparison.difference_interval(theirs, ours)[1] < 0


def test_table_by_hand():
  sides = {
    "temper": {0: _curve(-3.0, -2.0), 7: _curve(-1.0, -2.0)},
    "d3rlpy": {0: _curve(-9.0, -8.0), 7: _curve(-9.0, -6.0)},
  }
  rows = [line.split("  ") for line in comparison.table(sides).splitlines()]
  cells = [[cell.strip() for cell in row if cell] for row in rows]
  assert cells[0] == ["seed", "temper, final", "d3rlpy, final", "temper, best", "d3rlpy, best"]
  seed_0 = ["-2.0 [-3.0, -1.0]", "-8.0 [-9.0, -7.0]", "-2.0 [-3.0, -1.0]", "-8.0 [-9.0, -7.0]"]
  assert cells[1] == ["0", *seed_0]
  assert cells[2][3] == "-1.0 [-2.0, 0.0]"
  # Intervals of a mean of two are from one to the other.
  seed_mean = ["-2.0 [-2.0, -2.0]", "-7.0 [-8.0, -6.0]", "-1.5 [-2.0, -1.0]", "-7.0 [-8.0, -6.0]"]
  assert cells[3] == ["mean", *seed_mean]
  assert cells[4][0] == (
    "temper less d3rlpy: final +5.0 [+4.0, +6.0], ahead; best +5.5 [+4.0, +7.0], ahead."
  )


@pytest.mark.parametrize(
  ("ours", "word"),
  [(-1.0, "ahead"), (-5.0, "equal within the interval"), (-20.0, "BEHIND")],
)
def test_verdict(ours, word):
  sides = {
    "a": {0: _curve(ours - 1), 1: _curve(ours + 1)},
    "b": {0: _curve(-4.0), 1: _curve(-6.0)},
  }
  assert comparison.table(sides).splitlines()[-1].count(word) == 2


def test_one_seed_gives_no_verdict():
  last = comparison.table({"a": {0: _curve(-1.0)}, "b": {0: _curve(-4.0)}}).splitlines()[-1]
  assert "final +3.0, of one seed, which decides nothing" in last
  assert "ahead" not in last


@pytest.mark.parametrize(
  "theirs", [{0: _curve(1.0, 2.0)}, {1: _curve(1.0)}, {0: _curve(1.0), 1: _curve(1.0)}]
)
def test_sides_that_were_evaluated_differently_are_refused(theirs):
  with pytest.raises(ValueError, match="same steps of the same seeds"):
    comparison.table({"a": {0: _curve(1.0)}, "b": theirs})
