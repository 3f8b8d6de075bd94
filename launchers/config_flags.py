"""`--config.field=value` for the frozen dataclass that configures an agent.

A field may hold a dataclass of its own. `--config.field.inner=value` sets one field of that, and,
if its class has `from_text`, `--config.field=text` makes the whole.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import difflib
import enum
import re
import typing
from typing import Any, Optional

from absl import flags
from ml_collections import config_flags

_FLAG = re.compile(r"^--?(?:no)?config\.([^=]*)")
_WHOLE = re.compile(r"^--?config(=|$)")
_NONE = "none"
_BOOLEANS = ("true", "false", "t", "f", "1", "0")
# Stands for the dot between a field and one of its own in the names of the draft's fields.
_DOT = "__"


class ConfigError(ValueError):
  """A value on the command line is refused; the message says what is allowed."""


def define(config: Any, argv: Sequence[str], flag_values: flags.FlagValues) -> list[str]:
  """Defines one flag `--config.<field>` for every field of `config` that a flag can set.

  The flags come from ml_collections. It writes into the object that it is given and knows neither
  None, tuples of one type, nor enumeration values, so it is given a draft with a text for each
  field; `read` turns the texts into values.

  Args:
    config: the dataclass instance that holds the values before the command line.
    argv: the command line, the program's name first.
    flag_values: where to define the flags.

  Returns:
    The command line to parse: `argv`, with `--config.flag true` joined to `--config.flag=true`, and
    the names of inner fields as the draft has them.

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
      (
        name.replace(".", _DOT),
        bool if hint is bool else str,
        dataclasses.field(default=_draft(config, name)),
      )
      for name, hint in hints.items()
    ],
  )
  words = [_FLAG.sub(_as_drafted, word) for word in words]
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
  values = {name: parse(name, hints[name], text) for name, text in _overrides(flag_values).items()}
  whole = {name: value for name, value in values.items() if "." not in name}
  try:
    for outer in {name.partition(".")[0] for name in values if "." in name}:
      whole[outer] = _with_inner(config, outer, values)
    return dataclasses.replace(config, **whole)
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(f"The agent's config is refused: {error}") from error


def given(flag_values: flags.FlagValues) -> frozenset[str]:
  """Returns the names of the fields that the parsed command line sets, such as "a" or "a.b"."""
  return frozenset(_overrides(flag_values))


def field_types(config: Any) -> dict[str, Any]:
  """Returns the type of each field that a flag can set, by its name, such as "a" or "a.b".

  These are numbers, texts, enumerations, tuples of them, and what is made `from_text`. A field that
  holds a dataclass is followed by the fields of that, but not by theirs.
  """
  types: dict[str, Any] = {}
  for name, hint in _init_hints(type(config)).items():
    if _settable(hint):
      types[name] = hint
    inner = _inner_class(hint)
    if inner is not None:
      types.update({f"{name}.{n}": h for n, h in _init_hints(inner).items() if _settable(h)})
  return types


def value_of(config: Any, name: str) -> Any:
  """Returns the value of a field that `field_types` names; within None, the default one."""
  outer, _, inner = name.partition(".")
  value = getattr(config, outer)
  if not inner:
    return value
  return getattr(_inner_base(config, outer) if value is None else value, inner)


def parse(name: str, hint: Any, text: Any) -> Any:
  """Turns the text of a flag into a value of the field's type.

  Args:
    name: the field, for the message.
    hint: its type: bool, int, float, str, an enumeration, a tuple of one of these, a class with
      `from_text`, or Optional.
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
  elif hasattr(inner, "from_text"):
    words = inner.text_form
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
  return value.to_text() if hasattr(value, "to_text") else str(value)


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
  return inner.from_text(text) if hasattr(inner, "from_text") else inner(text)


def _unwrap(hint: Any) -> tuple[Any, bool]:
  """Splits Optional[T] into (T, True), T being the one of several that a flag can give.

  Anything else is (hint, False).
  """
  if typing.get_origin(hint) is typing.Union:
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if len(arguments) > 1:
      arguments = [argument for argument in arguments if _settable(argument)]
    if len(arguments) == 1:
      return arguments[0], type(None) in typing.get_args(hint)
  return hint, False


def _settable(hint: Any) -> bool:
  inner, _ = _unwrap(hint)
  if typing.get_origin(inner) is tuple:
    inner = typing.get_args(inner)[0]
  if not isinstance(inner, type):
    return False
  return issubclass(inner, (bool, int, float, str, enum.Enum)) or hasattr(inner, "from_text")


def _init_hints(config_type: type) -> dict[str, Any]:
  """Returns the types of the fields that a dataclass is made with."""
  hints = typing.get_type_hints(config_type)
  return {field.name: hints[field.name] for field in dataclasses.fields(config_type) if field.init}


def _inner_class(hint: Any) -> Optional[type]:
  """Returns the dataclass that a field holds, or None; one without defaults is made as a whole."""
  inner, _ = _unwrap(hint)
  if not isinstance(inner, type) or not dataclasses.is_dataclass(inner):
    return None
  missing = dataclasses.MISSING
  fields = [field for field in dataclasses.fields(inner) if field.init]
  needed = [f for f in fields if f.default is missing and f.default_factory is missing]
  return None if needed else inner


def _inner_base(config: Any, outer: str) -> Any:
  """Returns what a field's inner fields are set in, if the field itself is None: the defaults."""
  inner = _inner_class(typing.get_type_hints(type(config))[outer])
  assert inner is not None
  return inner()


def _with_inner(config: Any, outer: str, values: Mapping[str, Any]) -> Any:
  """Returns the value of a field whose inner fields the command line sets."""
  prefix = outer + "."
  inner = {name[len(prefix) :]: v for name, v in values.items() if name.startswith(prefix)}
  base = values.get(outer, getattr(config, outer))
  if base is None and outer in values:
    raise ConfigError(
      f"--config.{outer}=none leaves nothing whose {next(iter(inner))} could be set by "
      f"--config.{prefix}{next(iter(inner))}. Leave one of them out."
    )
  return dataclasses.replace(_inner_base(config, outer) if base is None else base, **inner)


def _overrides(flag_values: flags.FlagValues) -> dict[str, Any]:
  """Returns what the parsed command line sets, by field."""
  drafts = config_flags.get_override_values(flag_values["config"])
  return {name.replace(_DOT, "."): text for name, text in drafts.items()}


def _draft(config: Any, name: str) -> Any:
  value = value_of(config, name)
  return value if isinstance(value, bool) else to_text(value)


def _as_drafted(match: "re.Match[str]") -> str:
  """Writes the name of an inner field as the draft has it."""
  name = match.group(1)
  return match.group()[: -len(name)] + name.replace(".", _DOT) if name else match.group()


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
    inner = [f"--config.{other}" for other in hints if other.startswith(name + ".")]
    mend = f"its fields, {', '.join(inner)}" if inner else "it from Python"
    return f"--config.{name}: this field holds an object, which a flag cannot give. Set {mend}."
  close = difflib.get_close_matches(name, list(hints), n=3, cutoff=0.5)
  ordered = [*close, *sorted(set(hints) - set(close))]
  hint = f" Did you mean {close[0]!r}?" if close else ""
  return f"--config.{name}: there is no such field.{hint} Fields: {', '.join(ordered)}."
