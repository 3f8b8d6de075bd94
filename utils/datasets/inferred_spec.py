"""The specs of an environment that is not at hand, from what its data looks like."""

from acme import specs
import numpy as np
import tree

from temper.utils.datasets import episodes


def infer_spec(dataset: episodes.EpisodeDataset) -> specs.EnvironmentSpec:
  """Returns specs that fit a dataset in the environment's own units.

  Actions are taken to be bounded by [-1, 1] if all are within, else by the smallest and the largest
  of each dimension: the true bounds may be wider.

  Args:
    dataset: read once, an episode at a time.

  Raises:
    DatasetError: if an episode is malformed.
  """
  first = dataset.read(0)
  low = np.full(first.action.shape[1:], np.inf)
  high = -low
  for episode in dataset:
    low = np.minimum(low, episode.action.min(axis=0))
    high = np.maximum(high, episode.action.max(axis=0))
  if (low >= -1).all() and (high <= 1).all():
    low, high = -np.ones_like(low), np.ones_like(high)
  return specs.EnvironmentSpec(
    observations=tree.map_structure(
      lambda leaf: specs.Array(leaf.shape[1:], leaf.dtype), first.observation
    ),
    actions=specs.BoundedArray(low.shape, np.float32, low, high, name="action"),
    rewards=specs.Array((), np.float32, name="reward"),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, name="discount"),
  )
