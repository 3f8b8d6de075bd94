"""Films an episode of a run or an exported policy as a GIF or MP4, with step and return."""

from collections.abc import Sequence
import contextlib
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import saved_flags
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.record"

_FOLDER = "recordings"
# What holds of flags when they are not given; as temper.utils.recording and evaluation have it.
_DEFAULTS = {"seed": 1_000_003, "fps": 25, "max_frames": 250, "size": 320}

_FLAGS: Sequence[Flag] = (
  Flag(
    "output",
    "string",
    None,
    None,
    "The film, which ends with .gif or .mp4; default recordings/<policy>-step<N>-seed<seed>.gif in "
    "the run's folder.",
  ),
  *saved_flags.FLAGS,
  Flag("seed", "integer", _DEFAULTS["seed"], 0, "Seed of the episode's start."),
  Flag("fps", "integer", _DEFAULTS["fps"], 1, "Frames a second; a GIF shows 50 at the most."),
  Flag(
    "max_frames",
    "integer",
    _DEFAULTS["max_frames"],
    1,
    "Steps to show at the most; of a longer episode every other one, every fourth one, and so on.",
  ),
  Flag("size", "integer", _DEFAULTS["size"], 16, "Pixels of the longer side at the most."),
)


def run(argv: Sequence[str]) -> int:
  """Films as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the film is written, 2 when what is asked for is refused, 1 when it fails, 130 or 143
    when it is stopped by Ctrl-C or SIGTERM; nothing is written then.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and films."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    later_defaults=saved_flags.LATER_DEFAULTS,
    closing=(
      "",
      "examples:",
      f"  {argv[0]} runs/pendulum",
      f"  {argv[0]} runs/pendulum --checkpoint=best --seed=7 --output=best.mp4 --fps=50",
    ),
    has_config=False,
    operand=saved_flags.OPERAND,
    most_operands=1,
  )

  def check(values: dict[str, Any]) -> dict[str, Any]:
    saved_flags.path_of(values)
    return values

  return flag_table.answer(
    argv, check, lambda values: saved_flags.report(lambda: _record(values, stop))
  )


def _record(values: dict[str, Any], stop: stopping.StopSignal) -> None:
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from acme import specs

  from temper.agents import batch_actor
  from temper.launchers import evaluation_run
  from temper.utils import recording

  stop.check()
  command_line.set_threads(values["intra_op_threads"])
  choice = saved_flags.choice_of(values)
  if values["output"] is not None:
    recording.check_film(values["output"], values["fps"])
  saved = saved_flags.opened(values, choice)
  path = values["output"]
  if path is None:
    folder = evaluation_run.output_path(saved, choice, _FOLDER)
    path = f"{folder}-seed{values['seed']}.gif"
    recording.check_film(path, values["fps"])
  with contextlib.closing(saved.source.make(saved.seed, render=True)) as environment:
    agent = saved.load(specs.make_environment_spec(environment))
    stop.check()
    note = f"Filming {evaluation_run.origin(saved)}, {choice}, start seed {values['seed']}."
    print(note, file=sys.stderr, flush=True)
    actor = batch_actor.OneRow(agent.make_batch_actor(choice, 1, seed=saved.seed))
    frames, outcome = recording.record_episode(
      environment,
      actor,
      seed=values["seed"],
      max_frames=values["max_frames"],
      size=values["size"],
      on_step=stop.check,
    )
  os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
  recording.write_film(frames, path, frames_per_second=values["fps"])
  print(
    f"{path}: {len(frames)} frames of {outcome.length:,} steps, return {outcome.total:,.1f}, ended "
    f"by {outcome.end.value}"
  )


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
