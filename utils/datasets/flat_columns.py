"""Which of a file's flat arrays plays which role."""

from collections.abc import Iterable
import dataclasses
from typing import Any

import tree

from temper.utils.datasets import checking
from temper.utils.datasets.episodes import DatasetError

# What the roles are called elsewhere, in lower case.
_SYNONYMS = {
  "observations": ("observation", "obs", "states", "state"),
  "actions": ("action", "acts", "act"),
  "rewards": ("reward", "rews", "rew"),
  "terminals": ("terminal", "terminations", "termination", "terminated", "dones", "done"),
  "timeouts": ("timeout", "truncations", "truncation", "truncated"),
  "next_observations": ("next_observation", "next_obs", "obs_next", "next_states", "next_state"),
  "extras": (),
}
_OPTIONAL = ("timeouts", "next_observations", "extras")
_NESTED = ("observations", "next_observations", "extras")
_MEND = {
  "terminals": "It is True where an episode terminated, and all False if none ever does.",
}


@dataclasses.dataclass(frozen=True)
class Columns:
  """The names of the arrays that play each role.

  Attributes:
    keys: role -> name, or nested names for the roles that may be nested. An optional role that no
      array plays is missing.
    notes: what was found under other names, and what is not used.
  """

  keys: dict[str, Any]
  notes: tuple[str, ...]

  @classmethod
  def find(cls, path: str, names: Iterable[str]) -> "Columns":
    """Finds the roles of arrays by their names; parts of a name are joined by '/'.

    Raises:
      DatasetError: if a role is missing or two arrays could play it.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name in sorted(names):
      _insert(groups, path, name)
    keys, notes, used = {}, [], set()
    for role, synonyms in _SYNONYMS.items():
      found = [group for group in groups if group == role]
      found = found or [group for group in groups if group.lower() in (role, *synonyms)]
      if len(found) > 1:
        raise DatasetError(
          f"{path}: {' and '.join(map(repr, found))} could both be the {role}. Name the right one "
          f"{role!r}."
        )
      if not found and role not in _OPTIONAL:
        known = ", ".join((role, *synonyms))
        raise DatasetError(
          f"{path}: there is no {role!r}, only {sorted(groups)}. Names that are understood: "
          f"{known}. {_MEND.get(role, '')}".rstrip()
        )
      for group in found:
        used.add(group)
        keys[role] = checking.names_to_tuples(groups[group])
        single = isinstance(keys[role], str)
        if single if role == "extras" else not single and role not in _NESTED:
          raise DatasetError(f"{path}: {group!r} must be {_form(role)}.")
        if group != role:
          notes.append(f"{group!r} read as {role!r}")
    unused = sorted(set(groups) - used)
    if unused:
      notes.append(f"not used: {', '.join(unused)}")
    return cls(keys, tuple(notes))

  def key_of(self, role: str) -> str:
    """Returns the file's name of a role, or of the group of its arrays."""
    return tree.flatten(self.keys[role])[0].split("/")[0]


def _insert(groups: dict[str, Any], path: str, name: str) -> None:
  """Adds `name` to the nested dict of names at the place that its parts say."""
  *parents, last = name.split("/")
  group = groups
  for parent in parents:
    group = group.setdefault(parent, {})
    # Names come sorted, so an array comes before what would be inside it.
    if not isinstance(group, dict):
      raise DatasetError(f"{path}: {group!r} is an array, so {name!r} cannot be a part of it.")
  group[last] = name


def _form(role: str) -> str:
  """Returns what an array or group of that role has to be."""
  return "a group of arrays, 'extras/<name>'" if role == "extras" else "one array, not several"
