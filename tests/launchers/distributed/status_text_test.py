"""Tests of the line that says how a program goes."""

import pytest

from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed import status_text

_RUNNING = board_lib.NodeState.RUNNING


def _status(actor_rates):
  return {
    "episode_return": -12.5,
    "goal": None,
    "rates": {"environment_steps_per_second": 200.4, "learning_steps_per_second": 51.0},
    "actor_rates": actor_rates,
    "program": {
      "replay_items": 1_234,
      "samples_per_insert": 8.02,
      "variable_age_steps": 12.0,
      "variable_age_seconds": 1.04,
    },
  }


@pytest.mark.parametrize(
  "rates, told",
  [
    ([101.2, 99.1], " (101, 99 steps/s)"),
    ([5.0, 9.0, 7.0, 1.0, 3.0], " (1 to 9 steps/s)"),
    ([0.0, 0.0], ""),
    ([], ""),
  ],
)
def test_the_line_tells_of_states_and_rates_of_the_nodes(rates, told):
  nodes = [
    board_lib.Node("actor_0", _RUNNING, 5, 0),
    board_lib.Node("actor_1", board_lib.NodeState.LOST, 6, 0),
    board_lib.Node("learner", _RUNNING, 7, 0),
  ]
  assert status_text.status_text(_status(rates), nodes) == (
    "return -12.5 · 200 steps/s · learner 51/s · replay 1,234 · samples/insert 8.02 · "
    f"age 12 steps, 1.0 s · actor 1/2{told} learner running"
  )
