"""What a program of one's own is told while a run goes on."""

from collections.abc import Sequence
from typing import Any, Protocol

from temper.utils import evaluation


class CallbackError(RuntimeError):
  """A callback raised an exception, which ends the run; says which one."""


class RunCallbacks(Protocol):
  """What a run calls; derive from it and override what is of interest.

  All are called in the run's own thread, between two steps, and the run waits for them. An
  exception ends the run with an error, after which it can be resumed from its last checkpoint.
  After a resume what lies behind that checkpoint is told again.
  """

  def on_episode(self, step: int, episode: int, episode_return: float, length: int) -> None:
    """A training episode has ended.

    Args:
      step: environment steps of the run.
      episode: its number in the run, from 1.
      episode_return: sum of its rewards, as the environment gave them.
      length: its steps.
    """

  def on_evaluation(self, step: int, result: evaluation.EvaluationResult) -> None:
    """The agent has been evaluated, while training or at the end.

    Args:
      step: environment steps of the run, or learner steps of an offline one.
      result: returns, their mean and its interval; `result.mode` says how actions were taken.
    """

  def on_checkpoint(self, step: int, path: str) -> None:
    """A checkpoint is complete.

    Args:
      step: as above.
      path: its folder. A later checkpoint may replace it: copy what is to stay.
    """


class CallbackList:
  """Calls several callbacks, one after the other."""

  def __init__(self, callbacks: Sequence[RunCallbacks] = ()):
    """Initialises the list; they are called in its order."""
    self._callbacks = tuple(callbacks)

  def on_episode(self, step: int, episode: int, episode_return: float, length: int) -> None:
    """Passes on; raises CallbackError if one raises, as the others do."""
    self._call("on_episode", step, episode, episode_return, length)

  def on_evaluation(self, step: int, result: evaluation.EvaluationResult) -> None:
    """Passes on."""
    self._call("on_evaluation", step, result)

  def on_checkpoint(self, step: int, path: str) -> None:
    """Passes on."""
    self._call("on_checkpoint", step, path)

  def _call(self, name: str, *arguments: Any) -> None:
    for callback in self._callbacks:
      try:
        getattr(callback, name)(*arguments)
      except Exception as error:
        raise CallbackError(
          f"{type(callback).__name__}.{name} raised {type(error).__name__}: {error}"
        ) from error


NO_CALLBACKS = CallbackList()
