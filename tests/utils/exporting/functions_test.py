"""Tests of `temper.utils.exporting.functions` and `formats`."""

import collections

import numpy as np
import pytest

from temper.utils import exporting
from temper.utils.exporting import ExportFormat
from temper.utils.exporting import Input
from temper.utils.exporting import InputKind

_State = collections.namedtuple("_State", ["hidden", "cell"])


def test_leaves_are_named_by_their_keys():
  assert exporting.leaf_names("observation", 0) == ["observation"]
  assert exporting.leaf_names("observation", {"to target": 0, "arm": 1}) == [
    "observation_arm",
    "observation_to_target",
  ]
  assert exporting.leaf_names("observation", (0, {"deep": 1})) == [
    "observation_0",
    "observation_1_deep",
  ]
  assert exporting.leaf_names("state", _State(0, 1)) == ["state_hidden", "state_cell"]
  assert exporting.leaf_names("state", ()) == []


def test_entries_that_would_share_a_name_are_refused():
  with pytest.raises(ValueError, match="observation_a_b.*rename"):
    exporting.leaf_names("observation", {"a b": 0, "a_b": 1})


def test_all_inputs_but_the_seed_are_batches():
  float32 = np.dtype(np.float32)
  assert Input(InputKind.OBSERVATION, (3,), float32).full_shape == (None, 3)
  assert Input(InputKind.UNIFORM, (), float32).full_shape == (None,)
  assert Input(InputKind.SEED, (), np.dtype(np.int32)).full_shape == ()


def test_only_tflite_has_no_float64():
  for export_format in ExportFormat:
    expected = np.float32 if export_format is ExportFormat.TFLITE else np.float64
    assert export_format.dtype(np.float64) == expected
    assert export_format.dtype(np.uint8) == np.uint8
