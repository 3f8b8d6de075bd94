"""Tests of `temper.launchers.sac_own_worker`: units of our side, in a small size."""

import atexit

import pytest

from temper.agents.sac import learning
from temper.launchers import sac_own_worker
from temper.launchers import sac_peer_worker
from temper.launchers import training


@pytest.fixture(name="steps")
def _steps(monkeypatch):
  """Makes all sizes small, and counts learner steps."""
  small = {"BATCH_SIZE": 4, "LAYER_SIZES": (8,), "TRANSITIONS": 100, "UNIFORM_STEPS": 12}
  for name, value in small.items():
    monkeypatch.setattr(sac_peer_worker, name, value)
  monkeypatch.setattr(sac_peer_worker, "UNITS", {"updates": 30, "value_network": 30, "loop": 10})
  steps = []
  step = learning.SACLearner.step
  monkeypatch.setattr(
    learning.SACLearner, "step", lambda self: (step(self), steps.append(self.num_steps))
  )
  return steps


@pytest.mark.parametrize("work", ["updates", "value_network"])
def test_a_unit_is_so_many_updates(steps, work):
  do_unit = sac_own_worker.make_updates(work)
  do_unit()
  do_unit()
  assert steps[-1] == 60


def test_a_unit_of_the_loop_is_so_many_steps_with_an_update_each(steps, monkeypatch):
  closing, states = [], []
  monkeypatch.setattr(atexit, "register", closing.append)
  make_state = training.RunState
  monkeypatch.setattr(training, "RunState", lambda: states.append(make_state()) or states[-1])
  try:
    do_unit = sac_own_worker.make_loop()
    assert states[0].steps == 20  # The uniform steps, in whole units.
    begun = len(steps)
    do_unit()
    do_unit()
    assert states[0].steps == 40 and len(steps) - begun == 20
  finally:
    for close in reversed(closing):
      close()
