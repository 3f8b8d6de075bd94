"""Writes an exported policy as a folder, which is replaced as a whole."""

from collections.abc import Mapping, Sequence
import os
import shutil
from typing import Any

from temper.utils.exporting import metadata
from temper.utils.exporting import onnx_format
from temper.utils.exporting import savedmodel_format
from temper.utils.exporting import tflite_format
from temper.utils.exporting.formats import ExportError
from temper.utils.exporting.formats import ExportFormat
from temper.utils.exporting.functions import PolicyFunction

_WRITERS = {ExportFormat.ONNX: onnx_format.write, ExportFormat.TFLITE: tflite_format.write}


def write(
  functions: Sequence[PolicyFunction],
  directory: str,
  export_format: ExportFormat,
  facts: Mapping[str, Any],
) -> None:
  """Writes functions and, beside them, `metadata.json`.

  A SavedModel is the folder itself. Of the other formats there is one file for each function, such
  as `deterministic.onnx`.

  Args:
    functions: what to write, at least one, made for this format.
    directory: the folder to write; an exported policy there is replaced once the new one is
      complete.
    export_format: how.
    facts: JSON-able facts to keep in the metadata.

  Raises:
    ExportError: if the format cannot express a function, or the folder holds something else.
    ImportError: if the format needs a package that is not installed.
  """
  _check_replaceable(directory)
  scratch = directory.rstrip(os.sep) + ".new"
  shutil.rmtree(scratch, ignore_errors=True)
  files = {}
  try:
    if export_format is ExportFormat.SAVEDMODEL:
      savedmodel_format.write(functions, scratch)
    else:
      os.makedirs(scratch)
      for function in functions:
        files[function.name] = f"{function.name}.{export_format.value}"
        _WRITERS[export_format](function, os.path.join(scratch, files[function.name]))
    metadata.write(scratch, metadata.make(functions, files, export_format, facts))
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(scratch, directory)
  finally:
    shutil.rmtree(scratch, ignore_errors=True)


def _check_replaceable(directory: str) -> None:
  """Raises ExportError if there is anything but an exported policy."""
  if not os.path.lexists(directory):
    return
  exported = os.path.exists(os.path.join(directory, metadata.METADATA_FILE))
  if not os.path.isdir(directory) or (os.listdir(directory) and not exported):
    raise ExportError(
      f"{directory} exists and holds no exported policy, so it is not replaced. Choose another "
      "--output."
    )
