"""Draws the learning curves of runs: the mean over seeds and its 95 % interval, group by group."""

from collections.abc import Sequence
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers.command_line import Flag
from temper.utils import startup
from temper.utils.policy_kinds import PolicyKind

_PROGRAM = "python -m temper.launchers.plot"
_ENDINGS = (".png", ".svg")
_EVALUATION, _TRAIN = "evaluation", "train"
# Single episodes are noisy; evaluations are means already.
_TRAIN_SMOOTHING = 10

_FLAGS: Sequence[Flag] = (
  Flag("output", "string", None, None, "The picture to write; its ending, .png or .svg, says how."),
  Flag(
    "metric",
    "string",
    _EVALUATION,
    None,
    "What to draw: evaluation or train for returns, or a column of the logs such as alpha or "
    "learner/critic_loss.",
  ),
  Flag(
    "mode",
    [kind.mode for kind in PolicyKind],
    None,
    None,
    "Which evaluations: deterministic, stochastic or boltzmann; default that of which the runs "
    "have most.",
  ),
  Flag(
    "group_by",
    "string",
    "settings",
    None,
    "Which runs to average: settings, those that differ in the seed only; directory, none; parent, "
    "those in one folder; or those that agree in agent, environment, config.<field> or another "
    "entry of config.json.",
  ),
  Flag(
    "x",
    ["steps", "wall_seconds", "learner_steps"],
    "steps",
    None,
    "What to draw it against: steps, wall_seconds or learner_steps.",
  ),
  Flag(
    "smoothing",
    "integer",
    None,
    1,
    f"Draws the mean of so many last points of a run; default {_TRAIN_SMOOTHING} for train, "
    "else 1.",
  ),
  Flag("title", "string", None, None, "The line above the picture; default what is drawn."),
  Flag("csv", "string", None, None, "A file for the table of final and best values."),
)


def run(argv: Sequence[str]) -> int:
  """Draws as the command line says, and prints a table.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the picture is written, 2 when what is asked for is refused, 1 when writing fails.
  """
  startup.quiet()
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=(
      "",
      "A RUN is a folder that train or train-offline made, or one with TensorBoard's event files.",
      "",
      "examples:",
      f"  {argv[0]} runs/seed0 runs/seed1 --output=curve.png",
      f"  {argv[0]} runs/* --group_by=config.sigma --x=wall_seconds --output=curve.svg",
      f"  {argv[0]} runs/sac0 --metric=alpha --output=alpha.png",
    ),
    sets_threads=False,
    has_config=False,
    operand="RUN",
  )
  return flag_table.answer(argv, _check, _plot)


def _check(values: dict[str, Any]) -> dict[str, Any]:
  """Refuses what does not go together, before anything slow is loaded; completes the values."""
  paths = values["operands"]
  if not paths:
    raise ValueError("No run is given: name the folder of one or several, such as runs/seed0.")
  real = [os.path.realpath(path) for path in paths]
  twice = [path for path, its_real in zip(paths, real) if real.count(its_real) > 1]
  if twice:
    raise ValueError(f"{twice[0]} is given twice; each run counts once.")
  if not values["output"]:
    raise ValueError("--output is missing: say where the picture is to be, such as curve.png.")
  if os.path.splitext(values["output"])[1].lower() not in _ENDINGS:
    raise ValueError(
      f"--output={values['output']} must end with {' or '.join(_ENDINGS)}, which says how to draw."
    )
  if values["mode"] is not None and values["metric"] != _EVALUATION:
    raise ValueError(
      f"--mode is for --metric={_EVALUATION}; the metric is {values['metric']}. Leave it out."
    )
  if values["smoothing"] is None:
    values["smoothing"] = _TRAIN_SMOOTHING if values["metric"] == _TRAIN else 1
  return values


def _plot(values: dict[str, Any]) -> int:
  """Reads, averages, draws, and words the outcome."""
  # What reads logs takes seconds to load, so that help and refusals come first.
  from temper.launchers import curve_table
  from temper.launchers import run_groups
  from temper.utils import curves_plot
  from temper.utils import logged_runs

  try:
    runs = [logged_runs.read(path) for path in _folders(values["operands"])]
    groups = run_groups.group_runs(runs, values["group_by"])
    table = curve_table.build(
      groups,
      metric=values["metric"],
      mode=values["mode"],
      axis=values["x"],
      smoothing=values["smoothing"],
      title=values["title"],
    )
    for note in table.notes:
      print(note, file=sys.stderr)
    for path in (values["output"], values["csv"]):
      if path:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    curves_plot.plot_curves(table.labelled, values["output"], table.texts)
    if values["csv"]:
      table.write(values["csv"])
  except ValueError as error:
    return command_line.refuse(error)
  except (ImportError, OSError) as error:
    return command_line.fail(error)
  print(table)
  print(f"picture: {values['output']}")
  if values["csv"]:
    print(f"table: {values['csv']}")
  return 0


def _folders(paths: Sequence[str]) -> list[str]:
  """Leaves files out, which a pattern such as `runs/*` may bring along."""
  files = [path for path in paths if os.path.isfile(path)]
  folders = [path for path in paths if path not in files]
  if not folders:
    raise ValueError(f"{paths[0]} is a file. Name the folders of runs.")
  if files:
    print(f"Left out, since files are no runs: {', '.join(files)}.", file=sys.stderr)
  return folders


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
