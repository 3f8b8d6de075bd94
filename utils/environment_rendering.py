"""Chooses how to draw without a display, before a drawing library is imported."""

import ctypes
import os
import sys

_EGL_LIBRARIES = ("libEGL.so.1",)
_OSMESA_LIBRARIES = ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")


def has_display() -> bool:
  """Returns whether windows can be opened: always assumed outside Linux."""
  return not sys.platform.startswith("linux") or bool(
    os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
  )


def choose_mujoco_backend() -> None:
  """Sets MUJOCO_GL for a Linux machine without a display, unless the user has set it.

  MuJoCo's own choice is GLFW, which needs a display. The variable is read when `mujoco` and
  `dm_control` are first imported, so this must run before; it only names a backend and opens no
  drawing context.
  """
  if "MUJOCO_GL" in os.environ or has_display():
    return
  for backend, libraries in (("egl", _EGL_LIBRARIES), ("osmesa", _OSMESA_LIBRARIES)):
    if any(_loads(library) for library in libraries):
      os.environ["MUJOCO_GL"] = backend
      return
  # Without this GLFW is tried, whose failure to find a display can end the process.
  os.environ["MUJOCO_GL"] = "disable"


def prepare_pygame() -> None:
  """Keeps pygame, which draws Gymnasium's classic environments, from windows and sound."""
  os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
  os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
  if not has_display():
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _loads(library: str) -> bool:
  """Returns whether a shared library can be loaded."""
  try:
    ctypes.CDLL(library)
  except OSError:
    return False
  return True
