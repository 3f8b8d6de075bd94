"""Makes an agent's config of what a run's config.json keeps of it."""

from collections.abc import Mapping
import dataclasses
import enum
import typing
from typing import Any

from temper.utils import startup

# Stands for an object of which config.json has the type's name alone.
_LOST = object()
_PLAIN = (bool, int, float, str)


def from_record(config_class: type[Any], record: Mapping[str, Any]) -> Any:
  """Returns the config that was written as plain JSON.

  Fields that the record lacks, since it is of an older version, take their defaults. So does a
  field whose object the record only names, such as an optimizer of one's own: what acts needs none
  of those.

  Args:
    config_class: the config's dataclass.
    record: the config as `run_directory.plain` made it.

  Raises:
    ValueError: if the record holds fields or values that this version of the config does not know.
  """
  hints = typing.get_type_hints(config_class)
  known = {field.name for field in dataclasses.fields(config_class) if field.init}
  unknown = sorted(set(record) - known)
  if unknown:
    raise ValueError(
      f"{config_class.__name__} of temper-rl {startup.version()} has no fields {unknown}: the run "
      "is of another version. Use that one."
    )
  values = {name: _value(hints[name], value) for name, value in record.items()}
  try:
    return config_class(**{name: value for name, value in values.items() if value is not _LOST})
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"{config_class.__name__} of temper-rl {startup.version()} refuses what the run was made "
      f"with: {error}"
    ) from error


def _value(hint: Any, plain: Any) -> Any:
  """Returns the value of a field of this type, `_LOST` if JSON could not hold it."""
  if plain is None:
    return None
  options = typing.get_args(hint) if typing.get_origin(hint) is typing.Union else (hint,)
  for option in options:
    if typing.get_origin(option) is tuple and isinstance(plain, list):
      return tuple(_value(typing.get_args(option)[0], item) for item in plain)
    if not isinstance(option, type):
      continue
    if dataclasses.is_dataclass(option) and isinstance(plain, dict):
      return from_record(option, plain)
    if issubclass(option, enum.Enum) or (option in _PLAIN and isinstance(plain, _PLAIN)):
      return (
        plain  # Configs take an enumeration's text, and refuse what is none with all its words.
      )
  return _LOST
