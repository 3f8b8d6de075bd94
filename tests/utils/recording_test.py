"""Tests of `temper.utils.recording`."""

from acme import core
import dm_env
from dm_env import specs
import numpy as np
from PIL import Image
import pytest

from temper.utils import recording


class _Painted(dm_env.Environment):
  """Episodes of a given length; the picture is blue where nothing is drawn."""

  def __init__(self, length, size=(60, 80), frame=None):
    self._length = length
    self._size = size
    self._frame = frame
    self._step = 0

  def reset(self):
    self._step = 0
    return dm_env.restart(np.zeros(1, np.float32))

  def step(self, action):
    self._step += 1
    make = dm_env.termination if self._step == self._length else dm_env.transition
    return make(reward=0.5, observation=np.zeros(1, np.float32))

  def render(self):
    if self._frame is not None:
      return self._frame
    frame = np.zeros((*self._size, 3), np.uint8)
    frame[..., 2] = 200
    frame[:10, : max(1, self._step), 0] = 255
    return frame

  def observation_spec(self):
    return specs.Array((1,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1, 1)


class _Still(core.Actor):
  """Does nothing."""

  def select_action(self, observation):
    return np.zeros(1, np.float32)

  def observe_first(self, timestep):
    pass

  def observe(self, action, next_timestep):
    pass

  def update(self, wait=False):
    raise AssertionError("filming must not train")


def test_every_step_of_a_short_episode_is_a_frame():
  frames, total = recording.record_episode(_Painted(12), _Still(), seed=0)
  assert len(frames) == 13 and total == 6.0
  assert all(frame.dtype == np.uint8 and frame.shape == frames[0].shape for frame in frames)
  # A band for the caption is added below the picture, which keeps its size.
  assert frames[0].shape[1] == 80 and frames[0].shape[0] > 60
  np.testing.assert_array_equal(frames[0][30, 40], [0, 0, 200])


def test_the_caption_changes_with_step_and_return():
  picture = np.zeros((100, 200, 3), np.uint8)
  band = [recording.caption(picture, step, total)[100:] for step, total in ((1, 2), (2, 2), (1, 3))]
  assert band[0].max() == 255
  assert np.any(band[0] != band[1]) and np.any(band[0] != band[2])


def test_large_pictures_shrink_in_proportion():
  frame = recording.caption(np.zeros((500, 1000, 3), np.uint8), 0, 0.0)
  assert frame.shape[1] == 320 and 160 < frame.shape[0] < 220


@pytest.mark.parametrize("length, stride, drawn", [(1000, 100, 11), (25, 10, 4), (3, 10, 2)])
def test_a_stride_thins_the_episode_and_keeps_both_ends(length, stride, drawn):
  environment = _Painted(length)
  frames, total = recording.record_episode(environment, _Still(), seed=0, stride=stride)
  assert len(frames) == drawn and total == length / 2
  last = recording.caption(environment.render(), length, total)
  np.testing.assert_array_equal(frames[-1], last)
  with pytest.raises(ValueError, match="stride"):
    recording.record_episode(environment, _Still(), seed=0, stride=0)


def test_gif_holds_all_frames_and_repeats(tmp_path):
  frames, _ = recording.record_episode(_Painted(20), _Still(), seed=0)
  path = tmp_path / "episode.gif"
  recording.write_gif(frames, str(path))
  with Image.open(path) as film:
    assert film.n_frames == 21
    assert film.size == frames[0].shape[1::-1]
    assert film.info["loop"] == 0 and film.info["duration"] == 40
    shown = np.asarray(film.convert("RGB"), np.int32)
  assert np.abs(shown - frames[0]).mean() < 4


def test_no_frames_are_refused(tmp_path):
  with pytest.raises(ValueError, match="at least one"):
    recording.write_gif([], str(tmp_path / "episode.gif"))


def test_what_cannot_be_drawn_is_named():
  class _Blind(_Painted):
    render = None

  class _Broken(_Painted):
    def render(self):
      raise OSError("no display")

  with pytest.raises(recording.RenderingError, match="_Blind has no render"):
    recording.record_episode(_Blind(3), _Still(), seed=0)
  with pytest.raises(recording.RenderingError, match="no display"):
    recording.record_episode(_Broken(3), _Still(), seed=0)
  with pytest.raises(recording.RenderingError, match=r"float64 \[2, 2\]"):
    recording.record_episode(_Painted(3, frame=np.zeros((2, 2))), _Still(), seed=0)
