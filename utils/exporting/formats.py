"""The formats that policies are exported in, and what each of them lacks."""

import enum
from typing import Any

import numpy as np


class ExportError(ValueError):
  """What was asked for cannot be exported; the message says why and what can be done."""


class ExportFormat(enum.Enum):
  """A format that is executed without Temper.

  SAVEDMODEL: TensorFlow's own folder.
  ONNX: for onnxruntime and others, https://onnx.ai.
  TFLITE: for TensorFlow Lite's interpreter, of its builtin operations only.
  """

  SAVEDMODEL = "savedmodel"
  ONNX = "onnx"
  TFLITE = "tflite"

  @property
  def draws(self) -> bool:
    """Whether a function draws from a seed; otherwise the noise is an input."""
    return self is ExportFormat.SAVEDMODEL

  @property
  def has_float64(self) -> bool:
    """Whether there is float64; otherwise float32 takes its place, in inputs and outputs too."""
    return self is not ExportFormat.TFLITE

  def dtype(self, dtype: Any) -> np.dtype:
    """Returns the dtype that stands for another one."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype == np.float64 and not self.has_float64 else dtype
