"""Checks of configuration values.

Each raises a ValueError that names the field, the value and what is allowed.
"""

from collections.abc import Sequence
import enum
import math
import numbers
from typing import Any, Optional, TypeVar

_Enum = TypeVar("_Enum", bound=enum.Enum)


def integer(name: str, value: Any, *, minimum: int, optional: bool = False) -> None:
  """Requires an integer of at least `minimum`, or None if `optional`."""
  if value is None and optional:
    return
  if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
    none = ", or None" if optional else ""
    raise ValueError(f"{name} is {value!r}; it must be an integer of at least {minimum}{none}.")


def number(
  name: str,
  value: Any,
  *,
  minimum: Optional[float] = None,
  maximum: Optional[float] = None,
  above: Optional[float] = None,
  optional: bool = False,
) -> None:
  """Requires a finite number in the given range, or None if `optional`.

  `above` is a bound that is itself excluded.
  """
  if value is None and optional:
    return
  sound = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
  sound = sound and (minimum is None or value >= minimum)
  sound = sound and (maximum is None or value <= maximum)
  sound = sound and (above is None or value > above)
  if not sound:
    limits = [
      f"of at least {minimum}" if minimum is not None else "",
      f"above {above}" if above is not None else "",
    ]
    limits.append(f"of at most {maximum}" if maximum is not None else "")
    allowed = " and ".join(limit for limit in limits if limit)
    none = ", or None" if optional else ""
    raise ValueError(
      f"{name} is {value!r}; it must be a finite number {allowed}".rstrip() + f"{none}."
    )


def text(name: str, value: Any) -> None:
  """Requires text that is not empty."""
  if not isinstance(value, str) or not value:
    raise ValueError(f"{name} is {value!r}; it must be text of at least one character.")


def member(name: str, value: Any, enumeration: type[_Enum]) -> _Enum:
  """Returns the member of an enumeration that `value` is, or whose value it is."""
  try:
    return enumeration(value)
  except ValueError:
    members = ", ".join(f"{enumeration.__name__}.{m.name} ({m.value!r})" for m in enumeration)
    raise ValueError(f"{name} is {value!r}; it must be one of {members}.") from None


def layer_sizes(name: str, value: Sequence[int]) -> None:
  """Requires positive integers, at least one."""
  sound = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
  if not sound or any(
    isinstance(v, bool) or not isinstance(v, numbers.Integral) or v < 1 for v in value
  ):
    raise ValueError(
      f"{name} is {value!r}; it must hold at least one positive integer, such as (256, 256)."
    )
