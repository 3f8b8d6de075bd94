"""Exported folders: what is in them, how they are replaced, read again, verified and refused."""

import importlib.util
import json
import os
import sys

from acme import specs
import numpy as np
import pytest
import tensorflow as tf

from temper.utils import exporting
from temper.utils.exporting import ExportFormat
from temper.utils.exporting import Input
from temper.utils.exporting import InputKind
from temper.utils.exporting import PolicyFunction
from temper.utils.exporting import metadata as metadata_lib
from temper.utils.exporting import verification

_FLOAT32 = np.dtype(np.float32)
needs_onnx = pytest.mark.skipif(
  not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
  reason="the packages of the extra onnx are not installed",
)
FORMATS = [
  ExportFormat.SAVEDMODEL,
  pytest.param(ExportFormat.ONNX, marks=needs_onnx),
  ExportFormat.TFLITE,
]


def _linear(gain=2.0, name="deterministic"):
  """A function `next_state = state + observation`, `action = gain * next_state`."""
  variable = tf.Variable(gain)

  def function(observation, state):
    after = observation + state
    return {"action": variable * after, "next_state": tf.identity(after)}

  inputs = {
    "observation": Input(InputKind.OBSERVATION, (2,), _FLOAT32),
    "state": Input(InputKind.STATE, (2,), _FLOAT32, initial=np.array([1.0, -1.0], np.float32)),
  }
  return PolicyFunction(name, function, inputs, {"policy": "mean"})


def _without_inputs_of(operation, name="odd"):
  """A function of one observation by an operation that some formats lack."""
  return PolicyFunction(
    name,
    lambda observation: {"action": operation(observation)},
    {"observation": Input(InputKind.OBSERVATION, (2, 2), _FLOAT32)},
  )


@pytest.mark.parametrize("export_format", FORMATS)
def test_round_trip(export_format, tmp_path):
  folder = str(tmp_path / "policy")
  functions = [_linear(), _linear(-1.0, "other")]
  exporting.write(functions, folder, export_format, {"agent": "svg0"})
  assert os.listdir(tmp_path) == ["policy"]
  loaded = exporting.LoadedPolicy(folder)
  assert list(loaded.functions) == ["deterministic", "other"]
  for size in (1, 3):
    state = loaded.initial_state("deterministic", size)
    np.testing.assert_array_equal(state["state"], [[1.0, -1.0]] * size)
    observation = np.full((size, 2), 2.0, np.float32)
    outputs = loaded.functions["deterministic"](observation=observation, **state)
    np.testing.assert_array_equal(outputs["action"], [[6.0, 2.0]] * size)
    np.testing.assert_array_equal(outputs["next_state"], [[3.0, 1.0]] * size)
    outputs = loaded.functions["other"](observation=observation, **state)
    np.testing.assert_array_equal(outputs["action"], [[-3.0, -1.0]] * size)
  verified = exporting.verify(functions, folder)
  assert verified.largest < 1e-6 and verified.edges == 0


def test_metadata_says_where_it_is_from_and_what_goes_in_and_out(tmp_path):
  folder = str(tmp_path / "policy")
  exporting.write([_linear()], folder, ExportFormat.TFLITE, {"agent": "svg0", "step": 7})
  with open(os.path.join(folder, exporting.METADATA_FILE), encoding="utf-8") as file:
    metadata = json.load(file)
  assert metadata == metadata_lib.read(folder)
  del metadata["temper_version"]
  assert metadata == {
    "agent": "svg0",
    "step": 7,
    "format": "tflite",
    "metadata_version": 1,
    "observation": {"observation": {"shape": [2], "dtype": "float32"}},
    "functions": {
      "deterministic": {
        "file": "deterministic.tflite",
        "policy": "mean",
        "inputs": {
          "observation": {"kind": "observation", "shape": ["batch", 2], "dtype": "float32"},
          "state": {
            "kind": "state",
            "shape": ["batch", 2],
            "dtype": "float32",
            "initial": [1.0, -1.0],
          },
        },
        "outputs": {
          "action": {"shape": ["batch", 2], "dtype": "float32"},
          "next_state": {"shape": ["batch", 2], "dtype": "float32"},
        },
      }
    },
  }


def test_exporting_again_replaces_the_folder_and_a_failure_leaves_it(tmp_path):
  folder = str(tmp_path / "policy")
  exporting.write([_linear()], folder, ExportFormat.TFLITE, {})
  exporting.write([_linear(5.0)], folder, ExportFormat.SAVEDMODEL, {})
  assert "deterministic.tflite" not in os.listdir(folder)
  odd = _without_inputs_of(tf.linalg.cholesky)
  with pytest.raises(exporting.ExportError, match="'odd'.*Cholesky.*savedmodel or onnx"):
    exporting.write([_linear(), odd], folder, ExportFormat.TFLITE, {})
  assert os.listdir(tmp_path) == ["policy"]
  outputs = exporting.LoadedPolicy(folder).functions["deterministic"](
    observation=np.ones((1, 2), np.float32), state=np.zeros((1, 2), np.float32)
  )
  np.testing.assert_array_equal(outputs["action"], [[5.0, 5.0]])


def test_other_peoples_folders_are_not_replaced(tmp_path):
  (tmp_path / "letters").mkdir()
  (tmp_path / "letters" / "one.txt").write_text("Dear")
  (tmp_path / "file").write_text("")
  for name in ("letters", "file"):
    with pytest.raises(exporting.ExportError, match="no exported policy, so it is not replaced"):
      exporting.write([_linear()], str(tmp_path / name), ExportFormat.SAVEDMODEL, {})
  assert (tmp_path / "letters" / "one.txt").read_text() == "Dear"
  with pytest.raises(ValueError, match="letters holds no exported policy"):
    exporting.LoadedPolicy(str(tmp_path / "letters"))


def test_a_later_metadata_is_refused(tmp_path):
  metadata_lib.write(str(tmp_path), {"metadata_version": 99})
  with pytest.raises(ValueError, match="version 99.*reads 1"):
    exporting.LoadedPolicy(str(tmp_path))


def test_a_file_that_acts_otherwise_is_found_out(tmp_path):
  folder = str(tmp_path / "policy")
  exporting.write([_linear(2.0)], folder, ExportFormat.SAVEDMODEL, {})
  with pytest.raises(exporting.ExportError, match="'deterministic'.*another action.*report"):
    exporting.verify([_linear(2.001)], folder)
  with pytest.raises(exporting.ExportError, match="another action"):
    exporting.verify([_linear(float("nan"))], folder)


def test_a_few_rows_may_be_on_an_edge(tmp_path):
  folder = str(tmp_path / "policy")

  def rounded(gain):
    return _without_inputs_of(lambda x: tf.round(x * gain), "deterministic")

  exporting.write([rounded(3.0)], folder, ExportFormat.SAVEDMODEL, {})
  verified = exporting.verify([rounded(3.008)], folder)
  assert verified.largest == 0 and 1 <= verified.edges <= 4
  with pytest.raises(exporting.ExportError, match="another action"):
    exporting.verify([rounded(4.0)], folder)


def test_an_infinite_bound_is_none():
  spec = specs.BoundedArray((2,), np.float32, [-np.inf, 0.0], np.inf)
  described = exporting.describe(spec)
  assert described["minimum"] == [None, 0.0] and described["maximum"] in (None, [None, None])
  json.dumps(described, allow_nan=False)


def test_examples_fit_the_inputs():
  inputs = {
    "pixels": Input(InputKind.OBSERVATION, (4, 4, 3), np.dtype(np.uint8)),
    "seed": Input(InputKind.SEED, (), np.dtype(np.int32)),
    "uniform": Input(InputKind.UNIFORM, (2,), _FLOAT32),
  }
  function = PolicyFunction("sample", lambda **given: given, inputs)
  drawn = verification.example_inputs(function, 100)
  assert {name: (x.shape, x.dtype.name) for name, x in drawn.items()} == {
    "pixels": ((100, 4, 4, 3), "uint8"),
    "seed": ((), "int32"),
    "uniform": ((100, 2), "float32"),
  }
  assert drawn["uniform"].min() >= 0 and drawn["uniform"].max() < 1 and drawn["pixels"].std() > 10


@needs_onnx
def test_onnx_files_have_a_named_batch_axis_and_refuse_what_onnx_lacks(tmp_path):
  import onnx

  folder = str(tmp_path / "policy")
  exporting.write([_linear()], folder, ExportFormat.ONNX, {})
  model = onnx.load(os.path.join(folder, "deterministic.onnx"))
  for value in (*model.graph.input, *model.graph.output):
    assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
  assert {value.name for value in model.graph.input} == {"observation", "state"}
  with pytest.raises(exporting.ExportError, match="'odd'.*Cholesky.*savedmodel"):
    exporting.write([_without_inputs_of(tf.linalg.cholesky)], folder, ExportFormat.ONNX, {})


@pytest.mark.parametrize("missing", ["onnx", "tf2onnx"])
def test_without_its_packages_onnx_says_how_to_install_them(missing, monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, missing, None)
  with pytest.raises(ImportError, match=r"onnx and tf2onnx.*temper-rl\[onnx\]"):
    exporting.write([_linear()], str(tmp_path / "policy"), ExportFormat.ONNX, {})
  assert not os.listdir(tmp_path)


def test_without_onnxruntime_loading_says_how_to_install_it(monkeypatch, tmp_path):
  facts = {"functions": {"deterministic": {"file": "deterministic.onnx"}}}
  metadata_lib.write(str(tmp_path), {"metadata_version": 1, "format": "onnx", **facts})
  monkeypatch.setitem(sys.modules, "onnxruntime", None)
  with pytest.raises(ImportError, match=r"temper-rl\[onnx\]"):
    exporting.LoadedPolicy(str(tmp_path))
