"""What a run's folder says of the run: its record and its checkpoints, read without TensorFlow."""

from collections.abc import Mapping
import json
import os
from typing import Any, Union

from temper.launchers import agent_table
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils.policy_kinds import PolicyKind

LATEST = "latest"
BEST = "best"


def read_record(directory: RunDirectory) -> dict[str, Any]:
  """Returns what a run's config.json holds.

  Raises:
    ValueError: if the folder holds no run.
  """
  try:
    with open(directory.config, encoding="utf-8") as file:
      record = json.load(file)
  except (OSError, ValueError) as error:
    inside = runs_inside(directory.path)
    hint = f" Runs inside it: {', '.join(inside)}." if inside else ""
    raise ValueError(
      f"{directory.path} holds no run: {directory.config} cannot be read ({error}).{hint}"
    ) from error
  kinds = {"agent": str, "environment": str, "config": dict}
  if not isinstance(record, dict) or not all(
    isinstance(record.get(name), kind) for name, kind in kinds.items()
  ):
    raise ValueError(
      f"{directory.path} holds no run: {directory.config} has no valid {', '.join(kinds)}."
    )
  return record


def runs_inside(path: str) -> list[str]:
  """Returns the runs that lie directly in a folder, a few at the most."""
  if not os.path.isdir(path):
    return []
  folders = (os.path.join(path, name) for name in sorted(os.listdir(path)))
  return [folder for folder in folders if os.path.exists(RunDirectory(folder).config)][:8]


def find_checkpoint(
  directory: RunDirectory, checkpoint: Union[str, int, None], kind: PolicyKind = PolicyKind.MEAN
) -> str:
  """Returns the folder of a run's checkpoint; see `run_loading.open_run` for what chooses it.

  Raises:
    ValueError: if there is none such; says which there are.
  """
  if checkpoint is None or checkpoint == LATEST:
    paths = checkpointing.complete_checkpoints(directory.checkpoints)
    if not paths:
      raise ValueError(f"{directory.path} has no checkpoint yet. Train on, or give another run.")
    return paths[-1]
  best = best_checkpoints(directory)
  if checkpoint == BEST:
    if not best:
      raise ValueError(
        f"{directory.path} has no best checkpoint: it was not evaluated while training. Take "
        f"{LATEST}."
      )
    if kind.mode not in best and len(best) > 1:
      raise ValueError(
        f"{directory.path} has best checkpoints of the modes {sorted(best)}, none of "
        f"{kind.mode!r}. Choose one of those policies, or the checkpoint's folder."
      )
    return best.get(kind.mode) or next(iter(best.values()))
  if str(checkpoint).isdigit():
    own = [path for mode, path in best.items() if mode == kind.mode]
    found = [*checkpointing.complete_checkpoints(directory.checkpoints), *own, *best.values()]
    name = f"step_{int(checkpoint)}"
    matching = [path for path in found if os.path.basename(path) == name]
    if matching:
      return matching[0]
    steps = sorted({int(os.path.basename(path).partition("_")[2]) for path in found})
    raise ValueError(
      f"{directory.path} has no checkpoint of step {checkpoint}, only of the steps {steps}."
    )
  path = str(checkpoint).rstrip(os.sep)
  if not checkpointing.is_checkpoint(path):
    raise ValueError(
      f"checkpoint is {checkpoint!r}; it must be {LATEST}, {BEST}, a number of steps, or the "
      "folder of a checkpoint."
    )
  return path


def best_checkpoints(directory: RunDirectory) -> dict[str, str]:
  """Returns the folders of the best checkpoints by the mode in which they did best."""
  if not os.path.isdir(directory.best):
    return {}
  found = {
    mode: checkpointing.complete_checkpoints(os.path.join(directory.best, mode))
    for mode in sorted(os.listdir(directory.best))
  }
  return {mode: paths[-1] for mode, paths in found.items() if paths}


def with_run_of(path: str, checkpoint: Union[str, int, None]) -> tuple[str, Union[str, int, None]]:
  """Splits the folder of a checkpoint inside a run into the run's folder and the checkpoint.

  Args:
    path: folder of a run, or of a checkpoint inside one.
    checkpoint: what is asked for beside it.

  Returns:
    The run's folder and the checkpoint; what was given, if the path is no checkpoint.

  Raises:
    ValueError: if a checkpoint is asked for beside one, or it is in no run.
  """
  if os.path.exists(RunDirectory(path).config) or not checkpointing.is_checkpoint(path):
    return path, checkpoint
  if checkpoint is not None:
    raise ValueError(f"{path} is a checkpoint already; leave out checkpoint = {checkpoint}.")
  folder = os.path.abspath(path)
  for _ in range(3):  # RUN/checkpoints/step_N, or RUN/best/<mode>/step_N.
    folder = os.path.dirname(folder)
    if os.path.exists(RunDirectory(folder).config):
      return os.path.relpath(folder) if not os.path.isabs(path) else folder, path
  raise ValueError(
    f"{path} is a checkpoint outside of a run, whose config.json would say of which agent. Give "
    "the folder of the run."
  )


def agent_entry(record: Mapping[str, Any], directory: str) -> agent_table.AgentEntry:
  """Returns the agent's entry; runs made from Python are named after the builder's class.

  Args:
    record: the run's.
    directory: its folder, for the message.

  Raises:
    ValueError: if it is not among the agents of `agent_table`.
  """
  for name, entry in agent_table.AGENTS.items():
    if record["agent"] in (name, entry.builder):
      return entry
  raise ValueError(
    f"{directory} holds a run of the agent {record['agent']!r}; those of "
    f"{list(agent_table.AGENTS)} can be opened."
  )
