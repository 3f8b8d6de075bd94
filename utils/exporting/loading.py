"""Runs exported policies of every format in one way. Only what a format needs is imported."""

from collections.abc import Callable, Mapping
import os
from typing import Any

import numpy as np

from temper.utils.exporting import metadata
from temper.utils.exporting.formats import ExportFormat
from temper.utils.exporting.functions import InputKind

Arrays = dict[str, np.ndarray]


class LoadedPolicy:
  """An exported policy, whose functions map arrays by name to arrays by name.

  Attributes:
    metadata: what `metadata.json` holds.
    functions: by name; inputs and outputs are those of the metadata.
  """

  def __init__(self, directory: str):
    """Opens a folder that `temper export` made.

    Raises:
      ValueError: if it holds no exported policy.
      ImportError: if what runs the format is not installed.
    """
    self.metadata = metadata.read(directory)
    export_format = ExportFormat(self.metadata["format"])
    self.functions: dict[str, Callable[..., Arrays]] = _OPENERS[export_format](
      directory, self.metadata["functions"]
    )

  def initial_state(self, function: str, batch_size: int) -> Arrays:
    """Returns the state inputs of a function in which B episodes begin; none if not recurrent."""
    state = {}
    for name, given in self.metadata["functions"][function]["inputs"].items():
      if given["kind"] == InputKind.STATE.value:
        initial = np.asarray(given["initial"], given["dtype"])
        state[name] = np.broadcast_to(initial, (batch_size, *given["shape"][1:])).copy()
    return state


def _open_savedmodel(directory: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  import tensorflow as tf

  loaded = tf.saved_model.load(directory)

  def make(name: str) -> Callable[..., Arrays]:
    signature = loaded.signatures[name]

    def call(**inputs: Any) -> Arrays:
      tensors = {key: tf.constant(value) for key, value in inputs.items()}
      # The signature alone does not keep the variables alive.
      return {key: x.numpy() for key, x in signature(**tensors).items() if loaded}

    return call

  return {name: make(name) for name in functions}


def _open_onnx(directory: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  try:
    import onnxruntime
  except ImportError as error:
    raise ImportError(
      f"Running an ONNX file needs onnxruntime ({error}). Install it with: "
      "pip install 'temper-rl[onnx]'"
    ) from error

  def make(file: str) -> Callable[..., Arrays]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
      os.path.join(directory, file), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(names, inputs)))

  return {name: make(facts["file"]) for name, facts in functions.items()}


def _open_tflite(directory: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  import tensorflow as tf

  def make(name: str, file: str) -> Callable[..., Arrays]:
    interpreter = tf.lite.Interpreter(os.path.join(directory, file))
    runner = interpreter.get_signature_runner(name)
    return lambda **inputs: {key: np.array(x) for key, x in runner(**inputs).items()}

  return {name: make(name, facts["file"]) for name, facts in functions.items()}


_OPENERS: Mapping[ExportFormat, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
  ExportFormat.SAVEDMODEL: _open_savedmodel,
  ExportFormat.ONNX: _open_onnx,
  ExportFormat.TFLITE: _open_tflite,
}
