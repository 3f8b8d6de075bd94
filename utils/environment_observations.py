"""Turns observations into the canonical ones that agents, replay and networks share."""

import collections.abc
from typing import Any, Callable, Optional

from dm_env import specs
import numpy as np
import tree

Path = tuple[Any, ...]
Indices = collections.abc.Sequence[int]


class ObservationMapping:
  """Makes numbers float32 and categories one-hot vectors, and leaves images uint8.

  A leaf is an *image* if it is uint8 of rank 3 ([H, W, C]). The structure of dicts, tuples and
  lists is kept; any mapping becomes a plain dict. Ranges are not kept in the spec, because many
  environments leave the ones they declare. NaN and infinity are refused: once in replay, they would
  spoil batch after batch.

  An agent may be shown some numbers of a vector only, for instance positions without velocities.

  Attributes:
    environment_spec: the environment's own nested observation spec.
    full_spec: nested `specs.Array` of all of it in canonical form, shown or not.
    spec: nested `specs.Array` of the canonical observations, exact in structure, shape and dtype.
    indices: which numbers of the environment's vector are shown, in this order; None: all there is.
  """

  def __init__(self, spec: Any, *, indices: Optional[Indices] = None):
    """Creates the mapping.

    Args:
      spec: the environment's nested observation spec.
      indices: see the class; for observations that are one vector.

    Raises:
      ValueError: if a leaf is not an array spec of fixed shape and numeric dtype, if a key is not
        a text, if there is no leaf at all, or if there are no such indices.
    """
    self.environment_spec = spec
    self._converters = _map_with_path(_make_converter, spec)
    self.full_spec = tree.map_structure(lambda converter: converter.spec, self._converters)
    if not tree.flatten(self.full_spec):
      raise ValueError(
        f"the environment has no observations: its spec is {spec!r}. An agent needs at least one "
        "array."
      )
    self.indices = None if indices is None else _check_indices(indices, self.full_spec)
    self.spec = self.full_spec
    if self.indices is not None:
      full = self.full_spec
      self.spec = specs.Array((len(self.indices),), full.dtype, name=full.name)

  def select(self, observation: Any) -> Any:
    """Returns what is shown of canonical observations, `[..., D]` if there are `indices`."""
    return observation if self.indices is None else observation[..., list(self.indices)]

  def __call__(self, observation: Any) -> Any:
    """Returns the canonical copy of one observation (nested NumPy arrays that match `spec`).

    Raises:
      ValueError: if the observation differs from the environment's spec in structure, shape or
        kind of dtype, or is NaN or infinite in float32. The message names the leaf.
    """
    return self.select(_convert(self._converters, observation, ()))


class _LeafConverter:
  """Converts the observations of one leaf."""

  def __init__(self, path: Path, spec: specs.Array):
    self._path = path
    self._shape = tuple(spec.shape)
    self._classes = spec.num_values if isinstance(spec, specs.DiscreteArray) else None
    image = np.dtype(spec.dtype) == np.uint8 and len(self._shape) == 3
    self._dtype = np.dtype(np.uint8 if image else np.float32)
    shape = self._shape if self._classes is None else (self._classes,)
    self.spec = specs.Array(shape, self._dtype, name=spec.name or path_name(path))

  def __call__(self, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != self._shape:
      raise ValueError(
        f"{path_name(self._path)} has shape {array.shape} where the environment's spec says "
        f"{self._shape}. Observations of variable length are not supported: pad them to a fixed "
        "shape in the environment."
      )
    if self._classes is not None:
      if not 0 <= array < self._classes:
        raise ValueError(
          f"{path_name(self._path)} is {array} where the spec allows 0 to {self._classes - 1}."
        )
      one_hot = np.zeros((self._classes,), np.float32)
      one_hot[int(array)] = 1.0
      return one_hot
    if self._dtype == np.uint8 and array.dtype != np.uint8 or array.dtype.kind not in "fiub":
      raise ValueError(
        f"{path_name(self._path)} has dtype {array.dtype} where the environment's spec makes "
        f"{self._dtype} of it: the spec and what the environment returns must agree."
      )
    # A copy, because environments may write their next observation into the same buffer.
    canonical = np.array(array, dtype=self._dtype)
    if self._dtype == np.float32 and not np.isfinite(canonical).all():
      index = [int(i) for i in np.argwhere(~np.isfinite(canonical))[0]]
      at = f" at {index}" if index else ""
      raise ValueError(
        f"{path_name(self._path)} is {array[tuple(index)]}{at}, which is no finite float32 number. "
        "Nothing can be learnt from it: mend it in the environment."
      )
    return canonical


def _check_indices(indices: Indices, spec: Any) -> tuple[int, ...]:
  """Returns the indices of a canonical vector, or raises ValueError if it has none such."""
  if not isinstance(spec, specs.Array) or len(spec.shape) != 1:
    raise ValueError(
      f"observation_indices is {indices!r}, but the environment's observation is not one vector: "
      f"{spec!r}. Choose among its parts in a wrapper of your own."
    )
  size = spec.shape[0]
  whole = [int(index) for index in indices if isinstance(index, (int, np.integer))]
  allowed = all(0 <= index < size for index in whole) and len(set(whole)) == len(whole)
  if not whole or len(whole) != len(indices) or not allowed:
    raise ValueError(
      f"observation_indices is {indices!r}; it must be different integers from 0 to {size - 1}, at "
      f"least one: the environment's observation has {size} numbers."
    )
  return tuple(whole)


def _make_converter(path: Path, spec: Any) -> _LeafConverter:
  """Returns the converter of one leaf of the spec, or raises ValueError."""
  name = path_name(path)
  if not isinstance(spec, specs.Array):
    raise ValueError(
      f"{name} is described by {spec!r}; allowed are dm_env specs of arrays, nested in dicts and "
      "tuples."
    )
  if any(size < 0 for size in spec.shape):
    raise ValueError(
      f"{name} has shape {spec.shape}: a size is not fixed. Observations of variable length are "
      "not supported: pad them to a fixed shape in the environment."
    )
  if isinstance(spec, specs.StringArray) or np.dtype(spec.dtype).kind not in "fiub":
    raise ValueError(
      f"{name} has dtype {spec.dtype}; allowed are float, integer and bool. Drop this observation "
      "or turn it into numbers in the environment."
    )
  return _LeafConverter(path, spec)


def _map_with_path(function: Callable[[Path, Any], Any], structure: Any, path: Path = ()) -> Any:
  """Maps the leaves of dicts, tuples and lists with their paths, keeping the structure."""
  if isinstance(structure, collections.abc.Mapping):
    for key in structure:
      if not isinstance(key, str):
        raise ValueError(
          f"{path_name(path)} has the key {key!r}, a {type(key).__name__}; the keys of an "
          "observation must be texts, since networks and files name its parts by them."
        )
    return {key: _map_with_path(function, item, path + (key,)) for key, item in structure.items()}
  if isinstance(structure, (tuple, list)):
    items = [_map_with_path(function, item, path + (i,)) for i, item in enumerate(structure)]
    return _like_sequence(structure, items)
  return function(path, structure)


def _convert(converters: Any, value: Any, path: Path) -> Any:
  """Applies a nest of converters to a nest of values of the same structure."""
  if isinstance(converters, dict):
    if not isinstance(value, collections.abc.Mapping) or value.keys() != converters.keys():
      found = (
        sorted(map(str, value))
        if isinstance(value, collections.abc.Mapping)
        else type(value).__name__
      )
      raise ValueError(
        f"{path_name(path)} is {found} where the spec has the keys {sorted(map(str, converters))}."
      )
    return {key: _convert(item, value[key], path + (key,)) for key, item in converters.items()}
  if isinstance(converters, (tuple, list)):
    if not isinstance(value, (tuple, list)) or len(value) != len(converters):
      found = f"{len(value)} items" if isinstance(value, (tuple, list)) else type(value).__name__
      raise ValueError(
        f"{path_name(path)} is {found} where the spec has a sequence of {len(converters)} items."
      )
    items = [_convert(item, value[i], path + (i,)) for i, item in enumerate(converters)]
    return _like_sequence(converters, items)
  return converters(value)


def _like_sequence(sequence: Any, items: list) -> Any:
  """Returns `items` as the type of `sequence`: a list, a tuple or a named tuple."""
  return type(sequence)(*items) if hasattr(sequence, "_fields") else type(sequence)(items)


def path_name(path: Path) -> str:
  """Returns how one would write the leaf at `path` in Python, such as `observation['arm'][0]`."""
  return "observation" + "".join(f"[{key!r}]" for key in path)
