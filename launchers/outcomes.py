"""How a run can end, and what the user is told of it."""

from collections.abc import Mapping
import dataclasses
import errno
import sys
from typing import Any, Callable, Optional

from temper.launchers import command_line
from temper.launchers.stopping import StopRequested
from temper.utils import checkpointing
from temper.utils import evaluation

# Errors of the system that mean a full disk.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class SettingsError(ValueError):
  """What is asked for cannot be run; the message says why and what can."""


class TrainingFailed(RuntimeError):
  """Learner, data or environment failed; the message says what, and the last good checkpoint."""


@dataclasses.dataclass(frozen=True)
class Result:
  """What a run has come to.

  Attributes:
    evaluations: evaluations of the last networks by their mode, such as "deterministic"; none if
      the run was stopped.
    steps: steps of the run: environment steps, or learner steps offline.
    stop: why it ended early, None if it did not.
    summary: what result.json holds; empty if it was stopped.
    checkpoint: the newest checkpoint.
  """

  evaluations: Mapping[str, evaluation.EvaluationResult]
  steps: int
  stop: Optional[StopRequested]
  summary: Mapping[str, Any]
  checkpoint: Optional[str]


def report(
  run: Callable[[], Result], table: Callable[[Mapping[str, Any]], str], *, command: str
) -> int:
  """Runs something to its end, and says what it has come to.

  Args:
    run: what to run.
    table: makes the closing table of a summary.
    command: the command line that resumes the run.

  Returns:
    0, 2 if the settings are refused, 1 if training failed, 130 or 143 if it was stopped.
  """
  try:
    result = run()
  except SettingsError as error:
    return command_line.refuse(error)
  except (TrainingFailed, checkpointing.CheckpointError, ImportError) as error:
    return command_line.fail(error)
  except OSError as error:
    if error.errno not in NO_ROOM:
      raise
    return command_line.fail(
      TrainingFailed(f"The disk is full or over quota: {error}. Make room and start again.")
    )
  if result.stop is not None:
    print(
      f"{result.stop} at step {result.steps:,}; all is saved in {result.checkpoint}.\n"
      f"Resume with: {command}",
      file=sys.stderr,
    )
    return result.stop.exit_code
  print(table(result.summary))
  return 0
