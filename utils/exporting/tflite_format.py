"""A function as a TensorFlow Lite file, of builtin operations only."""

import os
import re
import tempfile

import tensorflow as tf

from temper.utils.exporting import savedmodel_format
from temper.utils.exporting.formats import ExportError
from temper.utils.exporting.functions import PolicyFunction


def write(function: PolicyFunction, path: str) -> None:
  """Writes a file with one signature, of the function's name.

  Args:
    function: what to write.
    path: the file.

  Raises:
    ExportError: if TensorFlow Lite lacks an operation that the function needs; names it.
  """
  with tempfile.TemporaryDirectory() as scratch:
    saved = os.path.join(scratch, "saved_model")
    savedmodel_format.write([function], saved)
    converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=[function.name])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    try:
      content = converter.convert()
    except Exception as error:  # The converter raises errors of several kinds.
      raise ExportError(
        f"TensorFlow Lite cannot express the function {function.name!r} of this policy: "
        f"{_reason(error)}. Export it as savedmodel or onnx."
      ) from error
  with open(path, "wb") as file:
    file.write(content)


def _reason(error: Exception) -> str:
  """Returns what of the converter's long message matters: the operations that it lacks."""
  missing = sorted(set(re.findall(r"tf\.(\w+)\(", str(error))))
  if missing:
    return f"its builtin operations have no {', '.join(missing)}"
  return str(error).strip().splitlines()[0]
