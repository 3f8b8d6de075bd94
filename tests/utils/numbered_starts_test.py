"""Tests of `temper.utils.numbered_starts`."""

from acme import specs
import numpy as np
import pytest

from temper.utils import environments
from temper.utils import fakes
from temper.utils import numbered_starts


def _starts(seed, count, begun=0, steps=3):
  environment = numbered_starts.NumberedStarts(
    environments.wrap(fakes.PointMass(episode_length=5)), seed, begun=begun
  )
  starts = []
  for _ in range(count):
    starts.append(environment.reset().observation)
    for _ in range(steps):
      environment.step(np.zeros(2, np.float32))
  return np.stack(starts)


def test_starts_go_on_where_the_run_was_interrupted_whatever_the_episodes_did():
  whole = _starts(7, 6)
  assert len(np.unique(whole, axis=0)) == 6
  np.testing.assert_array_equal(_starts(7, 4, begun=2, steps=1), whole[2:])
  assert not np.any(np.all(_starts(8, 6) == whole, axis=1))


def test_a_step_after_the_last_one_begins_the_next_episode():
  environment = numbered_starts.NumberedStarts(
    environments.wrap(fakes.PointMass(episode_length=2)), 7
  )
  stepped = [environment.step(np.zeros(2, np.float32)) for _ in range(4)]
  assert [timestep.first() for timestep in stepped] == [True, False, False, True]
  np.testing.assert_array_equal([t.observation for t in stepped if t.first()], _starts(7, 2))


def test_an_environment_that_cannot_be_seeded_is_refused():
  class Unseeded(fakes.FakeEnvironment):
    seed = None

  environment = environments.wrap(
    Unseeded(specs.Array((2,), np.float32), specs.BoundedArray((1,), np.float32, -1, 1))
  )
  with pytest.raises(ValueError, match="Unseeded has no seed"):
    numbered_starts.NumberedStarts(environment, 0)
