"""Trains an agent from a dataset on disk by one command; the same command resumes."""

from collections.abc import Mapping, Sequence
import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from absl import flags

from temper.launchers import agent_table
from temper.launchers import command_line
from temper.launchers import environment_flags
from temper.launchers import learner_flags
from temper.launchers import native_output
from temper.launchers import presets
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.utils.policy_kinds import PolicyKind

if TYPE_CHECKING:
  from temper.agents import policies

_PROGRAM = "python -m temper.launchers.train_offline"

# Flags that a preset may set, with what holds when neither it nor the user does.
RUNNER_DEFAULTS = {
  "steps": 10_000,
  "eval_every": 1_000,
  "log_every": 100,
  "checkpoint_every": 2_000,
  "checkpoint_minutes": 0.0,
}

# Flags that are fields of the experiment by the same names.
_PASSED_ON = (
  *("seed", "eval_episodes", "eval_episodes_training"),
  *("normalise_observations", "gif", "strategy", "wandb_project"),
)

_AUTO = "auto"
_NONE = "none"
_FORMATS = ("npz", "hdf5", "minari", "rlds")

_FLAGS: Sequence[Flag] = (
  Flag("dataset", "string", None, None, "Path of the dataset, or id of an installed Minari one."),
  Flag(
    "format",
    [_AUTO, *_FORMATS],
    _AUTO,
    None,
    f"How it is stored: {', '.join(_FORMATS)}; auto finds out from the files.",
  ),
  Flag("agent", "string", "crr", None, "Agent; crr is made for this."),
  Flag(
    "env",
    "string",
    _AUTO,
    None,
    "Where to evaluate: gym:<id> or dm_control:<domain>:<task>; auto takes the one that the "
    "dataset names, if it does; none evaluates nothing.",
  ),
  Flag(
    "steps", "integer", None, 1, "Learner steps of the whole run, those before a resume included."
  ),
  Flag(
    "directory",
    "string",
    None,
    None,
    "Folder of the run; default runs/<agent>-<dataset>-seed<seed>.",
  ),
  Flag(
    "seed", "integer", 0, 0, "Seed of networks, order of the data, the learner's draws, actions."
  ),
  Flag(
    "preset",
    "string",
    "auto",
    None,
    "Settings to begin from: auto (the environment's), none, or a name.",
  ),
  Flag(
    "normalise_observations",
    "boolean",
    False,
    None,
    "Whether networks normalise observations by the data's mean and standard deviation.",
  ),
  Flag(
    "eval_policy",
    "string",
    ",".join(kind.value for kind in (PolicyKind.MEAN, PolicyKind.RAW, PolicyKind.BOLTZMANN)),
    None,
    "How actions are taken in evaluations, one or several: mean of the policy, raw (a sample), "
    "boltzmann (the critic chooses among samples).",
  ),
  Flag("beta", "float", None, 0, "Temperature of boltzmann, 0 for the best; default config.beta."),
  Flag("num_action_samples", "integer", 16, 1, "Samples that boltzmann chooses among."),
  Flag("eval_every", "integer", None, 0, "Steps between evaluations while training; 0 for none."),
  Flag("eval_episodes", "integer", 20, 1, "Episodes of each evaluation at the end."),
  Flag("eval_episodes_training", "integer", 5, 1, "Episodes of each one while training."),
  Flag("log_every", "integer", None, 1, "Steps between rows of the learner's log."),
  Flag("checkpoint_every", "integer", None, 0, "Steps between checkpoints; 0 for one at the end."),
  Flag(
    "checkpoint_minutes",
    "float",
    None,
    0,
    "Minutes between checkpoints, beside those by steps; 0 for none.",
  ),
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
  """Answers what needs no TensorFlow at once, and trains."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    later_defaults=RUNNER_DEFAULTS,
    closing=(
      "",
      "The critic's vmin and vmax are set from the data's returns unless --config.vmin or",
      "--config.vmax says otherwise.",
      "",
      *textwrap.wrap(f"presets: {presets.listed(agent_table.AGENTS)}", 98, subsequent_indent="  "),
      "",
      "example:",
      f"  {argv[0]} --dataset=data/pendulum.npz --env=gym:Pendulum-v1 --steps=5000",
    ),
  )
  try:
    early = flag_table.peek(argv)
    if early["help"]:
      print(flag_table.help(argv[0]))
      return 0
    entry = agent_table.find(early["agent"])
    if early["helpfull"]:
      preset = presets.find(early["agent"], early["env"], early["preset"])
      print(flag_table.help(argv[0], entry.config_class(**preset.config)))
      return 0
    if not early["dataset"]:
      raise ValueError("--dataset is missing: the path of the dataset to learn from.")
  except (flags.Error, ValueError) as error:
    return command_line.refuse(error)
  stop.check()
  with native_output.held_back():
    command_line.set_threads(early["intra_op_threads"])
    return _train(argv, flag_table, early, entry, stop)


def _train(
  argv: Sequence[str],
  flag_table: command_line.CommandLine,
  early: Mapping[str, Any],
  entry: agent_table.AgentEntry,
  stop: stopping.StopSignal,
) -> int:
  """Opens the dataset, reads the whole command line, runs, and words the outcome."""
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.launchers import artefacts
  from temper.launchers import offline_experiment
  from temper.launchers import offline_experiment_config
  from temper.launchers import outcomes
  from temper.utils.datasets import opening

  command = command_line.as_typed(argv)
  try:
    dataset = opening.open_dataset(
      early["dataset"], None if early["format"] == _AUTO else early["format"]
    )
    stop.check()
    environment = early["env"]
    if environment == _AUTO:
      environment = dataset.environment_name or _NONE
    family = environment if environment != _NONE else dataset.environment_name
    preset = presets.find(early["agent"], family or "", early["preset"])
    values, config, given = flag_table.read(argv, entry.config_class(**preset.config))
    for name, value in {**RUNNER_DEFAULTS, **preset.offline}.items():
      values[name] = value if values[name] is None else values[name]
    asked = offline_experiment_config.OfflineExperimentConfig(
      builder_class=entry.builder_class,
      config=config,
      dataset=dataset,
      environment=None if environment == _NONE else environment,
      environment_options=environment_flags.environment_options(values),
      # An empty one is refused, not taken for none.
      directory=_default_directory(values) if values["directory"] is None else values["directory"],
      values_from_data=tuple(
        name for name in ("vmin", "vmax") if name not in given and name not in preset.config
      ),
      agent_name=values["agent"],
      title=entry.title,
      eval_policies=_policies(values, config),
      notes={"preset": preset.name, "command": command, "dataset_path": values["dataset"]},
      **{name: values[name] for name in (*RUNNER_DEFAULTS, *_PASSED_ON)},
    )
  except (flags.Error, ValueError) as error:
    return command_line.refuse(error)
  except ImportError as error:
    return command_line.fail(error)
  print(_about_environment(early["env"], environment), file=sys.stderr)
  return outcomes.report(
    lambda: offline_experiment.run_offline_experiment(asked, stop),
    artefacts.offline_table,
    command=command,
  )


def _policies(values: Mapping[str, Any], config: Any) -> "tuple[policies.PolicyChoice, ...]":
  """Returns the policies to evaluate, in the order that the user gave.

  Raises:
    ValueError: if a name is none, or a number is out of its range.
  """
  from temper.launchers import offline_experiment_config

  possible = {
    choice.kind.value: choice
    for choice in offline_experiment_config.default_policies(
      config, beta=values["beta"], num_action_samples=values["num_action_samples"]
    )
  }
  names = [name.strip() for name in values["eval_policy"].split(",")]
  unknown = [name for name in names if name not in possible]
  if unknown:
    raise ValueError(
      f"eval_policy has {unknown[0]!r}; choose among {', '.join(possible)}, with commas between."
    )
  return tuple(possible[name] for name in names)


def _about_environment(flag: str, environment: str) -> str:
  """Says which environment is taken, and why."""
  if environment != _NONE:
    source = "as the dataset says" if flag == _AUTO else "as --env says"
    return f"Evaluating in {environment}, {source}."
  if flag == _AUTO:
    return "The dataset names no environment, so that nothing is evaluated; --env=gym:<id> adds it."
  return "Nothing is evaluated, as --env=none says."


def _default_directory(values: Mapping[str, Any]) -> str:
  stem = os.path.splitext(os.path.basename(os.path.normpath(values["dataset"])))[0]
  name = re.sub(r"[^\w.]+", "-", f"{values['agent']}-{stem}-seed{values['seed']}")
  return os.path.join("runs", name)


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
