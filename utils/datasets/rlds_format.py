"""RLDS datasets in the folders of TensorFlow Datasets.

An episode's `steps` hold observation, action, reward, discount, is_first, is_last and is_terminal.
Row t has the observation that action t was chosen on and the reward and discount that it led to;
the last row has an observation only. Arrays beside the usual ones are kept in `extras`. The
dataset's metadata may name the environment as `environment_name`.
"""

from collections.abc import Iterator, Mapping, Sequence
import os
from typing import Any

import numpy as np
import tensorflow as tf

from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets import packages
from temper.utils.datasets.episodes import DatasetError

ENVIRONMENT_NAME = "environment_name"
SPLIT = "train"
STEPS = "steps"
_REQUIRED = ("observation", "action", "reward", "is_last")
_ENDS = ("reward", "discount", "is_last", "is_terminal")
_KNOWN = ("observation", "action", "extras", *_ENDS)
# Told by its place in the episode.
_IGNORED = ("is_first",)

# A record of a TFRecord file is its length (uint64), 4 bytes of checksum, the bytes, 4 of checksum.
_RECORD_HEAD = 12
_RECORD_FRAME = 16


class RldsEpisodes(episodes.EpisodeDataset):
  """The episodes of one split, read one by one."""

  def __init__(self, path: str):
    """Reads the rewards and flags of every episode.

    Args:
      path: the folder that holds `dataset_info.json` and `features.json`. Of several splits,
        `train` is used.

    Raises:
      DatasetError: if the dataset is malformed, or in another file format than TFRecord.
      ImportError: if TensorFlow Datasets is not installed.
    """
    tfds = load_tfds()
    self._path = path
    notes: list[str] = []
    # What the library raises for damaged descriptions is of many kinds.
    try:
      builder = tfds.builder_from_directory(path)
      info = builder.info
      split, files = self._files(tfds, info, notes)
    except DatasetError:
      raise
    except Exception as error:
      raise DatasetError(
        f"{path}: TensorFlow Datasets cannot open it: {type(error).__name__}: {error}"
      ) from error
    self._split = split
    step = self._step_features(tfds, info, notes)
    # The episode as one sequence: the same bytes on disk, without a tf.data pipeline per episode.
    features = tfds.features.FeaturesDict({STEPS: tfds.features.Sequence(dict(step))})
    self._decode = tf.function(
      lambda record: _only(features.deserialize_example(record)[STEPS], _KNOWN),
      input_signature=[tf.TensorSpec((), tf.string)],
    )
    decode_ends = tf.function(
      lambda record: _only(features.deserialize_example(record)[STEPS], _ENDS),
      input_signature=[tf.TensorSpec((), tf.string)],
    )
    self._records = []  # For each episode: file, offset, length in bytes, number in the split.
    lengths: list[int] = []
    returns, terminated = [], []
    dropped: list[int] = []
    for record in self._iterate(files):
      number = len(lengths) + len(dropped)
      steps = self._to_numpy(decode_ends, record[-1], number)
      reward, discount = self._rewards_and_discounts(number, steps, notes)
      if not len(reward):
        dropped.append(number)
        continue
      self._records.append((*record[:-1], number))
      lengths.append(len(reward))
      returns.append(np.sum(reward, dtype=np.float64))
      terminated.append(discount[-1] == 0)
    if dropped:
      checking.note(
        notes, f"{len(dropped)} episodes without an action are left out, the first {dropped[0]}"
      )
    super().__init__(
      path=path,
      format=episodes.DatasetFormat.RLDS,
      lengths=lengths,
      returns=returns,
      terminated=terminated,
      nbytes=0,
      in_memory=False,
      notes=notes,
      environment_name=(info.metadata or {}).get(ENVIRONMENT_NAME),
    )
    first = self.read(0)
    self.nbytes = int(first.nbytes / first.num_steps * self.num_steps)

  def read(self, index: int) -> episodes.Episode:
    self.check_index(index)
    file, offset, size, number = self._records[index]
    with open(file, "rb") as opened:
      opened.seek(offset + _RECORD_HEAD)
      steps = self._to_numpy(self._decode, opened.read(size), number)
    reward, discount = self._rewards_and_discounts(number, steps, self.notes)

    def convert(place: checking.Place, array: np.ndarray) -> np.ndarray:
      return checking.numbers(place, array, self.notes)

    rest = {
      # The last row's action and extras mean nothing.
      key: checking.map_named(
        lambda place, array: convert(place, array[:-1]), steps[key], self._place(number, key)
      )
      for key in ("action", "extras")
      if key in steps
    }
    return episodes.Episode(
      observation=checking.names_to_tuples(
        checking.map_named(convert, steps["observation"], self._place(number, "observation"))
      ),
      action=rest["action"],
      reward=reward,
      discount=discount,
      extras=rest.get("extras", {}),
    )

  def _files(self, tfds: Any, info: Any, notes: list[str]) -> tuple[str, list[str]]:
    """Returns the split to read and its files, in order."""
    splits = sorted(info.splits)
    if not splits:
      raise DatasetError(f"{self._path}: dataset_info.json names no split.")
    split = SPLIT if SPLIT in splits else splits[0]
    if len(splits) > 1:
      if split != SPLIT:
        raise DatasetError(
          f"{self._path} has the splits {splits}; of several, the one to learn from must be "
          f"{SPLIT!r}."
        )
      notes.append(f"split {split!r} of {splits}")
    if info.file_format != tfds.core.FileFormat.TFRECORD:
      raise DatasetError(
        f"{self._path} is stored as {info.file_format.value}; TFRecord files are read. Convert it "
        "with TensorFlow Datasets."
      )
    files = [os.fspath(file) for file in info.splits[split].filepaths]
    for file in files:
      if not os.path.isfile(file):
        raise DatasetError(f"{self._path}: {file}, a part of split {split!r}, is missing.")
    return split, files

  def _step_features(self, tfds: Any, info: Any, notes: list[str]) -> Any:
    """Returns the features of a step, or raises DatasetError."""
    top = info.features
    steps = top[STEPS] if isinstance(top, tfds.features.FeaturesDict) and STEPS in top else None
    step = getattr(steps, "feature", None)
    if not isinstance(step, tfds.features.FeaturesDict):
      raise DatasetError(
        f"{self._path}: features.json has no dataset {STEPS!r} of named arrays, only {top}; an "
        "RLDS dataset has one in each episode."
      )
    missing = [key for key in _REQUIRED if key not in step]
    if missing or ("is_terminal" not in step and "discount" not in step):
      missing = missing or ["is_terminal"]
      raise DatasetError(f"{self._path}: the steps have no {missing[0]!r}, only {sorted(step)}.")
    unused = sorted(set(step) - set(_KNOWN) - set(_IGNORED))
    if unused:
      notes.append(f"not used: {', '.join(unused)}")
    return step

  def _iterate(self, files: list[str]) -> Iterator[tuple[str, int, int, bytes]]:
    """Yields each record's file, offset, size and bytes, once its checksum has been compared."""
    for file in files:
      offset = 0
      try:
        for record in tf.data.TFRecordDataset(file).as_numpy_iterator():
          yield file, offset, len(record), record
          offset += len(record) + _RECORD_FRAME
      except tf.errors.OpError as error:
        raise DatasetError(
          f"{self._path}: {file} is truncated or damaged at byte {offset} ({error.message}). Copy "
          "or make it again."
        ) from error
      if offset != os.path.getsize(file):
        raise DatasetError(f"{self._path}: {file} is truncated or damaged at byte {offset}.")

  def _to_numpy(self, decode: Any, record: bytes, number: int) -> dict[str, Any]:
    """Returns the nested arrays of an episode's steps."""
    try:
      return tf.nest.map_structure(lambda tensor: tensor.numpy(), dict(decode(tf.constant(record))))
    except tf.errors.OpError as error:
      raise DatasetError(
        f"{self._path}: {self._name(number)} does not match features.json: {error.message}"
      ) from error

  def _name(self, number: int) -> str:
    return f"episode {number} of split {self._split!r}"

  def _place(self, number: int, key: str) -> checking.Place:
    return checking.Place(self._path, f"{STEPS}/{key}", episode=self._name(number))

  def _rewards_and_discounts(
    self, number: int, steps: Mapping[str, Any], notes: list[str]
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 rewards [L] and discounts [L] of an episode of L + 1 steps."""
    rows = len(steps["reward"])
    if rows < 2:
      return np.zeros((0,), np.float32), np.zeros((0,), np.float32)
    reward = checking.scalars(self._place(number, "reward"), steps["reward"][:-1], notes)
    discount = np.ones((rows - 1,), np.float32)
    if "discount" in steps:
      discount = checking.scalars(self._place(number, "discount"), steps["discount"][:-1], notes)
      wrong = np.flatnonzero((discount < 0) | (discount > 1))
      if len(wrong):
        place = self._place(number, "discount").at([wrong[0]])
        raise DatasetError(f"{place} is {discount[wrong[0]]}; it must lie in [0, 1].")
      discount = discount.copy()
    for key in ("is_last", "is_terminal"):
      if key not in steps:
        continue
      flags = checking.flags(self._place(number, key), steps[key], notes)
      early = np.flatnonzero(flags[:-1])
      if len(early):
        place = self._place(number, key).at([early[0]])
        raise DatasetError(f"{place} is True, but the episode goes on to step {rows - 1}.")
      if key == "is_terminal" and flags[-1]:
        discount[-1] = 0.0
      elif key == "is_last" and not flags[-1]:
        checking.note(
          notes, "episodes without a last step: cut at their last observation, read as truncations"
        )
    return reward, discount


def load_tfds() -> Any:
  """Imports TensorFlow Datasets, or raises ImportError."""
  tfds = packages.load("tensorflow_datasets", "RLDS datasets")
  # It logs what it cannot import, and goes on without it.
  packages.load("tensorflow_datasets.rlds", "RLDS datasets")
  return tfds


def _only(steps: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
  """Returns the items of those keys that are there."""
  return {key: item for key, item in steps.items() if key in keys}
