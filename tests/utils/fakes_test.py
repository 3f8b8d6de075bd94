from absl.testing import absltest
from dm_env import specs
from dm_env import test_utils
import numpy as np
import pytest
import tree

from temper.utils import fakes


class PointMassConformanceTest(test_utils.EnvironmentTestMixin, absltest.TestCase):
  """The conformance test of dm_env itself."""

  def make_object_under_test(self):
    return fakes.PointMass(seed=0)

  def make_action_sequence(self):
    return [np.full((2,), 0.1 * (i % 5), np.float32) for i in range(50)]


@pytest.mark.parametrize("dimensions", [1, 2])
def test_optimal_return_is_reached_by_the_optimal_policy_only(dimensions):
  environment = fakes.PointMass(dimensions, seed=1)
  random = np.random.RandomState(0)
  for _ in range(5):
    returns = []
    for noise in (0.0, 0.3):
      environment.seed(2)
      timestep = environment.reset()
      start, total = timestep.observation, 0.0
      while not timestep.last():
        action = -timestep.observation / environment.STEP
        action = action + noise * random.normal(size=dimensions)
        timestep = environment.step(np.clip(action, -1, 1).astype(np.float32))
        total += timestep.reward
      returns.append(total)
    np.testing.assert_allclose(returns[0], environment.optimal_return(start), atol=1e-5)
    assert returns[1] < returns[0]


def test_optimal_return_by_hand():
  # From 0.75 in three moves: 0.5, 0.25, 0; from 0.1 at once.
  environment = fakes.PointMass(2, episode_length=3)
  assert environment.optimal_return(np.array([-0.75, 0.1])) == pytest.approx(-0.3125)


def test_point_mass_checks_its_actions_and_stays_inside():
  environment = fakes.PointMass(1, seed=0)
  environment.reset()
  with pytest.raises(ValueError, match="push"):
    environment.step(np.float32([1.1]))
  for _ in range(19):
    timestep = environment.step(np.float32([1.0]))
    environment.observation_spec().validate(timestep.observation)
  np.testing.assert_array_equal(timestep.observation, [1.0])


def test_point_mass_moves_in_its_picture():
  environment = fakes.PointMass(1, seed=0)
  environment.reset()
  before = environment.render()
  environment.step(np.float32([1.0]))
  assert np.any(before != environment.render())


@pytest.mark.parametrize(
  "spec",
  [
    specs.BoundedArray((2,), np.float64, [0.0, -1.0], [0.5, 0.0]),
    specs.BoundedArray((2,), np.int32, [0, 5], [1, 6]),
    specs.DiscreteArray(3),
    specs.Array((2, 2), bool),
    specs.Array((4, 4, 1), np.uint8),
    (specs.Array((), np.float32), {"a": specs.Array((1,), np.float16)}),
  ],
)
def test_fake_observations_match_their_spec_and_seed(spec):
  action_spec = specs.BoundedArray((), np.float32, 0, 1)
  episodes = []
  for _ in range(2):
    environment = fakes.FakeEnvironment(spec, action_spec, seed=4)
    timesteps = [environment.reset()] + [environment.step(np.float32(0.5)) for _ in range(3)]
    for timestep in timesteps:
      tree.map_structure(lambda s, v: s.validate(v), spec, timestep.observation)
    episodes.append([tree.flatten(t.observation) for t in timesteps])
  tree.map_structure(np.testing.assert_array_equal, episodes[0], episodes[1])


def test_fake_checks_its_actions():
  spec = specs.BoundedArray((1,), np.float32, -1, 1)
  environment = fakes.FakeEnvironment(spec, {"a": spec})
  environment.reset()
  with pytest.raises(ValueError, match="float64"):
    environment.step({"a": np.zeros(1)})
