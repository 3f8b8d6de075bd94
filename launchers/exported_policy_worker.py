"""Runs exported policies where Temper is not, and compares them with what the agent did.

It imports NumPy and what runs the format, nothing else, so that any interpreter can run it as a
script:

python -I exported_policy_worker.py FOLDER...

Each folder holds an exported policy and `reference.npz`, see `temper.launchers.export_check`. What
is printed is one line of JSON: for each folder and function the largest difference, and which
top-level modules were imported.
"""

from collections.abc import Callable, Mapping
import json
import os
import sys
from typing import Any

import numpy as np

REFERENCE_FILE = "reference.npz"
# Of the entries in it: function/mode/in or out/name.
BATCHED = "batched"
SINGLE = "single"

Arrays = dict[str, np.ndarray]


def open_functions(folder: str) -> dict[str, Callable[[Arrays], Mapping[str, Any]]]:
  """Returns the functions of an exported policy by name, as docs/export.md shows it."""
  with open(os.path.join(folder, "metadata.json"), encoding="utf-8") as file:
    metadata = json.load(file)
  kind = metadata["format"]
  openers = {"savedmodel": _savedmodel, "onnx": _onnx, "tflite": _tflite}
  return openers[kind](folder, metadata["functions"])


def _savedmodel(folder: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  import tensorflow as tf

  loaded = tf.saved_model.load(folder)

  def make(name: str) -> Any:
    return lambda inputs, policy=loaded: policy.signatures[name](
      **{key: tf.constant(value) for key, value in inputs.items()}
    )

  return {name: make(name) for name in functions}


def _onnx(folder: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  import onnxruntime

  def make(file: str) -> Any:
    session = onnxruntime.InferenceSession(os.path.join(folder, file))
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs)))

  return {name: make(facts["file"]) for name, facts in functions.items()}


def _tflite(folder: str, functions: Mapping[str, Any]) -> dict[str, Any]:
  import tensorflow as tf

  def make(name: str, file: str) -> Any:
    interpreter = tf.lite.Interpreter(os.path.join(folder, file))
    runner = interpreter.get_signature_runner(name)
    return lambda inputs: {key: np.array(value) for key, value in runner(**inputs).items()}

  return {name: make(name, facts["file"]) for name, facts in functions.items()}


def compare(folder: str) -> dict[str, float]:
  """Returns, by function and mode, the largest difference of an output; see `difference`."""
  reference = np.load(os.path.join(folder, REFERENCE_FILE))
  sides: dict[tuple[str, str], dict[str, Arrays]] = {}
  for key in reference.files:
    function, mode, side, name = key.split("/")
    sides.setdefault((function, mode), {"in": {}, "out": {}})[side][name] = reference[key]
  functions = open_functions(folder)
  differences = {}
  for (function, mode), both in sides.items():
    call, wanted = functions[function], both["out"]
    if mode == BATCHED:
      found = {name: np.asarray(value) for name, value in call(both["in"]).items()}
    else:
      found = _one_by_one(call, both["in"])
    differences[f"{function}/{mode}"] = max(
      difference(name, found[name], value) for name, value in wanted.items()
    )
  return differences


def row_of(inputs: Arrays, i: int) -> Arrays:
  """Returns one row of inputs as a batch of one; a seed, one number a row, has no axis then."""
  return {name: x[i] if name == "seed" else x[i : i + 1] for name, x in inputs.items()}


def _one_by_one(call: Callable[[Arrays], Mapping[str, Any]], inputs: Arrays) -> Arrays:
  """Calls once for each row."""
  count = len(next(iter(inputs.values())))
  found: dict[str, list[np.ndarray]] = {}
  for i in range(count):
    for name, value in call(row_of(inputs, i)).items():
      found.setdefault(name, []).append(np.asarray(value))
  return {name: np.concatenate(values) for name, values in found.items()}


def difference(name: str, found: np.ndarray, wanted: np.ndarray) -> float:
  """Returns the largest `|found - wanted| / (1 + |wanted|)`.

  An action in the environment's own bounds is a canonical one stretched over them, so that its
  rounding is relative to those, not to the action: there the largest `|wanted|` is taken.
  """
  if found.shape != wanted.shape or found.dtype != wanted.dtype or not np.isfinite(found).all():
    return float("inf")
  found, wanted = found.astype(np.float64), wanted.astype(np.float64)
  size = np.abs(wanted).max(initial=0.0) if name == "action" else np.abs(wanted)
  return float(np.max(np.abs(found - wanted) / (1.0 + size), initial=0.0))


def main() -> None:
  """Compares every folder that the command line names."""
  differences = {folder: compare(folder) for folder in sys.argv[1:]}
  modules = sorted({name.partition(".")[0] for name in sys.modules})
  print(json.dumps({"differences": differences, "modules": modules}))


if __name__ == "__main__":
  main()
