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

# Of numbers about one, and relative to larger ones.
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


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
  """Returns the largest `|found - wanted| / (1 + |wanted|)`; infinite where only one is finite."""
  found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
  if found.shape != wanted.shape or not np.isfinite(found).all():
    return float("inf")
  return float(np.max(np.abs(found - wanted) / (1.0 + np.abs(wanted)), initial=0.0))


def verify(functions: Sequence[PolicyFunction], directory: str, batch_size: int = 64) -> float:
  """Runs what was exported beside what it was made of.

  Args:
    functions: what was exported.
    directory: the folder that was written.
    batch_size: on how many examples; on one alone too.

  Returns:
    The largest difference, see `difference`.

  Raises:
    ExportError: if a difference is above `TOLERANCE`, which names the function and the output.
    ImportError: if what runs the format is not installed.
  """
  loaded = LoadedPolicy(directory)
  largest = 0.0
  for function in functions:
    for size in (batch_size, 1):
      inputs = example_inputs(function, size)
      wanted = function.concrete(**{name: tf.constant(x) for name, x in inputs.items()})
      found = loaded.functions[function.name](**inputs)
      for name, value in wanted.items():
        off = difference(found[name], value.numpy())
        if off > TOLERANCE:
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
