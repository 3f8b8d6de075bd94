"""The folder of a run: what lies where, and whether it belongs to the run that is asked for."""

from collections.abc import Mapping
import dataclasses
import enum
import errno
import fcntl
import json
import os
from typing import Any

# What makes two runs the same run, with what holds where a config.json says nothing of it.
# Everything else there may change on a resume. The dataset is None for a run that acts. Replay of a
# distributed run keeps the rate of learning by itself, which that of one process must not.
IDENTITY: Mapping[str, Any] = {
  "agent": None,
  "environment": None,
  "environment_options": None,
  "seed": None,
  "fixed_start": False,
  "dataset": None,
  "distributed": False,
  "config": None,
}

_REPLAY_SCRATCH = ".replay_scratch"


class DirectoryError(ValueError):
  """The folder holds something else than the run that is asked for."""


@dataclasses.dataclass(frozen=True)
class RunDirectory:
  """Paths inside the folder of a run.

  Attributes:
    path: the folder.
  """

  path: str

  @property
  def config(self) -> str:
    """The run as it was asked for: agent, environment, seed, config, versions, command."""
    return os.path.join(self.path, "config.json")

  @property
  def checkpoints(self) -> str:
    """The folder of the checkpoints that a resume starts from."""
    return os.path.join(self.path, "checkpoints")

  @property
  def best(self) -> str:
    """The folder of the best checkpoints, one folder inside it for each way to act."""
    return os.path.join(self.path, "best")

  @property
  def logs(self) -> str:
    """The folder of the CSV files and TensorBoard events."""
    return os.path.join(self.path, "logs")

  @property
  def policy(self) -> str:
    """The exported policy, a SavedModel."""
    return os.path.join(self.path, "policy")

  @property
  def snapshots(self) -> str:
    """Folder of the snapshots, each a SavedModel in a folder of its name."""
    return os.path.join(self.path, "snapshots")

  @property
  def replay_scratch(self) -> str:
    """Where replay is written before it moves into a checkpoint; gone when no process runs."""
    return os.path.join(self.path, _REPLAY_SCRATCH)

  @property
  def learning_curve(self) -> str:
    """The picture of the returns."""
    return os.path.join(self.path, "learning_curve.png")

  @property
  def episode(self) -> str:
    """The film of an episode."""
    return os.path.join(self.path, "episode.gif")

  @property
  def result(self) -> str:
    """The final table in JSON."""
    return os.path.join(self.path, "result.json")

  def check(self, record: Mapping[str, Any]) -> None:
    """Refuses a folder that holds anything but the run asked for; changes nothing.

    Args:
      record: its entries named in `IDENTITY` must agree with those of the folder's config.json.

    Raises:
      DirectoryError: if the folder holds another run, or files that are no run, or something lies
        where a part of the run belongs.
    """
    if not os.path.exists(self.config):
      if os.path.exists(self.path) and (not os.path.isdir(self.path) or self._holds_anything()):
        raise DirectoryError(
          f"{self.path} exists and holds no run (there is no config.json in it), so nothing is "
          "written there. Choose another --directory."
        )
      return
    self._check_kinds()
    try:
      with open(self.config, encoding="utf-8") as file:
        found = json.load(file)
    except (OSError, ValueError) as error:
      raise DirectoryError(f"{self.config} cannot be read: {error}.") from error
    if not isinstance(found, dict):
      raise DirectoryError(
        f"{self.config} holds a {type(found).__name__}, not the record of a run. Choose another "
        "--directory."
      )
    differing = differences(found, record)
    if differing:
      listed = "\n  ".join(differing)
      raise DirectoryError(
        f"{self.path} holds a run with other settings, which cannot be resumed with these:\n"
        f"  {listed}\nAsk for the same settings, or choose another --directory."
      )

  def claim(self) -> "Claim":
    """Makes the folder and keeps other processes out of it until the claim is released.

    Raises:
      DirectoryError: if another process runs in it, or it cannot be made.
    """
    return Claim(self.path)

  def open(self, record: Mapping[str, Any]) -> None:
    """Makes the folder and writes config.json, after the same checks as `check`."""
    self.check(record)
    try:
      os.makedirs(self.path, exist_ok=True)
      write_json(self.config, record)
    except OSError as error:
      raise DirectoryError(f"{self.path} cannot be written to: {error}.") from error

  def _holds_anything(self) -> bool:
    try:
      return bool(set(os.listdir(self.path)) - {_REPLAY_SCRATCH})
    except OSError as error:
      raise DirectoryError(f"{self.path} cannot be read: {error}.") from error

  def _check_kinds(self) -> None:
    folders = (self.checkpoints, self.best, self.logs, self.policy, self.snapshots)
    files = (self.config, self.learning_curve, self.episode, self.result)
    for path in (*folders, *files):
      if os.path.lexists(path) and os.path.isdir(path) != (path in folders):
        raise DirectoryError(
          f"{path} is {'no folder' if path in folders else 'no file'}, but a run has a "
          f"{'folder' if path in folders else 'file'} there. Move it away, or choose another "
          "--directory."
        )


class Claim:
  """A folder that only this process runs in. The system ends the claim of a killed process."""

  def __init__(self, path: str):
    """Makes the folder and locks it; raises DirectoryError as `RunDirectory.claim` says."""
    self._path = path
    self._made = not os.path.exists(path)
    try:
      os.makedirs(path, exist_ok=True)
      self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
      raise DirectoryError(f"The folder {path} cannot be made or opened: {error}.") from error
    try:
      # The folder itself is locked, so that no lock file is left in it.
      fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
      # Some network file systems cannot lock a folder; a run there is the user's to keep apart.
      if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
        os.close(self._descriptor)
        raise DirectoryError(
          f"Another process is running in {path}. Wait for it or stop it, or choose another "
          "--directory."
        ) from error

  def release(self) -> None:
    """Lets others in; removes the folder if this claim made it and nothing was put into it."""
    if self._made and os.path.isdir(self._path) and not os.listdir(self._path):
      os.rmdir(self._path)
    os.close(self._descriptor)


def differences(found: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
  """Returns one line for each setting of the run's identity in which two records differ."""
  flat_found, flat_asked = (
    _flatten({name: record.get(name, absent) for name, absent in IDENTITY.items()})
    for record in (found, asked)
  )
  return [
    f"{name}: {flat_found.get(name)!r} there, {flat_asked.get(name)!r} asked for"
    for name in sorted(set(flat_found) | set(flat_asked))
    if flat_found.get(name) != flat_asked.get(name)
  ]


def _flatten(record: Mapping[str, Any]) -> dict[str, Any]:
  """Names the entries of inner records `outer.inner`, and puts all values in the terms of JSON."""
  flat: dict[str, Any] = {}
  for name, value in plain(record).items():
    if isinstance(value, dict):
      flat.update({f"{name}.{inner}": item for inner, item in value.items()})
    else:
      flat[name] = value
  return flat


def plain(record: Any) -> Any:
  """Returns a record as it will be read back from JSON: dataclasses as dicts, tuples as lists."""
  return json.loads(json.dumps(record, default=_jsonable))


def _jsonable(value: Any) -> Any:
  """Turns what configs hold into JSON terms; an object that has none becomes its type's name."""
  if isinstance(value, enum.Enum):
    return value.value
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
  if hasattr(value, "tolist"):
    return value.tolist()
  return type(value).__name__


def write_json(path: str, record: Any) -> None:
  """Writes JSON in one rename, so that a reader never sees half of it."""
  scratch = path + ".new"
  with open(scratch, "w", encoding="utf-8") as file:
    json.dump(record, file, indent=2, default=_jsonable)
    file.write("\n")
  os.replace(scratch, path)
