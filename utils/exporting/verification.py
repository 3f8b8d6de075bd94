"""Compares exported functions with those that they were made of."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from temper.utils.exporting.formats import ExportError
from temper.utils.exporting.functions import Input
from temper.utils.exporting.functions import InputKind
from temper.utils.exporting.functions import PolicyFunction
from temper.utils.exporting.loading import Arrays
from temper.utils.exporting.loading import LoadedPolicy

# Relative to `1 + |x|`.
TOLERANCE = 1e-5


def example_inputs(function: PolicyFunction, batch_size: int, seed: int = 0) -> Arrays:
  """Draws a batch for each input.

  Args:
    function: whose inputs.
    batch_size: B.
    seed: decides the draws.

  Returns:
    Arrays `[B, ...]`, and a scalar seed, by the inputs' names.
  """
  random = np.random.default_rng(seed)
  return {name: _draw(given, batch_size, random) for name, given in function.inputs.items()}


def verify(functions: Sequence[PolicyFunction], directory: str, batch_size: int = 64) -> float:
  """Runs what was exported beside what it was made of.

  Args:
    functions: what was exported.
    directory: the folder that was written.
    batch_size: on how many examples; on one alone too.

  Returns:
    The largest difference of an output, relative to `1 + |x|` for the largest x of that output.

  Raises:
    ExportError: if a difference is above `TOLERANCE`, which names the function and the output.
    ImportError: if what runs the format is not installed.
  """
  loaded = LoadedPolicy(directory)
  largest = 0.0
  for function in functions:
    scales: dict[str, float] = {}
    for size in (batch_size, 1):
      inputs = example_inputs(function, size)
      wanted = function.concrete(**{name: tf.constant(x) for name, x in inputs.items()})
      found = loaded.functions[function.name](**inputs)
      for name, tensor in wanted.items():
        value = tensor.numpy().astype(np.float64)
        scale = scales.setdefault(name, 1.0 + float(np.abs(value).max()))
        off = float(np.abs(found[name].astype(np.float64) - value).max()) / scale
        # Not NaN either.
        if not off <= TOLERANCE:
          raise ExportError(
            f"The function {function.name!r} in {directory} returns another {name} than the agent, "
            f"by {off:.1e}; up to {TOLERANCE:g} is rounding. It is not to be used. Export it in "
            "another format, and please report this."
          )
        largest = max(largest, off)
  return largest


def _draw(given: Input, batch_size: int, random: np.random.Generator) -> np.ndarray:
  if given.kind is InputKind.SEED:
    return np.asarray(random.integers(2**31), given.dtype)
  shape = (batch_size, *given.shape)
  if given.kind is InputKind.UNIFORM:
    return random.random(shape, np.float32)
  if np.issubdtype(given.dtype, np.integer):
    return random.integers(np.iinfo(given.dtype).max // 2, size=shape, dtype=given.dtype)
  return random.normal(size=shape).astype(given.dtype)
