"""What is exported: functions from named tensors to named tensors."""

from collections.abc import Mapping
import dataclasses
import enum
import functools
import re
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf
import tree

from temper.utils.exporting.formats import ExportError


class InputKind(enum.Enum):
  """What an input is fed with.

  OBSERVATION: an entry of the environment's observation.
  STATE: first the initial value, then the output of the name `next_` plus this one's.
  SEED: any int32; equal seeds give equal draws.
  STANDARD_NORMAL: fresh standard normal numbers.
  UNIFORM: fresh numbers, uniform in [0, 1).
  """

  OBSERVATION = "observation"
  STATE = "state"
  SEED = "seed"
  STANDARD_NORMAL = "standard_normal"
  UNIFORM = "uniform"


@dataclasses.dataclass(frozen=True)
class Input:
  """One input of a function.

  Attributes:
    kind: what it is fed with.
    shape: without the batch axis, which all but the seed have.
    dtype: NumPy's.
    initial: of a STATE, the value at the start of an episode, of this shape.
  """

  kind: InputKind
  shape: tuple[int, ...]
  dtype: np.dtype
  initial: Optional[np.ndarray] = None

  @property
  def full_shape(self) -> tuple[Optional[int], ...]:
    """The shape with the batch axis, whose size is unknown."""
    batch: tuple[Optional[int], ...] = () if self.kind is InputKind.SEED else (None,)
    return batch + self.shape


@dataclasses.dataclass(frozen=True)
class PolicyFunction:
  """A function to be exported.

  Attributes:
    name: of the signature or the file.
    function: takes tensors by the names of `inputs` and returns a dict of tensors; it may hold
      variables, whose values are exported.
    inputs: by name.
    facts: JSON-able facts to keep beside it, such as a temperature.
  """

  name: str
  function: Callable[..., dict[str, tf.Tensor]]
  inputs: Mapping[str, Input]
  facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @functools.cached_property
  def concrete(self) -> Any:
    """The concrete function, whose arguments are the inputs by keyword."""
    specs = {
      name: tf.TensorSpec(given.full_shape, given.dtype, name=name)
      for name, given in self.inputs.items()
    }
    # AutoGraph has nothing to convert, and would read source files that may have changed since.
    return tf.function(self.function, autograph=False).get_concrete_function(**specs)


def leaf_names(prefix: str, nest: Any) -> list[str]:
  """Returns the name of each leaf of a nest, in the order of `tree.flatten`.

  A nest that is one leaf is named `prefix`; an entry is `prefix_<key or index>`.

  Raises:
    ExportError: if two leaves get one name, such as keys that differ only in punctuation.
  """
  names = []
  for path, _ in tree.flatten_with_path(nest):
    names.append("_".join([prefix, *(re.sub(r"\W", "_", str(part)) for part in path)]))
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ExportError(
      f"Several entries of the {prefix} would be the policy's input {twice[0]!r}: rename the keys "
      "so that they differ in letters or digits."
    )
  return names
