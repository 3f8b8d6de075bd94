"""Times Temper beside the installed dm-acme: both sides in one run, alternating; prints the ratio.

python -m temper.launchers.benchmark --cases=all
python -m temper.launchers.benchmark --cases=learner_small,actor --rounds=20
"""

from collections.abc import Sequence
import os
import statistics
import subprocess
import sys
import time
from typing import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app
from absl import flags
import tensorflow as tf

from temper.launchers import benchmark_boltzmann
from temper.launchers import benchmark_crr
from temper.launchers import benchmark_svg0
from temper.launchers import benchmark_windows
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.launchers.benchmark_case import Case

_CASES = flags.DEFINE_list("cases", ["all"], "Cases to run, or `all`; an unknown name lists them.")
_ROUNDS = flags.DEFINE_integer(
  "rounds", 7, "Rounds: in each, both sides are timed once, in turn.", lower_bound=1
)
_INTRA_OP_THREADS = flags.DEFINE_integer(
  "intra_op_threads",
  None,
  "Threads of one operation, for both sides; 0 leaves the choice to TensorFlow. Without the flag "
  "each case takes what suits both sides best.",
)
_FIRST_STEP_OF = flags.DEFINE_string(
  "first_step_of", None, "Internal: `SIDE,CASE` whose first step this process times."
)
_ROW_OF = flags.DEFINE_string("row_of", None, "Internal: the case that this process runs.")

CASES: dict[str, Case] = {
  **benchmark_svg0.CASES,
  **benchmark_crr.CASES,
  **benchmark_boltzmann.CASES,
}


def _time_calls(function: Callable[[], object], calls: int) -> float:
  start = time.perf_counter()
  for _ in range(calls):
    function()
  return (time.perf_counter() - start) / calls


def _time_in_turn(case: Case, rounds: int) -> dict[str, list[float]]:
  """Times both sides alternately in this process; seconds a call."""
  functions = {side: case.make(side) for side in (OURS, THEIRS)}
  for function in functions.values():
    _time_calls(function, 2)  # Traces, and fills caches.
  seconds: dict[str, list[float]] = {side: [] for side in functions}
  for _ in range(rounds):
    for side, function in functions.items():
      seconds[side].append(_time_calls(function, case.calls))
  return seconds


def _time_first_steps(name: str, rounds: int) -> dict[str, list[float]]:
  """Times first steps alternately, each in a fresh process: its first graph is traced slower."""
  beside = CASES[name].beside
  sides = {OURS: (OURS, name)}
  sides[THEIRS] = (OURS, beside) if beside else (THEIRS, name)
  seconds: dict[str, list[float]] = {label: [] for label in sides}
  for _ in range(rounds):
    for label, (side, case_name) in sides.items():
      printed = _in_own_process(f"--first_step_of={side},{case_name}", CASES[name].threads)
      seconds[label].append(float(printed.split()[-1]))
  return seconds


def _in_own_process(flag: str, threads: int) -> str:
  """Runs this module with a flag and a case's threads, and returns what it prints."""
  if _INTRA_OP_THREADS.value is not None:
    threads = _INTRA_OP_THREADS.value
  command = [sys.executable, "-m", "temper.launchers.benchmark", flag]
  command += [f"--intra_op_threads={threads}", f"--rounds={_ROUNDS.value}"]
  result = subprocess.run(command, capture_output=True, text=True, check=False)
  if result.returncode:
    raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr[-2000:]}")
  return result.stdout


def _run_case(name: str, rounds: int) -> str:
  case = CASES[name]
  # A first step of dm-acme takes most of a minute: three rounds tell enough.
  seconds = (
    _time_first_steps(name, min(rounds, 3)) if case.first_step else _time_in_turn(case, rounds)
  )
  ratios = [theirs / ours for ours, theirs in zip(seconds[OURS], seconds[THEIRS])]
  ours, theirs = (1e3 * statistics.median(seconds[side]) for side in (OURS, THEIRS))
  ratio = statistics.median(ratios)
  verdict = "met" if ratio >= case.target else "MISSED"
  return (
    f"{name:16} {ours:10.2f} ms {theirs:10.2f} ms   "
    f"{ratio:6.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]   "
    f"{case.target:5.1f}x {verdict}   {case.text}"
  )


def _main(argv: Sequence[str]) -> int:
  del argv
  if _INTRA_OP_THREADS.value:
    tf.config.threading.set_intra_op_parallelism_threads(_INTRA_OP_THREADS.value)
  if _FIRST_STEP_OF.value:
    side, name = _FIRST_STEP_OF.value.split(",")
    print(_time_calls(CASES[name].make(side), 1))
    return 0
  if _ROW_OF.value:
    own = _ROW_OF.value in benchmark_windows.SIZES
    print(benchmark_windows.row(_ROW_OF.value) if own else _run_case(_ROW_OF.value, _ROUNDS.value))
    return 0
  known = [*CASES, *benchmark_windows.SIZES]
  names = known if _CASES.value == ["all"] else _CASES.value
  unknown = [name for name in names if name not in known]
  if unknown:
    print(f"There is no case {', '.join(unknown)}; there are {', '.join(known)}.", file=sys.stderr)
    return 2
  print(f"{'case':16} {OURS:>10}    {THEIRS:>10}      ratio (theirs / ours) [min, max]   target")
  for name in names:
    # Threads are set once in a process, so each case has one of its own.
    threads = CASES[name].threads if name in CASES else 0
    print(_in_own_process(f"--row_of={name}", threads), end="", flush=True)
  return 0


def run(argv: Sequence[str]) -> int:
  """Runs the benchmark with command-line arguments and returns the exit status.

  `argv[0]` is the program's name.
  """
  flags.FLAGS(list(argv))
  return _main(argv)


def main() -> None:
  """Entry point of `python -m temper.launchers.benchmark`."""
  app.run(_main)


if __name__ == "__main__":
  main()
