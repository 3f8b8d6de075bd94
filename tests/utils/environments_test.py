import builtins
import functools
import importlib
import pickle

from acme import specs as acme_specs
import numpy as np
import pytest

from temper.utils import environment_wrappers
from temper.utils import environments
from temper.utils import fakes


def _starts(environment, count=3):
  return np.array([environment.reset().observation for _ in range(count)])


def test_pendulum():
  environment = environments.make_environment("gym:Pendulum-v1", seed=5)
  spec = acme_specs.make_environment_spec(environment)
  assert (spec.observations.shape, spec.observations.dtype) == ((3,), np.float32)
  assert spec.actions == acme_specs.BoundedArray((1,), np.float32, -1.0, 1.0)
  assert environment.action_mapping.to_environment(np.float32([1.0])) == 2.0


def test_seeds_repeat_and_vary():
  make = environments.environment_factory("gym:Pendulum-v1")
  starts = _starts(make(5))
  np.testing.assert_array_equal(starts, _starts(make(5)))
  assert np.any(starts != _starts(make(6)))
  assert np.any(starts[0] != starts[1]), "later resets must vary"
  assert np.any(_starts(make(None)) != _starts(make(None)))
  environment = make(6)
  environment.seed(5)
  np.testing.assert_array_equal(_starts(environment), starts)


def test_render():
  environment = environments.make_environment("gym:Pendulum-v1", seed=0, render=True)
  environment.reset()
  frame = environment.render()
  assert frame.dtype == np.uint8 and frame.shape == (500, 500, 3) and frame.std() > 1
  environment.close()


def test_max_episode_steps():
  environment = environments.make_environment("gym:Pendulum-v1", max_episode_steps=3)
  timesteps = [environment.reset()] + [environment.step(np.zeros(1)) for _ in range(3)]
  assert [t.last() for t in timesteps] == [False, False, False, True]
  assert timesteps[-1].discount == 1.0


def test_arguments_reach_gymnasium():
  environment = environments.make_environment("gym:Pendulum-v1", g=1.0)
  assert environment.environment._environment.unwrapped.g == 1.0


def test_id_with_module():
  name = "gym:gymnasium.envs.classic_control.pendulum:Pendulum-v1"
  assert environments.make_environment(name).observation_spec().shape == (3,)


@pytest.mark.parametrize(
  "name, options, message",
  [
    ("gym:Pendulumm-v1", {}, "no Gymnasium environment 'Pendulumm-v1'. Did you mean Pendulum-v1"),
    ("gym:pendulum-v1", {}, "Did you mean Pendulum-v1"),
    ("gym:Xyzzy", {}, "Registered are: .*Pendulum-v1"),
    ("gym:CartPole-v1", {}, "discrete"),
    ("gym:Pendulum-v1", {"gravity": 1}, "refuses to make 'Pendulum-v1' with .*gravity"),
    ("gym:Pendulum-v1", {"pixels": (8, 8)}, "pixels=.*is for dm_control"),
    ("gym:Pendulum-v1", {"seed": -1}, "seed is -1"),
    ("gym:Pendulum-v1", {"max_episode_steps": 0}, "max_episode_steps is 0"),
    ("gym:", {}, "a name is 'gym:<id>'"),
    ("Pendulum-v1", {}, "no environment 'Pendulum-v1'; a name is 'gym:<id>'"),
    ("dm_control:cartpole", {}, "'dm_control:<domain>:<task>'"),
    ("dm_control:cartpole:swingup:x", {}, "'dm_control:<domain>:<task>'"),
    (None, {}, "no environment None"),
  ],
)
def test_refused(name, options, message):
  with pytest.raises(ValueError, match=message):
    environments.make_environment(name, **options)


def test_module_that_does_not_exist():
  with pytest.raises(
    ImportError, match="gym:no_such_module:Id-v0 needs something .*no_such_module"
  ):
    environments.make_environment("gym:no_such_module:Id-v0")


@pytest.mark.parametrize(
  "name, package, extra",
  [
    ("gym:Pendulum-v1", "gymnasium", "temper-rl[gym]"),
    ("dm_control:cartpole:swingup", "dm_control._render", "temper-rl[dm_control]"),
  ],
)
def test_missing_package_names_the_extra(monkeypatch, name, package, extra):
  import_module = importlib.import_module

  def fail(module):
    if module == package:
      raise ModuleNotFoundError(f"No module named {module!r}")
    return import_module(module)

  monkeypatch.setattr(importlib, "import_module", fail)
  with pytest.raises(ImportError) as error:
    environments.make_environment(name)
  assert f"pip install '{extra}'" in str(error.value)


def test_wrap_leaves_canonical_environments():
  environment = environments.wrap(fakes.PointMass(seed=0))
  assert environments.wrap(environment) is environment


def test_wrapping_again_starts_from_the_inside():
  environment = environments.make_environment("gym:Pendulum-v1")
  limited = environments.wrap(environment, max_episode_steps=1)
  limited.reset()
  assert limited.step(np.ones(1, np.float32)).last()
  assert limited.action_mapping.to_environment(np.float32([1.0])) == 2.0


@pytest.mark.parametrize("thing", [None, 3, "gym:Pendulum-v1", object()])
def test_wrap_refuses_other_things(thing):
  with pytest.raises(ValueError, match="must be a dm_env.Environment or gymnasium.Env"):
    environments.wrap(thing)


def test_factory_of_a_maker_with_seed():
  make = environments.environment_factory(fakes.PointMass, max_episode_steps=2)
  environment = make(3)
  assert isinstance(environment, environment_wrappers.CanonicalEnvironment)
  np.testing.assert_array_equal(_starts(environment), _starts(fakes.PointMass(seed=3)))


def test_factory_of_a_maker_without_seed():
  make = environments.environment_factory(lambda: fakes.PointMass(1))
  np.testing.assert_array_equal(_starts(make(3)), _starts(fakes.PointMass(1, seed=3)))


def test_factories_can_be_pickled():
  for maker in ("gym:Pendulum-v1", functools.partial(fakes.PointMass, 1)):
    make = environments.environment_factory(maker, max_episode_steps=2)
    again = pickle.loads(pickle.dumps(make))
    np.testing.assert_array_equal(_starts(make(3)), _starts(again(3)))


def test_factory_refuses_makers_with_other_parameters():
  with pytest.raises(ValueError, match="missing a required argument: 'evaluation'.*partial"):
    environments.environment_factory(lambda evaluation: fakes.PointMass())


def test_factory_refuses_other_things():
  with pytest.raises(ValueError, match="must be a name, .*or a callable"):
    environments.environment_factory(builtins.Ellipsis)
