import os

import pytest

from temper.utils import environment_rendering


@pytest.fixture
def headless(monkeypatch):
  for variable in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "SDL_VIDEODRIVER"):
    # Set first, so that whatever the code under test sets is undone in the end.
    monkeypatch.setenv(variable, "")
    monkeypatch.delenv(variable)
  monkeypatch.setattr("sys.platform", "linux")
  return monkeypatch


@pytest.mark.parametrize(
  "libraries, backend",
  [
    ({"libEGL.so.1", "libOSMesa.so.8"}, "egl"),
    ({"libOSMesa.so.6"}, "osmesa"),
    (set(), "disable"),
  ],
)
def test_backend_without_display(headless, libraries, backend):
  headless.setattr(environment_rendering, "_loads", libraries.__contains__)
  environment_rendering.choose_mujoco_backend()
  assert os.environ["MUJOCO_GL"] == backend


def test_the_users_choice_stays(headless):
  headless.setenv("MUJOCO_GL", "osmesa")
  environment_rendering.choose_mujoco_backend()
  assert os.environ["MUJOCO_GL"] == "osmesa"


def test_a_display_is_left_to_the_libraries(headless):
  headless.setenv("DISPLAY", ":0")
  environment_rendering.choose_mujoco_backend()
  environment_rendering.prepare_pygame()
  assert "MUJOCO_GL" not in os.environ
  assert "SDL_VIDEODRIVER" not in os.environ


def test_missing_libraries_do_not_load():
  assert not environment_rendering._loads("libno-such-library.so.1")
