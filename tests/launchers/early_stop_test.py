"""Tests of `temper.launchers.early_stop`."""

import pytest

from temper.launchers import early_stop

_STOP = early_stop.EarlyStop(-150.0, patience=3)


@pytest.mark.parametrize(
  "returns, met",
  [
    ([], False),
    ([-1.0, -1.0], False),  # Fewer episodes than are asked for.
    ([-1.0, -1.0, -1.0], True),
    ([-150.0, -150.0, -150.0], True),  # Reaching it is enough.
    ([-900.0, -1.0, -1.0, -1.0], True),  # Only the last ones count.
    ([-1.0, -1.0, -151.0, -1.0], False),
  ],
)
def test_met_when_the_worst_of_the_last_is_good_enough(returns, met):
  assert _STOP.met(returns) is met


def test_the_worst_counts_and_not_the_mean():
  stop = early_stop.EarlyStop(0.0, patience=2)
  assert not stop.met([100.0, -1.0]) and stop.met([100.0, 0.0])


@pytest.mark.parametrize(
  "threshold, patience, message",
  [
    (float("nan"), 10, "early_stop_return is nan"),
    (float("inf"), 10, "early_stop_return is inf"),
    (-150.0, 0, "early_stop_patience is 0"),
    (-150.0, 1.5, "early_stop_patience is 1.5"),
  ],
)
def test_values_that_make_no_sense_are_refused(threshold, patience, message):
  with pytest.raises(ValueError, match=message):
    early_stop.EarlyStop(threshold, patience)


def test_enough_returns_are_remembered():
  assert early_stop.EarlyStop(0.0, 500).remembered == 500
  assert _STOP.remembered == early_stop.REMEMBERED_RETURNS


def test_what_it_says():
  assert _STOP.state([]) == "stops at -150"
  assert _STOP.state([-900.0, -400.0, -200.5, -300.0]) == "worst of 3 -400, stops at -150"
  last = "last 3 training episodes"
  assert _STOP.outcome([-1.0] * 3, 17_400) == f"at step 17,400: the {last} returned -150 or more"
  assert "2 training episodes of the 3 needed" in _STOP.outcome([-1.0] * 2, 9)
  assert f"the worst of the {last} returned -400, not -150" in _STOP.outcome([-400.0] * 3, 9)
