"""Writes RLDS datasets in the folders of TensorFlow Datasets; `rlds_format` has the layout."""

from collections.abc import Iterator, Mapping
import itertools
import os
from typing import Any, Optional

import numpy as np
import tree

from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets import rlds_format

_NAME = "episodes"
_VERSION = "1.0.0"

# Bytes of arrays that go into one file.
_FILE_BYTES = 2**27


def write_rlds(
  path: str, written: Iterator[episodes.Episode], *, environment_name: Optional[str]
) -> None:
  """Writes episodes, one after the other, to a new folder.

  Args:
    path: the folder.
    written: the episodes, at least one.
    environment_name: see `EpisodeDataset`.

  Raises:
    ImportError: if TensorFlow Datasets is not installed.
  """
  tfds = rlds_format.load_tfds()
  first = next(written)
  steps = _to_steps(first)
  scalar = tfds.features.Scalar(np.float32)
  extras = {"extras": _to_features(tfds, steps["extras"])} if "extras" in steps else {}
  config = tfds.rlds.rlds_base.DatasetConfig(
    name="default",
    observation_info=_to_features(tfds, steps["observation"]),
    action_info=_to_features(tfds, steps["action"]),
    reward_info=scalar,
    discount_info=scalar,
    step_metadata_info=extras,
  )
  identity = tfds.core.DatasetIdentity(
    name=_NAME, version=tfds.core.Version(_VERSION), data_dir=path, module_name=""
  )
  metadata = None
  if environment_name is not None:
    metadata = {rlds_format.ENVIRONMENT_NAME: environment_name}
  os.makedirs(path)
  writer = tfds.core.SequentialWriter(
    tfds.rlds.rlds_base.build_info(config, identity, metadata),
    max_examples_per_shard=max(1, _FILE_BYTES // first.nbytes),
  )
  writer.initialize_splits([rlds_format.SPLIT])
  for episode in itertools.chain([first], written):
    writer.add_examples({rlds_format.SPLIT: [{rlds_format.STEPS: _to_steps(episode)}]})
  writer.close_all()


def _to_steps(episode: episodes.Episode) -> dict[str, Any]:
  """Returns the L + 1 steps of an episode of L transitions as nested arrays."""
  rows = episode.num_steps + 1
  last = np.arange(rows) == rows - 1

  def pad(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array[:1])])

  steps = {
    "observation": checking.tuples_to_names(episode.observation),
    "action": pad(episode.action),
    "reward": pad(episode.reward),
    "discount": pad(episode.discount),
    "is_first": np.arange(rows) == 0,
    "is_last": last,
    "is_terminal": last & episode.terminated,
  }
  if episode.extras:
    steps["extras"] = tree.map_structure(pad, checking.tuples_to_names(episode.extras))
  return steps


def _to_features(tfds: Any, structure: Any) -> Any:
  """Returns the features of a step of nested arrays [L + 1, ...]."""
  if isinstance(structure, Mapping):
    return tfds.features.FeaturesDict(
      {key: _to_features(tfds, item) for key, item in structure.items()}
    )
  # Pictures shrink much; numbers hardly do, and unpacking each step would take most of the time.
  encoding = tfds.features.Encoding.ZLIB if structure.dtype == np.uint8 else None
  options = {} if encoding is None else {"encoding": encoding}
  return tfds.features.Tensor(shape=structure.shape[1:], dtype=structure.dtype.type, **options)
