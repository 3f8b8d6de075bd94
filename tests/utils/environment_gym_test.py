import gymnasium
from gymnasium import spaces
import numpy as np
import pytest

from temper.utils import environments
from temper.utils.environment_gym import GymnasiumEnvironment

_BOX = spaces.Box(-1, 1, (2,), np.float32)


class _Environment(gymnasium.Env):
  """Has the given spaces, and ends with the given flags after two steps."""

  render_mode = None

  def __init__(self, observation_space=_BOX, action_space=_BOX, terminated=False, truncated=True):
    self.observation_space = observation_space
    self.action_space = action_space
    self.flags = (terminated, truncated)
    self.seeds = []
    self.steps = 0

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.observation_space.seed(seed)
    self.seeds.append(seed)
    self.steps = 0
    return self.observation_space.sample(), {}

  def step(self, action):
    assert self.action_space.contains(action)
    self.steps += 1
    flags = self.flags if self.steps == 2 else (False, False)
    return self.observation_space.sample(), 1, *flags, {}


@pytest.mark.parametrize(
  "terminated, truncated, discount", [(True, False, 0.0), (False, True, 1.0), (True, True, 0.0)]
)
def test_ends_of_episodes(terminated, truncated, discount):
  environment = GymnasiumEnvironment(_Environment(terminated=terminated, truncated=truncated))
  environment.reset()
  middle, last, first = (environment.step(np.zeros(2, np.float32)) for _ in range(3))
  assert middle.mid() and middle.discount == 1.0
  assert last.last() and last.discount == discount
  assert first.first()


def test_seed_reaches_the_first_reset_and_the_action_space():
  inner = _Environment()
  environment = GymnasiumEnvironment(inner, seed=7)
  sample = inner.action_space.sample()
  environment.reset()
  environment.reset()
  environment.seed(8)
  environment.reset()
  assert inner.seeds == [7, None, 8]
  expected = spaces.Box(-1, 1, (2,), np.float32, seed=7).sample()
  np.testing.assert_array_equal(sample, expected)


@pytest.mark.parametrize(
  "space, shapes",
  [
    (spaces.Box(0, 255, (8, 8, 3), np.uint8), ((8, 8, 3), "uint8")),
    (spaces.Box(-1, 1, (), np.float64), ((), "float32")),
    (spaces.Discrete(3, start=-1), ((3,), "float32")),
    (spaces.MultiBinary(4), ((4,), "float32")),
    (spaces.MultiDiscrete([2, 3]), ((5,), "float32")),
    (
      spaces.Dict(b=_BOX, a=spaces.Tuple([spaces.Discrete(2), spaces.Dict(c=_BOX)])),
      {"a": (((2,), "float32"), {"c": ((2,), "float32")}), "b": ((2,), "float32")},
    ),
  ],
)
def test_observation_spaces(space, shapes):
  environment = environments.wrap(_Environment(space))

  def describe(nest):
    if isinstance(nest, dict):
      return {key: describe(item) for key, item in nest.items()}
    if isinstance(nest, tuple):
      return tuple(map(describe, nest))
    return nest.shape, str(nest.dtype)

  assert describe(environment.observation_spec()) == shapes
  timestep = environment.reset()
  for _ in range(5):
    assert describe(timestep.observation) == shapes
    timestep = environment.step(np.zeros(2, np.float32))


def test_categories_by_hand():
  space = spaces.MultiDiscrete([2, 3], start=[0, 10])
  inner = _Environment(spaces.Tuple([spaces.Discrete(3, start=5), space]))
  inner.reset = lambda **_: ((np.int64(6), np.array([1, 12])), {})
  observation = environments.wrap(inner).reset().observation
  np.testing.assert_array_equal(observation[0], [0, 1, 0])
  np.testing.assert_array_equal(observation[1], [0, 1, 0, 0, 1])


@pytest.mark.parametrize(
  "action_space",
  [
    spaces.Box(-2, 2, (1,), np.float32),
    spaces.Box(np.float64([0.1, -3]), np.float64([0.3, 1]), dtype=np.float64),
    spaces.Box(-1, 1, (2, 2), np.float32),
    spaces.Box(0, 1, (), np.float64),
    spaces.Box(0, 9, (3,), np.int64),
  ],
)
def test_actions_are_inside_their_space(action_space):
  environment = environments.wrap(_Environment(action_space=action_space))
  spec = environment.action_spec()
  environment.reset()
  random = np.random.RandomState(0)
  for _ in range(20):
    # The environment asserts that its space contains them.
    environment.step(random.uniform(-1.2, 1.2, spec.shape).astype(np.float32))


@pytest.mark.parametrize(
  "observation_space, action_space, message",
  [
    (spaces.Sequence(_BOX), _BOX, "observation lies in the space Sequence"),
    (spaces.Dict(t=spaces.Text(5)), _BOX, r"observation\['t'\] lies in the space Text"),
    (spaces.Tuple([spaces.Graph(_BOX, None)]), _BOX, r"observation\[0\] lies in the space Graph"),
    (_BOX, spaces.Discrete(3), r"Discrete\(3\) is discrete"),
    (_BOX, spaces.MultiBinary(3), "is discrete"),
    (_BOX, spaces.Dict(a=_BOX), "is not one array"),
    (_BOX, spaces.Box(-np.inf, np.inf, (2,)), r"bounds \[-inf, inf\]"),
  ],
)
def test_refused_spaces(observation_space, action_space, message):
  with pytest.raises(ValueError, match=message):
    environments.wrap(_Environment(observation_space, action_space))


def test_observation_outside_its_space():
  inner = _Environment(spaces.Dict(a=_BOX))
  inner.reset = lambda **_: ({"b": np.zeros(2)}, {})
  with pytest.raises(ValueError, match=r"is \['b'\] where the spec has the keys \['a'\]"):
    environments.wrap(inner)


def test_older_gym_is_refused():
  inner = _Environment()
  inner.step = lambda action: (np.zeros(2), 0.0, False, {})
  environment = GymnasiumEnvironment(inner)
  environment.reset()
  with pytest.raises(ValueError, match="five values .* of Gymnasium, got 4"):
    environment.step(np.zeros(2))
  inner.reset = lambda **_: np.zeros(2)
  with pytest.raises(ValueError, match=r"reset\(\) returned ndarray"):
    environment.reset()


def test_vectorised_environments_are_refused():
  with pytest.raises(ValueError, match="vectorised"):
    GymnasiumEnvironment(gymnasium.make_vec("Pendulum-v1", num_envs=2))


def test_render_needs_its_mode():
  with pytest.raises(RuntimeError, match=r"render_mode=None.*render=True"):
    environments.wrap(_Environment()).render()


def test_failure_to_draw_is_one_kind_of_error():
  inner = _Environment()
  inner.render_mode = "rgb_array"
  inner.render = lambda: {}["display"]
  with pytest.raises(RuntimeError, match="could not draw itself: KeyError"):
    environments.wrap(inner).render()


def test_own_time_limit_is_a_truncation():
  environment = environments.make_environment("gym:Pendulum-v1", seed=0)
  timestep, steps = environment.reset(), 0
  while not timestep.last():
    timestep = environment.step(np.zeros(1, np.float32))
    steps += 1
  assert (steps, timestep.discount) == (200, 1.0)
