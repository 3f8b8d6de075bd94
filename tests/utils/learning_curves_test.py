"""Tests of `temper.utils.learning_curves`."""

import numpy as np
import pytest

from temper.utils import evaluation
from temper.utils import learning_curves
from temper.utils import logged_runs
from temper.utils.learning_curves import Axis
from temper.utils.learning_curves import Curve


def _series(points):
  return logged_runs.Series(*np.asarray(points, np.float64).T)


def _run(record=None, **series):
  named = {name.replace("__", "/"): _series(points) for name, points in series.items()}
  return logged_runs.LoggedRun("runs/a", record or {}, named, [])


def _curve(x, mean):
  return Curve(np.asarray(x, np.float64), np.asarray(mean, np.float64), None, None)


_RUN = _run(
  train__episode_return=[(10, 1), (20, 3), (30, 8)],
  train__wall_seconds=[(10, 2), (20, 3), (30, 7)],
  learner__alpha=[(5, 0.5), (15, 0.4), (30, 0.3), (40, 0.2)],
  learner__learner_steps=[(15, 1), (30, 16), (40, 26)],
  evaluation__deterministic__return_mean=[(0, -4), (30, 6)],
  evaluation__deterministic__return_low=[(0, -5), (30, 5)],
  evaluation__deterministic__return_high=[(0, -2), (30, 9)],
  evaluation__stochastic__return_mean=[(30, 6)],
)


def test_metrics_are_found_by_their_short_and_full_names():
  find = learning_curves.find_metric
  assert find(_RUN, "train") == "train/episode_return"
  assert find(_RUN, "alpha") == find(_RUN, "learner/alpha") == "learner/alpha"
  assert find(_RUN, "evaluation", "stochastic") == "evaluation/stochastic/return_mean"
  with pytest.raises(ValueError, match="modes are deterministic, stochastic"):
    find(_RUN, "evaluation", "boltzmann")
  with pytest.raises(ValueError, match="say which: evaluation/deterministic/return_mean, eval"):
    find(_RUN, "return_mean")
  with pytest.raises(ValueError, match="Did you mean alpha.* It has evaluation, train, .*alpha"):
    find(_RUN, "alhpa")


def test_the_common_mode_has_the_most_evaluations_in_every_run():
  assert learning_curves.common_mode([_RUN]) == "deterministic"
  boltzmann = _run(
    evaluation__boltzmann__return_mean=[(0, 1), (1, 1)],
    evaluation__deterministic__return_mean=[(1, 1)],
  )
  assert learning_curves.common_mode([boltzmann]) == "boltzmann"
  assert learning_curves.common_mode([boltzmann, _RUN]) == "deterministic"
  with pytest.raises(ValueError, match="no mode of evaluation in common"):
    learning_curves.common_mode([_RUN, _run(train__episode_return=[(1, 1)])])


def test_a_single_evaluation_curve_has_its_own_interval():
  curve = learning_curves.run_curve(_RUN, "evaluation/deterministic/return_mean")
  assert curve.x.tolist() == [0, 30] and curve.mean.tolist() == [-4, 6]
  assert curve.low.tolist() == [-5, 5] and curve.high.tolist() == [-2, 9]
  assert learning_curves.run_curve(_RUN, "train/episode_return").low is None


def test_smoothing_averages_the_last_points():
  curve = learning_curves.run_curve(_RUN, "train/episode_return", smoothing=2)
  assert curve.mean.tolist() == [1, 2, 5.5]


def test_other_axes_are_read_from_the_same_rows_or_between_those_of_other_files():
  own = learning_curves.run_curve(_RUN, "train/episode_return", axis=Axis.WALL_SECONDS)
  assert own.x.tolist() == [2, 3, 7]
  # 15 lies half way between 10 and 20; 5 and 40 lie outside of what is known.
  other = learning_curves.run_curve(_RUN, "learner/alpha", axis=Axis.WALL_SECONDS)
  np.testing.assert_allclose(other.x, [2.5, 7])
  np.testing.assert_allclose(other.mean, [0.4, 0.3])
  # No learner step before the run begins.
  steps = learning_curves.run_curve(
    _RUN, "evaluation/deterministic/return_mean", axis=Axis.LEARNER_STEPS
  )
  assert steps.x.tolist() == [0, 16]
  offline = _run({"dataset": {}}, learner__loss=[(100, 1), (200, 2)])
  by_learner = learning_curves.run_curve(offline, "learner/loss", axis=Axis.LEARNER_STEPS)
  assert by_learner.x.tolist() == [100, 200]
  with pytest.raises(ValueError, match="say nothing of wall_seconds"):
    learning_curves.run_curve(offline, "learner/loss", axis=Axis.WALL_SECONDS)


def test_means_are_interpolated_and_never_extrapolated():
  mean = learning_curves.mean_curve([_curve([0, 10, 20], [0, 10, 20]), _curve([5, 15], [1, 3])])
  assert mean.x.tolist() == [5, 10, 15] and mean.runs == 2
  np.testing.assert_allclose(mean.mean, [3, 6, 9])
  # Of two runs, a redraw is one of them twice in half of the cases.
  np.testing.assert_allclose(mean.low, [1, 2, 3])
  np.testing.assert_allclose(mean.high, [5, 10, 15])


def test_the_interval_is_the_bootstraps():
  values = np.random.default_rng(0).normal(size=8)
  curves = [_curve([0, 1], [value, 7.0]) for value in values]
  mean = learning_curves.mean_curve(curves)
  low, high = evaluation.bootstrap_interval(values)
  np.testing.assert_allclose([mean.low[0], mean.high[0]], [low, high], atol=0.03)
  assert mean.mean[0] == pytest.approx(values.mean())
  # Equal values have no spread.
  assert mean.low[1] == mean.high[1] == 7.0
  again = learning_curves.mean_curve(curves)
  np.testing.assert_array_equal(again.low, mean.low)


def test_a_curve_alone_is_left_as_it_is():
  curve = _curve([0, 1], [2, 3])
  assert learning_curves.mean_curve([curve]) is curve


def test_long_curves_are_thinned_to_an_even_grid():
  x = np.arange(5000)
  mean = learning_curves.mean_curve([_curve(x, 2.0 * x), _curve(x, 4.0 * x)])
  assert len(mean.x) == 500 and mean.x[0] == 0 and mean.x[-1] == 4999
  np.testing.assert_allclose(mean.mean, 3 * mean.x)


def test_curves_that_never_meet_are_refused():
  with pytest.raises(ValueError, match="no stretch in common: they go from 0 to 1, 2 to 3"):
    learning_curves.mean_curve([_curve([0, 1], [0, 0]), _curve([2, 3], [0, 0])])
