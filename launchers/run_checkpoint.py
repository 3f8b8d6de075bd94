"""Checkpoints of a whole run: the agent, its counts, and what a failure leaves of them."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
from typing import Any, Callable, Optional, TypeVar

from acme.utils import counting

from temper.agents import learner as learner_lib
from temper.launchers.callbacks import CallbackError
from temper.launchers.outcomes import NO_ROOM
from temper.launchers.outcomes import TrainingFailed
from temper.launchers.run_directory import IDENTITY
from temper.launchers.run_directory import differences
from temper.utils import environment_wrappers
from temper.utils import evaluation
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import CheckpointError
from temper.utils.checkpointing import read_state
from temper.utils.checkpointing import way_out
from temper.utils.progress import Progress

State = TypeVar("State")

_IDENTITY = "identity"


def save(
  checkpointer: Checkpointer,
  agent: Any,
  state: Any,
  counter: counting.Counter,
  record: Mapping[str, Any],
  extra: Optional[Callable[[str], None]] = None,
) -> str:
  """Writes a checkpoint of everything that a resume needs.

  Args:
    checkpointer: where to.
    agent: its `checkpointables` and `state` are kept.
    state: the run's counts, a dataclass of what JSON can hold, with `steps`.
    counter: the learner's counter.
    record: the run's record; what makes it this run is kept, so that `check` can tell.
    extra: writes more into the checkpoint's folder.

  Returns:
    The path of the checkpoint.
  """
  document = {
    "agent": agent.state(),
    "run": dataclasses.asdict(state),
    "counter": counter.save(),
    _IDENTITY: {name: record.get(name, absent) for name, absent in IDENTITY.items()},
  }
  return checkpointer.save(state.steps, agent.checkpointables(), document, extra=extra)


def check(path: Optional[str], record: Mapping[str, Any]) -> None:
  """Refuses the checkpoint of another run, as one that was moved here; None is no checkpoint.

  Args:
    path: of the checkpoint. One of a version that kept no identity passes.
    record: of the run that is asked for.

  Raises:
    CheckpointError: if the checkpoint is of another run; names the settings that differ.
  """
  if path is None:
    return
  identity = read_state(path)["state"].get(_IDENTITY)
  differing = differences(identity, record) if isinstance(identity, dict) else []
  if differing:
    listed = "\n  ".join(differing)
    raise CheckpointError(
      f"The checkpoint {path} is of a run with other settings:\n  {listed}\nMove it to where it "
      f"belongs.{way_out(path)}"
    )


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
    CallbackError,
  ) as error:
    raise TrainingFailed(
      f"Training stopped at {where()}. {error}\nLast good checkpoint: {checkpoint() or 'none yet'}"
    ) from error
  except Exception as error:
    if isinstance(error, OSError) and error.errno in NO_ROOM:
      raise TrainingFailed(
        f"The disk is full or over quota at {where()}: {error}. Make room and start again.\n"
        f"Last good checkpoint: {checkpoint() or 'none yet'}"
      ) from error
    progress.note(f"Last good checkpoint: {checkpoint() or 'none yet'}")
    raise
