"""Sorts runs into groups whose curves are averaged, and names the groups."""

from collections.abc import Mapping, Sequence
import difflib
import os
from typing import Any

from temper.launchers import run_directory
from temper.utils.logged_runs import LoggedRun

SETTINGS = "settings"
DIRECTORY = "directory"
PARENT = "parent"

# Letters; where settings need more, the names of folders say it better.
_LONGEST_NAME = 48


def group_runs(runs: Sequence[LoggedRun], by: str) -> dict[str, list[LoggedRun]]:
  """Sorts runs into groups.

  Args:
    runs: the runs.
    by: "settings" for runs that differ in nothing but the seed, "directory" for each run alone,
      "parent" for those that lie in one folder, or what of a run's record must be equal, such as
      `agent`, `environment`, `config.sigma` or `run.steps`.

  Returns:
    The runs by the name of their group, in the order in which they were given.

  Raises:
    ValueError: if a record lacks what is asked for, or a group would mix environments, or steps of
      environments with steps of learners.
  """
  keys: list[Any]
  if by == SETTINGS:
    keys = [_settings(run) if run.record else run.path for run in runs]
    names = _name_settings(list(dict.fromkeys(keys)), runs, keys)
  elif by == DIRECTORY:
    keys = [run.path for run in runs]
    names = {path: _tail(path, runs) for path in keys}
  elif by == PARENT:
    keys = [os.path.dirname(os.path.abspath(run.path)) for run in runs]
    names = {path: os.path.basename(path) for path in keys}
    if len(set(names.values())) < len(names):
      names = {path: path for path in keys}
  else:
    keys = [_entry(run, by) for run in runs]
    names = {key: key if by in ("agent", "environment") else f"{_short(by)}={key}" for key in keys}
  groups: dict[str, list[LoggedRun]] = {}
  for run, key in zip(runs, keys):
    groups.setdefault(names[key], []).append(run)
  for name, members in groups.items():
    _check_alike(name, members)
  return groups


def _check_alike(name: str, members: Sequence[LoggedRun]) -> None:
  """Refuses to average what cannot be compared."""
  environments = sorted({str(run.record.get("environment")) for run in members if run.record})
  if len(environments) > 1:
    raise ValueError(
      f"The group {name!r} has runs on {' and '.join(environments)}, whose returns cannot be "
      "averaged. Leave --group_by out, or give fewer runs."
    )
  if len({run.offline for run in members}) > 1:
    raise ValueError(
      f"The group {name!r} has runs that act and runs that learn from a dataset. Leave --group_by "
      "out, or give runs of one sort."
    )


def flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """Returns the entries of a record and of the records inside, each by its path with dots."""
  flat: dict[str, Any] = {}
  for name, value in record.items():
    if isinstance(value, Mapping):
      flat.update(flatten(value, f"{prefix}{name}."))
    else:
      flat[prefix + name] = value
  return flat


def _settings(run: LoggedRun) -> tuple[tuple[str, str], ...]:
  """Returns what makes a run the run it is, without its seed."""
  identity = {
    name: run.record.get(name, absent)
    for name, absent in run_directory.IDENTITY.items()
    if name != "seed"
  }
  return tuple(sorted((name, _text(value)) for name, value in flatten(identity).items()))


def _text(value: Any) -> str:
  """Writes a setting so that equal numbers, such as 0, 0.0 and -0.0, read alike."""
  if isinstance(value, (int, float)) and not isinstance(value, bool):
    return f"{float(value) + 0.0:.12g}"
  return str(value)


def _name_settings(
  groups: Sequence[Any], runs: Sequence[LoggedRun], keys: Sequence[Any]
) -> dict[Any, str]:
  """Names groups by their agent and by what differs between them, else by their folders."""
  folders = {
    group: _folder_name([run.path for run, key in zip(runs, keys) if key == group])
    for group in groups
  }
  settings = {group: dict(group) for group in groups if not isinstance(group, str)}
  names = {**folders, **{group: _differing(own, settings) for group, own in settings.items()}}
  if any(len(names[group]) > _LONGEST_NAME for group in settings):
    names = folders
  if len(set(names.values())) == len(names):
    return names
  firsts = {group: runs[list(keys).index(group)].path for group in groups}
  return {group: _tail(path, runs) for group, path in firsts.items()}


def _differing(own: Mapping[str, str], settings: Mapping[Any, Mapping[str, str]]) -> str:
  """Names the agent, and the settings in which others of the same agent differ."""
  rivals = [other for other in settings.values() if other.get("agent") == own.get("agent")]
  parts = [
    value.partition(":")[2] or value if name == "environment" else f"{_short(name)}={value}"
    for name, value in own.items()
    if any(rival.get(name) != value for rival in rivals)
  ]
  return ", ".join([own.get("agent", "?"), *parts])


def _short(path: str) -> str:
  """Leaves the outermost part out of the name of a setting."""
  return path.removeprefix("config.").removeprefix("environment_options.")


def _folder_name(paths: Sequence[str]) -> str:
  """Returns what the names of the folders of a group have in common, without the seed."""
  common = os.path.commonprefix([os.path.basename(os.path.abspath(path)) for path in paths])
  if len(paths) == 1:
    return common
  return common.rstrip("0123456789_-. ").removesuffix("seed").rstrip("_-. ") or common or paths[0]


def _tail(path: str, runs: Sequence[LoggedRun]) -> str:
  """Returns the last part of a path, all of it where another run ends alike."""
  last = os.path.basename(os.path.abspath(path))
  alike = [run for run in runs if os.path.basename(os.path.abspath(run.path)) == last]
  return last if len(alike) == 1 else path


def _entry(run: LoggedRun, by: str) -> str:
  """Returns an entry of a run's record as text."""
  if not run.record:
    raise ValueError(
      f"{run.path} has no config.json, so its {by} is not known. Use --group_by={DIRECTORY} or "
      f"--group_by={PARENT}."
    )
  flat = flatten(run.record)
  if by not in flat:
    close = difflib.get_close_matches(by, flat, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(
      f"--group_by={by}: {run.path} has no such setting.{hint} Use {SETTINGS}, {DIRECTORY}, "
      f"{PARENT}, or one of {', '.join(sorted(flat))}."
    )
  return _text(flat[by])
