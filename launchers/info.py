"""Shows what a run, a checkpoint, an exported policy or a dataset holds."""

from collections.abc import Mapping, Sequence
import json
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import quantities
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.info"

_FLAGS: Sequence[Flag] = (
  Flag("json", "boolean", False, None, "Whether to print JSON, which holds more than the text."),
)

_Rows = list[tuple[str, str]]


def run(argv: Sequence[str]) -> int:
  """Shows what the command line asks for.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0, 2 when there is nothing that is known at the path, 1 when it cannot be read, 130 or 143 when
    it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "examples:", f"  {argv[0]} runs/pendulum", f"  {argv[0]} data/expert.npz --json"),
    sets_threads=False,
    has_config=False,
    operand="PATH",
    most_operands=1,
  )

  def check(values: dict[str, Any]) -> tuple[str, bool]:
    if len(values["operands"]) != 1:
      raise ValueError(
        "A path is missing: give a run, a checkpoint, an exported policy or a dataset."
      )
    return values["operands"][0], values["json"]

  return flag_table.answer(argv, check, lambda checked: _show(*checked, stop))


def _show(path: str, as_json: bool, stop: stopping.StopSignal) -> int:
  from temper.launchers import path_info
  from temper.utils import checkpointing

  try:
    found = path_info.describe(path)
    stop.check()
  except stopping.StopRequested as request:
    print(f"{request}.", file=sys.stderr)
    return request.exit_code
  except (checkpointing.CheckpointError, ImportError, OSError) as error:
    return command_line.fail(error)
  except ValueError as error:
    return command_line.refuse(error)
  print(json.dumps(found, indent=2) if as_json else in_words(found))
  return 0


def in_words(found: Mapping[str, Any]) -> str:
  """Returns what `path_info.describe` found, as a person reads it."""
  rows = _ROWS[found["kind"]](found)
  width = max(len(name) for name, _ in rows)
  lines = [f"{found['path']}: {found.get('title') or _KINDS[found['kind']]}"]
  for name, value in rows:
    first, *others = value.split("\n")
    lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in others)]
  return "\n".join(lines)


def _of_run(found: Mapping[str, Any]) -> _Rows:
  checkpoint = lambda entry: _checkpoint(entry, found["path"])
  asked = found["steps_asked_for"]
  progress = f"{found['steps']:,} of {asked:,} steps" if asked else f"{found['steps']:,} steps"
  if found["episodes"] is not None:
    progress += f", {found['episodes']:,} episodes"
  if found["wall_seconds"]:
    progress += f", {quantities.duration(found['wall_seconds'])}"
  rows = [
    ("agent", str(found["agent"])),
    ("environment", _with_options(found["environment"], found["environment_options"])),
    *([("dataset", found["dataset"])] if found["dataset"] else []),
    ("seed", str(found["seed"])),
    ("state", f"{found['state']}: {progress} at the newest checkpoint"),
    *([("early stop", found["early_stop"])] if found["early_stop"] else []),
    ("checkpoints", "\n".join(map(checkpoint, found["checkpoints"])) or "none yet"),
  ]
  if found["best_checkpoints"]:
    best = [f"{mode}: {checkpoint(entry)}" for mode, entry in found["best_checkpoints"].items()]
    rows.append(("best", "\n".join(best)))
  newest = [_logged_evaluation(row) for row in found["newest_evaluations"]]
  rows.append(("evaluations", "\n".join([f"{found['evaluations']:,} logged", *newest])))
  if found["further_evaluations"]:
    rows.append(("evaluated", "\n".join(map(_evaluation, found["further_evaluations"]))))
  for name, row in found["newest_rows"].items():
    if name != "evaluation":
      rows.append((f"{name}.csv ends", _row(row)))
  rows.append(("files", _listed(found)))
  if found["command"]:
    rows.append(("made by", found["command"]))
  rows.append(("versions", _row(found["versions"])))
  return rows


def _of_checkpoint(found: Mapping[str, Any]) -> _Rows:
  return [
    ("step", f"{found['step']:,}"),
    ("format", str(found["format"])),
    ("counts", _row(found["counts"])),
    ("objects", ", ".join(found["objects"])),
    ("replay", quantities.size(found["replay_bytes"])),
    ("size", quantities.size(found["bytes"])),
  ]


def _of_policy(found: Mapping[str, Any]) -> _Rows:
  rows = [
    ("format", found["format"] or "of another version; export the policy anew"),
    ("agent", str(found["agent"])),
    ("environment", str(found["environment"])),
    ("temper-rl", str(found["temper_version"])),
  ]
  for name, function in (found["functions"] or {}).items():
    inputs, outputs = (
      ", ".join(f"{key} {value['dtype']} {value['shape']}" for key, value in function[side].items())
      for side in ("inputs", "outputs")
    )
    rows.append((name, f"takes {inputs}\ngives {outputs}"))
  return [*rows, ("files", _listed(found))]


def _of_dataset(found: Mapping[str, Any]) -> _Rows:
  observation = found["observation"]
  if isinstance(observation, dict):
    observation = ", ".join(f"{key} {form}" for key, form in observation.items())
  quartiles = " / ".join(f"{value:,.1f}" for value in found["return_quartiles"])
  return [
    ("format", found["format"]),
    ("environment", str(found["environment"] or "not named")),
    ("episodes", f"{found['episodes']:,}, {found['steps']:,} steps"),
    ("ended", f"{found['terminations']:,} by termination, {found['truncations']:,} by truncation"),
    (
      "returns",
      f"{quartiles} (min / 25 % / median / 75 % / max), mean {found['mean_return']:,.1f}",
    ),
    ("observation", observation),
    ("action", found["action"]),
    *([("notes", "\n".join(found["notes"]))] if found["notes"] else []),
    ("size", quantities.size(found["bytes"])),
  ]


_ROWS = {
  "run": _of_run,
  "checkpoint": _of_checkpoint,
  "policy": _of_policy,
  "dataset": _of_dataset,
}
_KINDS = {"checkpoint": "a checkpoint", "policy": "an exported policy", "dataset": "a dataset"}


def _with_options(environment: str, options: Mapping[str, Any]) -> str:
  return f"{environment} with {_row(options)}" if options else environment


def _checkpoint(entry: Mapping[str, Any], run_path: str) -> str:
  path = os.path.relpath(entry["path"], run_path)
  mean = f", mean return {entry['mean_return']:,.1f}" if "mean_return" in entry else ""
  return f"step {entry['step']:,}{mean}, {quantities.size(entry['bytes'])}, {path}"


def _logged_evaluation(row: Mapping[str, str]) -> str:
  return (
    f"newest {row['mode']}, step {int(row['step']):,}: mean return {row['return_mean']} "
    f"[{row['return_low']}, {row['return_high']}] over {row['episodes']} episodes"
  )


def _evaluation(entry: Mapping[str, Any]) -> str:
  return (
    f"{entry['name']}: {entry['policy_in_words']} on {entry['environment']}, mean return "
    f"{entry['mean']:,.1f} [{entry['low']:,.1f}, {entry['high']:,.1f}] over {entry['episodes']} "
    "episodes"
  )


def _row(values: Mapping[str, Any]) -> str:
  shown = lambda value: f"{value:.6g}" if isinstance(value, float) else str(value)
  return ", ".join(f"{name} {shown(value)}" for name, value in values.items())


def _listed(found: Mapping[str, Any]) -> str:
  listed = ", ".join(f"{file['name']} {quantities.size(file['bytes'])}" for file in found["files"])
  return f"{listed}; {quantities.size(found['bytes'])} in all"


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
