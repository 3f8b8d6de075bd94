"""Gymnasium environments as dm_env environments."""

import contextlib
import difflib
import importlib
import sys
from typing import Any, Optional

from absl import logging
import dm_env
from dm_env import specs
import numpy as np

from temper.utils import environment_rendering
from temper.utils import environment_wrappers


class GymnasiumEnvironment(dm_env.Environment):
  """A Gymnasium environment seen through dm_env.

  A step that `terminated` has discount 0, also when it is `truncated` at the same time; one that
  is only truncated is a LAST step with discount 1, so that agents bootstrap from it.
  """

  def __init__(self, environment: Any, *, seed: Optional[int] = None):
    """Wraps an environment.

    Args:
      environment: a `gymnasium.Env`, not vectorised.
      seed: passed to the first `reset` and to the action space; later resets continue the
        environment's own random numbers, so that starts vary. None leaves the environment
        unseeded.

    Raises:
      ValueError: if a space has no fixed-size array form, or the environment is a vectorised one.
    """
    if hasattr(environment, "single_action_space"):
      raise ValueError(
        f"{environment} is a vectorised environment; an actor steps one environment at a time."
      )
    self._environment = environment
    self._observation_spec = _space_to_spec(environment.observation_space, "observation")
    self._action_spec = _action_space_to_spec(environment.action_space)
    self._reset_next_step = True
    self._seed: Optional[int] = None
    if seed is not None:
      self.seed(seed)

  def seed(self, seed: int) -> None:
    """Seeds the next `reset` and the action space with an integer in [0, 2**32)."""
    self._seed = environment_wrappers.check_seed(seed)
    self._environment.action_space.seed(self._seed)

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    seed, self._seed = self._seed, None
    result = self._environment.reset(seed=seed)
    if not isinstance(result, tuple) or len(result) != 2:
      raise ValueError(
        f"{self._environment}'s reset() returned {type(result).__name__}; Gymnasium's returns "
        "(observation, info). An environment of the older gym must be ported to Gymnasium."
      )
    self._reset_next_step = False
    return dm_env.restart(_to_array(self._environment.observation_space, result[0]))

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    """Steps, or starts an episode after a LAST step."""
    if self._reset_next_step:
      return self.reset()
    result = self._environment.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
      raise ValueError(
        f"{self._environment}'s step() must return the five values (observation, reward, "
        "terminated, truncated, info) of Gymnasium, got "
        f"{len(result) if isinstance(result, tuple) else type(result).__name__}. An environment of "
        "the older gym must be ported to Gymnasium."
      )
    observation, reward, terminated, truncated, _ = result
    observation = _to_array(self._environment.observation_space, observation)
    self._reset_next_step = bool(terminated or truncated)
    step_type = dm_env.StepType.LAST if self._reset_next_step else dm_env.StepType.MID
    return dm_env.TimeStep(step_type, reward, 0.0 if terminated else 1.0, observation)

  def observation_spec(self) -> Any:
    """Returns the nested observation spec: Dict spaces become dicts, Tuple spaces tuples."""
    return self._observation_spec

  def action_spec(self) -> specs.Array:
    """Returns the action spec in the environment's own bounds and dtype."""
    return self._action_spec

  def render(self) -> np.ndarray:
    """Returns the current picture, uint8 [H, W, 3].

    Raises:
      RuntimeError: if the environment was not made for it, or cannot draw here.
    """
    if self._environment.render_mode != "rgb_array":
      raise RuntimeError(
        f"{self._environment} was made with render_mode={self._environment.render_mode!r}; "
        "pictures need 'rgb_array': make it with make_environment(..., render=True)."
      )
    try:
      frame = self._environment.render()
    # Drawing libraries raise errors of every kind where no display or driver is found.
    except Exception as error:
      raise RuntimeError(
        f"{self._environment} could not draw itself: {type(error).__name__}: {error}"
      ) from error
    return np.asarray(frame)

  def close(self) -> None:
    """Closes the Gymnasium environment."""
    self._environment.close()


def load_gymnasium(
  name: str, *, seed: Optional[int], render: bool, **kwargs: Any
) -> GymnasiumEnvironment:
  """Makes a registered Gymnasium environment.

  Args:
    name: its id, such as `Pendulum-v1`, or `module:id` to import the module that registers it
      first.
    seed: see `GymnasiumEnvironment`.
    render: whether `render()` will be called.
    **kwargs: passed to `gymnasium.make`.

  Raises:
    ImportError: if Gymnasium, or a package that this environment needs, is not installed.
    ValueError: if there is no such id, or it does not take an argument in `kwargs`.
  """
  # MuJoCo reads its variable when it is imported, which making an environment may do, whether it
  # is drawn or not.
  environment_rendering.choose_mujoco_backend()
  environment_rendering.prepare_pygame()
  try:
    gymnasium = importlib.import_module("gymnasium")
  except ImportError as error:
    raise ImportError(
      f"gym:{name} needs Gymnasium: pip install 'temper-rl[gym]' ({error})."
    ) from error
  if name in gymnasium.registry and "mujoco" in str(gymnasium.registry[name].entry_point):
    _log_mujoco_warnings()
  if render:
    kwargs["render_mode"] = "rgb_array"
  try:
    # Its checker warns about what the wrappers here convert or refuse anyway.
    environment = gymnasium.make(name, disable_env_checker=True, **kwargs)
  except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
    raise ImportError(f"gym:{name} needs something that is not installed: {error}") from error
  except gymnasium.error.UnregisteredEnv as error:
    raise ValueError(
      f"there is no Gymnasium environment {name!r}. {_suggestions(name, gymnasium.registry)}"
    ) from error
  except (gymnasium.error.Error, TypeError) as error:
    raise ValueError(f"Gymnasium refuses to make {name!r} with {kwargs}: {error}") from error
  return GymnasiumEnvironment(environment, seed=seed)


def _log_mujoco_warnings() -> None:
  """Sends MuJoCo's warnings to the log; it would write them to a file in the current folder."""
  # Where MuJoCo is missing, making the environment reports it, with Gymnasium's advice.
  with contextlib.suppress(ImportError):
    importlib.import_module("mujoco").set_mju_user_warning(logging.warning)


def is_gymnasium(environment: Any) -> bool:
  """Returns whether `environment` is a Gymnasium environment, without importing Gymnasium."""
  gymnasium = sys.modules.get("gymnasium")
  return gymnasium is not None and isinstance(environment, gymnasium.Env)


def _suggestions(name: str, registry: Any) -> str:
  """Returns a sentence that lists registered ids, the nearest ones where some are near."""
  ids = sorted(registry)
  lowered = {identifier.lower(): identifier for identifier in ids}
  close = [
    lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=5, cutoff=0.5)
  ]
  if close:
    return f"Did you mean {', '.join(close)}?"
  return (
    f"Registered are: {', '.join(ids)}. For an id that another package registers, write "
    "gym:<package>:<id>."
  )


def _action_space_to_spec(space: Any) -> specs.Array:
  """Returns the spec of a Box of actions; other spaces are refused with ValueError."""
  kind = type(space).__name__
  if kind in ("Discrete", "MultiDiscrete", "MultiBinary"):
    raise ValueError(
      f"the action space {space} is discrete. These agents are for continuous control: choose an "
      "environment whose action space is a Box."
    )
  if kind != "Box":
    raise ValueError(
      f"the action space {space} is not one array. These agents act with one Box: wrap the "
      "environment in one that concatenates its actions."
    )
  return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name="action")


def _space_to_spec(space: Any, name: str) -> Any:
  """Returns the nested spec of an observation space; ValueError if its size is not fixed."""
  kind = type(space).__name__
  if kind == "Dict":
    return {key: _space_to_spec(item, f"{name}[{key!r}]") for key, item in space.spaces.items()}
  if kind == "Tuple":
    return tuple(_space_to_spec(item, f"{name}[{i}]") for i, item in enumerate(space.spaces))
  if kind == "Discrete":
    return specs.DiscreteArray(int(space.n), dtype=np.int64, name=name)
  if kind == "MultiDiscrete":
    return specs.BoundedArray((int(np.sum(space.nvec)),), np.float32, 0.0, 1.0, name=name)
  if kind in ("Box", "MultiBinary"):
    return specs.Array(space.shape, space.dtype, name=name)
  raise ValueError(
    f"{name} lies in the space {space}, which has no fixed-size array form. Observations of "
    "variable length are not supported: pad or drop this one with a Gymnasium observation wrapper."
  )


def _to_array(space: Any, value: Any) -> Any:
  """Converts an observation to the form of `_space_to_spec`."""
  kind = type(space).__name__
  if kind == "Dict" and hasattr(value, "keys") and value.keys() == space.spaces.keys():
    return {key: _to_array(item, value[key]) for key, item in space.spaces.items()}
  if kind == "Tuple" and isinstance(value, (tuple, list)) and len(value) == len(space.spaces):
    return tuple(_to_array(item, part) for item, part in zip(space.spaces, value))
  if kind == "Discrete":
    return np.asarray(value) - space.start
  if kind == "MultiDiscrete":
    return _one_hots(space, value)
  # Containers that differ from their space are left as they are: the canonical wrapper reports
  # them by name.
  return value if kind in ("Dict", "Tuple") else np.asarray(value)


def _one_hots(space: Any, value: Any) -> np.ndarray:
  """Returns a MultiDiscrete observation as concatenated one-hot vectors, float32 [sum(nvec)]."""
  sizes = np.ravel(space.nvec)
  index = np.ravel(value) - np.ravel(space.start)
  if index.shape != sizes.shape or np.any(index < 0) or np.any(index >= sizes):
    raise ValueError(f"the observation {value} is not in its space {space}.")
  one_hots = np.zeros((int(sizes.sum()),), np.float32)
  one_hots[np.cumsum(sizes) - sizes + index] = 1.0
  return one_hots
