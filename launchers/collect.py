"""Records episodes into a new dataset: of random actions, a run's policy, or a learning agent."""

from collections.abc import Sequence
import os
import sys
from typing import Any, Optional

from absl import flags

from temper.launchers import agent_table
from temper.launchers import command_line
from temper.launchers import environment_flags
from temper.launchers import native_output
from temper.launchers import presets
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.utils.policy_kinds import PolicyKind

_PROGRAM = "python -m temper.launchers.collect"

_DEFAULT_ENVIRONMENT = "gym:Pendulum-v1"
_ENDINGS = {".npz": "npz", ".hdf5": "hdf5", ".h5": "hdf5"}
_SOURCES = ("policy", "run", "agent")
# Flags that say something of one source only.
_OF_A_SOURCE = {
  "run": ("checkpoint", "eval_policy", "beta", "num_action_samples", "noise"),
  "agent": ("preset",),
}

_FLAGS: Sequence[Flag] = (
  Flag(
    "env",
    "string",
    None,
    None,
    "Environment: gym:<id> or dm_control:<domain>:<task>; default the run's, else "
    f"{_DEFAULT_ENVIRONMENT}.",
  ),
  Flag("output", "string", None, None, "Where the dataset is to be; there must be nothing yet."),
  Flag(
    "format",
    ["npz", "hdf5", "minari", "rlds"],
    None,
    None,
    "How to store it: npz, hdf5, minari or rlds; default by the output's ending, .npz or .hdf5.",
  ),
  Flag("policy", ["random"], None, None, "Source: random, for actions uniform between the bounds."),
  Flag("run", "string", None, None, "Source: the policy of a run's folder."),
  Flag("agent", "string", None, None, "Source: an agent that learns, each training episode of it."),
  Flag("episodes", "integer", None, 1, "How many episodes to record; that, or --steps."),
  Flag("steps", "integer", None, 1, "How many steps to record; the last episode is cut there."),
  Flag("seed", "integer", 0, 0, "Seed of start states, actions, and an agent that learns."),
  Flag(
    "checkpoint",
    "string",
    None,
    None,
    "With --run: latest (the default), best, a number of steps, or the folder of a checkpoint.",
  ),
  Flag(
    "eval_policy",
    [kind.value for kind in PolicyKind],
    None,
    None,
    "With --run: how actions are taken, raw (a sample, the default), mean or boltzmann.",
  ),
  Flag("beta", "float", None, 0, "With --run: temperature of the Boltzmann policy; default 1."),
  Flag(
    "num_action_samples",
    "integer",
    None,
    1,
    "With --run: samples that the Boltzmann policy chooses among; default 16.",
  ),
  Flag("noise", "float", None, 0, "With --run: standard deviation of noise on actions in [-1, 1]."),
  Flag(
    "preset",
    "string",
    None,
    None,
    "With --agent: settings to begin from: auto (the environment's, the default), none, or a name.",
  ),
  *environment_flags.FLAGS,
)


def run(argv: Sequence[str]) -> int:
  """Records as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the dataset is written, 2 when what is asked for is refused, 1 when recording fails, 130
    or 143 when it is stopped by Ctrl-C or SIGTERM; a line says what there is then.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and records."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=(
      "",
      "examples:",
      f"  {argv[0]} --policy=random --episodes=50 --output=data/random.npz",
      f"  {argv[0]} --agent=svg0 --steps=10000 --output=data/mixed.hdf5",
      f"  {argv[0]} --run=runs/pendulum --noise=0.2 --episodes=20 --output=data/noisy.npz",
    ),
  )
  try:
    early = flag_table.peek(argv)
    base = None
    if early["agent"] is not None:
      env = early["env"] or _DEFAULT_ENVIRONMENT
      preset = presets.find(early["agent"], env, early["preset"] or "auto")
      base = agent_table.find(early["agent"]).config_class(**preset.config)
    if early["help"] or early["helpfull"]:
      print(flag_table.help(argv[0], base if early["helpfull"] else None))
      return 0
    stop.check()
    values, agent_config, _ = flag_table.read(argv, base)
    _check(values)
  except (flags.Error, ValueError) as error:
    return command_line.refuse(error)
  with native_output.held_back():
    return _collect(values, agent_config, stop)


def _check(values: dict[str, Any]) -> None:
  """Refuses what does not go together, before anything slow is loaded."""
  given = [name for name in _SOURCES if values[name] is not None]
  if len(given) != 1:
    found = f"{' and '.join(f'--{name}' for name in given)} are given" if given else "none is given"
    raise ValueError(
      f"{found}; exactly one source of episodes is needed: --policy=random, --run=<folder> or "
      "--agent=<name>."
    )
  for source, names in _OF_A_SOURCE.items():
    stray = [name for name in names if values[name] is not None]
    if stray and given[0] != source:
      raise ValueError(f"--{stray[0]} is for --{source}; the source is --{given[0]}. Leave it out.")
  if (values["episodes"] is None) == (values["steps"] is None):
    raise ValueError("Say how much to record: give --episodes or --steps, one of them.")
  if not values["output"]:
    raise ValueError("--output is missing: say where the dataset is to be.")
  ending = os.path.splitext(values["output"])[1]
  values["format"] = values["format"] or _ENDINGS.get(ending)
  if values["format"] is None:
    raise ValueError(
      f"--output={values['output']} does not tell the format: end it with one of "
      f"{', '.join(_ENDINGS)}, or give --format=npz|hdf5|minari|rlds."
    )


def _collect(values: dict[str, Any], agent_config: Any, stop: stopping.StopSignal) -> int:
  """Records and words the outcome."""
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.launchers import collection
  from temper.launchers import outcomes
  from temper.utils import checkpointing
  from temper.utils import datasets

  command_line.set_threads(values["intra_op_threads"])
  try:
    source, environment, options = _source(values, agent_config)
    config = collection.CollectionConfig(
      environment=environment,
      environment_options=options,
      output=values["output"],
      format=datasets.DatasetFormat(values["format"]),
      parts=(collection.Part(source, episodes=values["episodes"], steps=values["steps"]),),
      seed=values["seed"],
    )
    collected = collection.collect(config, stop)
  except stopping.StopRequested as request:
    print(f"{request}; nothing was recorded, and nothing is written.", file=sys.stderr)
    return request.exit_code
  except KeyboardInterrupt:  # A second Ctrl-C.
    print("Aborted; nothing is written.", file=sys.stderr)
    return 130
  except (outcomes.TrainingFailed, checkpointing.CheckpointError, ImportError) as error:
    return command_line.fail(error)
  except ValueError as error:
    return command_line.refuse(error)
  print(collected.summary)
  if collected.stop is not None:
    print(f"{collected.stop}; the episodes until then are all there is in it.", file=sys.stderr)
    return collected.stop.exit_code
  return 0


def _source(values: dict[str, Any], agent_config: Any) -> "tuple[Any, str, dict[str, Any]]":
  """Returns the source, and the environment's name and options."""
  from temper.agents import policies
  from temper.launchers import episode_sources
  from temper.launchers import run_loading

  environment = values["env"]
  options = environment_flags.environment_options(values)
  if values["run"] is not None:
    choice = policies.PolicyChoice(
      PolicyKind(values["eval_policy"] or PolicyKind.RAW),
      beta=_or(values["beta"], 1.0),
      num_action_samples=_or(values["num_action_samples"], 16),
    )
    run_source = episode_sources.RunSource(
      values["run"], values["checkpoint"], choice, _or(values["noise"], 0.0)
    )
    found = run_loading.environment_source(run_source.saved.record, environment, options)
    if found is None:
      raise ValueError(f"{values['run']} was trained without an environment. Give --env.")
    return run_source, str(found.maker), dict(found.options)
  environment = environment or _DEFAULT_ENVIRONMENT
  if values["agent"] is not None:
    builder = agent_table.find(values["agent"]).builder_class(agent_config)
    return episode_sources.LearningSource(builder), environment, options
  return episode_sources.RandomSource(), environment, options


def _or(value: Optional[Any], default: Any) -> Any:
  return default if value is None else value


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
