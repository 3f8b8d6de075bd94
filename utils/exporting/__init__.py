"""Policies for use without Temper: as a SavedModel, as ONNX or as TensorFlow Lite files."""

from temper.utils.exporting.formats import ExportError
from temper.utils.exporting.formats import ExportFormat
from temper.utils.exporting.functions import Input
from temper.utils.exporting.functions import InputKind
from temper.utils.exporting.functions import PolicyFunction
from temper.utils.exporting.functions import leaf_names
from temper.utils.exporting.loading import LoadedPolicy
from temper.utils.exporting.metadata import METADATA_FILE
from temper.utils.exporting.metadata import describe
from temper.utils.exporting.verification import verify
from temper.utils.exporting.writing import write

__all__ = [
  "METADATA_FILE",
  "ExportError",
  "ExportFormat",
  "Input",
  "InputKind",
  "LoadedPolicy",
  "PolicyFunction",
  "describe",
  "leaf_names",
  "verify",
  "write",
]
