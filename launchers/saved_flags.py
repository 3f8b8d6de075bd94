"""Flags and endings that the programs share which play a run or an exported policy."""

from collections.abc import Mapping
import sys
from typing import Any, Callable

from temper.launchers import command_line
from temper.launchers import environment_flags
from temper.launchers import native_output
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.utils.policy_kinds import PolicyKind

OPERAND = "RUN_OR_POLICY"

LATER_DEFAULTS: Mapping[str, Any] = {
  "checkpoint": "latest",
  "beta": 1.0,
  "num_action_samples": 16,
}

FLAGS = (
  Flag(
    "directory",
    "string",
    None,
    None,
    "Folder of the run or exported policy, instead of the word after the command.",
  ),
  Flag(
    "checkpoint",
    "string",
    None,
    None,
    "Of a run: latest, best (by the evaluations while training), a number of steps, or a folder.",
  ),
  Flag(
    "eval_policy",
    [kind.value for kind in PolicyKind],
    PolicyKind.MEAN.value,
    None,
    "How actions are taken: mean (deterministic), raw (a sample), or boltzmann (the critic chooses "
    "among samples).",
  ),
  Flag("beta", "float", None, 0, "Temperature of the Boltzmann policy; 0 takes the best sample."),
  Flag(
    "num_action_samples", "integer", None, 1, "Samples that the Boltzmann policy chooses among."
  ),
  Flag("env", "string", None, None, "Another environment than the run's, named as for train."),
  *environment_flags.FLAGS,
)


def path_of(values: Mapping[str, Any]) -> str:
  """Returns the one folder that the command line names.

  Raises:
    ValueError: if it names none, or two.
  """
  named = [*values["operands"], *([] if values["directory"] is None else [values["directory"]])]
  if len(named) != 1 or not named[0]:
    found = " and ".join(named) or "none"
    raise ValueError(f"One folder of a run or of an exported policy is needed; {found} is given.")
  return named[0]


def choice_of(values: Mapping[str, Any]) -> Any:
  """Returns the `PolicyChoice` that the flags make.

  Raises:
    ValueError: if what is for the Boltzmann policy alone is given with another.
  """
  from temper.agents import policies  # TensorFlow, which help does without.

  given = {name: values[name] for name in ("beta", "num_action_samples")}
  if values["eval_policy"] != PolicyKind.BOLTZMANN.value:
    stray = [name for name, value in given.items() if value is not None]
    if stray:
      raise ValueError(f"--{stray[0]} is for --eval_policy=boltzmann. Add that, or leave it out.")
  defaults = {name: LATER_DEFAULTS[name] for name in given}
  chosen = {name: value for name, value in given.items() if value is not None}
  return policies.PolicyChoice(values["eval_policy"], **{**defaults, **chosen})


def opened(values: Mapping[str, Any], choice: Any) -> Any:
  """Opens what the command line names; returns a `saved_policy.Saved` that has an environment.

  Raises:
    ValueError: if it cannot be, or no environment is known.
    CheckpointError: if a checkpoint cannot be read.
  """
  from temper.launchers import saved_policy

  path = path_of(values)
  saved = saved_policy.open_saved(
    path,
    values["checkpoint"],
    kind=choice.kind,
    environment=values["env"],
    environment_options=environment_flags.environment_options(values),
  )
  if saved.source is None:
    raise ValueError(f"{path} was trained without an environment. Say where to play with --env.")
  return saved


def report(body: Callable[[], None]) -> int:
  """Calls what plays and writes; words what goes wrong, and returns the exit code.

  Args:
    body: what to call.

  Returns:
    0, 2 if what is asked for is refused, 1 if it fails, 130 or 143 if it is stopped.
  """
  from temper.utils import checkpointing
  from temper.utils import environment_wrappers
  from temper.utils import evaluation
  from temper.utils import recording

  try:
    with native_output.held_back():
      body()
  except stopping.StopRequested as request:
    print(f"{request}; nothing is written.", file=sys.stderr)
    return request.exit_code
  except KeyboardInterrupt:  # A second Ctrl-C.
    print("Aborted; nothing is written.", file=sys.stderr)
    return 130
  except (
    checkpointing.CheckpointError,
    environment_wrappers.EnvironmentFault,
    evaluation.EndlessEpisodeError,
    recording.RenderingError,
    ImportError,
    OSError,
  ) as error:
    return command_line.fail(error)
  except ValueError as error:
    return command_line.refuse(error)
  return 0
