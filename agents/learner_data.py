"""A learner's data under a `tf.distribute` strategy: how batches are fetched and looked into."""

from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np
import reverb
import tensorflow as tf
import tree

from temper.utils import strategies

Dataset = Union[tf.data.Dataset, Iterator[reverb.ReplaySample]]


def make_iterator(dataset: Dataset, strategy: tf.distribute.Strategy) -> tuple[Iterator[Any], bool]:
  """Makes the iterator that a learner fetches its batches from.

  Args:
    dataset: a dataset of whole batches, which is spread over the replicas, or an iterator.
    strategy: the strategy whose replicas share each batch.

  Returns:
    The iterator, and whether it can be advanced inside of a graph.

  Raises:
    ValueError: if a batch cannot be shared equally, if an iterator cannot feed several replicas, or
      if `dataset` is neither dataset nor iterator.
  """
  replicas = strategy.num_replicas_in_sync
  if isinstance(dataset, tf.data.Dataset):
    return (iter(dataset) if replicas == 1 else _distribute(dataset, strategy)), True
  if isinstance(dataset, tf.distribute.DistributedIterator):
    return dataset, True
  if replicas > 1:
    raise ValueError(
      f"An iterator of type {type(dataset).__name__} cannot feed {replicas} replicas. Pass the "
      "tf.data.Dataset itself, or an iterator over a dataset that the strategy has distributed."
    )
  if not hasattr(dataset, "__next__"):
    raise ValueError(
      f"dataset is a {type(dataset).__name__}; a tf.data.Dataset or an iterator of samples is "
      "needed."
    )
  # Some iterators are no dataset's, but make operations when they are advanced.
  in_graph = isinstance(dataset, tf.data.Iterator) or getattr(dataset, "advances_in_graph", False)
  return dataset, in_graph


def floating_tensors(sample: Any, strategy: tf.distribute.Strategy) -> dict[str, Any]:
  """Returns those of a batch's tensors that can hold NaN or infinity, by their path.

  Args:
    sample: a `reverb.ReplaySample` or another nest; several replicas have per-replica values in it.
    strategy: the strategy that the batch was made under.
  """
  return {
    "/".join(str(part) for part in path): leaf
    for path, leaf in tree.flatten_with_path(getattr(sample, "data", sample))
    if strategy.experimental_local_results(leaf)[0].dtype.is_floating
  }


def names_of_non_finite(tensors: Mapping[str, Any], strategy: tf.distribute.Strategy) -> list[str]:
  """Returns the names of tensors that hold NaN or infinity on any replica.

  Args:
    tensors: what `floating_tensors` returns.
    strategy: the strategy that the batch was made under.
  """
  return [
    name
    for name, tensor in tensors.items()
    if not all(np.isfinite(part).all() for part in strategy.experimental_local_results(tensor))
  ]


def _distribute(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Iterator[Any]:
  for leaf in tree.flatten(dataset.element_spec):
    if leaf.shape.rank and leaf.shape[0] is not None:
      strategies.batch_per_replica(leaf.shape[0], strategy)
  # One server feeds all replicas of this process: there are no files to share out.
  options = tf.data.Options()
  options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
  return iter(strategy.experimental_distribute_dataset(dataset.with_options(options)))
