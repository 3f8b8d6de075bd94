"""Trains an agent on an environment by one command; the same command resumes."""

from collections.abc import Sequence
import difflib
import os
import re
import shlex
import sys
import textwrap
from typing import Any, Optional

from absl import flags

from temper.launchers import agent_table
from temper.launchers import config_flags
from temper.launchers import native_output
from temper.launchers import presets
from temper.launchers import stopping
from temper.utils import startup

_PROGRAM = "python -m temper.launchers.train"
_USAGE_ERROR = 2

# Flags that a preset may set, with what holds when neither it nor the user does.
RUNNER_DEFAULTS = {
  "steps": 20_000,
  "eval_every": 2_000,
  "log_every": 200,
  "checkpoint_every": 5_000,
}

# Name, kind, default, lower bound, help.
_FLAGS: Sequence[tuple[str, str, Any, Optional[int], str]] = (
  ("agent", "string", "svg0", None, f"Agent: {', '.join(agent_table.AGENTS)}."),
  (
    "env",
    "string",
    "gym:Pendulum-v1",
    None,
    "Environment: gym:<id> or dm_control:<domain>:<task>.",
  ),
  (
    "steps",
    "integer",
    None,
    1,
    "Environment steps of the whole run, those before a resume included.",
  ),
  ("directory", "string", None, None, "Folder of the run; default runs/<agent>-<env>-seed<seed>."),
  ("seed", "integer", 0, 0, "Seed of networks, actions, replay and start states."),
  (
    "preset",
    "string",
    "auto",
    None,
    "Settings to begin from: auto (the environment's), none, or a name.",
  ),
  ("eval_every", "integer", None, 0, "Steps between evaluations while training; 0 for none."),
  ("eval_episodes", "integer", 20, 1, "Episodes of each evaluation at the end."),
  ("log_every", "integer", None, 1, "Steps between rows of the learner's log."),
  ("checkpoint_every", "integer", None, 0, "Steps between checkpoints; 0 for one at the end only."),
  ("max_episode_steps", "integer", None, 1, "Truncates episodes, for environments that never end."),
  (
    "infinite_action_scale",
    "float",
    None,
    None,
    "Range to use of action dimensions without bounds.",
  ),
  ("gif", "boolean", True, None, "Whether to film an episode at the end."),
  ("intra_op_threads", "integer", 1, 0, "Threads inside one operation; 0 for TensorFlow's choice."),
  ("help", "boolean", None, None, "Shows this text."),
  ("helpfull", "boolean", None, None, "Shows this text and the fields of the agent's config."),
)


def run(argv: Sequence[str]) -> int:
  """Trains as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the run is finished, 2 when what is asked for is refused, 1 when training fails, 130 or
    143 when it is stopped by Ctrl-C or SIGTERM.
  """
  startup.quiet()
  # From here on, so that Ctrl-C while TensorFlow loads ends the program cleanly too.
  with stopping.StopSignal() as stop:
    try:
      return _run(argv, stop)
    except stopping.StopRequested as request:
      print(f"{request}; aborted before training began, nothing is changed.", file=sys.stderr)
      return request.exit_code
    except KeyboardInterrupt:  # A second Ctrl-C.
      print("Aborted; what came after the last checkpoint, if any, is lost.", file=sys.stderr)
      return 130


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and trains."""
  try:
    early = _define_flags()
    # Which fields `--config` has depends on the agent, which is a flag itself: hence two passes.
    early([word for word in argv if not re.match(r"^--?(no)?config\b", word)], known_only=True)
    if early["help"].value:
      print(_help(argv[0]))
      return 0
    agent, env, name = (str(early[flag].value) for flag in ("agent", "env", "preset"))
    entry = agent_table.find(agent)
    preset = presets.find(agent, env, name)
    base = entry.config_class(**preset.config)
    stop.check()
    if early["helpfull"].value:
      print(_help(argv[0], base))
      return 0
    parsed = _define_flags()
    words = config_flags.define(base, argv, parsed)
    stray = parsed(words)[1:]
    if stray:
      raise config_flags.ConfigError(f"{stray[0]!r} is no flag: flags begin with --. See --help.")
    values = {name: parsed[name].value for name, *_ in _FLAGS}
    config = config_flags.read(base, parsed)
  except flags.UnrecognizedFlagError as error:
    return _refuse(ValueError(_unknown_flag(error.flagname)))
  except (flags.Error, ValueError) as error:
    return _refuse(error)
  for name, value in {**RUNNER_DEFAULTS, **preset.runner}.items():
    values[name] = value if values[name] is None else values[name]
  with native_output.held_back():
    return _train(argv, entry, preset.name, config, values, stop)


def _train(
  argv: Sequence[str],
  entry: agent_table.AgentEntry,
  preset: str,
  config: Any,
  values: dict[str, Any],
  stop: stopping.StopSignal,
) -> int:
  """Runs the experiment and words its outcome."""
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.launchers import artefacts
  from temper.launchers import experiment
  from temper.utils import checkpointing

  command = shlex.join([*argv[0].split(), *argv[1:]])
  _set_threads(values["intra_op_threads"])
  # An empty one is refused, not taken for none.
  directory = _default_directory(values) if values["directory"] is None else values["directory"]
  options = {
    name: values[name]
    for name in ("max_episode_steps", "infinite_action_scale")
    if values[name] is not None
  }
  try:
    asked = experiment.ExperimentConfig(
      builder=entry.builder_class(config),
      environment=values["env"],
      environment_options=options,
      directory=directory,
      agent_name=values["agent"],
      title=entry.title,
      notes={"preset": preset, "command": command},
      **{name: values[name] for name in (*RUNNER_DEFAULTS, "seed", "eval_episodes", "gif")},
    )
  except ValueError as error:
    return _refuse(error)
  try:
    result = experiment.run_experiment(asked, stop)
  except experiment.SettingsError as error:
    return _refuse(error)
  except (experiment.TrainingFailed, checkpointing.CheckpointError, ImportError) as error:
    print(f"error: {error}", file=sys.stderr)
    return 1
  if result.stop is not None:
    print(
      f"{result.stop} at step {result.steps:,}; all is saved in {result.checkpoint}.\n"
      f"Resume with: {command}",
      file=sys.stderr,
    )
    return result.stop.exit_code
  print(artefacts.table(result.summary))
  return 0


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


class _IntegerParser(flags.IntegerParser):
  """absl's, with a message that says what was expected."""

  def convert(self, argument: Any) -> int:
    try:
      return super().convert(argument)
    except (TypeError, ValueError):
      raise ValueError(f"{argument!r} is not an integer.") from None


class _BooleanParser(flags.BooleanParser):
  """absl's, with a message that says what was expected."""

  def parse(self, argument: Any) -> bool:
    try:
      return super().parse(argument)
    except (TypeError, ValueError):
      raise ValueError(f"{argument!r} is not true or false.") from None


def _unknown_flag(name: str) -> str:
  """Words the refusal of a flag, the nearest names first."""
  known = [known for known, *_ in _FLAGS]
  close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
  ordered = [*close, *sorted(set(known) - set(close))]
  hint = f" Did you mean --{close[0]}?" if close else ""
  return f"--{name}: there is no such flag.{hint} Flags: {', '.join(ordered)}, config.<field>."


def _define_flags() -> flags.FlagValues:
  """Defines the flags in a set of their own, so that a process may parse several command lines."""
  values = flags.FlagValues()
  # Flags may follow a value: `--config.batch_size 32 --steps 100`.
  values.set_gnu_getopt(True)
  for name, kind, default, lower, text in _FLAGS:
    if kind == "integer":
      parser = _IntegerParser(lower_bound=lower)
      flags.DEFINE(parser, name, default, text, values, flags.ArgumentSerializer())
    elif kind == "float":
      flags.DEFINE_float(name, default, text, flag_values=values)
    elif kind == "boolean":
      flag = flags.BooleanFlag(name, default, text)
      flag.parser = _BooleanParser()
      flags.DEFINE_flag(flag, values)
    else:
      flags.DEFINE_string(name, default, text, flag_values=values)
  return values


def _help(program: str, config: Optional[Any] = None) -> str:
  """Returns the help text, with the fields of `config` if it is given."""
  rows = []
  for name, _, default, _, text in _FLAGS:
    default = RUNNER_DEFAULTS.get(name, default)
    shown = "" if default is None else f" [{default}]"
    rows += textwrap.wrap(
      f"  --{name:<22}{text}{shown}", width=98, subsequent_indent=" " * 26, tabsize=1
    )
  lines = [
    f"usage: {program} [--flag=value ...] [--config.field=value ...]",
    "",
    __doc__.strip(),
    "",
    "flags [default, unless the preset says otherwise]:",
    *rows,
    "",
    "  --config.<field>        A field of the agent's config; --helpfull lists them.",
    "",
    "presets: "
    + "; ".join(f"{agent}: {', '.join(presets.names(agent))}" for agent in agent_table.AGENTS),
    "",
    "example:",
    f"  {program} --env=dm_control:cartpole:swingup --steps=50000 --config.batch_size=128",
  ]
  if config is not None:
    lines += ["", "fields of the config, with the preset's values:"]
    for name, hint in config_flags.field_types(config).items():
      value = config_flags.to_text(getattr(config, name))
      lines.append(f"  --config.{name}={value}  ({config_flags.describe(hint)})")
  return "\n".join(lines)


def _default_directory(values: dict[str, Any]) -> str:
  name = re.sub(r"[^\w.]+", "-", f"{values['agent']}-{values['env']}-seed{values['seed']}")
  return os.path.join("runs", name)


def _set_threads(count: int) -> None:
  """Sets TensorFlow's threads inside one operation; too late if the process has used TensorFlow."""
  import tensorflow as tf

  if count == tf.config.threading.get_intra_op_parallelism_threads():
    return
  try:
    tf.config.threading.set_intra_op_parallelism_threads(count)
  except RuntimeError:
    print("--intra_op_threads has no effect: TensorFlow runs already.", file=sys.stderr)


def _refuse(error: Exception) -> int:
  print(f"error: {error}", file=sys.stderr)
  return _USAGE_ERROR


if __name__ == "__main__":
  main()
