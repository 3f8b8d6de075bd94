from acme import specs as acme_specs
import dm_env
from dm_env import specs
import numpy as np
import pytest
import tree

from temper.utils import fakes
from temper.utils.environment_wrappers import CanonicalEnvironment
from temper.utils.environment_wrappers import EnvironmentFault
from temper.utils.environment_wrappers import FixedStart
from temper.utils.environment_wrappers import StepLimit

_VECTOR = specs.Array((3,), np.float64, name="vector")
_ACTION = specs.BoundedArray((2,), np.float64, [-2.0, 0.1], [2.0, 0.3], name="force")


class _Scripted(dm_env.Environment):
  """Returns given time steps one after the other."""

  def __init__(self, *timesteps, reward_spec=None):
    self._timesteps = list(timesteps)
    self._reward_spec = reward_spec

  def reset(self):
    return self._timesteps.pop(0)

  def step(self, action):
    return self._timesteps.pop(0)

  def observation_spec(self):
    return _VECTOR

  def action_spec(self):
    return _ACTION

  def reward_spec(self):
    return self._reward_spec or super().reward_spec()


def _run_episode(environment):
  timesteps = [environment.reset()]
  while not timesteps[-1].last():
    timesteps.append(environment.step(np.zeros(environment.action_spec().shape, np.float32)))
  return timesteps


@pytest.mark.parametrize("reward_dtype", [np.float64, np.int32, np.float32])
@pytest.mark.parametrize(
  "observation_spec",
  [
    _VECTOR,
    specs.Array((), np.int32),
    {"image": specs.Array((8, 8, 3), np.uint8), "state": (_VECTOR, specs.DiscreteArray(4))},
  ],
)
@pytest.mark.parametrize(
  "action_spec",
  [_ACTION, specs.BoundedArray((), np.float32, 0, 1), specs.BoundedArray((2, 2), np.int64, -1, 9)],
)
def test_every_timestep_matches_the_specs(observation_spec, action_spec, reward_dtype):
  fake = fakes.FakeEnvironment(
    observation_spec, action_spec, reward_dtype=reward_dtype, episode_length=4, seed=0
  )
  environment = CanonicalEnvironment(fake)
  spec = acme_specs.make_environment_spec(environment)
  random = np.random.RandomState(0)
  timestep = environment.reset()
  assert timestep.reward is None and timestep.discount is None
  for _ in range(12):
    tree.map_structure(lambda s, v: s.validate(v), spec.observations, timestep.observation)
    if not timestep.first():
      spec.rewards.validate(timestep.reward)
      spec.discounts.validate(timestep.discount)
    # The fake validates what it receives.
    timestep = environment.step(random.uniform(-1.5, 1.5, spec.actions.shape).astype(np.float32))


def test_actions_reach_the_environment_in_its_own_units():
  fake = fakes.FakeEnvironment(_VECTOR, _ACTION, seed=0)
  environment = CanonicalEnvironment(fake)
  environment.reset()
  environment.step(np.array([0.5, 1.0], np.float32))
  np.testing.assert_array_equal(fake.actions, [[1.0, 0.3]])


@pytest.mark.parametrize("terminate, discount", [(True, 0.0), (False, 1.0)])
def test_end_of_episode(terminate, discount):
  fake = fakes.FakeEnvironment(_VECTOR, _ACTION, episode_length=3, terminate=terminate, seed=0)
  environment = CanonicalEnvironment(fake)
  timesteps = _run_episode(environment)
  assert [t.discount for t in timesteps] == [None, 1.0, 1.0, discount]
  assert environment.step(np.zeros(2)).first()


def test_first_step_starts_an_episode():
  environment = CanonicalEnvironment(fakes.FakeEnvironment(_VECTOR, _ACTION, seed=0))
  assert environment.step(np.zeros(2)).first()


def test_checking_loses_no_episode():
  inner = fakes.PointMass(seed=3)
  starts = [inner.reset().observation for _ in range(3)]
  environment = CanonicalEnvironment(fakes.PointMass(seed=3))
  np.testing.assert_array_equal([environment.reset().observation for _ in range(3)], starts)


def test_seed_repeats_the_episodes():
  environment = CanonicalEnvironment(fakes.PointMass(seed=3))
  environment.reset()
  environment.seed(11)
  first, second = environment.reset().observation, environment.reset().observation
  assert np.any(first != second)
  environment.seed(11)
  np.testing.assert_array_equal(environment.reset().observation, first)
  np.testing.assert_array_equal(environment.reset().observation, second)
  # Also before the first reset, whose observation has been drawn already.
  environment = CanonicalEnvironment(fakes.PointMass(seed=4))
  environment.seed(11)
  np.testing.assert_array_equal(environment.reset().observation, first)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, None, "1"])
def test_refused_seeds(seed):
  with pytest.raises(ValueError, match="seed is"):
    CanonicalEnvironment(fakes.PointMass()).seed(seed)


def test_environment_without_seed_or_render():
  environment = CanonicalEnvironment(_Scripted(dm_env.restart(np.zeros(3))))
  assert not environment.can_seed
  with pytest.raises(ValueError, match=r"_Scripted has no seed\(seed\) method"):
    environment.seed(1)
  with pytest.raises(RuntimeError, match=r"_Scripted has no render\(\) method"):
    environment.render()


def test_render_and_close_reach_the_environment(monkeypatch):
  inner = fakes.PointMass(seed=0)
  environment = CanonicalEnvironment(inner)
  assert environment.render().shape == (64, 64, 3)
  monkeypatch.setattr(inner, "render", lambda: np.zeros((4, 4)))
  with pytest.raises(RuntimeError, match=r"returned float64 \(4, 4\)"):
    environment.render()
  closed = []
  monkeypatch.setattr(inner, "close", lambda: closed.append(True))
  environment.close()
  assert closed == [True]


@pytest.mark.parametrize(
  "timestep, message",
  [
    (dm_env.restart(np.zeros(4)), r"shape \(4,\) where the environment's spec says \(3,\)"),
    (dm_env.transition(0.0, np.zeros(3)), "step_type is FIRST"),
    ((np.zeros(3), {}), "must return a dm_env.TimeStep"),
  ],
)
def test_faulty_reset_is_found_on_construction(timestep, message):
  with pytest.raises(ValueError, match=message):
    CanonicalEnvironment(_Scripted(timestep))


def test_vector_reward_spec_is_refused():
  with pytest.raises(ValueError, match="reward spec is .*one scalar"):
    CanonicalEnvironment(
      _Scripted(dm_env.restart(np.zeros(3)), reward_spec=specs.Array((2,), np.float32))
    )


@pytest.mark.parametrize(
  "timestep, message",
  [
    (dm_env.transition(0.0, np.zeros(2)), "variable length"),
    (dm_env.transition(np.zeros(1), np.zeros(3)), r"reward array.*one number \(shape \(\), not"),
    (dm_env.transition(None, np.zeros(3)), "reward None"),
    (dm_env.transition(0.0, np.zeros(3), discount=None), "discount None"),
    (dm_env.transition(0.0, np.zeros(3), discount=1.5), r"discount 1.5; it must lie in \[0, 1\]"),
    (dm_env.transition(0.0, np.zeros(3), discount=np.nan), "discount nan"),
    (dm_env.restart(np.zeros(3)), "in the middle of one"),
  ],
)
def test_faulty_step(timestep, message):
  environment = CanonicalEnvironment(_Scripted(dm_env.restart(np.zeros(3)), timestep))
  environment.reset()
  with pytest.raises(ValueError, match=message):
    environment.step(np.zeros(2))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
  "timestep, message",
  [
    (dm_env.transition(np.nan, np.zeros(3)), "the reward nan, which is no finite float32"),
    (dm_env.transition(-1e300, np.zeros(3)), r"the reward -1e\+300, which"),
    (dm_env.transition(0.0, np.array([0, np.inf, 1])), r"observation is inf at \[1\], which"),
    (dm_env.transition(0.0, np.array([0, 0, 1e39])), r"observation is 1e\+39 at \[2\], which"),
  ],
)
def test_what_is_not_finite_is_refused_with_its_place_and_step(timestep, message):
  environment = CanonicalEnvironment(
    _Scripted(dm_env.restart(np.zeros(3)), dm_env.transition(0.0, np.zeros(3)), timestep)
  )
  environment.reset()
  environment.step(np.zeros(2))
  with pytest.raises(EnvironmentFault, match="_Scripted, step 2 of its episode 1: .*" + message):
    environment.step(np.zeros(2))
  with pytest.raises(EnvironmentFault, match="the reset of its episode 1: observation is nan at"):
    CanonicalEnvironment(_Scripted(dm_env.restart(np.full(3, np.nan))))


@pytest.mark.parametrize(
  "action, message", [(np.zeros(3), r"shape \(3,\).*takes \(2,\)"), ([0.0, np.nan], "holds NaN")]
)
def test_refused_actions(action, message):
  environment = CanonicalEnvironment(fakes.FakeEnvironment(_VECTOR, _ACTION, seed=0))
  environment.reset()
  with pytest.raises(ValueError, match=message):
    environment.step(action)


def test_step_limit_truncates():
  fake = fakes.FakeEnvironment(_VECTOR, _ACTION, episode_length=100, seed=0)
  environment = CanonicalEnvironment(StepLimit(fake, 3))
  for _ in range(2):
    timesteps = _run_episode(environment)
    assert len(timesteps) == 4
    assert timesteps[-1].discount == 1.0
  environment.seed(1)  # Reaches through the limit.


def test_step_limit_leaves_terminations_and_shorter_episodes():
  fake = fakes.FakeEnvironment(_VECTOR, _ACTION, episode_length=3, terminate=True, seed=0)
  for limit in (3, 4):
    timesteps = _run_episode(CanonicalEnvironment(StepLimit(fake, limit)))
    assert len(timesteps) == 4
    assert timesteps[-1].discount == 0.0


def test_step_limit_counts_from_a_reset_in_the_middle():
  environment = StepLimit(fakes.PointMass(seed=0), 3)
  environment.reset()
  environment.step(np.zeros(2, np.float32))
  environment.reset()
  steps = [environment.step(np.zeros(2, np.float32)).last() for _ in range(3)]
  assert steps == [False, False, True]


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "3"])
def test_refused_step_limits(limit):
  with pytest.raises(ValueError, match="max_episode_steps is"):
    StepLimit(fakes.PointMass(), limit)


def test_fixed_start_repeats_the_first_episode_of_its_seed():
  episode = lambda environment: [timestep.observation for timestep in _run_episode(environment)]
  make = lambda: CanonicalEnvironment(fakes.FakeEnvironment(_VECTOR, _ACTION, seed=9))
  varied = make()
  varied.seed(3)
  expected = episode(varied)
  fixed = FixedStart(make(), 3)
  for _ in range(3):
    np.testing.assert_array_equal(episode(fixed), expected)
  # A step after the last one begins an episode too, as everywhere.
  np.testing.assert_array_equal(fixed.step(np.zeros(2, np.float32)).observation, expected[0])
  assert not np.array_equal(episode(varied), expected)
  assert fixed.action_mapping is fixed.environment.action_mapping


def test_fixed_start_refuses_what_cannot_be_seeded():
  environment = CanonicalEnvironment(_Scripted(dm_env.restart(np.zeros(3))))
  with pytest.raises(ValueError, match=r"_Scripted has no seed\(seed\) method"):
    FixedStart(environment, 3)
