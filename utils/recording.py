"""A GIF of an episode, with step and return drawn into every frame."""

from collections.abc import Sequence
from typing import Any

from acme import core
import dm_env
import numpy as np

from temper.utils import evaluation

# GIF players slow down anything above 50 frames a second.
_FRAMES_PER_SECOND = 25
_MAX_SIDE = 320


class RenderingError(RuntimeError):
  """The environment cannot be drawn here."""


def record_episode(
  environment: dm_env.Environment, actor: core.Actor, *, seed: int, stride: int = 1
) -> "tuple[list[np.ndarray], float]":
  """Plays one episode and draws it.

  Args:
    environment: has a `render()` that returns uint8 `[H, W, 3]`.
    actor: an evaluation actor.
    seed: chooses the start state.
    stride: every how many steps to draw, at least 1; the first and the last step are always drawn.

  Returns:
    The frames with their captions, uint8 `[H', W', 3]` each, no side above 320 pixels before the
    caption is added; and the return of the episode.

  Raises:
    RenderingError: if the environment has no `render`, or it fails or gives no picture.
    ValueError: if `stride` is less than 1.
  """
  if stride < 1:
    raise ValueError(f"stride must be at least 1, got {stride}.")
  frames: list[np.ndarray] = []
  step, total = 0, 0.0

  def on_step(timestep: dm_env.TimeStep) -> None:
    nonlocal step, total
    if not timestep.first():
      step += 1
      total += float(timestep.reward)
    if step % stride == 0 or timestep.last():
      frames.append(caption(_render(environment), step, total))

  evaluation.run_episode(environment, actor, seed=seed, on_step=on_step)
  return frames, total


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


def caption(frame: np.ndarray, step: int, episode_return: float) -> np.ndarray:
  """Shrinks a frame to at most 320 pixels a side and adds a band with step and return below it.

  Args:
    frame: uint8 `[H, W, 3]`.
    step: environment steps since the start of the episode.
    episode_return: sum of rewards so far.

  Returns:
    uint8 `[H' + band, W', 3]`.
  """
  image_module, draw_module, font_module = _pillow()
  picture = image_module.fromarray(frame)
  scale = min(1.0, _MAX_SIDE / max(picture.size))
  width, height = (max(1, round(side * scale)) for side in picture.size)
  picture = picture.resize((width, height), image_module.LANCZOS)
  size = max(10, min(18, width // 16))
  band = round(size * 1.9)
  canvas = image_module.new("RGB", (width, height + band), (34, 39, 46))
  canvas.paste(picture, (0, 0))
  draw = draw_module.Draw(canvas)
  font = font_module.load_default(size=size)
  middle = height + band // 2
  draw.text((size // 2, middle), f"step {step}", font=font, fill="white", anchor="lm")
  draw.text(
    (width - size // 2, middle),
    f"return {episode_return:,.1f}",
    font=font,
    fill="white",
    anchor="rm",
  )
  return np.asarray(canvas)


def write_gif(frames: Sequence[np.ndarray], path: str) -> None:
  """Writes frames as a GIF that repeats for ever, 25 frames a second, the last one held.

  Args:
    frames: uint8 `[H, W, 3]`, all of one size, at least one.
    path: the file.
  """
  if not frames:
    raise ValueError("frames must hold at least one picture, got none.")
  image_module, _, _ = _pillow()
  # One palette for all frames: a palette each flickers and triples the file.
  sample = np.concatenate(list(frames[:: max(1, len(frames) // 8)]), axis=0)
  palette = image_module.fromarray(sample).quantize(colors=128)
  pictures = [
    image_module.fromarray(frame).quantize(palette=palette, dither=image_module.Dither.NONE)
    for frame in frames
  ]
  durations = [1000 // _FRAMES_PER_SECOND] * (len(pictures) - 1) + [1000]
  pictures[0].save(
    path, save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=False
  )


def _pillow() -> "tuple[Any, Any, Any]":
  """Imports Pillow's three modules when a picture is first asked for."""
  try:
    from PIL import Image
    from PIL import ImageDraw
    from PIL import ImageFont
  except ImportError as error:
    raise ImportError("A GIF needs Pillow: pip install 'temper-rl[plots]'.") from error
  return Image, ImageDraw, ImageFont
