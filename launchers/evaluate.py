"""Evaluates a run or an exported policy: returns from chosen starts, and their mean's interval."""

from collections.abc import Sequence
import re
import sys
from typing import Any, Optional

from temper.launchers import command_line
from temper.launchers import saved_flags
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.evaluate"

_EPISODES = 20
# Start seeds are those of NumPy.
_MAX_SEED = 2**32 - 1
_AUTO = "auto"

_FLAGS: Sequence[Flag] = (
  Flag("episodes", "integer", None, 1, "How many episodes."),
  Flag(
    "seeds",
    "string",
    None,
    None,
    "Start seeds instead, one an episode, such as 3,7 or 0-19; default those of all evaluations.",
  ),
  *saved_flags.FLAGS,
  Flag("seed", "integer", None, 0, "Seed of what is random in the policy; default the run's."),
  Flag(
    "environments",
    "string",
    _AUTO,
    None,
    "In how many environments to play at once, with one call of the policy for all; auto measures "
    "what is quickest. A random policy's draws depend on it.",
  ),
  Flag(
    "output",
    "string",
    None,
    None,
    "Folder for episodes.csv and result.json; default evaluations/<policy>-step<N> in the run's.",
  ),
)

# The flags, the seeds and the number of environments.
_Checked = tuple[dict[str, Any], Optional[tuple[int, ...]], Optional[int]]


def run(argv: Sequence[str]) -> int:
  """Evaluates as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when it is done, 2 when what is asked for is refused, 1 when it fails, 130 or 143 when it is
    stopped by Ctrl-C or SIGTERM; nothing is written then.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and evaluates."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    later_defaults={**saved_flags.LATER_DEFAULTS, "episodes": _EPISODES},
    closing=(
      "",
      "examples:",
      f"  {argv[0]} runs/pendulum",
      f"  {argv[0]} runs/pendulum --checkpoint=best --episodes=100 --eval_policy=raw",
      f"  {argv[0]} runs/pendulum/policy --seeds=0-9 --output=results/pendulum",
    ),
    has_config=False,
    operand=saved_flags.OPERAND,
    most_operands=1,
  )

  def check(values: dict[str, Any]) -> _Checked:
    saved_flags.path_of(values)
    seeds = _seeds(values["seeds"], values["episodes"])
    return values, seeds, _environments(values["environments"])

  return flag_table.answer(
    argv, check, lambda checked: saved_flags.report(lambda: _evaluate(argv, *checked, stop))
  )


def _evaluate(
  argv: Sequence[str],
  values: dict[str, Any],
  seeds: Optional[tuple[int, ...]],
  environments: Optional[int],
  stop: stopping.StopSignal,
) -> None:
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.launchers import evaluation_run
  from temper.utils import evaluation

  stop.check()
  command_line.set_threads(values["intra_op_threads"])
  choice = saved_flags.choice_of(values)
  config = evaluation_run.EvaluationConfig(
    saved=saved_flags.opened(values, choice),
    choice=choice,
    seeds=seeds or tuple(evaluation.start_seeds(values["episodes"] or _EPISODES)),
    environments=environments,
    seed=values["seed"],
    output=values["output"],
    command=command_line.as_typed(argv),
  )
  print(evaluation_run.table(evaluation_run.run_evaluation(config, stop)))


def _seeds(text: Optional[str], episodes: Optional[int]) -> Optional[tuple[int, ...]]:
  """Returns the start seeds that are asked for; None for those of all evaluations."""
  if text is None:
    return None
  seeds: list[int] = []
  for part in text.split(","):
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last <= _MAX_SEED:
      raise ValueError(
        f"--seeds={text}: {part!r} is no seed from 0 to {_MAX_SEED} and no range of them such as "
        "0-19."
      )
    seeds += range(first, last + 1)
  if episodes is not None and episodes != len(seeds):
    raise ValueError(
      f"--episodes={episodes}, but --seeds={text} are {len(seeds)}, one an episode. Leave out "
      "--episodes."
    )
  return tuple(seeds)


def _environments(text: str) -> Optional[int]:
  """Returns in how many environments to play at once; None for what is quickest."""
  if text == _AUTO:
    return None
  if not text.isdigit() or int(text) < 1:
    raise ValueError(f"--environments={text}; it must be {_AUTO} or a number from 1 on.")
  return int(text)


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
