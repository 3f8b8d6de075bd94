"""What a run leaves behind at its end: policy, picture, film and table."""

from collections.abc import Mapping, Sequence
import os
from typing import Any, Optional

from acme import core
import dm_env
import numpy as np

from temper.agents import exported_policies
from temper.agents import policies
from temper.launchers import quantities
from temper.launchers.run_directory import RunDirectory
from temper.utils import evaluation
from temper.utils import exporting
from temper.utils import recording

_RULE = "─"


def export_policy(
  networks: exported_policies.ExportedNetworks, directory: str, metadata: Mapping[str, Any]
) -> Optional[str]:
  """Exports what a run has learnt as a SavedModel, deterministic and sampling, if it can be.

  Args:
    networks: what to export.
    directory: the folder to write.
    metadata: JSON-able facts to keep beside the policy.

  Returns:
    None, or a line that says why nothing was exported.
  """
  saved_model = exporting.ExportFormat.SAVEDMODEL
  try:
    functions = exported_policies.make_functions(
      networks, [policies.MEAN, policies.RAW], saved_model
    )
    exporting.write(functions, directory, saved_model, {**metadata, **networks.facts()})
  except exporting.ExportError as error:
    return f"No policy is exported: {error}"
  return None


def film(
  environment: dm_env.Environment,
  actor: core.Actor,
  evaluated: evaluation.EvaluationResult,
  path: str,
) -> float:
  """Films the evaluated episode whose return is the median, which says more than the best one.

  Args:
    environment: one that can be drawn and seeded like the one evaluated in.
    actor: the deterministic evaluation actor.
    evaluated: the deterministic evaluation.
    path: the GIF to write.

  Returns:
    The return of the filmed episode.

  Raises:
    RenderingError: if the environment cannot be drawn.
    ImportError: if Pillow is not installed.
  """
  middle = int(np.argsort(evaluated.returns)[len(evaluated.returns) // 2])
  seed = evaluated.seeds[middle]
  # Known beforehand, so that nothing is drawn in vain.
  stride = -(-evaluated.lengths[middle] // recording.MAX_FRAMES)
  frames, outcome = recording.record_episode(environment, actor, seed=seed, stride=stride)
  recording.write_film(frames, path)
  return outcome.total


def existing(directory: RunDirectory, checkpoint: str) -> dict[str, str]:
  """Returns the artefacts that a run has, by what they are, in the order of the table."""
  paths = {
    "checkpoint": checkpoint,
    "best checkpoints": directory.best,
    "policy": directory.policy,
    "snapshots": directory.snapshots,
    "config": directory.config,
    "logs": directory.logs,
    "learning curve": directory.learning_curve,
    "episode": directory.episode,
    "result": directory.result,
  }
  # The result is written after this.
  return {name: path for name, path in paths.items() if name == "result" or os.path.exists(path)}


def table(summary: Mapping[str, Any]) -> str:
  """Returns the closing table of a run.

  Args:
    summary: what result.json holds, see `temper.launchers.experiment`.
  """
  rows = [(mode, result) for mode, result in summary["evaluations"].items()]
  facts = [
    ("environment steps", f"{summary['environment_steps']:,} in {summary['episodes']:,} episodes"),
    *([("early stop", summary["early_stop"]["outcome"])] if summary["early_stop"] else []),
    ("learner steps", f"{summary['learner_steps']:,}"),
    ("wall time", quantities.duration(summary["wall_seconds"])),
    ("acting", f"{summary['acting_steps_per_second']:,.0f} environment steps/s"),
    ("learning", f"{summary['learning_steps_per_second']:,.0f} learner steps/s"),
    *summary["artefacts"].items(),
  ]
  return render(summary["title"], rows, facts)


def offline_table(summary: Mapping[str, Any]) -> str:
  """Returns the closing table of an offline run.

  Args:
    summary: what result.json holds, see `temper.launchers.offline_experiment`.
  """
  data = summary["data"]
  of_data = {
    "mean": data["mean_return"],
    "low": data["mean_return_low"],
    "high": data["mean_return_high"],
    "returns": data["return_quartiles"],
    "episodes": data["episodes"],
  }
  rows = [("the data", of_data)]
  rows += [(f"{mode}, final", result) for mode, result in summary["evaluations"].items()]
  rows += [
    (f"{mode}, best (step {result['step']:,})", result) for mode, result in summary["best"].items()
  ]
  facts = [
    ("learner steps", f"{summary['learner_steps']:,}"),
    ("wall time", quantities.duration(summary["wall_seconds"])),
    ("learning", f"{summary['learning_steps_per_second']:,.0f} learner steps/s"),
    *summary["artefacts"].items(),
  ]
  return render(summary["title"], rows, facts)


def render(
  title: str,
  evaluations: Sequence[tuple[str, Mapping[str, Any]]],
  facts: Sequence[tuple[str, str]],
) -> str:
  """Returns a table: a title, a row for each set of episodes, and facts.

  Args:
    title: the first line.
    evaluations: names, with `mean`, `low`, `high`, `returns` and `episodes` each.
    facts: names and values.
  """
  rows = [("policy", "mean return", "95 % interval", "worst", "best", "episodes")]
  for name, result in evaluations:
    rows.append(
      (
        name,
        f"{result['mean']:.1f}",
        f"[{result['low']:.1f}, {result['high']:.1f}]",
        f"{min(result['returns']):.1f}",
        f"{max(result['returns']):.1f}",
        str(result["episodes"]),
      )
    )
  width = max(len(name) for name, _ in facts)
  lines = [f"{name:<{width}}  {value}" for name, value in facts]
  body = [*_columns(rows), "", *lines]
  rule = _RULE * max(len(line) for line in [title, *body])
  return "\n".join([rule, title, rule, *body, rule])


def _columns(rows: list[Any]) -> list[str]:
  """Aligns cells: the first column to the left, numbers to the right."""
  widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
  return [
    "  ".join(
      cell.ljust(width) if i == 0 else cell.rjust(width)
      for i, (cell, width) in enumerate(zip(row, widths))
    )
    for row in rows
  ]
