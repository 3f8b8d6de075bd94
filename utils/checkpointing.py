"""Checkpoints that are complete or absent: written beside, then moved into place."""

from collections.abc import Mapping
import json
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Optional

# Raised by one whenever a checkpoint of the old layout could no longer be read.
FORMAT_VERSION = 1
_STEP_FOLDER = re.compile(r"step_(\d+)$")
_STATE_FILE = "state.json"
_TENSORS_PREFIX = "tensors"


class CheckpointError(RuntimeError):
  """A checkpoint cannot be read, or does not fit the objects that it is restored into."""


class Checkpointer:
  """Writes and reads `DIRECTORY/step_N/`, each a complete state, keeping the newest few.

  A checkpoint is written into a hidden folder and renamed when it is on disk, so a process that is
  killed, or a disk that is full, leaves the previous ones whole. Nothing is written outside of
  `directory`.
  """

  def __init__(self, directory: str, *, keep: int = 3):
    """Initialises the checkpointer; the directory is made at the first save.

    Args:
      directory: where the checkpoints are, used as given.
      keep: how many of the newest to keep, at least 1.

    Raises:
      ValueError: if `keep` is less than 1 or `directory` is empty.
    """
    if not directory:
      raise ValueError("directory is empty; a checkpoint is only written where the caller says.")
    if keep < 1:
      raise ValueError(f"keep is {keep}; at least the newest checkpoint must be kept.")
    self._directory = os.fspath(directory)
    self._keep = keep
    if os.path.isdir(self._directory):
      self._put_back_replaced()

  def save(
    self,
    step: int,
    trackables: Mapping[str, Any],
    state: Mapping[str, Any],
    extra: Optional[Callable[[str], None]] = None,
  ) -> str:
    """Writes a checkpoint.

    Args:
      step: number that orders the checkpoints; one of an equal step is replaced.
      trackables: TensorFlow objects (modules, optimizers, variables) by name.
      state: what else there is to keep; must be representable as JSON.
      extra: called with the folder while it is written, to put more files into it.

    Returns:
      The path of the checkpoint.

    Raises:
      CheckpointError: if it cannot be written, as on a full disk; names the path. The earlier
        checkpoints are as they were.
    """
    import tensorflow as tf  # Only where tensors are: to list checkpoints is quick without it.

    try:
      return self._save(step, trackables, state, extra)
    except (OSError, tf.errors.OpError) as error:
      kept = self.paths()
      raise CheckpointError(
        f"The checkpoint of step {step} cannot be written to {self._directory}: {error}. "
        f"{f'{kept[-1]} is whole' if kept else 'There is no earlier one'}; make room, or let the "
        "folder be written to, and start again."
      ) from error

  def _save(
    self,
    step: int,
    trackables: Mapping[str, Any],
    state: Mapping[str, Any],
    extra: Optional[Callable[[str], None]],
  ) -> str:
    import tensorflow as tf

    os.makedirs(self._directory, exist_ok=True)
    self._remove_leftovers()
    folder = tempfile.mkdtemp(prefix=f".saving_{step}_", dir=self._directory)
    try:
      tf.train.Checkpoint(**trackables).write(os.path.join(folder, _TENSORS_PREFIX))
      if extra is not None:
        extra(folder)
      document = {
        "format": FORMAT_VERSION,
        "step": int(step),
        "trackables": sorted(trackables),
        "state": dict(state),
      }
      with open(os.path.join(folder, _STATE_FILE), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
      _flush_to_disk(folder)
      os.chmod(folder, 0o755)
      path = os.path.join(self._directory, f"step_{step}")
      self._move_into_place(folder, path)
    except BaseException:
      shutil.rmtree(folder, ignore_errors=True)
      raise
    for old in self.paths()[: -self._keep]:
      shutil.rmtree(old, ignore_errors=True)
    return path

  def paths(self) -> list[str]:
    """Returns the complete checkpoints, oldest first."""
    return complete_checkpoints(self._directory)

  def latest(self) -> Optional[str]:
    """Returns the newest complete checkpoint, or None.

    Raises:
      CheckpointError: if a newer one is there that has lost its state file. Going on from an older
        one, or from nothing, is for the user to decide.
    """
    paths = self.paths()
    newest = paths[-1] if paths else None
    # An older one may have been left half removed by a killed process; it is not needed.
    newest_step = _step_of(newest) if newest else -1
    names = sorted(os.listdir(self._directory)) if os.path.isdir(self._directory) else []
    for name in names:
      path = os.path.join(self._directory, name)
      if _STEP_FOLDER.fullmatch(name) and os.path.isdir(path) and _step_of(path) > newest_step:
        raise CheckpointError(
          f"The checkpoint {path} is incomplete: it has no {_STATE_FILE}.{way_out(path)}"
        )
    return newest

  def restore(self, path: str, trackables: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a checkpoint into the objects given.

    Args:
      path: a path that `save`, `paths` or `latest` returned.
      trackables: the objects, by the names under which they were saved.

    Returns:
      The `state` that was saved.

    Raises:
      CheckpointError: if the format is another, the names differ, or a variable of the objects is
        missing in the file or has another shape there; says which. On an error of names or format
        nothing has been changed.
    """
    import tensorflow as tf

    document = read_state(path)
    saved = document["trackables"]
    if sorted(trackables) != saved:
      raise CheckpointError(
        f"The checkpoint {path} holds {saved}, but {sorted(trackables)} are to be restored. It "
        "was made by another agent or configuration; use that one, or another directory."
      )
    try:
      status = tf.train.Checkpoint(**trackables).read(os.path.join(path, _TENSORS_PREFIX))
      status.assert_existing_objects_matched()
    except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
      raise CheckpointError(
        f"The checkpoint {path} does not fit these networks (another size, or a damaged file): "
        f"{error}{way_out(path)}"
      ) from error
    return document["state"]

  def _move_into_place(self, folder: str, path: str) -> None:
    if not os.path.isdir(path):
      os.rename(folder, path)
    else:
      # A folder cannot be renamed over a full one: put the old one aside first, under a name that
      # is cleaned later.
      aside = tempfile.mkdtemp(prefix=".replaced_", dir=self._directory)
      os.rename(path, os.path.join(aside, "old"))
      os.rename(folder, path)
      shutil.rmtree(aside, ignore_errors=True)
    _flush_directory(self._directory)

  def _remove_leftovers(self) -> None:
    self._put_back_replaced()
    for name in os.listdir(self._directory):
      if name.startswith((".saving_", ".replaced_")):
        shutil.rmtree(os.path.join(self._directory, name), ignore_errors=True)

  def _put_back_replaced(self) -> None:
    """Puts a checkpoint back whose replacement was killed between the two renames."""
    for name in os.listdir(self._directory):
      old = os.path.join(self._directory, name, "old")
      # Without its state file its removal had begun, hence its replacement is in place.
      whole = os.path.exists(os.path.join(old, _STATE_FILE))
      if name.startswith(".replaced_") and whole:
        path = os.path.join(self._directory, f"step_{read_state(old)['step']}")
        if not os.path.isdir(path):
          os.rename(old, path)


def complete_checkpoints(directory: str) -> list[str]:
  """Returns the complete checkpoints in a folder, oldest first; changes nothing there."""
  if not os.path.isdir(directory):
    return []
  steps = []
  for name in os.listdir(directory):
    match = _STEP_FOLDER.fullmatch(name)
    if match and is_checkpoint(os.path.join(directory, name)):
      steps.append(int(match.group(1)))
  return [os.path.join(directory, f"step_{step}") for step in sorted(steps)]


def is_checkpoint(path: str) -> bool:
  """Returns whether a folder is a checkpoint, and complete."""
  return os.path.exists(os.path.join(path, _STATE_FILE))


def restore_part(path: str, trackables: Mapping[str, Any]) -> None:
  """Reads some of a checkpoint's objects, such as the networks that act, and leaves the others.

  Args:
    path: the folder of the checkpoint.
    trackables: the objects to restore, by the names under which they were saved.

  Raises:
    CheckpointError: if the checkpoint is damaged, or lacks one of the objects, or one of them has
      variables that are missing there or of another shape there.
  """
  import tensorflow as tf

  saved = read_state(path)["trackables"]
  missing = sorted(set(trackables) - set(saved))
  if missing:
    raise CheckpointError(f"The checkpoint {path} holds {saved}; {missing} are not among them.")
  try:
    status = tf.train.Checkpoint(**trackables).read(os.path.join(path, _TENSORS_PREFIX))
    status.assert_existing_objects_matched().expect_partial()
  except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
    raise CheckpointError(
      f"The networks do not fit the checkpoint {path} (other observations, actions or layers, or a "
      f"damaged file): {error}"
    ) from error


def _step_of(path: str) -> int:
  return int(os.path.basename(path).partition("_")[2])


def way_out(path: str) -> str:
  """Returns what a user can do about a damaged checkpoint, to end a message with.

  Args:
    path: the folder of the checkpoint, among the others of its run.
  """
  directory, name = os.path.split(path)
  if not _STEP_FOLDER.fullmatch(name):
    return ""
  older = [p for p in Checkpointer(directory or ".").paths() if _step_of(p) < _step_of(path)]
  outcome = f"go on from {older[-1]}" if older else "start anew"
  return f" Delete {path} to {outcome}."


def read_state(path: str) -> dict[str, Any]:
  """Reads what a checkpoint says of itself: format, step, names of its objects and the state.

  Raises:
    CheckpointError: if there is no readable checkpoint of this format at `path`.
  """
  try:
    with open(os.path.join(path, _STATE_FILE), encoding="utf-8") as file:
      document = json.load(file)
  except (OSError, ValueError) as error:
    raise CheckpointError(
      f"{path} is not a complete checkpoint: {error}.{way_out(path)}"
    ) from error
  if not isinstance(document, dict):
    raise CheckpointError(
      f"{path} is not a complete checkpoint: {_STATE_FILE} holds a {type(document).__name__}."
      f"{way_out(path)}"
    )
  if document.get("format") != FORMAT_VERSION:
    raise CheckpointError(
      f"The checkpoint {path} has format {document.get('format')}; this version reads format "
      f"{FORMAT_VERSION}."
    )
  kinds = {"step": int, "trackables": list, "state": dict}
  wrong = [name for name, kind in kinds.items() if not isinstance(document.get(name), kind)]
  if wrong:
    raise CheckpointError(
      f"{path} is not a complete checkpoint: {_STATE_FILE} has no valid {', '.join(wrong)}."
      f"{way_out(path)}"
    )
  return document


def _flush_to_disk(folder: str) -> None:
  for parent, _, names in os.walk(folder):
    for name in names:
      with open(os.path.join(parent, name), "rb") as file:
        os.fsync(file.fileno())
    _flush_directory(parent)


def _flush_directory(folder: str) -> None:
  descriptor = os.open(folder, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
