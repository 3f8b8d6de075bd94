"""What a person sees while a run goes on, and the rates shown there."""

from collections.abc import Mapping
import shutil
import sys
import time
from typing import Optional, TextIO

import tqdm

_QUIET_SECONDS = 10.0
# What matters most comes first: a narrow terminal cuts the end of the line off.
_BAR = "{percentage:3.0f}%|{bar:12}| {n_fmt}/{total_fmt} · {remaining} left{desc}"


def rates_per_second(
  *,
  environment_steps: int,
  learner_steps: int,
  acting_seconds: float,
  learning_seconds: float,
  elapsed_seconds: Optional[float] = None,
) -> dict[str, float]:
  """Returns the rates of acting and of learning, each against its own time.

  One number for both would seem to fall when learning sets in; two say which part is slow.

  Args:
    environment_steps: environment steps done.
    learner_steps: learner steps done.
    acting_seconds: time in policy, environment and adder.
    learning_seconds: time in the learner.
    elapsed_seconds: time that passed, where acting and learning went on at once; None if they took
      turns: the sum of both.

  Returns:
    `acting_steps_per_second`: environment steps a second of acting; `learning_steps_per_second`:
    learner steps a second of learning; `environment_steps_per_second`: environment steps a second
    of both, which is how fast the run advances. A rate over no time is 0.
  """
  if elapsed_seconds is None:
    elapsed_seconds = acting_seconds + learning_seconds
  return {
    "acting_steps_per_second": _ratio(environment_steps, acting_seconds),
    "learning_steps_per_second": _ratio(learner_steps, learning_seconds),
    "environment_steps_per_second": _ratio(environment_steps, elapsed_seconds),
  }


def _ratio(count: float, seconds: float) -> float:
  return count / seconds if seconds > 0 else 0.0


class Progress:
  """A progress bar on a terminal; elsewhere one line every ten seconds."""

  def __init__(
    self,
    total: int,
    *,
    initial: int = 0,
    unit: str = "step",
    stream: Optional[TextIO] = None,
    quiet_seconds: float = _QUIET_SECONDS,
  ):
    """Begins to show progress.

    Args:
      total: steps of the whole run.
      initial: steps that earlier processes did.
      unit: what is counted, in the singular.
      stream: where to write, standard error by default.
      quiet_seconds: seconds between lines where there is no terminal.
    """
    self._stream = stream if stream is not None else sys.stderr
    self._total = total
    self._step = self._initial = self._spoken_step = initial
    self._begun = self._spoken = time.monotonic()
    self._quiet_seconds = quiet_seconds
    self._unit = unit
    self._summary = ""
    self._bar = None
    if self._stream.isatty():
      # A terminal of unknown size reports 0 × 0, in which tqdm by itself would draw nothing.
      size = shutil.get_terminal_size()
      self._bar = tqdm.tqdm(
        total=total,
        initial=initial,
        file=self._stream,
        bar_format=_BAR,
        unit=unit,
        ncols=size.columns,
        nrows=size.lines,
        mininterval=0.2,
      )

  def advance(self, step: int) -> None:
    """Moves to `step` steps."""
    if self._bar is not None:
      self._bar.update(step - self._step)
    self._step = step
    if self._bar is None and time.monotonic() - self._spoken >= self._quiet_seconds:
      self._speak()

  def summarise(
    self,
    *,
    episode_return: Optional[float],
    metrics: Mapping[str, float],
    rates: Mapping[str, float],
    goal: Optional[str] = None,
  ) -> None:
    """Replaces the text beside the bar.

    Args:
      episode_return: return of the last finished episode, or of the last evaluation where nothing
        else acts; None before there is one.
      metrics: the newest learner metrics; those named `*_loss` are shown, and `alpha`.
      rates: what `rates_per_second` returns; where nothing acts, the learning rate alone.
      goal: how far the run is from what ends it early; None if nothing does.
    """
    parts = []
    if episode_return is not None:
      parts.append(f"return {episode_return:.4g}")
    if goal is not None:
      parts.append(goal)
    learning = rates["learning_steps_per_second"]
    parts.append(f"{rates.get('environment_steps_per_second', learning):.0f} steps/s")
    losses = [
      f"{name[: -len('_loss')]} {value:.3g}"
      for name, value in metrics.items()
      if name.endswith("_loss")
    ]
    if losses:
      parts.append("loss " + " ".join(losses))
    if "alpha" in metrics:
      parts.append(f"alpha {metrics['alpha']:.3g}")
    if "acting_steps_per_second" in rates:
      parts.append(f"act {rates['acting_steps_per_second']:.0f}/s")
      parts.append(f"learn {learning:.0f}/s")
    self.describe(" · ".join(parts))

  def describe(self, text: str) -> None:
    """Replaces the text beside the bar by any other."""
    self._summary = f" · {text}"
    if self._bar is not None:
      self._bar.set_description_str(self._summary, refresh=False)

  def note(self, message: str) -> None:
    """Writes a line of its own without breaking the bar."""
    if self._bar is not None:
      self._bar.write(message, file=self._stream)
    else:
      print(message, file=self._stream, flush=True)

  def _speak(self) -> None:
    """Writes the line that stands for the bar where there is no terminal."""
    self._spoken, self._spoken_step = time.monotonic(), self._step
    done = self._step - self._initial
    left = (self._spoken - self._begun) * _ratio(self._total - self._step, done)
    left_text = tqdm.tqdm.format_interval(left) if done else "?"
    self.note(f"{self._unit} {self._step:,}/{self._total:,} · {left_text} left{self._summary}")

  def close(self) -> None:
    """Leaves the bar as it stands, or writes the last line."""
    if self._bar is not None:
      self._bar.close()
    elif self._step > self._spoken_step:
      self._speak()
