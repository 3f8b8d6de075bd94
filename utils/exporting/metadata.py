"""What stands beside an exported policy: where it comes from, what goes in and what comes out."""

from collections.abc import Mapping, Sequence
import json
import os
from typing import Any

from acme import specs
import numpy as np

from temper.utils import startup
from temper.utils.exporting.formats import ExportFormat
from temper.utils.exporting.functions import InputKind
from temper.utils.exporting.functions import PolicyFunction

METADATA_FILE = "metadata.json"
# Of this file; counts up when a reader has to know.
VERSION = 1


def make(
  functions: Sequence[PolicyFunction],
  files: Mapping[str, str],
  export_format: ExportFormat,
  facts: Mapping[str, Any],
) -> dict[str, Any]:
  """Returns what the file will hold.

  Args:
    functions: what is exported.
    files: the file of each function by its name, where each has one.
    export_format: the format.
    facts: JSON-able facts, such as agent, config and specs.
  """
  observations = {
    name: describe(specs.Array(given.shape, given.dtype))
    for function in functions
    for name, given in function.inputs.items()
    if given.kind is InputKind.OBSERVATION
  }
  return {
    **facts,
    "format": export_format.value,
    "metadata_version": VERSION,
    "temper_version": startup.version(),
    "observation": observations,
    "functions": {function.name: _describe_function(function, files) for function in functions},
  }


def write(directory: str, document: Mapping[str, Any]) -> None:
  """Writes the file into a folder."""
  with open(os.path.join(directory, METADATA_FILE), "w", encoding="utf-8") as file:
    json.dump(document, file, indent=2)
    file.write("\n")


def read(directory: str) -> dict[str, Any]:
  """Returns what the file holds.

  Raises:
    ValueError: if the folder holds no exported policy, or one of a later version.
  """
  path = os.path.join(directory, METADATA_FILE)
  try:
    with open(path, encoding="utf-8") as file:
      document = json.load(file)
  except (OSError, ValueError) as error:
    raise ValueError(f"{directory} holds no exported policy: {path}: {error}.") from error
  version = document.get("metadata_version") if isinstance(document, dict) else None
  if version != VERSION:
    raise ValueError(
      f"{path} is of metadata version {version}; this version of Temper reads {VERSION}. Export "
      "the policy again."
    )
  return document


def describe(spec: specs.Array) -> dict[str, Any]:
  """Returns a spec in JSON terms, without the batch axis; a bound that is infinite is None."""
  described: dict[str, Any] = {"shape": list(spec.shape), "dtype": np.dtype(spec.dtype).name}
  if isinstance(spec, specs.BoundedArray):
    for name in ("minimum", "maximum"):
      bound = np.asarray(getattr(spec, name))
      plain = bound.astype(object)
      plain[~np.isfinite(bound)] = None
      described[name] = plain.tolist()
  return described


def _describe_function(function: PolicyFunction, files: Mapping[str, str]) -> dict[str, Any]:
  inputs: dict[str, Any] = {}
  for name, given in function.inputs.items():
    inputs[name] = {
      "kind": given.kind.value,
      "shape": ["batch" if size is None else size for size in given.full_shape],
      "dtype": np.dtype(given.dtype).name,
    }
    if given.initial is not None:
      inputs[name]["initial"] = _short(given.initial)
  outputs = {
    name: {
      "shape": ["batch", *output.shape.as_list()[1:]],
      "dtype": output.dtype.name,
    }
    for name, output in sorted(function.concrete.structured_outputs.items())
  }
  file = {"file": files[function.name]} if function.name in files else {}
  return {**file, **function.facts, "inputs": inputs, "outputs": outputs}


def _short(value: np.ndarray) -> Any:
  """Returns an array as lists, or as the one number that all of it is."""
  flat = value.reshape(-1)
  return flat[0].item() if flat.size and (flat == flat[0]).all() else value.tolist()
