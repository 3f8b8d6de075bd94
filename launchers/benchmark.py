"""Times Temper beside the installed dm-acme: both sides in one run, alternating; prints the ratio.

python -m temper.launchers.benchmark --cases=all
python -m temper.launchers.benchmark --cases=learner_small,actor --rounds=20
"""

from collections.abc import Sequence
import dataclasses
import os
import statistics
import subprocess
import sys
import time
from typing import Callable, Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app
from absl import flags
import tensorflow as tf

from temper.launchers import benchmark_svg0 as svg0

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

_SMALL = svg0.LearnerSize(batch_size=32, policy_layer_sizes=(64, 64), critic_layer_sizes=(64, 64))
_PRIOR = svg0.LearnerSize(prior_layer_sizes=(200, 100))
# As many rows as 256 sequences of 10: what differs is the length of the sequence, not the
# arithmetic.
_LONG = dataclasses.replace(_PRIOR, batch_size=32, sequence_length=80)

_Maker = Callable[[str, svg0.LearnerSize], Callable[[], object]]


@dataclasses.dataclass(frozen=True)
class Case:
  """One row of the benchmark.

  Attributes:
    text: what is timed.
    size: sizes of networks and batch.
    target: ratio to be reached, dm-acme's time over ours.
    calls: calls timed in one round.
    make: makes one side's function; None times first steps, each in a process of its own.
    threads: of one operation: what suits both sides best on two cores; 0 is TensorFlow's choice.
    beside: for first steps, what ours is timed beside: dm-acme at the same size, or our own first
      step of another case.
  """

  text: str
  size: svg0.LearnerSize
  target: float
  calls: int = 1
  make: Optional[_Maker] = None
  threads: int = 0
  beside: Optional[str] = None


CASES: dict[str, Case] = {
  "learner_default": Case(
    "learner step, default networks, batch 256, 10+1, no prior",
    svg0.LearnerSize(),
    1.5,
    1,
    svg0.make_learner_step,
  ),
  "learner_prior": Case("the same with a prior", _PRIOR, 1.0, 1, svg0.make_learner_step),
  "learner_small": Case(
    "learner step, 64-64 networks, batch 32", _SMALL, 2.5, 20, svg0.make_learner_step, threads=1
  ),
  "actor": Case(
    "one action with log density, batch 1",
    svg0.LearnerSize(),
    25.0,
    100,
    svg0.make_actor_step,
    threads=1,
  ),
  "first_step": Case(
    "first learner step, tracing included, with prior, batch 256, 10+1", _PRIOR, 8.0
  ),
  "first_step_long": Case(
    "first learner step with prior, batch 32, 80+1, beside our own of first_step",
    _LONG,
    1 / 1.5,
    beside="first_step",
  ),
}


def _time_calls(function: Callable[[], object], calls: int) -> float:
  start = time.perf_counter()
  for _ in range(calls):
    function()
  return (time.perf_counter() - start) / calls


def _time_in_turn(case: Case, make: _Maker, rounds: int) -> dict[str, list[float]]:
  """Times both sides alternately in this process; seconds a call."""
  functions = {side: make(side, case.size) for side in (svg0.OURS, svg0.THEIRS)}
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
  sides = {svg0.OURS: (svg0.OURS, name)}
  sides[svg0.THEIRS] = (svg0.OURS, beside) if beside else (svg0.THEIRS, name)
  seconds: dict[str, list[float]] = {label: [] for label in sides}
  for _ in range(rounds):
    for label, (side, case_name) in sides.items():
      printed = _in_own_process(f"--first_step_of={side},{case_name}", CASES[name])
      seconds[label].append(float(printed.split()[-1]))
  return seconds


def _in_own_process(flag: str, case: Case) -> str:
  """Runs this module with a flag and the case's threads, and returns what it prints."""
  threads = case.threads if _INTRA_OP_THREADS.value is None else _INTRA_OP_THREADS.value
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
    _time_in_turn(case, case.make, rounds) if case.make else _time_first_steps(name, min(rounds, 3))
  )
  ratios = [theirs / ours for ours, theirs in zip(seconds[svg0.OURS], seconds[svg0.THEIRS])]
  ours, theirs = (1e3 * statistics.median(seconds[side]) for side in (svg0.OURS, svg0.THEIRS))
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
    print(_time_calls(svg0.make_learner_step(side, CASES[name].size), 1))
    return 0
  if _ROW_OF.value:
    print(_run_case(_ROW_OF.value, _ROUNDS.value))
    return 0
  names = list(CASES) if _CASES.value == ["all"] else _CASES.value
  unknown = [name for name in names if name not in CASES]
  if unknown:
    print(f"There is no case {', '.join(unknown)}; there are {', '.join(CASES)}.", file=sys.stderr)
    return 2
  print(
    f"{'case':16} {svg0.OURS:>10}    {svg0.THEIRS:>10}      ratio (theirs / ours) [min, max]   "
    "target"
  )
  for name in names:
    # Threads are set once in a process, so each case has one of its own.
    print(_in_own_process(f"--row_of={name}", CASES[name]), end="", flush=True)
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
