"""Keeps the networks that did best in evaluations while training, for each way to act."""

import dataclasses
import os
import shutil
from typing import Any, Callable, Optional

from temper.utils import checkpointing
from temper.utils.checkpointing import Checkpointer

_MEAN = "mean_return"


@dataclasses.dataclass(frozen=True)
class Best:
  """A checkpoint that did best.

  Attributes:
    path: its folder.
    step: steps of the run when it was made.
    mean_return: of its evaluation then.
  """

  path: str
  step: int
  mean_return: float


class BestCheckpoints:
  """Keeps one checkpoint a mode: `DIRECTORY/<mode>/step_N`.

  What is on disk is all that it knows, so that it survives a killed process.
  """

  def __init__(self, directory: str, *, resume_step: int):
    """Initialises the keeper.

    Args:
      directory: where the checkpoints are; made when there is a first.
      resume_step: steps that the restored run had done; what lies there of an earlier run is
        removed if it is 0.
    """
    self._directory = directory
    if resume_step == 0:
      shutil.rmtree(directory, ignore_errors=True)

  def of(self, mode: str) -> Optional[Best]:
    """Returns the best so far, None if there is none.

    Raises:
      CheckpointError: if it is damaged.
    """
    path = self._checkpointer(mode).latest()
    if path is None:
      return None
    document = checkpointing.read_state(path)
    try:
      return Best(path, document["step"], float(document["state"][_MEAN]))
    except (KeyError, TypeError, ValueError) as error:
      raise checkpointing.CheckpointError(
        f"The state in {path} is damaged: {error!r}. Delete {path} to go on without it."
      ) from error

  def offer(
    self, mode: str, step: int, mean_return: float, trackables: Callable[[], dict[str, Any]]
  ) -> bool:
    """Keeps the networks as they are if they did better than the best so far.

    Args:
      mode: the way to act.
      step: steps of the run so far.
      mean_return: of the evaluation.
      trackables: returns the TensorFlow objects to keep, by name.

    Returns:
      Whether they are kept.
    """
    best = self.of(mode)
    if best is not None and mean_return <= best.mean_return:
      return False
    if best is not None and best.step > step:
      # The run went back to an earlier checkpoint; the newest step is what would be kept.
      shutil.rmtree(best.path)
    self._checkpointer(mode).save(step, trackables(), {_MEAN: mean_return})
    return True

  def _checkpointer(self, mode: str) -> Checkpointer:
    return Checkpointer(os.path.join(self._directory, mode), keep=1)
