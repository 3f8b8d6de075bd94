"""What lies at a path: a run, a checkpoint, an exported policy or a dataset, and what it holds."""

from collections.abc import Mapping
import fcntl
import json
import os
from typing import Any, Optional

from temper.launchers import run_reading
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils import run_loggers

_METADATA = "metadata.json"


def describe(path: str) -> dict[str, Any]:
  """Returns what a path holds, as `json.dump` accepts it; `kind` says what it is.

  Raises:
    ValueError: if it is nothing that is known, or damaged.
    CheckpointError: if it is a damaged checkpoint.
    ImportError: if it is a dataset whose format needs a package that is not installed.
  """
  if not os.path.exists(path):
    raise ValueError(
      f"{path} does not exist. Give a run, a checkpoint, an exported policy or a dataset."
    )
  if os.path.exists(RunDirectory(path).config):
    return describe_run(RunDirectory(path))
  if checkpointing.is_checkpoint(path):
    return _describe_checkpoint(path)
  inside = run_reading.runs_inside(path)
  if inside:
    raise ValueError(f"{path} holds runs; give one of them: {', '.join(inside)}.")
  metadata = _policy_metadata(path)
  if metadata is not None:
    return _describe_policy(path, metadata)
  return _describe_dataset(path)


def describe_run(directory: RunDirectory) -> dict[str, Any]:
  """Returns what a run's folder holds.

  Raises:
    ValueError: if its config.json cannot be read.
    CheckpointError: if its newest checkpoint cannot be.
  """
  record = run_reading.read_record(directory)
  paths = checkpointing.complete_checkpoints(directory.checkpoints)
  counts = _counts(paths[-1]) if paths else {}
  result = _read_json(directory.result) or {}
  asked = (record.get("run") or {}).get("steps")
  rows = {
    name: run_loggers.read_csv(os.path.join(directory.logs, f"{name}.csv"))
    for name in run_loggers.ONLINE_FILES
  }
  newest_evaluations = {row["mode"]: row for row in rows["evaluation"] if "mode" in row}
  return {
    "kind": "run",
    "path": directory.path,
    "title": result.get("title") or f"{record['agent']} on {record['environment']}",
    "agent": record["agent"],
    "environment": record["environment"],
    "environment_options": record.get("environment_options") or {},
    "dataset": record.get("dataset_path"),
    "seed": record.get("seed"),
    "state": _state(directory, counts, asked, result),
    "steps": counts.get("steps", 0),
    "steps_asked_for": asked,
    "episodes": counts.get("episodes"),
    "wall_seconds": counts.get("wall_seconds"),
    "early_stop": (result.get("early_stop") or {}).get("outcome"),
    "checkpoints": [_checkpoint_entry(path) for path in paths],
    "best_checkpoints": {
      mode: _checkpoint_entry(path)
      for mode, path in run_reading.best_checkpoints(directory).items()
    },
    "newest_evaluations": list(newest_evaluations.values()),
    "evaluations": len(rows["evaluation"]),
    "further_evaluations": _further_evaluations(directory),
    "newest_rows": {name: found[-1] for name, found in rows.items() if found},
    "files": _files(directory.path),
    "bytes": size_of(directory.path),
    "command": record.get("command"),
    "versions": record.get("versions") or {},
  }


def size_of(path: str) -> int:
  """Returns the bytes of a file, or of all files below a folder; what vanishes counts nothing."""
  if not os.path.isdir(path):
    return _size(path)
  return sum(_size(os.path.join(parent, n)) for parent, _, names in os.walk(path) for n in names)


def _size(path: str) -> int:
  try:
    return os.lstat(path).st_size
  except OSError:
    return 0


def _state(
  directory: RunDirectory, counts: Mapping[str, Any], asked: Any, result: Mapping[str, Any]
) -> str:
  """Returns "running", "finished" or "unfinished"."""
  if _is_claimed(directory.path):
    return "running"
  steps = counts.get("steps", 0)
  stopped_early = (result.get("early_stop") or {}).get("step") == steps
  done = asked is not None and steps >= asked
  return "finished" if result and (done or stopped_early) else "unfinished"


def _is_claimed(path: str) -> bool:
  """Returns whether another process runs in a folder, see `RunDirectory.claim`."""
  try:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
  except OSError:
    return False
  try:
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:  # A file system that has no locks.
    return False
  finally:
    os.close(descriptor)
  return False


def _counts(checkpoint: str) -> dict[str, Any]:
  """Returns the counts of the run at a checkpoint."""
  found = checkpointing.read_state(checkpoint)["state"].get("run")
  return found if isinstance(found, dict) else {}


def _checkpoint_entry(path: str) -> dict[str, Any]:
  document = checkpointing.read_state(path)
  entry = {"step": document["step"], "path": path, "bytes": size_of(path)}
  if "mean_return" in document["state"]:
    entry["mean_return"] = document["state"]["mean_return"]
  return entry


def _further_evaluations(directory: RunDirectory) -> list[dict[str, Any]]:
  """Returns those that the evaluate program wrote into the run's folder."""
  folder = os.path.join(directory.path, "evaluations")
  found = []
  for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
    result = _read_json(os.path.join(folder, name, "result.json"))
    if result is not None:
      wanted = ("policy_in_words", "step", "environment", "episodes", "mean", "low", "high")
      found.append({"name": name, **{key: result.get(key) for key in wanted}})
  return found


def _files(path: str) -> list[dict[str, Any]]:
  return [
    {"name": name, "bytes": size_of(os.path.join(path, name))}
    for name in sorted(os.listdir(path))
    if not name.startswith(".")
  ]


def _describe_checkpoint(path: str) -> dict[str, Any]:
  document = checkpointing.read_state(path)
  return {
    "kind": "checkpoint",
    "path": path,
    "format": document["format"],
    "step": document["step"],
    "objects": document["trackables"],
    "counts": {
      name: value for name, value in _counts(path).items() if isinstance(value, (int, float))
    },
    "replay_bytes": size_of(os.path.join(path, "replay")),
    "bytes": size_of(path),
  }


def _policy_metadata(path: str) -> Optional[dict[str, Any]]:
  """Returns the metadata of an exported policy; None if the folder is none."""
  metadata = _read_json(os.path.join(path, _METADATA))
  if metadata is None or "canonical_action" not in metadata:
    return None  # Datasets have a file of that name too.
  return metadata


def _describe_policy(path: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
  copied = ("format", "agent", "environment", "seed", "observation", "action", "functions")
  return {
    "kind": "policy",
    "path": path,
    **{name: metadata.get(name) for name in copied},
    "temper_version": metadata.get("temper_version"),
    "files": _files(path),
    "bytes": size_of(path),
  }


def _describe_dataset(path: str) -> dict[str, Any]:
  from temper.utils import datasets  # Slow to load.

  try:
    dataset = datasets.open_dataset(path)
  except datasets.DatasetError as error:
    raise ValueError(
      f"{path} is no run (it has no config.json), no checkpoint (no state.json), no exported "
      f"policy (no {_METADATA} of one), and no dataset: {error}"
    ) from error
  first = dataset.read(0)
  observation = first.observation
  shapes = (
    {str(key): _form(leaf) for key, leaf in observation.items()}
    if isinstance(observation, dict)
    else _form(observation)
  )
  return {
    "kind": "dataset",
    **datasets.summarise(dataset).as_dict(),
    "observation": shapes,
    "action": _form(first.action),
    "bytes": size_of(dataset.path),
  }


def _form(steps: Any) -> str:
  """Returns dtype and shape of one step's value."""
  return f"{steps.dtype.name} {list(steps.shape[1:])}"


def _read_json(path: str) -> Optional[dict[str, Any]]:
  try:
    with open(path, encoding="utf-8") as file:
      found = json.load(file)
  except (OSError, ValueError):
    return None
  return found if isinstance(found, dict) else None
