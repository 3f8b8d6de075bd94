"""Makes environments by name and gives any environment the form that agents expect."""

import functools
import inspect
from typing import Any, Callable, Optional, Union

import dm_env

from temper.utils import environment_dm_control
from temper.utils import environment_gym
from temper.utils import environment_wrappers
from temper.utils.environment_observations import Indices
from temper.utils.environment_wrappers import CanonicalEnvironment

# Takes `seed=...` or nothing, and returns a dm_env or Gymnasium environment.
EnvironmentMaker = Callable[..., Any]

_FORMS = (
  "'gym:<id>' such as gym:Pendulum-v1, or 'dm_control:<domain>:<task>' such as "
  "dm_control:cartpole:swingup"
)


def make_environment(
  name: str,
  *,
  seed: Optional[int] = None,
  max_episode_steps: Optional[int] = None,
  infinite_action_scale: Optional[float] = None,
  observation_indices: Optional[Indices] = None,
  pixels: Optional[tuple[int, int]] = None,
  render: bool = False,
  **kwargs: Any,
) -> CanonicalEnvironment:
  """Makes an environment by name, wrapped as `wrap` does.

  Args:
    name: `gym:<id>` or `gym:<module>:<id>` for Gymnasium, where importing the module registers the
      id; `dm_control:<domain>:<task>` for the DeepMind control suite.
    seed: an integer in [0, 2**32) that fixes the whole sequence of episode starts; None for fresh
      ones.
    max_episode_steps: truncates episodes after that many steps, with discount 1. The environment's
      own limit stays.
    infinite_action_scale: see `environment_actions.ActionMapping`.
    observation_indices: which numbers of a vector of observations the agent is shown; None for all.
    pixels: (height, width) to observe `{'pixels': uint8 [height, width, 3]}` only; for dm_control.
    render: whether `render()` will be called. Gymnasium must know beforehand; dm_control draws on
      demand either way.
    **kwargs: for Gymnasium, arguments of `gymnasium.make`; for dm_control, `task_kwargs`,
      `environment_kwargs` and `visualize_reward`.

  Raises:
    ValueError: if the name, an argument or the environment's spaces are not supported; the message
      lists what is.
    ImportError: if a package is missing; the message says how to install it.
    RuntimeError: if `pixels` are asked for where nothing can draw them.
  """
  if seed is not None:
    seed = environment_wrappers.check_seed(seed)
  scheme, _, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
  if scheme == "gym" and rest:
    if pixels is not None:
      raise ValueError(
        f"pixels={pixels!r} is for dm_control environments; for {name} register an environment "
        "that is wrapped in gymnasium.wrappers.AddRenderObservation."
      )
    environment = environment_gym.load_gymnasium(rest, seed=seed, render=render, **kwargs)
  elif scheme == "dm_control" and rest.count(":") == 1:
    domain, task = rest.split(":")
    environment = environment_dm_control.load_dm_control(
      domain, task, seed=seed, pixels=pixels, **kwargs
    )
  else:
    raise ValueError(f"there is no environment {name!r}; a name is {_FORMS}.")
  try:
    return wrap(
      environment,
      max_episode_steps=max_episode_steps,
      infinite_action_scale=infinite_action_scale,
      observation_indices=observation_indices,
    )
  except ValueError:
    environment.close()
    raise


def wrap(
  environment: Any,
  *,
  max_episode_steps: Optional[int] = None,
  infinite_action_scale: Optional[float] = None,
  observation_indices: Optional[Indices] = None,
) -> CanonicalEnvironment:
  """Gives an environment of one's own the canonical form, and checks it with one reset.

  Args:
    environment: a `dm_env.Environment` or a `gymnasium.Env`. With a `seed(seed)` method its
      episodes can be repeated, and with a `render()` method, returning uint8 [H, W, 3], it can be
      shown; those of dm_control and Gymnasium have both.
    max_episode_steps: truncates episodes after that many steps, with discount 1.
    infinite_action_scale: see `environment_actions.ActionMapping`.
    observation_indices: which numbers of a vector of observations the agent is shown; None for all.

  Raises:
    ValueError: if the environment is neither kind, or something about it is not supported; the
      message names it.
  """
  if isinstance(environment, CanonicalEnvironment):
    if max_episode_steps is None and infinite_action_scale is None and observation_indices is None:
      return environment
    # Anew from the inside, so that the mappings lead to the environment's own units.
    inner_scale = environment.action_mapping.infinite_action_scale
    infinite_action_scale = inner_scale if infinite_action_scale is None else infinite_action_scale
    inner_indices = environment.observation_mapping.indices
    observation_indices = inner_indices if observation_indices is None else observation_indices
    environment = environment.environment
  if environment_gym.is_gymnasium(environment):
    environment = environment_gym.GymnasiumEnvironment(environment)
  if not isinstance(environment, dm_env.Environment):
    raise ValueError(
      f"{environment!r} is a {type(environment).__name__}; it must be a dm_env.Environment or "
      "gymnasium.Env."
    )
  if not hasattr(environment, "seed") and environment_dm_control.is_dm_control(environment):
    environment = environment_dm_control.DmControlEnvironment(environment)
  if max_episode_steps is not None:
    environment = environment_wrappers.StepLimit(environment, max_episode_steps)
  return CanonicalEnvironment(
    environment,
    infinite_action_scale=infinite_action_scale,
    observation_indices=observation_indices,
  )


def environment_factory(
  name_or_maker: Union[str, EnvironmentMaker], **options: Any
) -> Callable[[Optional[int]], CanonicalEnvironment]:
  """Returns a function of a seed that makes environments; it can be pickled if its maker can.

  Args:
    name_or_maker: a name for `make_environment`, or a callable that returns a `dm_env.Environment`
      or `gymnasium.Env`. It is called with `seed=...` if it has a parameter of that name;
      otherwise without arguments, and the environment is seeded afterwards if it has a
      `seed(seed)` method.
    **options: for a name, arguments of `make_environment`; for a callable, those of `wrap`.

  Raises:
    ValueError: if it is neither, or a callable that needs other arguments.
  """
  if isinstance(name_or_maker, str):
    return functools.partial(_make_by_name, name_or_maker, options)
  if not callable(name_or_maker):
    raise ValueError(
      f"{name_or_maker!r} is no environment: it must be a name, {_FORMS}, or a callable that makes "
      "one."
    )
  signature = inspect.signature(name_or_maker)
  seeded = "seed" in signature.parameters
  try:
    signature.bind(**({"seed": None} if seeded else {}))
  except TypeError as error:
    raise ValueError(
      f"{name_or_maker!r} cannot be called to make an environment: {error}. Its only parameter may "
      "be `seed`; bind others with functools.partial."
    ) from error
  return functools.partial(_make_by_callable, name_or_maker, seeded, options)


def _make_by_name(name: str, options: dict, seed: Optional[int] = None) -> CanonicalEnvironment:
  """Makes a named environment."""
  return make_environment(name, seed=seed, **options)


def _make_by_callable(
  maker: EnvironmentMaker, seeded: bool, options: dict, seed: Optional[int] = None
) -> CanonicalEnvironment:
  """Calls the maker, with the seed where it takes one."""
  if seeded:
    return wrap(maker(seed=seed), **options)
  environment = wrap(maker(), **options)
  if seed is not None and environment.can_seed:
    environment.seed(seed)
  return environment
