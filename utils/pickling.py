"""Finds what keeps an object from being sent to another process, and names it."""

from collections.abc import Iterator, Mapping
import dataclasses
import inspect
from typing import Any

import cloudpickle

_MAX_DEPTH = 8


class NotPicklableError(ValueError):
  """An object cannot be sent to another process; the message names it and what is wrong in it."""


def check(name: str, value: Any) -> None:
  """Checks that an object can be sent to another process.

  Args:
    name: how a message calls the object.
    value: the object.

  Raises:
    NotPicklableError: if it cannot; names the innermost part of it that cannot.
  """
  error = _error_of(value)
  if not error:
    return
  path, culprit = name, value
  for _ in range(_MAX_DEPTH):
    inner = next(((label, part) for label, part in _parts(culprit) if _error_of(part)), None)
    if inner is None:
      break
    path, culprit = path + inner[0], inner[1]
  raise NotPicklableError(
    f"{path} is a {type(culprit).__name__} ({_short(culprit)}) and cannot be sent to another "
    f"process: {_error_of(culprit) or error}. Make it inside of the function that uses it, or "
    "launch with local_mt, which sends nothing."
  )


def _error_of(value: Any) -> str:
  """Returns what is wrong with an object, empty if nothing is."""
  try:
    cloudpickle.dumps(value)
  except Exception as error:  # Whatever an object's own methods raise.
    return f"{type(error).__name__}: {error}"
  return ""


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
  """Yields an object's parts, each with how to write it behind the object's own name."""
  if isinstance(value, Mapping):
    yield from ((f"[{key!r}]", part) for key, part in value.items())
  elif isinstance(value, (list, tuple, set, frozenset)):
    yield from ((f"[{index}]", part) for index, part in enumerate(value))
  elif dataclasses.is_dataclass(value) and not isinstance(value, type):
    yield from ((f".{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value))
  elif inspect.ismethod(value):
    yield ".__self__", value.__self__
  elif inspect.isfunction(value):
    closed_over = inspect.getclosurevars(value)
    for kind, variables in (("variable", closed_over.nonlocals), ("global", closed_over.globals)):
      yield from ((f"'s {kind} {key}", part) for key, part in variables.items())
    yield from ((f"'s default {i}", part) for i, part in enumerate(value.__defaults__ or ()))
  elif hasattr(value, "__dict__"):
    yield from ((f".{key}", part) for key, part in vars(value).items())


def _short(value: Any) -> str:
  text = repr(value)
  return text if len(text) <= 80 else text[:77] + "..."
