import os
import re

import numpy as np
import pytest
import tensorflow_datasets as tfds

from temper.utils import datasets


def _steps(length, first=0.0):
  """The steps of an episode of `length` transitions, truncated; with nonsense in the last row."""
  rows = np.arange(first, first + length + 1, dtype=np.float32)
  last = np.arange(length + 1) == length
  return {
    "observation": rows[:, np.newaxis] * 10,
    "action": np.where(last, np.nan, rows / 100)[:, np.newaxis].astype(np.float32),
    "reward": np.where(last, np.nan, rows).astype(np.float32),
    "discount": np.where(last, np.nan, 1.0).astype(np.float32),
    "is_first": np.arange(length + 1) == 0,
    "is_last": last,
    "is_terminal": np.zeros((length + 1,), bool),
  }


@pytest.fixture
def save_rlds(tmp_path):
  """Writes episodes of steps by TensorFlow Datasets, without Temper."""

  def feature(array):
    if array.dtype.kind in "OU":
      return tfds.features.Text()
    return tfds.features.Tensor(shape=array.shape[1:], dtype=array.dtype.type)

  def save(splits, nest=tfds.features.Dataset):
    path = tmp_path / "set"
    os.makedirs(path)
    first = next(iter(splits.values()))[0]
    steps = nest({key: feature(array) for key, array in first.items()})
    identity = tfds.core.DatasetIdentity(
      name="robot", version=tfds.core.Version("2.0.0"), data_dir=str(path), module_name=""
    )
    info = tfds.core.DatasetInfo(
      builder=identity, features=tfds.features.FeaturesDict({"steps": steps, "id": np.int64})
    )
    # Two episodes a file.
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=2)
    writer.initialize_splits(list(splits))
    for split, written in splits.items():
      writer.add_examples({split: [{"steps": s, "id": i} for i, s in enumerate(written)]})
    writer.close_all()
    return str(path)

  return save


@pytest.mark.parametrize("in_memory", [True, False])
def test_reads_what_tfds_writes_in_several_files(save_rlds, in_memory):
  written = [_steps(3), _steps(2, 10), _steps(1, 20)]
  written[0]["is_terminal"][3] = True
  path = save_rlds({"train": written})
  assert sum("tfrecord" in name for name in os.listdir(path)) == 2
  dataset = datasets.open_dataset(path, in_memory=in_memory)
  assert dataset.format is datasets.DatasetFormat.RLDS
  np.testing.assert_array_equal(dataset.lengths, [3, 2, 1])
  np.testing.assert_array_equal(dataset.returns, [0 + 1 + 2, 10 + 11, 20])
  np.testing.assert_array_equal(dataset.terminated, [True, False, False])
  np.testing.assert_array_equal(dataset.read(0).observation[:, 0], [0, 10, 20, 30])
  np.testing.assert_array_equal(dataset.read(0).discount, [1, 1, 0])
  np.testing.assert_array_equal(dataset.read(2).observation[:, 0], [200, 210])
  np.testing.assert_array_equal(dataset.read(1).action[:, 0], np.float32([0.1, 0.11]))
  np.testing.assert_array_equal(dataset.read(1).discount, [1, 1])
  assert dataset.notes == []


def test_steps_may_be_a_sequence_too(save_rlds):
  dataset = datasets.open_dataset(save_rlds({"train": [_steps(3)]}, tfds.features.Sequence))
  np.testing.assert_array_equal(dataset.read(0).reward, [0, 1, 2])


def test_conversions_are_said(save_rlds):
  steps = _steps(3)
  steps["observation"] = steps["observation"].astype(np.float64)
  steps["reward"] = np.arange(4)
  steps["is_last"][:] = False
  steps["instruction"] = np.array(["go"] * 4)
  dataset = datasets.open_dataset(save_rlds({"train": [steps, _steps(1)][:1], "test": [steps]}))
  episode = dataset.read(0)
  assert episode.observation.dtype == episode.reward.dtype == np.float32
  assert episode.num_steps == 3
  for line in (
    "split 'train' of ['test', 'train']",
    "not used: instruction",
    "steps/observation: float64 converted to float32",
    "steps/reward: int64 converted to float32",
    "episodes without a last step: cut at their last observation, read as truncations",
  ):
    assert line in dataset.notes


def test_episodes_without_an_action_are_left_out(save_rlds):
  empty = {key: array[:0] for key, array in _steps(1).items()}
  only_reset = {key: array[-1:] for key, array in _steps(1).items()}
  dataset = datasets.open_dataset(save_rlds({"train": [_steps(2), empty, only_reset, _steps(3)]}))
  np.testing.assert_array_equal(dataset.lengths, [2, 3])
  np.testing.assert_array_equal(dataset.read(1).reward, [0, 1, 2])
  assert "2 episodes without an action are left out, the first 1" in dataset.notes


def test_terminations_are_told_by_the_discount_where_nothing_else_does(save_rlds):
  steps = _steps(3)
  del steps["is_terminal"]
  steps["discount"][2] = 0.0
  dataset = datasets.open_dataset(save_rlds({"train": [steps]}))
  np.testing.assert_array_equal(dataset.terminated, [True])


def _value(key, index, value):
  def change(steps):
    steps[key][index] = value

  return change


_MALFORMED = {
  "NaN reward": (_value("reward", 1, np.nan), "steps/reward[1] is nan"),
  "NaN discount": (_value("discount", 1, np.nan), "steps/discount[1] is nan"),
  "discount of 2": (_value("discount", 0, 2.0), "steps/discount[0] is 2.0"),
  "infinite observation": (_value("observation", (3, 0), np.inf), "steps/observation[3, 0] is inf"),
  "NaN action": (_value("action", (2, 0), np.nan), "steps/action[2, 0] is nan"),
  "an end in the middle": (_value("is_last", 1, True), "steps/is_last[1] is True"),
  "a termination in the middle": (_value("is_terminal", 0, True), "steps/is_terminal[0] is True"),
}


@pytest.mark.parametrize("case", _MALFORMED)
def test_malformed_episodes_are_refused_with_file_key_and_index(save_rlds, case):
  spoil, message = _MALFORMED[case]
  steps = _steps(3)
  spoil(steps)
  path = save_rlds({"train": [_steps(2), steps]})
  with pytest.raises(datasets.DatasetError) as raised:
    datasets.open_dataset(path)
  for part in (path, "episode 1 of split 'train'", message):
    assert part in str(raised.value)


def _without(key):
  return {name: array for name, array in _steps(3).items() if name != key}


@pytest.mark.parametrize("key", ["observation", "action", "reward", "is_last"])
def test_missing_arrays_are_refused(save_rlds, key):
  with pytest.raises(datasets.DatasetError, match=f"the steps have no '{key}'"):
    datasets.open_dataset(save_rlds({"train": [_without(key)]}))


def test_text_as_observation_is_refused(save_rlds):
  steps = {**_steps(1), "observation": np.array(["left", "right"])}
  with pytest.raises(datasets.DatasetError, match="steps/observation has dtype text"):
    datasets.open_dataset(save_rlds({"train": [steps]}))


def test_no_episodes_are_refused(save_rlds):
  only_reset = {key: array[-1:] for key, array in _steps(1).items()}
  with pytest.raises(datasets.DatasetError, match="there is no episode"):
    datasets.open_dataset(save_rlds({"train": [only_reset]}))


def test_of_several_splits_one_must_be_train(save_rlds):
  with pytest.raises(datasets.DatasetError, match="the splits .*'a', 'b'.*'train'"):
    datasets.open_dataset(save_rlds({"a": [_steps(1)], "b": [_steps(1)]}))


def test_damaged_datasets_are_refused(save_rlds):
  path = save_rlds({"train": [_steps(3), _steps(2)]})
  record = os.path.join(path, next(n for n in os.listdir(path) if "tfrecord" in n))
  with open(record, "rb") as file:
    content = file.read()
  # Cut within a record, cut within its frame, and with one byte changed.
  changed = bytearray(content)
  changed[60] ^= 1
  for damaged in (content[:-20], content[:-2], content[:5], bytes(changed)):
    with open(record, "wb") as file:
      file.write(damaged)
    with pytest.raises(datasets.DatasetError, match=f"{re.escape(record)} is truncated or damaged"):
      datasets.open_dataset(path)
  os.remove(record)
  with pytest.raises(datasets.DatasetError, match=f"{re.escape(record)}, a part .* is missing"):
    datasets.open_dataset(path)
  with open(os.path.join(path, "features.json"), "w") as file:
    file.write("{")
  with pytest.raises(datasets.DatasetError, match="TensorFlow Datasets cannot open it"):
    datasets.open_dataset(path)


def test_a_tfds_folder_without_steps_is_refused(tmp_path):
  identity = tfds.core.DatasetIdentity(
    name="a", version=tfds.core.Version("1.0.0"), data_dir=str(tmp_path), module_name=""
  )
  info = tfds.core.DatasetInfo(
    builder=identity, features=tfds.features.FeaturesDict({"image": np.int64})
  )
  writer = tfds.core.SequentialWriter(info, max_examples_per_shard=2)
  writer.initialize_splits(["train"])
  writer.add_examples({"train": [{"image": 1}]})
  writer.close_all()
  with pytest.raises(datasets.DatasetError, match="features.json has no dataset 'steps'"):
    datasets.open_dataset(tmp_path)
