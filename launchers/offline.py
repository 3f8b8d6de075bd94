"""Records data, learns from it offline in several ways and compares; the same command resumes."""

from collections.abc import Sequence
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import native_output
from temper.launchers import offline_studies
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.offline"

_FLAGS: Sequence[Flag] = (
  Flag(
    "study",
    list(offline_studies.STUDIES),
    "modes",
    None,
    "modes: CRR exp, binary and all on mixed data of Pendulum; memory: recurrent and feed-forward "
    "CRR on the same without the velocity.",
  ),
  Flag("directory", "string", None, None, "Folder of everything; default runs/offline-<study>."),
  Flag("seeds", "string", "0", None, "Seeds of learning, such as 0,1,2; the data are the same."),
  Flag("eval_episodes", "integer", 50, 1, "Episodes of each evaluation at the end of a run."),
)


def run(argv: Sequence[str]) -> int:
  """Compares as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the study is finished, 2 when what is asked for is refused, 1 when a run fails, 130 or
    143 when it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and runs the study."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --study=memory --seeds=0,1,2"),
  )

  def compare(checked: tuple[dict[str, Any], tuple[int, ...]]) -> int:
    values, seeds = checked
    stop.check()
    with native_output.held_back():
      command_line.set_threads(values["intra_op_threads"])
      return _compare(argv, values, seeds, stop)

  return flag_table.answer(argv, lambda values: (values, _seeds(values["seeds"])), compare)


def _compare(
  argv: Sequence[str], values: dict[str, Any], seeds: tuple[int, ...], stop: stopping.StopSignal
) -> int:
  """Runs the study and words its outcome."""
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.launchers import offline_comparison
  from temper.launchers import offline_study
  from temper.launchers import outcomes
  from temper.utils import checkpointing

  directory = values["directory"]
  if directory is None:
    directory = os.path.join("runs", f"offline-{values['study']}")
  resume = f"Resume with: {command_line.as_typed(argv)}"
  try:
    config = offline_study.StudyConfig(
      study=offline_studies.STUDIES[values["study"]],
      directory=directory,
      seeds=seeds,
      eval_episodes=values["eval_episodes"],
    )
    result = offline_study.run_study(config, stop)
  except stopping.StopRequested as request:
    print(f"{request}; what is finished stays.\n{resume}", file=sys.stderr)
    return request.exit_code
  except (outcomes.TrainingFailed, checkpointing.CheckpointError, ImportError) as error:
    return command_line.fail(error)
  except ValueError as error:
    return command_line.refuse(error)
  if result.comparison is None:
    assert result.stop is not None
    print(f"{result.stop}; all is saved.\n{resume}", file=sys.stderr)
    return result.stop.exit_code
  print(offline_comparison.table(result.comparison, list(result.files.items())))
  return 0


def _seeds(text: str) -> tuple[int, ...]:
  """Returns the seeds of a text such as "0,1,2"."""
  try:
    return tuple(int(part) for part in text.strip("()[]").split(","))
  except ValueError:
    raise ValueError(
      f"seeds is {text!r}; it must be whole numbers with commas, such as 0,1,2."
    ) from None


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
