"""Compares exported functions with those that they were made of."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

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

_BATCH_SIZE = 64
_TIMES_ALONE = 4
# Share of rows that may be on an edge, by the size of the batch. A conversion that went wrong shows
# in nearly all of them.
_ON_AN_EDGE = {_BATCH_SIZE: 1 / 16, 1: 1 / _TIMES_ALONE}


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


class Verified(NamedTuple):
  """What a comparison found.

  Attributes:
    largest: largest difference of an output, relative to `1 + |x|` for its largest x.
    edges: rows that differ by more. A choice among samples, or a rounding to an integer, may fall
      to the other side when it is on the edge.
  """

  largest: float
  edges: int


def verify(functions: Sequence[PolicyFunction], directory: str) -> Verified:
  """Runs what was exported beside what it was made of, on a batch and on batches of one.

  Args:
    functions: what was exported.
    directory: the folder that was written.

  Raises:
    ExportError: if more rows than a few differ by more than `TOLERANCE`; names the function and the
      output.
    ImportError: if what runs the format is not installed.
  """
  loaded = LoadedPolicy(directory)
  largest, edges = 0.0, 0
  for function in functions:
    call = loaded.functions[function.name]
    for size, times in ((_BATCH_SIZE, 1), (1, _TIMES_ALONE)):
      rows: dict[str, list[np.ndarray]] = {}
      for seed in range(times):
        for name, row in _compare(function, call, example_inputs(function, size, seed)).items():
          rows.setdefault(name, []).append(row)
      for name, parts in rows.items():
        differences = np.concatenate(parts)
        near = differences <= TOLERANCE  # NaN is not.
        if np.mean(~near) > _ON_AN_EDGE[size]:
          raise ExportError(
            f"The function {function.name!r} in {directory} returns another {name} than the agent, "
            f"by {np.median(differences):.1e}; up to {TOLERANCE:g} is rounding. It is not to be "
            "used. Export it in another format, and please report this."
          )
        largest = max(largest, float(np.max(differences[near], initial=0.0)))
        edges += int(np.sum(~near))
  return Verified(largest, edges)


def _compare(function: PolicyFunction, call: Callable[..., Arrays], inputs: Arrays) -> Arrays:
  """Returns the difference of each row, by output."""
  wanted = function.concrete(**{name: tf.constant(x) for name, x in inputs.items()})
  found = call(**inputs)
  differences = {}
  for name, tensor in wanted.items():
    value = tensor.numpy().astype(np.float64)
    off = np.abs(found[name].astype(np.float64) - value) / (1.0 + np.abs(value).max(initial=0.0))
    differences[name] = off.reshape(len(value), -1).max(axis=1, initial=0.0)
  return differences


def _draw(given: Input, batch_size: int, random: np.random.Generator) -> np.ndarray:
  if given.kind is InputKind.SEED:
    return np.asarray(random.integers(2**31), given.dtype)
  shape = (batch_size, *given.shape)
  if given.kind is InputKind.UNIFORM:
    return random.random(shape, np.float32)
  if np.issubdtype(given.dtype, np.integer):
    return random.integers(np.iinfo(given.dtype).max // 2, size=shape, dtype=given.dtype)
  return random.normal(size=shape).astype(given.dtype)
