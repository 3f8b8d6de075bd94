"""Tests of `temper.launchers.benchmark_boltzmann`."""

import numpy as np
import pytest

from temper.launchers import benchmark_boltzmann
from temper.launchers import benchmark_case


@pytest.mark.parametrize("side", [benchmark_case.OURS, benchmark_case.THEIRS])
def test_both_sides_take_actions_of_the_size(side):
  step = benchmark_boltzmann.CASES["boltzmann_action"].make(side)
  actions = [step() for _ in range(3)]
  assert all(action.shape == (6,) and np.isfinite(action).all() for action in actions)
  assert not np.array_equal(actions[0], actions[1])
