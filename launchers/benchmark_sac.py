"""Times SAC beside SBX and Stable-Baselines3: all sides in one run, in turn; prints the ratios.

Each side works in a process of its own, with the threads that suit it best by a short trial.
"""

from collections.abc import Mapping, Sequence
import contextlib
import pathlib
import statistics
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import peer_environment
from temper.launchers import sac_sides
from temper.launchers import timed_worker
from temper.launchers.command_line import Flag
from temper.launchers.sac_own_worker import OURS
from temper.launchers.sac_sides import CASES
from temper.launchers.sac_sides import Case
from temper.launchers.timed_worker import Threads

_PROGRAM = "python -m temper.launchers.benchmark_sac"
_PEER = "sac_peers"

_FLAGS: Sequence[Flag] = (
  Flag("cases", "string", ",".join(CASES), None, "Cases to run, with commas between."),
  Flag("rounds", "integer", 7, 1, "Rounds: in each, all sides are timed once, in turn."),
  Flag("turn_seconds", "float", 3.0, None, "About how long a side works in each round."),
  Flag(
    "threads",
    "string",
    "trial",
    None,
    "Threads of the sides: trial tries 1, all and pinned (to one CPU) for each and keeps the "
    "fastest; one of these or a number holds for all sides; temper=1,sbx=pinned for those named.",
  ),
  Flag(
    "peer_folder",
    "string",
    None,
    None,
    f"The peers' environment, made once; default .peers/{_PEER} beside the sources.",
  ),
  Flag("peer_python", "string", None, None, "Python 3.11 to make it with; default: one is found."),
)


def run(argv: Sequence[str]) -> int:
  """Compares as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the table is printed, whatever it says, 2 when what is asked for is refused, 1 when a
    side fails, 130 after Ctrl-C.
  """
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --cases=updates,loop --rounds=5"),
    sets_threads=False,
  )
  failures = (timed_worker.WorkerError, peer_environment.PeerError)
  return flag_table.answer(
    argv,
    lambda options: options,
    lambda options: command_line.measured(lambda: compare(options), failures),
  )


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


def compare(options: Mapping[str, Any]) -> None:
  """Times the cases that are asked for, and prints a table of each as soon as it is there.

  Args:
    options: the flags by name.

  Raises:
    ValueError: if something asked for is not possible.
    PeerError: if the peers' environment cannot be made.
    WorkerError: if a side fails.
  """
  names = options["cases"].split(",")
  if not set(names) <= set(CASES) or len(set(names)) < len(names):
    raise ValueError(f"--cases={options['cases']}: choose among {', '.join(CASES)}.")
  if not options["turn_seconds"] > 0:
    raise ValueError(f"--turn_seconds={options['turn_seconds']}: it must be above 0.")
  threads = sac_sides.threads_of(options["threads"])
  interpreter = peer_environment.prepare(
    _PEER,
    pathlib.Path(options["peer_folder"] or peer_environment.default_folder(_PEER)),
    options["peer_python"],
    oldest=(3, 11),
  )
  with contextlib.ExitStack() as cleanup:
    sides = sac_sides.Sides(
      threads, sac_sides.starter(interpreter), options["turn_seconds"], cleanup
    )
    for name in names:
      rates = sides.time(CASES[name], options["rounds"])
      print(f"\n{name}: {CASES[name].text}", flush=True)
      print(table(CASES[name], rates, sides.chosen(CASES[name])), flush=True)
    print("\n" + "\n".join(sides.versions()))


def table(case: Case, rates: Mapping[str, Sequence[float]], threads: Mapping[str, Threads]) -> str:
  """Returns the rows of a case, ours first: rate, threads, and how many times the peer's ours is.

  Args:
    case: what was timed.
    rates: of each round by side, ours included.
    threads: those of each side.
  """
  lines = [f"  {'side':8} {'a second':>9}  {'threads':8} ratio (ours / theirs) [min, max]   target"]
  for side, values in rates.items():
    row = f"  {side:8} {statistics.median(values):9.1f}  {threads[side]!s:8}"
    if side in case.targets:
      ratios = [ours / theirs for ours, theirs in zip(rates[OURS], values)]
      ratio, target = statistics.median(ratios), case.targets[side]
      verdict = "met" if ratio >= target else "MISSED"
      row += f" {ratio:6.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]   {target:.1f}x {verdict}"
    lines.append(row.rstrip())
  return "\n".join(lines)


if __name__ == "__main__":
  main()
