"""Kills random nodes of a distributed run, and checks that it still learns and leaves nothing."""

import collections
from collections.abc import Sequence
import os
import random
import shutil
import sys
import tempfile
from typing import Any

from temper.launchers import command_line
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.launchers.distributed import killed_program

_PROGRAM = "python -m temper.launchers.check_distributed"

_FLAGS: Sequence[Flag] = (
  Flag("kills", "integer", 20, 1, "How often a random node is killed."),
  Flag("seed", "integer", 0, 0, "Seed of the run, and of what is killed when."),
  Flag("agent", "string", "svg0", None, "Agent, as for train, with its preset for the pendulum."),
  Flag("steps", "integer", 20_000, 100, "Environment steps of the run."),
  Flag("num_actors", "integer", 2, 1, "Actors of the run."),
  Flag("target", "float", -200.0, None, "Mean return that the run must reach."),
  Flag("checkpoint_every", "integer", 1_000, 10, "Steps between checkpoints."),
  Flag(
    "directory",
    "string",
    None,
    None,
    "Folder of the run, which must not exist; default one that is removed if all is well.",
  ),
)


def run(argv: Sequence[str]) -> int:
  """Kills and checks as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when all held, 1 when something did not, 2 when what is asked for is refused, 130 or 143 when
    it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line, kills and checks."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --kills=5 --steps=8000"),
    sets_threads=False,
    has_config=False,
  )
  return flag_table.answer(argv, _checked, lambda values: _kill_and_finish(values, stop))


def _checked(values: dict[str, Any]) -> dict[str, Any]:
  if values["directory"] is not None and os.path.exists(values["directory"]):
    raise ValueError(f"{values['directory']} exists; give a folder that does not.")
  return values


def _kill_and_finish(values: dict[str, Any], stop: stopping.StopSignal) -> int:
  scratch = tempfile.mkdtemp(prefix="temper_check_distributed_")
  directory = values["directory"] or os.path.join(scratch, "run")
  program = killed_program.KilledProgram(
    _command(values, directory), directory, every=values["checkpoint_every"]
  )
  try:
    kills = _kill_all(program, values, stop)
    mean = program.finish(values["target"])
  except killed_program.BrokenProgramError as error:
    return command_line.fail(error)  # The folder stays, to be looked at.
  finally:
    program.close()
  shutil.rmtree(scratch, ignore_errors=True)
  print(table(kills, program.num_launches, mean, values["target"]))
  return 0


def _kill_all(
  program: killed_program.KilledProgram, values: dict[str, Any], stop: stopping.StopSignal
) -> list[killed_program.Kill]:
  """Kills as often as asked for, spread over the run."""
  chance = random.Random(values["seed"])
  count, steps = values["kills"], values["steps"]
  kills = []
  for number in range(count):
    stop.check()
    # The last tenth is without kills, for there must be something left to kill.
    at = int(0.9 * steps * (number + chance.random()) / count)
    kill = program.kill_one(at, chance, check_stop=stop.check)
    kills.append(kill)
    print(
      f"kill {number + 1} of {count}: {kill.name} at step {kill.step:,}; {kill.consequence}",
      file=sys.stderr,
      flush=True,
    )
  return kills


def _command(values: dict[str, Any], directory: str) -> list[str]:
  settings = {
    "agent": values["agent"],
    "env": "gym:Pendulum-v1",
    "seed": values["seed"],
    "steps": values["steps"],
    "directory": directory,
    "launch": "local_mp",
    "num_actors": values["num_actors"],
    "checkpoint_every": values["checkpoint_every"],
    "gif": "false",
    # An actor's share of an episode: the default suits runs of many more steps.
    "config.variable_update_period": 20,
  }
  command = [sys.executable, "-m", "temper.launchers.train"]
  return command + [f"--{name}={value}" for name, value in settings.items()]


def table(
  kills: Sequence[killed_program.Kill], num_launches: int, mean: float, target: float
) -> str:
  """Returns the closing table.

  Args:
    kills: what was killed.
    num_launches: how often the program was launched, the first time included.
    mean: mean return at the end.
    target: what it had to reach.
  """
  by_name = collections.Counter(kill.name for kill in kills)
  rows = [
    ("kills", str(len(kills))),
    *((f"  of {name}", str(count)) for name, count in sorted(by_name.items())),
    ("launches", str(num_launches)),
    ("mean return", f"{mean:.1f}"),
    ("target", f"{target:.1f}"),
  ]
  width = max(len(name) for name, _ in rows)
  lines = [f"{name:<{width}}  {value:>8}" for name, value in rows]
  return "\n".join([*lines, "No process was left over, and the logs are whole."])


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
