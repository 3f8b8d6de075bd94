"""Two sides' evaluations of several seeds, side by side: final and best, with intervals."""

from collections.abc import Mapping, Sequence
import dataclasses

import numpy as np

from temper.utils import evaluation
from temper.utils import run_loggers


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """One evaluation while training.

  Attributes:
    step: learner updates so far.
    mean: mean return.
    low: lower end of its 95 % interval.
    high: upper end of it.
  """

  step: int
  mean: float
  low: float
  high: float

  @classmethod
  def of_returns(cls, step: int, returns: Sequence[float]) -> "Evaluation":
    """Returns the evaluation whose episodes had these returns."""
    return cls(step, float(np.mean(returns)), *evaluation.bootstrap_interval(returns))

  def __str__(self) -> str:
    return f"{self.mean:9.1f} [{self.low:.1f}, {self.high:.1f}]"


# The evaluations of a run, in the order of their steps.
Curve = Sequence[Evaluation]


def read_curve(path: str, mode: str) -> list[Evaluation]:
  """Reads a run's `evaluation.csv`.

  Args:
    path: the file; its columns `step`, `mode`, `return_mean`, `return_low`, `return_high` are read.
    mode: the rows to read, those of one way to act.

  Returns:
    One evaluation a step; of several at one step the last, which has the most episodes.

  Raises:
    ValueError: if there is no such row.
  """
  rows = run_loggers.read_csv(path)
  by_step = {
    int(row["step"]): Evaluation(
      int(row["step"]), *(float(row[f"return_{end}"]) for end in ("mean", "low", "high"))
    )
    for row in rows
    if row["mode"] == mode
  }
  if not by_step:
    modes = sorted({row["mode"] for row in rows})
    raise ValueError(f"{path} has no evaluation with mode {mode!r}; its modes are {modes}.")
  return [by_step[step] for step in sorted(by_step)]


def final(curve: Curve) -> Evaluation:
  """Returns the last evaluation."""
  return curve[-1]


def best(curve: Curve) -> Evaluation:
  """Returns the evaluation with the highest mean, the first of equals."""
  return max(curve, key=lambda point: point.mean)


def difference_interval(
  ours: Sequence[float], theirs: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
  """Returns the 95 % percentile bootstrap interval of the difference of two means.

  Args:
    ours: one sample, such as a number for each seed.
    theirs: the other, drawn independently.
    resamples: number of redraws of each.
    seed: of the redraws.

  Returns:
    The ends of the interval of ours less theirs.
  """
  rng = np.random.default_rng(seed)
  means = [
    np.asarray(values)[rng.integers(len(values), size=(resamples, len(values)))].mean(axis=1)
    for values in (ours, theirs)
  ]
  low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
  return float(low), float(high)


def table(sides: Mapping[str, Mapping[int, Curve]]) -> str:
  """Lays out final and best evaluation of two sides, for each seed and in the mean over seeds.

  A seed's interval is that of its episodes; the interval of the mean over seeds, and of the
  difference, that of the seeds.

  Args:
    sides: curves by seed by side, ours first; the same seeds, and evaluations at the same steps.

  Raises:
    ValueError: if the sides were not evaluated alike.
  """
  check_alike(sides)
  (our_name, ours), (their_name, theirs) = sides.items()
  choices = {"final": final, "best": best}
  headings = [f"{name}, {kind}" for kind in choices for name in (our_name, their_name)]
  lines = ["seed  " + "".join(f"{heading:<34}" for heading in headings).rstrip()]
  for seed in ours:
    cells = [choose(curves[seed]) for choose in choices.values() for curves in (ours, theirs)]
    lines.append(f"{seed:<6}" + "".join(f"{cell!s:<34}" for cell in cells).rstrip())
  cells, verdicts = [], []
  for kind, choose in choices.items():
    values = [[choose(curve).mean for curve in curves.values()] for curves in (ours, theirs)]
    cells += [Evaluation.of_returns(0, means) for means in values]
    verdicts.append(_verdict(kind, *values))
  lines.append("mean  " + "".join(f"{cell!s:<34}" for cell in cells).rstrip())
  lines.append(f"{our_name} less {their_name}: " + "; ".join(verdicts) + ".")
  return "\n".join(lines)


def check_alike(sides: Mapping[str, Mapping[int, Curve]]) -> None:
  """Raises ValueError unless all sides have the same seeds, evaluated at the same steps."""
  steps = {
    (name, seed): [point.step for point in curve]
    for name, curves in sides.items()
    for seed, curve in curves.items()
  }
  seeds = [sorted(curves) for curves in sides.values()]
  first = next(iter(steps.values()))
  if any(other != seeds[0] for other in seeds) or any(other != first for other in steps.values()):
    raise ValueError(f"The sides were not evaluated at the same steps of the same seeds: {steps}.")


def _verdict(kind: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
  if len(ours) == 1:
    return f"{kind} {ours[0] - theirs[0]:+.1f}, of one seed, which decides nothing"
  low, high = difference_interval(ours, theirs)
  word = "ahead" if low > 0 else "BEHIND" if high < 0 else "equal within the interval"
  return f"{kind} {np.mean(ours) - np.mean(theirs):+.1f} [{low:+.1f}, {high:+.1f}], {word}"
