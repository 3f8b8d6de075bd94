"""Mean and spread of a dataset's observations, to normalise them by."""

from typing import Any

import numpy as np
import tree

from temper.utils import checks
from temper.utils.datasets import episodes


def observation_statistics(
  dataset: episodes.EpisodeDataset, *, minimum_std: float = 1e-3
) -> tuple[Any, Any]:
  """Returns the mean and standard deviation of each number of the observations.

  Episodes are read one after the other, so that it works for datasets larger than memory too. Only
  observations that an action was taken on count. Pictures (uint8) are left alone: mean 0, standard
  deviation 1.

  Args:
    dataset: in canonical form.
    minimum_std: the least standard deviation, in the observation's units: what hardly varies in the
      data is not blown up.

  Returns:
    Two nests of float32 arrays of an observation's structure and shapes.

  Raises:
    ValueError: if `minimum_std` is not positive.
    DatasetError: if an episode is malformed.
  """
  checks.number("minimum_std", minimum_std, above=0)
  moments: list[_Moments] = []
  for episode in dataset:
    leaves = tree.flatten(episode.observation)
    moments = moments or [_Moments() for _ in leaves]
    for moment, leaf in zip(moments, leaves):
      moment.add(leaf[:-1])
  structure = dataset.read(0).observation
  means = [moment.mean_and_std(minimum_std)[0] for moment in moments]
  stds = [moment.mean_and_std(minimum_std)[1] for moment in moments]
  return tree.unflatten_as(structure, means), tree.unflatten_as(structure, stds)


class _Moments:
  """The running mean and sum of squared deviations of rows, in float64."""

  def __init__(self) -> None:
    self._count = 0
    self._mean: Any = 0.0
    self._squares: Any = 0.0
    self._picture = False

  def add(self, rows: np.ndarray) -> None:
    """Adds rows [N, ...]."""
    self._picture = rows.dtype == np.uint8
    if self._picture:
      self._mean = np.zeros(rows.shape[1:], np.float32)
      return
    rows = rows.astype(np.float64)
    mean = rows.mean(axis=0)
    delta = mean - self._mean
    total = self._count + len(rows)
    # Two sets' squared deviations join without a difference of large numbers.
    self._squares = (
      self._squares
      + np.square(rows - mean).sum(axis=0)
      + np.square(delta) * (self._count * len(rows) / total)
    )
    self._mean = self._mean + delta * (len(rows) / total)
    self._count = total

  def mean_and_std(self, minimum_std: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as float32."""
    if self._picture:
      return self._mean, np.ones_like(self._mean)
    std = np.maximum(np.sqrt(self._squares / self._count), minimum_std)
    return np.asarray(self._mean, np.float32), np.asarray(std, np.float32)
