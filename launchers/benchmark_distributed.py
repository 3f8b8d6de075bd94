"""Measures distributed programs beside dm-acme's, and what they are limited by.

scaling: environment and learner steps/s against the number of actors, on a slow environment.
actor, learner: one node alone. replay: a Reverb server. variables: a source of variables.
model: what the single nodes predict, beside the measured programs, and for 1,000 actors.
"""

from collections.abc import Callable, Mapping, Sequence
import json
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import scaling_measuring
from temper.launchers import scaling_picture
from temper.launchers import scaling_tables
from temper.launchers import timed_worker
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.benchmark_distributed"

SCALING, ACTOR, LEARNER = "scaling", "actor", "learner"
REPLAY, VARIABLES, MODEL = "replay", "variables", "model"
CASES = (SCALING, ACTOR, LEARNER, REPLAY, VARIABLES, MODEL)

_FLAGS: Sequence[Flag] = (
  Flag("cases", "string", ",".join(CASES), None, "Cases to run, with commas between."),
  Flag("results", "string", "runs/scaling.json", None, "Where measurements are kept, by case."),
  Flag("num_actors", "string", "1,2,4,8", None, "Actors of the programs, with commas between."),
  Flag("environment_ms", "float", 40.0, 0, "How long a step of their environment sleeps."),
  Flag("launch", ["local_mt", "local_mp"], "local_mp", None, "How the programs are launched."),
  Flag("seconds", "float", 20.0, 1, "How long each program is measured."),
  Flag("rounds", "integer", 7, 1, "Rounds of a node: in each, both sides are timed, in turn."),
  Flag("turn_seconds", "float", 3.0, None, "About how long a node or a client works each time."),
  Flag("picture", "string", None, None, "With the model: .png or .svg of points and prediction."),
)


def run(argv: Sequence[str]) -> int:
  """Measures as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the tables are printed, whatever they say, 2 when what is asked for is refused, 1 when a
    worker fails or a package is missing, 130 after Ctrl-C.
  """
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --cases=actor,learner --rounds=5"),
    sets_threads=False,
    has_config=False,
  )
  failures = (timed_worker.WorkerError, ImportError)
  return flag_table.answer(
    argv,
    lambda options: options,
    lambda options: command_line.measured(lambda: measure(options), failures),
  )


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


def measure(options: Mapping[str, Any]) -> None:
  """Measures the cases that are asked for, keeps what was measured, and prints the tables.

  Args:
    options: the flags by name.

  Raises:
    ValueError: if something asked for is not possible.
    WorkerError: if a worker fails.
    ImportError: if a picture is asked for and matplotlib is missing.
  """
  cases = options["cases"].split(",")
  if not set(cases) <= set(CASES) or len(set(cases)) < len(cases):
    raise ValueError(f"--cases={options['cases']}: choose among {', '.join(CASES)}.")
  if not options["turn_seconds"] > 0:
    raise ValueError(f"--turn_seconds={options['turn_seconds']}: it must be above 0.")
  picture = options["picture"]
  if picture is not None and not (MODEL in cases and picture.endswith((".png", ".svg"))):
    raise ValueError(f"--picture={picture}: it needs the case {MODEL}, and ends in .png or .svg.")
  measures, results = _measures(options), _read(options["results"])
  for case in cases:
    if case != MODEL:
      results[case] = measures[case]()
      _write(options["results"], results)
    print("\n" + "\n".join(table(case, results)), flush=True)
  if picture is not None:
    scaling_picture.draw(results, picture)


def table(case: str, results: Mapping[str, Any]) -> list[str]:
  """Returns the lines of a case's table.

  Args:
    case: one of `CASES`.
    results: what was measured, by case.

  Raises:
    ValueError: if the model lacks a case.
  """
  if case in (ACTOR, LEARNER):
    target = scaling_tables.ACTOR_TARGET if case == ACTOR else None
    return scaling_tables.node(case, results[case], target)
  if case == MODEL:
    return scaling_tables.model(results)
  tables: Mapping[str, Callable[[Any], list[str]]] = {
    SCALING: scaling_tables.scaling,
    REPLAY: scaling_tables.replay,
    VARIABLES: scaling_tables.variables,
  }
  return tables[case](results[case])


def _measures(options: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
  """Returns what measures each case."""
  counts = options["num_actors"].split(",")
  if not all(count.isdecimal() and int(count) > 0 for count in counts):
    raise ValueError(f"--num_actors={options['num_actors']}: numbers from 1, commas between.")
  rounds, turn = options["rounds"], options["turn_seconds"]
  return {
    SCALING: lambda: scaling_measuring.measure_scaling(
      [int(count) for count in counts],
      options["environment_ms"] / 1e3,
      options["launch"],
      options["seconds"],
      _say,
    ),
    ACTOR: lambda: scaling_measuring.measure_node(ACTOR, rounds, turn, _say),
    LEARNER: lambda: scaling_measuring.measure_node(LEARNER, rounds, turn, _say),
    REPLAY: lambda: scaling_measuring.measure_replay(turn, _say),
    VARIABLES: lambda: scaling_measuring.measure_variables(rounds, turn, _say),
  }


def _say(text: str) -> None:
  print(text, file=sys.stderr, flush=True)


def _read(path: str) -> dict[str, Any]:
  if not os.path.exists(path):
    return {}
  try:
    with open(path, encoding="utf-8") as file:
      return json.load(file)
  except json.JSONDecodeError as error:
    raise ValueError(f"--results={path} is no file of measurements: {error}") from error


def _write(path: str, results: Mapping[str, Any]) -> None:
  os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
  with open(f"{path}.new", "w", encoding="utf-8") as file:
    json.dump(results, file, indent=1)
  os.replace(f"{path}.new", path)


if __name__ == "__main__":
  main()
