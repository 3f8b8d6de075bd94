"""A film of an episode, with step and return drawn into every frame."""

from collections.abc import Sequence
import os
from typing import Any, Callable

from acme import core
import dm_env
import numpy as np

from temper.utils import evaluation

# GIF players slow down anything above 50 frames a second.
MAX_GIF_FRAMES_PER_SECOND = 50
FRAMES_PER_SECOND = 25
# Ten seconds. Longer episodes are shown in fewer, evenly spaced steps, since drawing is slow.
MAX_FRAMES = 250
# Pixels of the longer side.
SIZE = 320
# Narrower pictures have no room for the caption, and are enlarged.
_MIN_WIDTH = 160
_HOLD_SECONDS = 1.0


class RenderingError(RuntimeError):
  """The environment cannot be drawn here."""


def record_episode(
  environment: dm_env.Environment,
  actor: core.Actor,
  *,
  seed: int,
  stride: int = 1,
  max_frames: int = MAX_FRAMES,
  size: int = SIZE,
  on_step: Callable[[], None] = lambda: None,
) -> "tuple[list[np.ndarray], evaluation.Outcome]":
  """Plays one episode and draws it.

  Args:
    environment: has a `render()` that returns uint8 `[H, W, 3]`.
    actor: an evaluation actor.
    seed: chooses the start state.
    stride: every how many steps to draw, at least 1; the first and the last step are always drawn.
    max_frames: how many steps to show at the most, beside the start, at least 1. When there are
      more, every other one is left out, and the stride doubles.
    size: see `caption`.
    on_step: called after each step; what it raises ends the recording.

  Returns:
    The frames with their captions, uint8 `[H', W', 3]` each; and what the episode came to.

  Raises:
    RenderingError: if the environment has no `render`, or it fails or gives no picture.
    EndlessEpisodeError: if the episode does not end.
    ValueError: if `stride` or `max_frames` is less than 1.
  """
  for name, value in (("stride", stride), ("max_frames", max_frames)):
    if value < 1:
      raise ValueError(f"{name} must be at least 1, got {value}.")
  frames: list[np.ndarray] = []
  step, total = 0, 0.0

  def observe(timestep: dm_env.TimeStep) -> None:
    nonlocal step, total, stride
    if not timestep.first():
      step += 1
      total += float(timestep.reward)
    due = lambda: step % stride == 0 or timestep.last()
    if due() and len(frames) > max_frames:
      del frames[1::2]
      stride *= 2
    if due():
      frames.append(caption(_render(environment), step, total, size))
    on_step()

  outcome = evaluation.run_episode(environment, actor, seed=seed, on_step=observe)
  return frames, outcome


def _render(environment: dm_env.Environment) -> np.ndarray:
  """Draws the environment as it stands, or says why it cannot."""
  render = getattr(environment, "render", None)
  if not callable(render):
    raise RenderingError(f"{type(environment).__name__} has no render() method.")
  try:
    frame = render()
  except Exception as error:  # Drivers and environments fail here in ways of their own.
    raise RenderingError(f"render() failed: {error}") from error
  frame = np.asarray(frame)
  if frame.ndim != 3 or frame.shape[-1] != 3 or frame.dtype != np.uint8:
    raise RenderingError(
      f"render() must return uint8 [H, W, 3], got {frame.dtype} {list(frame.shape)}."
    )
  return frame


def caption(frame: np.ndarray, step: int, episode_return: float, size: int = SIZE) -> np.ndarray:
  """Scales a frame and adds a band with step and return below it.

  Args:
    frame: uint8 `[H, W, 3]`.
    step: environment steps since the start of the episode.
    episode_return: sum of rewards so far.
    size: pixels of the longer side at the most, without the band. A picture narrower than 160
      pixels is enlarged to that.

  Returns:
    uint8 `[H' + band, W', 3]`.
  """
  image_module, draw_module, font_module = _pillow()
  picture = image_module.fromarray(frame)
  scale = min(1.0, size / max(picture.size))
  scale = max(scale, _MIN_WIDTH / picture.width)
  width, height = (max(1, round(side * scale)) for side in picture.size)
  picture = picture.resize((width, height), image_module.LANCZOS)
  font_size = max(12, min(18, width // 16))
  band = round(font_size * 1.9)
  canvas = image_module.new("RGB", (width, height + band), (34, 39, 46))
  canvas.paste(picture, (0, 0))
  draw = draw_module.Draw(canvas)
  font = font_module.load_default(size=font_size)
  middle, margin = height + band // 2, font_size // 2
  draw.text((margin, middle), f"step {step}", font=font, fill="white", anchor="lm")
  text = f"return {episode_return:,.1f}"
  draw.text((width - margin, middle), text, font=font, fill="white", anchor="rm")
  return np.asarray(canvas)


def write_film(
  frames: Sequence[np.ndarray], path: str, *, frames_per_second: int = FRAMES_PER_SECOND
) -> None:
  """Writes frames as a GIF or an MP4, whichever the path ends with; the last one is held.

  A GIF repeats for ever. An MP4 is H.264, with a row or a column more where a side is odd.

  Args:
    frames: uint8 `[H, W, 3]`, all of one size, at least one.
    path: the file, which is replaced.
    frames_per_second: how fast to show them.

  Raises:
    ValueError: if there are no frames, or see `check_film`.
    ImportError: if Pillow, or for an MP4 imageio-ffmpeg, is not installed.
    OSError: if the file cannot be written, or the video not be encoded.
  """
  if not frames:
    raise ValueError("frames must hold at least one picture, got none.")
  check_film(path, frames_per_second)
  writer = _WRITERS[os.path.splitext(path)[1].lower()]
  # Beside it first, so that a reader never sees half of it.
  stem, ending = os.path.splitext(path)
  scratch = f"{stem}.new{ending}"
  try:
    writer(frames, scratch, frames_per_second)
    os.replace(scratch, path)
  finally:
    if os.path.exists(scratch):
      os.remove(scratch)


def check_film(path: str, frames_per_second: int = FRAMES_PER_SECOND) -> None:
  """Raises what `write_film` would, as far as it is known before there are frames."""
  ending = os.path.splitext(path)[1].lower()
  if ending not in _WRITERS:
    raise ValueError(
      f"{path!r} does not tell the kind of film: end it with {' or '.join(_WRITERS)}."
    )
  most = MAX_GIF_FRAMES_PER_SECOND if ending == ".gif" else 240
  if not 1 <= frames_per_second <= most:
    raise ValueError(
      f"frames_per_second is {frames_per_second}; a {ending} shows 1 to {most} a second."
    )
  _pillow()
  if ending == ".mp4":
    _ffmpeg()


def _write_gif(frames: Sequence[np.ndarray], path: str, frames_per_second: int) -> None:
  image_module, _, _ = _pillow()
  # One palette for all frames: a palette each flickers and triples the file.
  sample = np.concatenate(list(frames[:: max(1, len(frames) // 8)]), axis=0)
  palette = image_module.fromarray(sample).quantize(colors=128)
  pictures = [
    image_module.fromarray(frame).quantize(palette=palette, dither=image_module.Dither.NONE)
    for frame in frames
  ]
  durations = [1000 // frames_per_second] * (len(pictures) - 1) + [round(1000 * _HOLD_SECONDS)]
  pictures[0].save(
    path, save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=False
  )


def _write_mp4(frames: Sequence[np.ndarray], path: str, frames_per_second: int) -> None:
  height, width, _ = frames[0].shape
  # The usual form of H.264 halves the colours' resolution, so that sides must be even.
  padding = ((0, height % 2), (0, width % 2), (0, 0))
  writer = _ffmpeg().write_frames(
    path,
    (width + width % 2, height + height % 2),
    fps=frames_per_second,
    codec="libx264",
    pix_fmt_out="yuv420p",
    macro_block_size=1,
    ffmpeg_log_level="error",
  )
  writer.send(None)
  try:
    for frame in [*frames, *[frames[-1]] * round(_HOLD_SECONDS * frames_per_second)]:
      writer.send(np.ascontiguousarray(np.pad(frame, padding, mode="edge")))
  except OSError as error:
    raise OSError(f"The video {path} could not be encoded: {error}") from error
  finally:
    writer.close()


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4}


def _pillow() -> "tuple[Any, Any, Any]":
  """Imports Pillow's three modules when a picture is first asked for."""
  try:
    from PIL import Image
    from PIL import ImageDraw
    from PIL import ImageFont
  except ImportError as error:
    raise ImportError("A film needs Pillow: pip install 'temper-rl[plots]'.") from error
  return Image, ImageDraw, ImageFont


def _ffmpeg() -> Any:
  """Imports what encodes videos."""
  try:
    import imageio_ffmpeg
  except ImportError as error:
    raise ImportError(
      "An MP4 needs imageio-ffmpeg: pip install 'temper-rl[video]'. A .gif does not."
    ) from error
  return imageio_ffmpeg
