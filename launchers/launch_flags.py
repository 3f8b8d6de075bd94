"""Flags of a run in several processes or threads, and how they become one."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from temper.launchers import command_line
from temper.launchers.command_line import Flag
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import LaunchKind
from temper.launchers.distributed.launch_config import OnDeath

FLAGS: Sequence[Flag] = (
  Flag(
    "launch",
    [kind.value for kind in LaunchKind],
    LaunchKind.LOCAL.value,
    None,
    "What carries the run out: local (one process), local_mt (a Launchpad program of threads), "
    "local_mp (of processes) or vertex_ai (of machines).",
  ),
  Flag("num_actors", "integer", 1, 1, "Actors of a Launchpad program."),
  Flag(
    "envs_per_actor",
    "integer",
    1,
    1,
    "Environments in which each of them acts at once, by one call of its policy.",
  ),
  Flag("num_evaluators", "integer", 1, 0, "Evaluators of one; 0 for no evaluations in training."),
  Flag("num_caches", "integer", 0, 0, "Nodes of one that hold variables for the actors."),
  Flag(
    "actor_failure",
    [what.value for what in OnDeath],
    OnDeath.RESTART.value,
    None,
    "What happens when an actor is killed: restart it, continue without it, or end the run.",
  ),
  Flag(
    "learner_failure",
    [OnDeath.RESTART.value, OnDeath.END.value],
    OnDeath.RESTART.value,
    None,
    "What happens when the learner is killed: restart it from its newest checkpoint, or end the "
    "run.",
  ),
  Flag("actor_gpus", "boolean", False, None, "Whether actors and evaluators see the GPUs."),
  Flag(
    "vertex_code", "string", ".", None, "Folder of the code that vertex_ai copies to its nodes."
  ),
  Flag(
    "vertex_requirements",
    "string",
    "requirements.txt",
    None,
    "File of the packages that vertex_ai installs on its nodes.",
  ),
  Flag("vertex_gpu", "string", "t4", None, "GPUs that vertex_ai gives the nodes that ask for one."),
)

_PASSED_ON = (
  "num_actors",
  "envs_per_actor",
  "num_evaluators",
  "num_caches",
  "actor_failure",
  "learner_failure",
  "actor_gpus",
)


def launch_config(values: Mapping[str, Any]) -> Optional[LaunchConfig]:
  """Returns how the run is launched; None for one process.

  Args:
    values: of the flags, by name.

  Raises:
    ValueError: if they do not go together, or ask a run of one process for several nodes.
  """
  kind = LaunchKind(values["launch"])
  if kind is not LaunchKind.LOCAL:
    return LaunchConfig(kind=kind, **{name: values[name] for name in _PASSED_ON})
  defaults = {flag.name: flag.default for flag in FLAGS}
  given = [name for name in _PASSED_ON if values[name] != defaults[name]]
  if given:
    raise ValueError(
      f"--{given[0]} is given and --launch is local, which is one process. Add --launch=local_mp "
      "for processes or --launch=local_mt for threads."
    )
  return None


def submit(config: Any, launch: LaunchConfig, values: Mapping[str, Any]) -> int:
  """Launches an experiment on Vertex AI, which this process does not wait for.

  Args:
    config: the experiment.
    launch: its nodes.
    values: of the flags, by name.

  Returns:
    0, or 1 if it could not be launched, 2 if it is refused.
  """
  from temper.launchers.distributed import run as run_lib
  from temper.launchers.distributed import vertex

  try:
    settings = run_lib.make_settings(config, launch)
    settings.directory.open(settings.record)
    vertex.launch(
      settings,
      code_directory=values["vertex_code"],
      requirements=values["vertex_requirements"],
      gpu_type=values["vertex_gpu"],
    )
  except ImportError as error:
    return command_line.fail(error)
  except ValueError as error:
    return command_line.refuse(error)
  return 0


def run(config: Any, launch: LaunchConfig, stop: Any) -> Any:
  """Runs an experiment by a Launchpad program; see `temper.launchers.distributed.run`."""
  from temper.launchers.distributed import run as run_lib  # Loads Launchpad, which help need not.

  return run_lib.run_distributed(config, launch, stop)
