"""Tests of `temper.utils.recording`."""

import sys
import types

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
  frames, outcome = recording.record_episode(_Painted(12, (180, 240)), _Still(), seed=0)
  assert len(frames) == 13 and outcome[:2] == (6.0, 12)
  assert all(frame.dtype == np.uint8 and frame.shape == frames[0].shape for frame in frames)
  # A band for the caption is added below the picture, which keeps its size.
  assert frames[0].shape[1] == 240 and frames[0].shape[0] > 180
  np.testing.assert_array_equal(frames[0][30, 40], [0, 0, 200])


def test_the_caption_changes_with_step_and_return():
  picture = np.zeros((100, 200, 3), np.uint8)
  band = [recording.caption(picture, step, total)[100:] for step, total in ((1, 2), (2, 2), (1, 3))]
  assert band[0].max() == 255
  assert np.any(band[0] != band[1]) and np.any(band[0] != band[2])


@pytest.mark.parametrize("size, width", [(320, 320), (200, 200), (50, 160)])
def test_large_pictures_shrink_in_proportion(size, width):
  frame = recording.caption(np.zeros((500, 1000, 3), np.uint8), 0, 0.0, size)
  assert frame.shape[1] == width and 20 < frame.shape[0] - width / 2 < 40


def test_narrow_pictures_are_widened_for_the_caption():
  assert recording.caption(np.zeros((40, 40, 3), np.uint8), 0, 0.0).shape[1] == 160


@pytest.mark.parametrize("width", [160, 200, 320])
def test_step_and_return_do_not_touch(width):
  band = recording.caption(np.zeros((100, width, 3), np.uint8), 1000, -1234.5)[100:]
  inked = (band > 128).any(axis=(0, 2))
  gaps = np.diff(np.flatnonzero(inked))
  # The gap between the two is wider than a letter.
  assert gaps.max() > 12 and inked[-2 - width // 40 :].sum() <= 3


@pytest.mark.parametrize("length, stride, drawn", [(1000, 100, 11), (25, 10, 4), (3, 10, 2)])
def test_a_stride_thins_the_episode_and_keeps_both_ends(length, stride, drawn):
  environment = _Painted(length)
  frames, outcome = recording.record_episode(environment, _Still(), seed=0, stride=stride)
  assert len(frames) == drawn and outcome.total == length / 2
  last = recording.caption(environment.render(), length, outcome.total)
  np.testing.assert_array_equal(frames[-1], last)
  with pytest.raises(ValueError, match="stride"):
    recording.record_episode(environment, _Still(), seed=0, stride=0)


def test_gif_holds_all_frames_and_repeats(tmp_path):
  frames, _ = recording.record_episode(_Painted(20), _Still(), seed=0)
  path = tmp_path / "episode.gif"
  recording.write_film(frames, str(path))
  assert [entry.name for entry in tmp_path.iterdir()] == ["episode.gif"]
  with Image.open(path) as film:
    assert film.n_frames == 21
    assert film.size == frames[0].shape[1::-1]
    assert film.info["loop"] == 0 and film.info["duration"] == 40
    shown = np.asarray(film.convert("RGB"), np.int32)
  assert np.abs(shown - frames[0]).mean() < 4


def test_no_frames_are_refused(tmp_path):
  with pytest.raises(ValueError, match="at least one"):
    recording.write_film([], str(tmp_path / "episode.gif"))


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


@pytest.mark.parametrize("length, shown", [(7, 8), (8, 9), (9, 6), (16, 9), (100, 8)])
def test_a_long_episode_is_thinned_evenly_while_it_is_played(length, shown):
  environment = _Painted(length)
  frames, _ = recording.record_episode(environment, _Still(), seed=0, max_frames=8)
  assert len(frames) == shown
  # The red bar's length is the step.
  bars = [int((frame[0, :, 0] > 128).sum()) / 2 for frame in frames]
  steps = np.diff(bars[1:-1])
  if length < 70:  # The picture has no room for a longer bar.
    assert np.ptp(steps) <= 1


def test_frames_a_second_are_kept(tmp_path):
  frames, _ = recording.record_episode(_Painted(3), _Still(), seed=0)
  path = str(tmp_path / "slow.GIF")
  recording.write_film(frames, path, frames_per_second=10)
  with Image.open(path) as film:
    assert film.info["duration"] == 100


@pytest.mark.parametrize(
  "name, rate, message",
  [
    ("episode.avi", 25, r"\.gif or \.mp4"),
    ("episode", 25, "does not tell the kind"),
    ("episode.gif", 60, "1 to 50"),
    ("episode.mp4", 0, "1 to 240"),
  ],
)
def test_films_that_cannot_be_are_refused(name, rate, message):
  with pytest.raises(ValueError, match=message):
    recording.check_film(name, rate)


def test_an_mp4_without_its_package_is_refused_with_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
  with pytest.raises(ImportError, match=r"temper-rl\[video\]"):
    recording.check_film("episode.mp4")


def test_an_mp4_gets_even_frames_and_holds_the_last(monkeypatch, tmp_path):
  sent = []

  def write_frames(path, size, **options):
    assert options["codec"] == "libx264" and options["fps"] == 10
    with open(path, "wb") as file:
      file.write(b"film")
    while True:
      frame = yield
      assert frame.shape == (size[1], size[0], 3) and frame.flags.c_contiguous
      sent.append(frame)

  package = types.SimpleNamespace(write_frames=write_frames)
  monkeypatch.setitem(sys.modules, "imageio_ffmpeg", package)
  frames = [np.full((31, 21, 3), value, np.uint8) for value in (1, 2, 3)]
  recording.write_film(frames, str(tmp_path / "episode.mp4"), frames_per_second=10)
  assert sent[0].shape == (32, 22, 3)
  assert [frame[0, 0, 0] for frame in sent] == [1, 2, 3] + 10 * [3]
  assert [entry.name for entry in tmp_path.iterdir()] == ["episode.mp4"]


def test_an_mp4_is_read_back(tmp_path):
  ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra `video` is not installed")
  frames, _ = recording.record_episode(_Painted(9, (61, 161)), _Still(), seed=0)
  path = str(tmp_path / "episode.mp4")
  recording.write_film(frames, path, frames_per_second=10)
  reader = ffmpeg.read_frames(path)
  facts = next(reader)
  assert facts["fps"] == 10 and facts["codec"] == "h264"
  width, height = facts["size"]
  assert width == 162 and height % 2 == 0
  shown = [np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader]
  assert len(shown) == 10 + 10
  blue = shown[0][30, 80].astype(int)
  assert np.abs(blue - [0, 0, 200]).max() < 25
