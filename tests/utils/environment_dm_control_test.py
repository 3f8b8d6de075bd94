import importlib
import os

import numpy as np
import pytest

from temper.utils import environment_dm_control
from temper.utils import environments


def _drawing_works():
  environment = environments.make_environment("dm_control:pendulum:swingup")
  try:
    environment.environment.environment.physics.render(8, 8)
  except Exception:
    return False
  return True


def _rollout(environment, steps=5):
  action = np.full(environment.action_spec().shape, 0.5, np.float32)
  timesteps = [environment.reset()] + [environment.step(action) for _ in range(steps)]
  return [np.concatenate([np.ravel(v) for v in t.observation.values()]) for t in timesteps]


@pytest.mark.parametrize("name", ["cartpole:swingup", "reacher:easy", "lqr:lqr_2_1"])
def test_seeds(name):
  make = environments.environment_factory(f"dm_control:{name}")
  first, again, other = _rollout(make(3)), _rollout(make(3)), _rollout(make(4))
  np.testing.assert_array_equal(first, again)
  assert np.any(first[0] != other[0])
  environment = make(4)
  _rollout(environment)
  environment.seed(3)
  # Only the start is the same where the seed shapes the model too, as in lqr.
  np.testing.assert_array_equal(_rollout(environment)[0], first[0])
  assert np.any(_rollout(environment)[0] != first[0])


def test_own_environment_is_recognised():
  # The factory goes first: it chooses how dm_control draws before dm_control is imported.
  expected = environments.make_environment("dm_control:cartpole:swingup", seed=3)
  suite = importlib.import_module("dm_control.suite")
  environment = environments.wrap(suite.load("cartpole", "swingup"))
  environment.seed(3)
  np.testing.assert_array_equal(_rollout(environment), _rollout(expected))


def test_time_limit_is_a_truncation():
  environment = environments.make_environment(
    "dm_control:cartpole:balance", seed=0, task_kwargs={"time_limit": 0.05}
  )
  timestep, steps = environment.reset(), 0
  while not timestep.last():
    timestep = environment.step(np.zeros(1, np.float32))
    steps += 1
  assert (steps, timestep.discount) == (5, 1.0)


def test_arguments_reach_the_suite():
  environment = environments.make_environment(
    "dm_control:cartpole:balance", seed=0, environment_kwargs={"flat_observation": True}
  )
  assert environment.reset().observation["observations"].shape == (5,)


@pytest.mark.parametrize(
  "name, options, message",
  [
    ("carpole:swingup", {}, "no domain 'carpole'. Did you mean cartpole"),
    (
      "cartpole:swing",
      {},
      "no task of the domain 'cartpole' 'swing'. Did you mean swingup.*balance",
    ),
    ("cartpole:swingup", {"time_limit": 3}, "no argument .* 'time_limit'.*environment_kwargs"),
    (
      "cartpole:swingup",
      {"task_kwargs": {"x": 1}},
      "refuses to load .*'x': 1.*keyword argument 'x'",
    ),
    ("cartpole:swingup", {"pixels": 84}, r"pixels is 84; it must be \(height, width\)"),
    ("cartpole:swingup", {"pixels": (0, 84)}, "two positive integers"),
  ],
)
def test_refused(name, options, message):
  with pytest.raises(ValueError, match=message):
    environments.make_environment(f"dm_control:{name}", **options)


@pytest.mark.parametrize("opengl", [True, False])
def test_pictures(monkeypatch, opengl):
  environment = environments.make_environment("dm_control:cartpole:swingup", seed=0)
  if opengl and not _drawing_works():
    pytest.skip("OpenGL cannot draw on this machine")
  if not opengl:
    calls = []
    monkeypatch.setattr(
      environment.environment.environment.physics, "render", lambda **_: calls.append(0) or {}[0]
    )
  environment.reset()
  before = environment.render()
  assert before.shape == (*environment_dm_control.FRAME_SIZE, 3)
  assert before.std() > 1
  for _ in range(20):
    environment.step(np.ones(1, np.float32))
  assert np.any(before != environment.render())
  assert opengl or len(calls) == 1, "OpenGL is not tried again"


def test_pixels():
  if not _drawing_works():
    pytest.skip("OpenGL cannot draw on this machine")
  environment = environments.make_environment(
    "dm_control:cartpole:swingup", seed=0, pixels=(32, 40)
  )
  spec = environment.observation_spec()
  assert list(spec) == ["pixels"]
  assert (spec["pixels"].shape, spec["pixels"].dtype) == ((32, 40, 3), np.uint8)
  first = environment.reset().observation["pixels"]
  assert first.std() > 1
  environment.seed(0)
  np.testing.assert_array_equal(environment.reset().observation["pixels"], first)


def test_errors_of_drawing_say_what_to_do():
  with pytest.raises(RuntimeError, match="cannot draw here .*AttributeError.*MUJOCO_GL"):
    with environment_dm_control.drawing_errors():
      os.no_such_function()
