"""One line that says what a dataset holds."""

import dataclasses
from typing import Any, Optional

import numpy as np

from temper.utils.datasets import episodes


@dataclasses.dataclass(frozen=True)
class DatasetSummary:
  """What a dataset holds and how it will be used; as text, one line.

  Attributes:
    path: where it lies.
    format: how it is stored, such as "npz".
    environment: the environment's name, or None if the dataset has none.
    episodes: how many.
    steps: transitions of all episodes.
    return_quartiles: least, 25 %, median, 75 % and largest of the episodes' returns.
    mean_return: mean of the episodes' returns.
    terminations: episodes that ended by termination.
    truncations: episodes that were cut short.
    sequence_length: T of the windows that are cut from it; None if none are.
    normalisation: what is done to observations, in words; None if nothing is.
    notes: one line for each conversion.
  """

  path: str
  format: str
  environment: Optional[str]
  episodes: int
  steps: int
  return_quartiles: tuple[float, float, float, float, float]
  mean_return: float
  terminations: int
  truncations: int
  sequence_length: Optional[int]
  normalisation: Optional[str]
  notes: tuple[str, ...]

  def as_dict(self) -> dict[str, Any]:
    """Returns plain values that `json.dump` accepts."""
    return dataclasses.asdict(self)

  def __str__(self) -> str:
    quartiles = " / ".join(f"{value:,.1f}" for value in self.return_quartiles)
    parts = [
      f"{self.path} ({self.format}{f', {self.environment}' if self.environment else ''}): "
      f"{_count(self.episodes, 'episode')}",
      _count(self.steps, "step"),
      f"returns {quartiles} (min / 25 % / median / 75 % / max)",
      _count(self.terminations, "termination"),
      _count(self.truncations, "truncation"),
    ]
    if self.sequence_length is not None:
      parts.append(f"sequences of {self.sequence_length}")
    parts.append(f"observations {self.normalisation or 'not normalised'}")
    return ", ".join(parts)


def summarise(
  dataset: episodes.EpisodeDataset,
  *,
  sequence_length: Optional[int] = None,
  normalisation: Optional[str] = None,
) -> DatasetSummary:
  """Returns what is known of a dataset, without reading its episodes.

  Args:
    dataset: the episodes.
    sequence_length: T of the windows that are cut from it, if any.
    normalisation: what is done to observations, such as "normalised by the data's mean and std".
  """
  low, lower, median, upper, high = np.percentile(dataset.returns, [0, 25, 50, 75, 100])
  terminations = int(dataset.terminated.sum())
  return DatasetSummary(
    path=dataset.path,
    format=dataset.format.value,
    environment=dataset.environment_name,
    episodes=len(dataset),
    steps=dataset.num_steps,
    return_quartiles=(float(low), float(lower), float(median), float(upper), float(high)),
    mean_return=float(dataset.returns.mean()),
    terminations=terminations,
    truncations=len(dataset) - terminations,
    sequence_length=sequence_length,
    normalisation=normalisation,
    notes=tuple(dataset.notes),
  )


def _count(number: int, noun: str) -> str:
  return f"{number:,} {noun}{'' if number == 1 else 's'}"
