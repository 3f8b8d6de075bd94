"""Tests of `temper.utils.plotting`."""

import numpy as np
from PIL import Image
import pytest

from temper.utils import plotting
from temper.utils import run_loggers


def _write_logs(directory, *, episodes, evaluations):
  log = run_loggers.RunLog(str(directory), resume_step=0)
  rng = np.random.default_rng(0)
  for index in range(1, episodes + 1):
    expected = -1300.0 * np.exp(-index / 25) - 150.0
    log.write(
      "train",
      200 * index,
      {
        "episode": index,
        "episode_return": expected + 80.0 * rng.normal(),
        "episode_length": 200,
        "wall_seconds": float(index),
      },
    )
  for index in range(evaluations):
    mean = -1300.0 * np.exp(-index * 10 / 25) - 150.0
    modes = (
      ("deterministic", "stochastic", "boltzmann")
      if index == evaluations - 1
      else ("deterministic",)
    )
    for mode in modes:
      log.write(
        "evaluation",
        2000 * index,
        {
          "mode": mode,
          "return_mean": mean,
          "return_low": mean - 90.0,
          "return_high": mean + 70.0,
          "episodes": 5,
          "wall_seconds": 1.0,
        },
      )
  log.close()


def test_trend_by_hand():
  np.testing.assert_allclose(plotting.trend([1, 3, 5, 11], 2), [1, 2, 4, 8])
  np.testing.assert_allclose(plotting.trend([1, 3, 5, 11], 1), [1, 3, 5, 11])
  np.testing.assert_allclose(plotting.trend([4, 2], 50), [4, 3])
  with pytest.raises(ValueError, match="window"):
    plotting.trend([1.0], 0)


def test_the_picture_has_its_size_and_shows_every_series(tmp_path):
  _write_logs(tmp_path, episodes=100, evaluations=11)
  path = tmp_path / "curve.png"
  plotting.plot_learning_curve(str(tmp_path), str(path), title="SVG0 on gym:Pendulum-v1, seed 0")
  with Image.open(path) as picture:
    assert picture.size == (1440, 810)
    pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
  # The trend and each mode of evaluation leave pixels of their own colour.
  colours = ([0x1F, 0x5F, 0xA8], [0xC4, 0x50, 0x1B], [0x3A, 0x7D, 0x44], [0x7B, 0x4E, 0xA3])
  for colour in colours:
    assert np.sum(np.all(pixels == colour, axis=1)) > 20


@pytest.mark.parametrize("episodes, evaluations", [(0, 0), (1, 0), (0, 1), (3, 2)])
def test_short_and_empty_runs_are_drawn_too(tmp_path, episodes, evaluations):
  _write_logs(tmp_path, episodes=episodes, evaluations=evaluations)
  path = tmp_path / "curve.png"
  plotting.plot_learning_curve(str(tmp_path), str(path), title="short")
  with Image.open(path) as picture:
    assert picture.size == (1440, 810)


def _draw_with_learner(tmp_path, rows):
  _write_logs(tmp_path, episodes=20, evaluations=3)
  log = run_loggers.CsvLog(str(tmp_path / "learner.csv"), resume_step=0)
  for step, row in enumerate(rows):
    log.write(200 * step, row)
  log.close()
  path = tmp_path / "curve.png"
  plotting.plot_learning_curve(str(tmp_path), str(path), title="SAC")
  with Image.open(path) as picture:
    assert picture.size == (1440, 810)
    return np.asarray(picture.convert("RGB"))


def _rows_of_colour(pixels, colour):
  return np.flatnonzero(np.all(pixels == colour, axis=2).any(axis=1))


_ALPHA, _ENTROPY, _TREND = [0xA8, 0x35, 0x6B], [0x2B, 0x7A, 0x78], [0x1F, 0x5F, 0xA8]


@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_a_temperature_gets_a_panel_below_the_returns(tmp_path, alpha):
  rows = [{"alpha": alpha * np.exp(-i / 5), "entropy": 3.0 - 0.1 * i} for i in range(20)]
  pixels = _draw_with_learner(tmp_path, rows)
  alphas, entropies = _rows_of_colour(pixels, _ALPHA), _rows_of_colour(pixels, _ENTROPY)
  assert len(alphas) >= 2 and len(entropies) > 20
  lowest_return = _rows_of_colour(pixels, _TREND).max()
  assert min(alphas.min(), entropies.min()) > lowest_return


def test_without_a_temperature_there_is_no_panel(tmp_path):
  pixels = _draw_with_learner(tmp_path, [{"critic_loss": 1.0, "entropy": 3.0}] * 5)
  assert not len(_rows_of_colour(pixels, _ENTROPY)) and not len(_rows_of_colour(pixels, _ALPHA))


def test_the_same_logs_give_the_same_bytes(tmp_path):
  _write_logs(tmp_path, episodes=10, evaluations=2)
  paths = [tmp_path / "a.png", tmp_path / "b.png"]
  for path in paths:
    plotting.plot_learning_curve(str(tmp_path), str(path), title="same")
  assert paths[0].read_bytes() == paths[1].read_bytes()
