"""What a run leaves behind at its end: policy, picture, film and table."""

from collections.abc import Mapping
import os
from typing import Any

from acme import core
import dm_env
import numpy as np

from temper.launchers.run_directory import RunDirectory
from temper.utils import evaluation
from temper.utils import recording

_RULE = "─"

# Ten seconds. Longer episodes are shown in fewer, evenly spaced steps, since drawing is slow.
_MOST_FRAMES = 250


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
  seed = evaluation.start_seeds(len(evaluated.returns))[middle]
  stride = -(-evaluated.lengths[middle] // _MOST_FRAMES)
  frames, episode_return = recording.record_episode(environment, actor, seed=seed, stride=stride)
  recording.write_gif(frames, path)
  return episode_return


def existing(directory: RunDirectory, checkpoint: str) -> dict[str, str]:
  """Returns the artefacts that a run has, by what they are, in the order of the table."""
  paths = {
    "checkpoint": checkpoint,
    "policy": directory.policy,
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
  head = ("policy", "mean return", "95 % interval", "worst", "best", "episodes")
  rows = [head]
  for mode, result in summary["evaluations"].items():
    rows.append(
      (
        mode,
        f"{result['mean']:.1f}",
        f"[{result['low']:.1f}, {result['high']:.1f}]",
        f"{min(result['returns']):.1f}",
        f"{max(result['returns']):.1f}",
        str(result["episodes"]),
      )
    )
  facts = [
    ("environment steps", f"{summary['environment_steps']:,} in {summary['episodes']:,} episodes"),
    ("learner steps", f"{summary['learner_steps']:,}"),
    ("wall time", duration(summary["wall_seconds"])),
    ("acting", f"{summary['acting_steps_per_second']:,.0f} environment steps/s"),
    ("learning", f"{summary['learning_steps_per_second']:,.0f} learner steps/s"),
    *summary["artefacts"].items(),
  ]
  width = max(len(name) for name, _ in facts)
  lines = [f"{name:<{width}}  {value}" for name, value in facts]
  title = summary["title"]
  body = [*_columns(rows), "", *lines]
  rule = _RULE * max(len(line) for line in [title, *body])
  return "\n".join([rule, title, rule, *body, rule])


def duration(seconds: float) -> str:
  """Returns a time such as `2 min 05 s`."""
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f"{hours} h {minutes:02d} min"
  return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


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
