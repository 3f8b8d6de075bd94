"""How much memory this process may still take: what the machine has, or what its group allows."""

import pathlib
from typing import Optional

# Limit and use of the control group of this process, in its second and its first version.
_GROUPS = (
  ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
  ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_bytes(root: str = "/") -> int:
  """Returns the bytes that can be taken before the machine, or a container's limit, is exhausted.

  Args:
    root: the folder that holds `proc` and `sys`.
  """
  folder = pathlib.Path(root)
  available = _machine_bytes(folder)
  for limit_name, used_name in _GROUPS:
    limit, used = _number(folder / limit_name), _number(folder / used_name)
    if limit is not None and used is not None:
      available = min(available, max(0, limit - used))
  return available


def _machine_bytes(folder: pathlib.Path) -> int:
  for line in (folder / "proc/meminfo").read_text().splitlines():
    if line.startswith("MemAvailable:"):
      return int(line.split()[1]) * 1024
  raise OSError(f"{folder / 'proc/meminfo'} has no line MemAvailable.")


def _number(path: pathlib.Path) -> Optional[int]:
  """Returns the number that a file holds; None if there is no such file or it says `max`."""
  try:
    return int(path.read_text())
  except (OSError, ValueError):
    return None
