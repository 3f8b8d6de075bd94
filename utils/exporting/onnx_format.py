"""A function as an ONNX file, converted by tf2onnx and checked."""

import logging
from typing import Any

import tensorflow as tf

from temper.utils.exporting.formats import ExportError
from temper.utils.exporting.functions import PolicyFunction

# Runtimes since the end of 2022 have it.
OPSET = 17
_BATCH = "batch"


def write(function: PolicyFunction, path: str) -> None:
  """Writes a file.

  Args:
    function: what to write.
    path: the file.

  Raises:
    ExportError: if ONNX lacks an operation that the function needs; names it.
    ImportError: if tf2onnx or onnx is not installed; says how to install them.
  """
  try:
    import onnx
    from tf2onnx import convert
  except ImportError as error:
    raise ImportError(
      f"Exporting to ONNX needs the packages onnx and tf2onnx ({error}). Install them with: "
      "pip install 'temper-rl[onnx]'"
    ) from error
  names = list(function.inputs)

  def positional(*args: tf.Tensor) -> dict[str, tf.Tensor]:
    return function.function(**dict(zip(names, args)))

  specs = [
    tf.TensorSpec(given.full_shape, given.dtype, name=name)
    for name, given in function.inputs.items()
  ]
  # It reports every step of its work.
  logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
  model, _ = convert.from_function(
    tf.function(positional, autograph=False), input_signature=specs, opset=OPSET
  )
  foreign = sorted({n.op_type for n in model.graph.node if not onnx.defs.has(n.op_type, OPSET)})
  if foreign:
    raise ExportError(
      f"ONNX cannot express the function {function.name!r} of this policy: it has no "
      f"{', '.join(foreign)}. Export it as savedmodel."
    )
  _name_batch_axes(model)
  onnx.checker.check_model(model, full_check=True)
  onnx.save(model, path)


def _name_batch_axes(model: Any) -> None:
  """Gives the unknown first axis of each input and output one name."""
  for value in (*model.graph.input, *model.graph.output):
    dimensions = value.type.tensor_type.shape.dim
    if dimensions and not dimensions[0].HasField("dim_value"):
      dimensions[0].dim_param = _BATCH
