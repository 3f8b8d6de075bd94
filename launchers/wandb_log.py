"""Weights & Biases as one more place where a run's numbers go."""

from collections.abc import Mapping
import importlib
import os
from typing import Any
import uuid

_ID_FILE = "wandb_run_id"


class WandbLog:
  """Logs to Weights & Biases what TensorBoard gets, under the same names.

  A resumed run goes on in the same run there. Rows carry their step as the metric "step", against
  which everything is drawn, since a resume may begin at an earlier step than was logged last.
  """

  def __init__(self, project: str, directory: str, *, name: str, record: Mapping[str, Any]):
    """Begins a run there, or goes on with it.

    Args:
      project: where it belongs there.
      directory: folder of the run's logs, which exists; also keeps the run's name there.
      name: to show.
      record: of the run, as in its config.json.

    Raises:
      ImportError: if the package is not installed; says how to.
    """
    wandb = import_wandb()
    self._run = wandb.init(
      project=project,
      name=name,
      id=_run_id(directory),
      resume="allow",
      dir=directory,
      config=dict(record),
    )
    self._run.define_metric("step")
    self._run.define_metric("*", step_metric="step")

  def write(self, step: int, prefix: str, row: Mapping[str, Any]) -> None:
    """Logs the numbers of `row` as `prefix/name`; text is left to the CSV files."""
    values = {f"{prefix}/{name}": float(v) for name, v in row.items() if not isinstance(v, str)}
    self._run.log({"step": step, **values})

  def flush(self) -> None:
    """Does nothing: the package sends by itself."""

  def close(self) -> None:
    """Ends the run there."""
    self._run.finish()


def import_wandb() -> Any:
  """Imports the package; raises ImportError with what to do if it is missing."""
  try:
    return importlib.import_module("wandb")
  except ImportError as error:
    raise ImportError(
      f"wandb_project is given, but Weights & Biases is not installed ({error}). Install it with "
      "pip install wandb, or leave wandb_project out."
    ) from error


def _run_id(directory: str) -> str:
  """Returns the run's name there; kept in a file, so that a resume finds it again."""
  path = os.path.join(directory, _ID_FILE)
  if os.path.exists(path):
    with open(path, encoding="utf-8") as file:
      return file.read().strip()
  made = uuid.uuid4().hex
  scratch = path + ".new"
  with open(scratch, "w", encoding="utf-8") as file:
    file.write(made + "\n")
  os.replace(scratch, path)
  return made
