"""`--config.field=value` for the frozen dataclass that configures an agent."""

from collections.abc import Mapping, Sequence
import dataclasses
import difflib
import enum
import re
import typing
from typing import Any

from absl import flags
from ml_collections import config_flags

_FLAG = re.compile(r"^--?(?:no)?config\.([^=]*)")
_WHOLE = re.compile(r"^--?config(=|$)")
_NONE = "none"
_BOOLEANS = ("true", "false", "t", "f", "1", "0")


class ConfigError(ValueError):
  """A value on the command line is refused; the message says what is allowed."""


def define(config: Any, argv: Sequence[str], flag_values: flags.FlagValues) -> list[str]:
  """Defines one flag `--config.<field>` for every field of `config` that `argv` sets.

  The flags come from ml_collections. It writes into the object that it is given and knows neither
  None, tuples of one type, nor enumeration values, so it is given a draft with a text for each
  field; `read` turns the texts into values.

  Args:
    config: the dataclass instance that holds the values before the command line.
    argv: the command line, the program's name first.
    flag_values: where to define the flags.

  Returns:
    The command line to parse: `argv`, with `--config.flag true` joined to `--config.flag=true`.

  Raises:
    ConfigError: if `argv` names a field that does not exist or cannot be set by a flag.
  """
  hints = field_types(config)
  words = _join_booleans(argv, hints)
  for word in words[1:]:
    if _WHOLE.match(word):
      raise ConfigError(f"{word}: set one field at a time, as in --config.{next(iter(hints))}=...")
    match = _FLAG.match(word)
    if match and match.group(1) not in hints:
      raise ConfigError(_unknown(match.group(1), config, hints))
    if match and hints[match.group(1)] is bool and "=" in word:
      # absl would refuse it too, without naming the field's type.
      parse(match.group(1), bool, word.partition("=")[2])
  draft_type = dataclasses.make_dataclass(
    "Draft",
    [
      (name, bool if hint is bool else str, dataclasses.field(default=_draft(config, name)))
      for name, hint in hints.items()
    ],
  )
  config_flags.DEFINE_config_dataclass(
    "config", draft_type(), flag_values=flag_values, sys_argv=list(words)
  )
  return words


def read(config: Any, flag_values: flags.FlagValues) -> Any:
  """Returns `config` with the values that the parsed command line gives.

  Args:
    config: what `define` was given.
    flag_values: the parsed flags.

  Raises:
    ConfigError: if a value is not of its field's type, or the dataclass itself refuses it.
  """
  hints = field_types(config)
  drafts = config_flags.get_override_values(flag_values["config"])
  values = {name: parse(name, hints[name], text) for name, text in drafts.items()}
  try:
    return dataclasses.replace(config, **values)
  except ValueError as error:
    raise ConfigError(f"The agent's config is refused: {error}") from error


def given(flag_values: flags.FlagValues) -> frozenset[str]:
  """Returns the names of the fields that the parsed command line sets."""
  return frozenset(config_flags.get_override_values(flag_values["config"]))


def field_types(config: Any) -> dict[str, Any]:
  """Returns the type of each field that a flag can set: numbers, texts, enumerations, tuples."""
  hints = typing.get_type_hints(type(config))
  names = [field.name for field in dataclasses.fields(config) if field.init]
  return {name: hints[name] for name in names if _settable(hints[name])}


def parse(name: str, hint: Any, text: Any) -> Any:
  """Turns the text of a flag into a value of the field's type.

  Args:
    name: the field, for the message.
    hint: its type: bool, int, float, str, an enumeration, a tuple of one of these, or Optional.
    text: what the command line says; a bool is passed through, absl has read it already.

  Raises:
    ConfigError: if the text is no such value; names field, text and type.
  """
  if isinstance(text, bool):
    return text
  inner, optional = _unwrap(hint)
  if optional and text.strip().lower() == _NONE:
    return None
  try:
    return _parse_one(inner, text.strip())
  except (ValueError, OverflowError):  # An integer written 1e400 is infinite.
    raise ConfigError(
      f"--config.{name}={text}: {text!r} is not {describe(hint)}, which this field takes."
    ) from None


def describe(hint: Any) -> str:
  """Returns a field's type in words, such as "an integer or none"."""
  inner, optional = _unwrap(hint)
  if typing.get_origin(inner) is tuple:
    element = typing.get_args(inner)[0]
    example = "(128,128)" if element is int else "(a,b)"
    words = f"a tuple of {element.__name__} such as {example!r}"
  elif isinstance(inner, type) and issubclass(inner, enum.Enum):
    words = "one of " + ", ".join(str(member.value) for member in inner)
  else:
    words = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}[inner]
  return f"{words} or none" if optional else words


def to_text(value: Any) -> str:
  """Returns a field's value as one would type it on the command line."""
  if value is None:
    return _NONE
  if isinstance(value, enum.Enum):
    return str(value.value)
  if isinstance(value, tuple):
    return "(" + ",".join(to_text(item) for item in value) + ")"
  if isinstance(value, bool):
    return str(value).lower()
  return str(value)


def _parse_one(inner: Any, text: str) -> Any:
  """Parses a value that is not None; raises ValueError."""
  if typing.get_origin(inner) is tuple:
    element = typing.get_args(inner)[0]
    parts = [part.strip().strip("'\"") for part in text.strip("()[]").split(",")]
    return tuple(_parse_one(element, part) for part in parts if part)
  if inner is bool:
    if text.lower() not in _BOOLEANS:
      raise ValueError(text)
    return text.lower() in ("true", "t", "1")
  if inner is int:
    # 1e6 is how people write a million.
    number = float(text) if re.search(r"[.eE]", text) else int(text)
    if number != int(number):
      raise ValueError(text)
    return int(number)
  if isinstance(inner, type) and issubclass(inner, enum.Enum):
    for member in inner:
      if text.lower() in (str(member.value).lower(), member.name.lower()):
        return member
    raise ValueError(text)
  return inner(text)


def _unwrap(hint: Any) -> tuple[Any, bool]:
  """Splits Optional[T] into (T, True); anything else is (hint, False)."""
  if typing.get_origin(hint) is typing.Union:
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if len(arguments) == 1:
      return arguments[0], True
  return hint, False


def _settable(hint: Any) -> bool:
  inner, _ = _unwrap(hint)
  if typing.get_origin(inner) is tuple:
    inner = typing.get_args(inner)[0]
  return isinstance(inner, type) and issubclass(inner, (bool, int, float, str, enum.Enum))


def _draft(config: Any, name: str) -> Any:
  value = getattr(config, name)
  return value if isinstance(value, bool) else to_text(value)


def _join_booleans(argv: Sequence[str], hints: Mapping[str, Any]) -> list[str]:
  """Joins `--config.flag true`: absl takes the bare flag as true, and the word for a stray one."""
  words: list[str] = []
  for word in argv:
    match = _FLAG.match(words[-1]) if len(words) > 1 else None
    bare = match is not None and "=" not in words[-1] and hints.get(match.group(1)) is bool
    if bare and word.lower() in _BOOLEANS:
      words[-1] += f"={word}"
    else:
      words.append(word)
  return words


def _unknown(name: str, config: Any, hints: Mapping[str, Any]) -> str:
  """Words the refusal of a field, the nearest names first."""
  if any(field.name == name for field in dataclasses.fields(config)):
    return (
      f"--config.{name}: this field holds an object, which a flag cannot give. Set it from Python."
    )
  close = difflib.get_close_matches(name, list(hints), n=3, cutoff=0.5)
  ordered = [*close, *sorted(set(hints) - set(close))]
  hint = f" Did you mean {close[0]!r}?" if close else ""
  return f"--config.{name}: there is no such field.{hint} Fields: {', '.join(ordered)}."
