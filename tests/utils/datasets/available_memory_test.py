"""Tests of `temper.utils.datasets.available_memory`, on made-up `proc` and `sys` folders."""

import pytest

from temper.utils.datasets import available_memory

_MEMINFO = "MemTotal:  4096 kB\nMemFree:  512 kB\nMemAvailable:  2048 kB\n"
_V2 = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current")
_V1 = (
  "sys/fs/cgroup/memory/memory.limit_in_bytes",
  "sys/fs/cgroup/memory/memory.usage_in_bytes",
)


def _write(root, files):
  for name, text in files.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  return str(root)


@pytest.mark.parametrize(
  "files,expected",
  [
    ({}, 2048 * 1024),
    (dict(zip(_V2, ("max\n", "100\n"))), 2048 * 1024),
    (dict(zip(_V2, ("1000\n", "100\n"))), 900),
    (dict(zip(_V2, ("1000\n", "1200\n"))), 0),
    (dict(zip(_V1, ("9223372036854771712\n", "100\n"))), 2048 * 1024),
    (dict(zip(_V1, ("5000\n", "1000\n"))), 4000),
  ],
)
def test_the_least_of_machine_and_group_counts(tmp_path, files, expected):
  root = _write(tmp_path, {"proc/meminfo": _MEMINFO, **files})
  assert available_memory.available_bytes(root) == expected


def test_this_machine_has_some():
  assert available_memory.available_bytes() > 2**20


def test_a_system_that_says_nothing_is_named(tmp_path):
  root = _write(tmp_path, {"proc/meminfo": "MemTotal:  4096 kB\n"})
  with pytest.raises(OSError, match="MemAvailable"):
    available_memory.available_bytes(root)
