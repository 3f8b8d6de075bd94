"""Kills a training run again and again, and checks that each start goes on where it should."""

import collections
from collections.abc import Sequence
import os
import random
import shutil
import sys
import tempfile
from typing import Any

from temper.launchers import command_line
from temper.launchers import killed_run
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.check_resume"

# How far the run goes on once the kills are over.
_STEPS_AFTER = 50

_FLAGS: Sequence[Flag] = (
  Flag("kills", "integer", 100, 1, "How often the run is killed; half of them while it saves."),
  Flag("seed", "integer", 0, 0, "Seed of the run, and of the moments."),
  Flag("agent", "string", "sac", None, "Agent, as for train."),
  Flag("checkpoint_every", "integer", 200, 10, "Steps between checkpoints, a multiple of 10."),
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
    closing=("", "example:", f"  {argv[0]} --kills=20 --agent=svg0"),
    sets_threads=False,
    has_config=False,
  )
  return flag_table.answer(argv, _checked, lambda values: _kill_and_resume(values, stop))


def _checked(values: dict[str, Any]) -> dict[str, Any]:
  if values["checkpoint_every"] % 10:
    raise ValueError(
      f"checkpoint_every is {values['checkpoint_every']}; it must be a multiple of 10."
    )
  if values["directory"] is not None and os.path.exists(values["directory"]):
    raise ValueError(f"{values['directory']} exists; give a folder that does not.")
  return values


def _kill_and_resume(values: dict[str, Any], stop: stopping.StopSignal) -> int:
  scratch = tempfile.mkdtemp(prefix="temper_check_resume_") if not values["directory"] else None
  directory = values["directory"] or os.path.join(str(scratch), "run")
  try:
    kills = _kill_all(values, directory, stop)
  except killed_run.BrokenRunError as error:
    return command_line.fail(error)  # The folder stays, to be looked at.
  if scratch is not None:
    shutil.rmtree(scratch, ignore_errors=True)
  print(table(kills))
  return 0


def _kill_all(
  values: dict[str, Any], directory: str, stop: stopping.StopSignal
) -> list[killed_run.Kill]:
  """Kills the run as often as asked for, then lets it end."""
  every, count = values["checkpoint_every"], values["kills"]
  make = lambda steps: _tiny_run(
    directory, agent=values["agent"], seed=values["seed"], steps=steps, every=every
  )
  chance = random.Random(values["seed"])
  kills = []
  # More steps than can be done between the kills.
  endless = make(10**8)
  for number, moment in enumerate(moments(count, chance), start=1):
    stop.check()
    kill = endless.kill_once(moment, chance)
    kills.append(kill)
    print(
      f"kill {number} of {count} while {moment.value}: step {kill.logged} was logged, the newest "
      f"checkpoint is of step {kill.checkpoint}{', one was half written' if kill.saving else ''}",
      file=sys.stderr,
      flush=True,
    )
  make(max(kills[-1].checkpoint, 0) + _STEPS_AFTER + every).finish()
  return kills


def _tiny_run(
  directory: str, *, agent: str, seed: int, steps: int, every: int
) -> killed_run.KilledRun:
  """Returns a run of `temper train` with tiny networks on the pendulum, not started yet.

  Args:
    directory: its folder.
    agent: one that `temper train` knows.
    seed: of the run.
    steps: environment steps of the whole run.
    every: steps between checkpoints, a multiple of 10.
  """
  log_every = every // 10
  settings = {
    "agent": agent,
    "env": "gym:Pendulum-v1",
    "preset": "none",
    "seed": seed,
    "steps": steps,
    "directory": directory,
    "eval_every": 0,
    "eval_episodes": 1,
    "log_every": log_every,
    "checkpoint_every": every,
    "gif": "false",
    "config.batch_size": 8,
    "config.policy_layer_sizes": 8,
    "config.critic_layer_sizes": 8,
    "config.min_replay_size": 50,
  }
  command = [sys.executable, "-m", "temper.launchers.train"]
  command += [f"--{name}={value}" for name, value in settings.items()]
  return killed_run.KilledRun(command, directory, every=every, log_every=log_every)


def moments(count: int, chance: random.Random) -> list[killed_run.Moment]:
  """Returns when to kill: half while saving, of the others one in five while starting."""
  others = count - count // 2
  starting = others // 5
  chosen = [killed_run.Moment.SAVING] * (count // 2) + [killed_run.Moment.STARTING] * starting
  chosen += [killed_run.Moment.TRAINING] * (others - starting)
  chance.shuffle(chosen)
  return chosen


def table(kills: Sequence[killed_run.Kill]) -> str:
  """Returns the closing table."""
  by_moment = collections.Counter(kill.moment for kill in kills)
  lost = [kill.logged - max(kill.checkpoint, 0) for kill in kills if kill.logged >= 0]
  rows = [
    ("kills", str(len(kills))),
    *((f"  while {moment.value}", str(by_moment[moment])) for moment in killed_run.Moment),
    ("checkpoints half written", str(sum(kill.saving for kill in kills))),
    ("resumes seen", str(sum(kill.resumed is not None and kill.resumed >= 0 for kill in kills))),
    ("steps lost, mean", f"{sum(lost) / len(lost):.0f}" if lost else "none"),
    ("steps lost, most", str(max(lost)) if lost else "none"),
  ]
  width = max(len(name) for name, _ in rows)
  lines = [f"{name:<{width}}  {value:>6}" for name, value in rows]
  return "\n".join([*lines, "Every start went on from the newest checkpoint; the logs are whole."])


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
