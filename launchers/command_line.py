"""Command lines of the programs that run an agent: flags, the agent's config, help and refusals."""

from collections.abc import Mapping, Sequence
import dataclasses
import difflib
import re
import shlex
import sys
import textwrap
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from absl import flags as absl_flags

from temper.launchers import config_flags
from temper.launchers import stopping
from temper.utils import startup

USAGE_ERROR = 2

Checked = TypeVar("Checked")


class Flag(NamedTuple):
  """A flag of a program.

  Attributes:
    name: without dashes.
    kind: "string", "integer", "float", "boolean", or the list of texts that it may be.
    default: its value when it is not given; None where the program decides later.
    lower: smallest number allowed.
    text: what the help says.
  """

  name: str
  kind: Union[str, list[str]]
  default: Any
  lower: Optional[int]
  text: str


_THREADS = Flag(
  "intra_op_threads", "integer", 1, 0, "Threads inside an operation; 0: TensorFlow's choice."
)
_HELP = Flag("help", "boolean", None, None, "Shows this text.")
_HELPFULL = Flag(
  "helpfull", "boolean", None, None, "Shows this text and the fields of the agent's config."
)


@dataclasses.dataclass(frozen=True)
class CommandLine:
  """The flags of one program, and `--config.<field>` for those of an agent's config.

  Which fields there are depends on the agent, which is a flag itself: hence `peek` comes first.

  Attributes:
    purpose: what the program does, for the help.
    flags: its flags, without those that every program has.
    later_defaults: what holds of flags whose default is None, unless a preset says otherwise.
    closing: lines that end the help.
    sets_threads: whether there is a flag of TensorFlow's threads in this process.
    has_config: whether an agent's config can be given, and shown by --helpfull.
    operand: the name, for the help, of the words that are no flags; None where such are refused.
    most_operands: how many of those there may be; None for any number.
  """

  purpose: str
  flags: Sequence[Flag]
  later_defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  closing: Sequence[str] = ()
  sets_threads: bool = True
  has_config: bool = True
  operand: Optional[str] = None
  most_operands: Optional[int] = None

  @property
  def _all(self) -> Sequence[Flag]:
    threads = (_THREADS,) if self.sets_threads else ()
    return (*self.flags, *threads, _HELP, *((_HELPFULL,) if self.has_config else ()))

  def peek(self, argv: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the program's own flags, whatever `--config` flags there are.

    Raises:
      absl_flags.Error: if a value is refused.
    """
    parsed = self._define()
    words = [word for word in argv if not re.match(r"^--?(no)?config\b", word)]
    parsed(words, known_only=True)
    return {flag.name: parsed[flag.name].value for flag in self._all}

  def read(
    self, argv: Sequence[str], config: Optional[Any] = None
  ) -> tuple[dict[str, Any], Any, frozenset[str]]:
    """Reads the whole command line.

    Args:
      argv: its words, the program's name first.
      config: the agent's config before the command line; None where no agent is configured.

    Returns:
      The values of the program's flags, with the words that are no flags as "operands" where there
      may be some; the config; and the names of its fields that were given.

    Raises:
      ValueError: if a word or a value is refused.
      absl_flags.Error: the same.
    """
    parsed = self._define()
    words = list(argv) if config is None else config_flags.define(config, argv, parsed)
    try:
      stray = parsed(words)[1:]
    except absl_flags.UnrecognizedFlagError as error:
      raise ValueError(self._unknown_flag(error.flagname)) from None
    values = {flag.name: parsed[flag.name].value for flag in self._all}
    if self.operand is not None:
      most = self.most_operands
      if most is not None and len(stray) > most:
        raise ValueError(f"{stray[most]!r} is one {self.operand} too many; give {most}.")
      values["operands"] = stray
    elif stray:
      raise config_flags.ConfigError(f"{stray[0]!r} is no flag: flags begin with --. See --help.")
    if config is None:
      return values, None, frozenset()
    return values, config_flags.read(config, parsed), config_flags.given(parsed)

  def answer(
    self,
    argv: Sequence[str],
    check: Callable[[dict[str, Any]], Checked],
    body: Callable[[Checked], int],
  ) -> int:
    """Shows the help, or refuses what is asked for, or does it; where no agent is configured.

    Args:
      argv: the words of the command line, the program's name first.
      check: makes of the flags' values what `body` is given; raises ValueError for what does not
        go together.
      body: does what is asked for.

    Returns:
      The exit code: 0 after the help, 2 after a refusal, else what `body` returns.
    """
    try:
      early = self.peek(argv)
      if early["help"] or early.get("helpfull"):
        print(self.help(argv[0]))
        return 0
      values, _, _ = self.read(argv)
      checked = check(values)
    except (absl_flags.Error, ValueError) as error:
      return refuse(error)
    return body(checked)

  def help(self, program: str, config: Optional[Any] = None) -> str:
    """Returns the help text, with the fields of `config` if it is given."""
    rows = []
    for flag in self._all:
      default = self.later_defaults.get(flag.name, flag.default)
      shown = "" if default is None else f" [{default}]"
      rows += textwrap.wrap(
        f"  --{flag.name:<22} {flag.text}{shown}",
        width=98,
        subsequent_indent=" " * 27,
        tabsize=1,
      )
    words = f" {self.operand}" if self.operand else ""
    words += f" [{self.operand} ...]" if self.operand and self.most_operands != 1 else ""
    fields, unless, about_config = "", "", []
    if self.has_config:
      fields, unless = " [--config.field=value ...]", ", unless the preset says otherwise"
      about = "  --config.<field>         A field of the agent's config; --helpfull lists them."
      about_config = ["", about]
    lines = [
      f"usage: {program}{words} [--flag=value ...]{fields}",
      "",
      self.purpose.strip(),
      "",
      f"flags [default{unless}]:",
      *rows,
      *about_config,
      *self.closing,
    ]
    if config is not None:
      lines += ["", "fields of the config, with the preset's values:"]
      for name, hint in config_flags.field_types(config).items():
        value = config_flags.to_text(config_flags.value_of(config, name))
        lines.append(f"  --config.{name}={value}  ({config_flags.describe(hint)})")
    return "\n".join(lines)

  def _define(self) -> absl_flags.FlagValues:
    """Defines the flags in a set of their own: a process may parse several command lines."""
    values = absl_flags.FlagValues()
    # Flags may follow a value: `--config.batch_size 32 --steps 100`.
    values.set_gnu_getopt(True)
    for name, kind, default, lower, text in self._all:
      if isinstance(kind, list):
        absl_flags.DEFINE_enum(name, default, kind, text, flag_values=values)
      elif kind == "integer":
        parser = _IntegerParser(lower_bound=lower)
        absl_flags.DEFINE(parser, name, default, text, values, absl_flags.ArgumentSerializer())
      elif kind == "float":
        absl_flags.DEFINE_float(name, default, text, lower_bound=lower, flag_values=values)
      elif kind == "boolean":
        flag = absl_flags.BooleanFlag(name, default, text)
        flag.parser = _BooleanParser()
        absl_flags.DEFINE_flag(flag, values)
      else:
        absl_flags.DEFINE_string(name, default, text, flag_values=values)
    return values

  def _unknown_flag(self, name: str) -> str:
    """Words the refusal of a flag, the nearest names first."""
    known = [flag.name for flag in self._all]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    ordered = [*close, *sorted(set(known) - set(close))]
    hint = f" Did you mean --{close[0]}?" if close else ""
    ordered += ["config.<field>"] if self.has_config else []
    return f"--{name}: there is no such flag.{hint} Flags: {', '.join(ordered)}."


def run_stoppable(
  argv: Sequence[str], body: Callable[[Sequence[str], stopping.StopSignal], int]
) -> int:
  """Calls a program's body; Ctrl-C and SIGTERM before it trains end it with a line and a code.

  Args:
    argv: the words of the command line, the program's name first.
    body: what to call with them and the signal, which is entered.

  Returns:
    What `body` returns, or 130 or 143.
  """
  startup.quiet()
  # From here on, so that Ctrl-C while TensorFlow loads ends the program cleanly too.
  with stopping.StopSignal() as stop:
    try:
      return body(argv, stop)
    except stopping.StopRequested as request:
      print(f"{request}; aborted before training began, nothing is changed.", file=sys.stderr)
      return request.exit_code
    except KeyboardInterrupt:  # A second Ctrl-C.
      print("Aborted; what came after the last checkpoint, if any, is lost.", file=sys.stderr)
      return 130


def measured(body: Callable[[], None], failures: tuple[type[Exception], ...]) -> int:
  """Calls what measures and prints, and words what goes wrong.

  Args:
    body: what to call; its ValueError is a refusal.
    failures: what it raises when it fails.

  Returns:
    The exit code: 0, 2 after a refusal, 1 after a failure, 130 after Ctrl-C.
  """
  try:
    body()
  except ValueError as error:
    return refuse(error)
  except failures as error:
    return fail(error)
  except KeyboardInterrupt:
    print("Aborted.", file=sys.stderr)
    return 130
  return 0


def as_typed(argv: Sequence[str]) -> str:
  """Returns a command line as one would type it again."""
  return shlex.join([*argv[0].split(), *argv[1:]])


def refuse(error: Exception) -> int:
  """Says why what is asked for is refused; returns the exit code."""
  print(f"error: {error}", file=sys.stderr)
  return USAGE_ERROR


def fail(error: Exception) -> int:
  """Says why what was begun has failed; returns the exit code."""
  print(f"error: {error}", file=sys.stderr)
  return 1


def set_threads(count: int) -> None:
  """Sets TensorFlow's threads inside one operation; too late if the process has used TensorFlow."""
  import tensorflow as tf  # Only here, so that help comes without it.

  if count == tf.config.threading.get_intra_op_parallelism_threads():
    return
  try:
    tf.config.threading.set_intra_op_parallelism_threads(count)
  except RuntimeError:
    print("--intra_op_threads has no effect: TensorFlow runs already.", file=sys.stderr)


def threads_text() -> str:
  """Says how many threads TensorFlow uses; small networks are quickest with one in an operation."""
  import tensorflow as tf

  name = lambda count: str(count) if count else "as many as there are CPUs"
  inside = name(tf.config.threading.get_intra_op_parallelism_threads())
  at_once = name(tf.config.threading.get_inter_op_parallelism_threads())
  return f"Threads: {inside} inside an operation; operations at once: {at_once}."


class _IntegerParser(absl_flags.IntegerParser):
  """absl's, with a message that says what was expected."""

  def convert(self, argument: Any) -> int:
    try:
      return super().convert(argument)
    except (TypeError, ValueError):
      raise ValueError(f"{argument!r} is not an integer.") from None


class _BooleanParser(absl_flags.BooleanParser):
  """absl's, with a message that says what was expected."""

  def parse(self, argument: Any) -> bool:
    try:
      return super().parse(argument)
    except (TypeError, ValueError):
      raise ValueError(f"{argument!r} is not true or false.") from None
