"""Trains an agent on an environment by one command; the same command resumes."""

from collections.abc import Sequence
import os
import re
import sys
import textwrap
from typing import Any, Optional

from absl import flags

from temper.launchers import agent_table
from temper.launchers import command_line
from temper.launchers import environment_flags
from temper.launchers import launch_flags
from temper.launchers import learner_flags
from temper.launchers import native_output
from temper.launchers import presets
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.launchers.distributed.launch_config import LaunchKind
from temper.launchers.early_stop import EarlyStop
from temper.utils.policy_kinds import PolicyKind

_PROGRAM = "python -m temper.launchers.train"

# Flags that a preset may set, with what holds when neither it nor the user does.
RUNNER_DEFAULTS = {
  "steps": 20_000,
  "eval_every": 2_000,
  "log_every": 200,
  "checkpoint_every": 5_000,
  "checkpoint_minutes": 0.0,
}

# Flags that are fields of the experiment as they are.
_PASSED_ON = (
  *RUNNER_DEFAULTS,
  *("seed", "fixed_start", "eval_episodes", "gif", "strategy", "wandb_project"),
)

_EARLY_STOP_PATIENCE = 10

_FLAGS: Sequence[Flag] = (
  Flag("agent", "string", "svg0", None, f"Agent: {', '.join(agent_table.AGENTS)}."),
  Flag(
    "env",
    "string",
    "gym:Pendulum-v1",
    None,
    "Environment: gym:<id> or dm_control:<domain>:<task>.",
  ),
  Flag(
    "steps",
    "integer",
    None,
    1,
    "Environment steps of the whole run, those before a resume included.",
  ),
  Flag(
    "directory", "string", None, None, "Folder of the run; default runs/<agent>-<env>-seed<seed>."
  ),
  Flag("seed", "integer", 0, 0, "Seed of networks, actions, replay and start states."),
  Flag(
    "preset",
    "string",
    "auto",
    None,
    "Settings to begin from: auto (the environment's), none, or a name.",
  ),
  Flag("eval_every", "integer", None, 0, "Steps between evaluations while training; 0 for none."),
  Flag("eval_episodes", "integer", 20, 1, "Episodes of each evaluation at the end."),
  Flag(
    "eval_policy",
    [kind.value for kind in PolicyKind],
    PolicyKind.MEAN.value,
    None,
    "How actions are taken in evaluations: raw (a sample), mean, or boltzmann (the critic chooses "
    "among samples). At the end mean and raw are evaluated in any case.",
  ),
  Flag(
    "behaviour_policy",
    [PolicyKind.RAW.value, PolicyKind.BOLTZMANN.value],
    PolicyKind.RAW.value,
    None,
    "How actions are taken while training: raw or boltzmann.",
  ),
  Flag("beta", "float", 1.0, 0, "Temperature of the Boltzmann policies; 0 takes the best sample."),
  Flag("num_action_samples", "integer", 16, 1, "Samples that the Boltzmann policies choose among."),
  Flag("log_every", "integer", None, 1, "Steps between rows of the learner's log."),
  Flag(
    "checkpoint_every", "integer", None, 0, "Steps between checkpoints; 0 for one at the end only."
  ),
  Flag(
    "checkpoint_minutes",
    "float",
    None,
    0,
    "Minutes between checkpoints, beside those by steps; 0 for none.",
  ),
  Flag(
    "early_stop_return",
    "float",
    None,
    None,
    "Ends training when each of the last training episodes returned this or more; default never.",
  ),
  Flag("early_stop_patience", "integer", None, 1, "How many episodes those are."),
  Flag(
    "fixed_start",
    "boolean",
    False,
    None,
    "Whether all training episodes begin in the one start state of the seed; those of evaluations "
    "vary in any case.",
  ),
  *launch_flags.FLAGS,
  *learner_flags.FLAGS,
  Flag("wandb_project", "string", None, None, "Project of Weights & Biases to log to as well."),
  *environment_flags.FLAGS,
  Flag("gif", "boolean", True, None, "Whether to film an episode at the end."),
)


def run(argv: Sequence[str]) -> int:
  """Trains as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the run is finished, 2 when what is asked for is refused, 1 when training fails, 130 or
    143 when it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and trains."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    later_defaults={**RUNNER_DEFAULTS, "early_stop_patience": _EARLY_STOP_PATIENCE},
    closing=(
      "",
      *textwrap.wrap(f"presets: {presets.listed(agent_table.AGENTS)}", 98, subsequent_indent="  "),
      "",
      "example:",
      f"  {argv[0]} --env=dm_control:cartpole:swingup --steps=50000 --config.batch_size=128",
    ),
  )
  try:
    early = flag_table.peek(argv)
    if early["help"]:
      print(flag_table.help(argv[0]))
      return 0
    entry = agent_table.find(early["agent"])
    preset = presets.find(early["agent"], early["env"], early["preset"])
    base = entry.config_class(**preset.config)
    stop.check()
    if early["helpfull"]:
      print(flag_table.help(argv[0], base))
      return 0
    values, config, _ = flag_table.read(argv, base)
  except (flags.Error, ValueError) as error:
    return command_line.refuse(error)
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
  from temper.agents import policies
  from temper.launchers import artefacts
  from temper.launchers import experiment
  from temper.launchers import outcomes

  command = command_line.as_typed(argv)
  command_line.set_threads(values["intra_op_threads"])
  # An empty one is refused, not taken for none.
  directory = _default_directory(values) if values["directory"] is None else values["directory"]
  choice = lambda flag: policies.PolicyChoice(
    values[flag], beta=values["beta"], num_action_samples=values["num_action_samples"]
  )
  try:
    asked = experiment.ExperimentConfig(
      builder=entry.builder_class(config),
      environment=values["env"],
      environment_options=environment_flags.environment_options(values),
      directory=directory,
      agent_name=values["agent"],
      title=entry.title,
      behaviour_policy=choice("behaviour_policy"),
      eval_policy=choice("eval_policy"),
      notes={"preset": preset, "command": command},
      early_stop=_early_stop(values["early_stop_return"], values["early_stop_patience"]),
      **{name: values[name] for name in _PASSED_ON},
    )
    launch = launch_flags.launch_config(values)
  except ValueError as error:
    return command_line.refuse(error)
  if launch is not None and launch.kind is LaunchKind.VERTEX_AI:
    return launch_flags.submit(asked, launch, values)
  return outcomes.report(
    lambda: (
      experiment.run_experiment(asked, stop)
      if launch is None
      else launch_flags.run(asked, launch, stop)
    ),
    artefacts.table,
    command=command,
  )


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


def _early_stop(threshold: Optional[float], patience: Optional[int]) -> Optional[EarlyStop]:
  """Returns the early stop that is asked for, None if none is."""
  if threshold is None:
    if patience is not None:
      raise ValueError(
        f"early_stop_patience is {patience} and early_stop_return is not given: say which return "
        "the episodes must reach, as in --early_stop_return=-150."
      )
    return None
  return EarlyStop(threshold, _EARLY_STOP_PATIENCE if patience is None else patience)


def _default_directory(values: dict[str, Any]) -> str:
  name = re.sub(r"[^\w.]+", "-", f"{values['agent']}-{values['env']}-seed{values['seed']}")
  return os.path.join("runs", name)


if __name__ == "__main__":
  main()
