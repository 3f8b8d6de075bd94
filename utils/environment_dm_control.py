"""dm_control environments: loading by name, seeding, drawing and pixel observations."""

from collections.abc import Iterator
import contextlib
import difflib
import importlib
import os
from typing import Any, Optional

from absl import logging
from acme.wrappers import base
import dm_env
import numpy as np

from temper.utils import environment_rendering
from temper.utils import environment_sketch
from temper.utils import environment_wrappers

FRAME_SIZE = (240, 320)  # Height and width of the pictures that `render` draws, in pixels.
_ARGUMENTS = ("task_kwargs", "environment_kwargs", "visualize_reward")


class DmControlEnvironment(base.EnvironmentWrapper):
  """Adds `seed` and `render` to an environment of dm_control, of its suite or its composer."""

  def __init__(self, environment: dm_env.Environment):
    """Wraps an environment for which `is_dm_control` holds, else raises ValueError."""
    super().__init__(environment)
    state = _random_state(environment)
    if state is None:
      raise ValueError(f"{environment!r} is no dm_control environment: it has no RandomState.")
    self._random = state
    self._sketches = False  # Until OpenGL has failed.

  def seed(self, seed: int) -> None:
    """Seeds the random numbers that the next `reset` draws from, an integer in [0, 2**32)."""
    # In place, because tasks hand their RandomState on to helpers.
    self._random.seed(environment_wrappers.check_seed(seed))

  def render(self) -> np.ndarray:
    """Returns what the first camera sees, uint8 [240, 320, 3].

    Where OpenGL cannot draw, it is a sketch of the scene; see `environment_sketch`.

    Raises:
      RuntimeError: where OpenGL cannot draw, if the scene has no camera of its own to sketch from.
    """
    physics = self._environment.physics
    camera, (height, width) = _camera(physics), FRAME_SIZE
    if not self._sketches:
      try:
        with drawing_errors():
          return physics.render(height=height, width=width, camera_id=camera)
      except RuntimeError as error:
        if camera < 0:
          raise
        logging.warning("Scenes are sketched: %s", error)
        self._sketches = True
    return environment_sketch.sketch(physics.model.ptr, physics.data.ptr, height, width, camera)


def load_dm_control(
  domain: str, task: str, *, seed: Optional[int], pixels: Optional[tuple[int, int]], **kwargs: Any
) -> DmControlEnvironment:
  """Loads a task of the control suite.

  Args:
    domain: its domain, such as `cartpole`.
    task: its task, such as `swingup`.
    seed: seeds the task's random numbers; None takes fresh ones.
    pixels: (height, width) to observe only `{'pixels': uint8 [height, width, 3]}` in place of the
      state.
    **kwargs: `task_kwargs`, `environment_kwargs` and `visualize_reward`, as
      `dm_control.suite.load` takes them.

  Raises:
    ImportError: if dm_control is not installed.
    ValueError: if there is no such domain or task, or an argument is unknown.
    RuntimeError: if pixels are asked for where OpenGL cannot draw.
  """
  suite = _import_suite()
  _check_name("domain", domain, sorted({name for name, _ in suite.ALL_TASKS}))
  _check_name(
    f"task of the domain {domain!r}", task, sorted(t for d, t in suite.ALL_TASKS if d == domain)
  )
  for argument in kwargs:
    _check_name("argument for dm_control environments", argument, _ARGUMENTS)
  if seed is not None:
    kwargs["task_kwargs"] = {
      **(kwargs.get("task_kwargs") or {}),
      "random": environment_wrappers.check_seed(seed),
    }
  try:
    environment = suite.load(domain, task, **kwargs)
  except TypeError as error:
    raise ValueError(
      f"dm_control refuses to load {domain}:{task} with {kwargs}: {error}"
    ) from error
  if pixels is not None:
    wrapper = importlib.import_module("dm_control.suite.wrappers.pixels")
    height, width = _check_pixels(pixels)
    with drawing_errors():
      environment = wrapper.Wrapper(
        environment,
        render_kwargs={"height": height, "width": width, "camera_id": _camera(environment.physics)},
      )
  wrapped = DmControlEnvironment(environment)
  if seed is not None:
    wrapped.seed(seed)  # Again, because some tasks drew random numbers for their model.
  return wrapped


def is_dm_control(environment: Any) -> bool:
  """Returns whether `environment` has dm_control's parts: physics and random numbers."""
  return hasattr(environment, "physics") and _random_state(environment) is not None


@contextlib.contextmanager
def drawing_errors() -> Iterator[None]:
  """Turns whatever OpenGL raises where it cannot draw into a RuntimeError that says what to do."""
  try:
    yield
  except Exception as error:  # PyOpenGL, ctypes and MuJoCo each raise errors of their own.
    raise RuntimeError(
      f"dm_control cannot draw here ({type(error).__name__}: {error}). On a machine without a "
      "display install a software renderer (Debian: apt-get install libegl1 libgl1-mesa-dri, or "
      "libosmesa6) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa before Python starts."
    ) from error


def _import_suite() -> Any:
  """Imports dm_control's suite with a drawing backend that works here, or without one."""
  environment_rendering.choose_mujoco_backend()
  try:
    try:
      importlib.import_module("dm_control._render")
    except ModuleNotFoundError:
      raise
    # A driver that is present but broken raises errors of its own; nothing but drawing needs it.
    except Exception as error:
      backend = os.environ.get("MUJOCO_GL")
      logging.warning("dm_control cannot draw with MUJOCO_GL=%s: %s", backend, error)
      os.environ["MUJOCO_GL"] = "disable"
    return importlib.import_module("dm_control.suite")
  except ImportError as error:
    raise ImportError(
      f"dm_control environments need dm_control: pip install 'temper-rl[dm_control]' ({error})."
    ) from error


def _random_state(environment: Any) -> Optional[np.random.RandomState]:
  """Returns the RandomState of a composer environment or a suite's task, or None."""
  for owner, attribute in (
    (environment, "random_state"),
    (getattr(environment, "task", None), "random"),
  ):
    state = getattr(owner, attribute, None)
    if isinstance(state, np.random.RandomState):
      return state
  return None


def _camera(physics: Any) -> int:
  """Returns the model's first camera, or -1 (MuJoCo's free camera) if it has none."""
  return 0 if physics.model.ncam else -1


def _check_pixels(pixels: Any) -> tuple[int, int]:
  """Returns (height, width), or raises ValueError."""
  sizes = tuple(pixels) if isinstance(pixels, (tuple, list)) else ()
  if len(sizes) != 2 or any(
    isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 1 for s in sizes
  ):
    raise ValueError(
      f"pixels is {pixels!r}; it must be (height, width), two positive integers, or None."
    )
  return int(sizes[0]), int(sizes[1])


def _check_name(what: str, name: str, names: Any) -> None:
  """Raises ValueError, listing `names`, if `name` is none of them."""
  if name not in names:
    close = difflib.get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ValueError(f"there is no {what} {name!r}. {hint}Allowed are: {', '.join(names)}.")
