"""Checkpoints of a whole run: the agent, its counts, and what a failure leaves of them."""

from collections.abc import Iterator
import contextlib
import dataclasses
from typing import Any, Callable, Optional, TypeVar

from acme.utils import counting

from temper.agents import learner as learner_lib
from temper.launchers.outcomes import TrainingFailed
from temper.utils import environment_wrappers
from temper.utils import evaluation
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import CheckpointError
from temper.utils.checkpointing import way_out
from temper.utils.progress import Progress

State = TypeVar("State")


def save(
  checkpointer: Checkpointer,
  agent: Any,
  state: Any,
  counter: counting.Counter,
  extra: Optional[Callable[[str], None]] = None,
) -> str:
  """Writes a checkpoint of everything that a resume needs.

  Args:
    checkpointer: where to.
    agent: its `checkpointables` and `state` are kept.
    state: the run's counts, a dataclass of what JSON can hold, with `steps`.
    counter: the learner's counter.
    extra: writes more into the checkpoint's folder.

  Returns:
    The path of the checkpoint.
  """
  document = {
    "agent": agent.state(),
    "run": dataclasses.asdict(state),
    "counter": counter.save(),
  }
  return checkpointer.save(state.steps, agent.checkpointables(), document, extra=extra)


def restore(
  checkpointer: Checkpointer,
  path: Optional[str],
  agent: Any,
  state_class: type[State],
  counter: counting.Counter,
) -> State:
  """Restores what `save` wrote, and returns the run's counts; new ones if `path` is None.

  Raises:
    CheckpointError: if the checkpoint is damaged or does not fit; says what can be done.
  """
  if path is None:
    return state_class()
  saved = checkpointer.restore(path, agent.checkpointables())
  try:
    agent.load_state(saved["agent"])
    counter.restore(saved["counter"])
    return state_class(**saved["run"])
  except (KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"The state in {path} is damaged: {error!r}.{way_out(path)}") from error


@contextlib.contextmanager
def failures_told(
  where: Callable[[], str], checkpoint: Callable[[], Optional[str]], progress: Progress
) -> Iterator[None]:
  """Turns what can go wrong in training into `TrainingFailed`, which names the last checkpoint.

  Nothing is saved then, since the weights may be what has gone wrong.

  Args:
    where: says at which step the run is.
    checkpoint: returns the newest checkpoint.
    progress: gets the note of the last checkpoint when the error is none of those foreseen.
  """
  try:
    yield
  except (
    learner_lib.NonFiniteError,
    learner_lib.DataExhaustedError,
    environment_wrappers.EnvironmentFault,
    evaluation.EndlessEpisodeError,
  ) as error:
    raise TrainingFailed(
      f"Training stopped at {where()}. {error}\nLast good checkpoint: {checkpoint() or 'none yet'}"
    ) from error
  except Exception:
    progress.note(f"Last good checkpoint: {checkpoint() or 'none yet'}")
    raise
