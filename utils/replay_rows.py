"""How a transition lies in a replay table: its small leaves packed in one row of bytes.

Reverb and `tf.data` take a time for each tensor of each sample, whatever its size: with six columns
a batch of 256 small transitions takes three times as long as with one. So a transition is a row of
bytes; only large observations (frames) have columns of their own, in which a frame is stored once
although two transitions hold it.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from acme import specs
from acme import types
from acme.adders import reverb as reverb_adders
import numpy as np
import reverb
import tensorflow as tf
from tensorflow.python.saved_model import nested_structure_coder
import tree

# An observation leaf of more bytes has a column of its own. A column costs about as much time as
# copying so many bytes.
_LARGE_BYTES = 1024

_SERVER_SECONDS = 60

RowSignature = tuple[tf.TensorSpec, ...]


class TransitionRows:
  """Packs transitions into rows of bytes, and unpacks batches of rows.

  A table's signature is the one description of its items that reaches every process. So the
  signature of the row carries, in its name, the specs of the transition.
  """

  def __init__(self, transition_spec: types.Transition):
    """Initialises the layout.

    Args:
      transition_spec: `tf.TensorSpec` of each leaf of one transition, without a batch axis;
        numbers and bools only.
    """
    self._spec = transition_spec
    paths_and_specs = tree.flatten_with_path(transition_spec)
    self._paths = ["/".join(map(str, path)) for path, _ in paths_and_specs]
    self._leaf_specs = [spec for _, spec in paths_and_specs]
    observations = tree.flatten(transition_spec.observation)
    self._large = [i for i, spec in enumerate(observations) if _bytes_of(spec) > _LARGE_BYTES]
    # By position among the leaves of the whole transition.
    next_begins = len(tree.flatten(tuple(transition_spec)[:4]))
    self._columns = [begin + i for begin in (0, next_begins) for i in self._large]
    self._packed = [i for i in range(len(self._leaf_specs)) if i not in self._columns]
    ends = np.cumsum([0] + [_bytes_of(self._leaf_specs[i]) for i in self._packed]).tolist()
    self._slices = list(zip(ends[:-1], ends[1:]))
    # Number of leaves of the fields that were met.
    self._met: dict[str, int] = {}
    self._row = np.zeros(ends[-1], np.uint8)
    self._views = [
      self._row[a:b]
      .view(self._leaf_specs[i].dtype.as_numpy_dtype)
      .reshape(self._leaf_specs[i].shape)
      for i, (a, b) in zip(self._packed, self._slices)
    ]

  @classmethod
  def of_specs(
    cls, environment_spec: specs.EnvironmentSpec, extras_spec: Mapping[str, specs.Array]
  ) -> "TransitionRows":
    """Returns the layout for an environment and the extras of each action, by name."""
    return cls(
      reverb_adders.NStepTransitionAdder.signature(environment_spec, dict(extras_spec) or ())
    )

  @classmethod
  def of_table(cls, client: reverb.Client, table: str) -> "TransitionRows":
    """Returns the layout of a server's table.

    Raises:
      ValueError: if there is no such table, or it holds something else than transitions.
    """
    info = client.server_info(timeout=_SERVER_SECONDS)
    if table not in info:
      raise ValueError(f"There is no replay table {table!r}; the server has {sorted(info)}.")
    leaves = tree.flatten(info[table].signature)
    spec = _decode(leaves[0].name) if isinstance(leaves[0], tf.TensorSpec) else None
    if spec is None:
      raise ValueError(
        f"The replay table {table!r} does not hold transitions; its signature is "
        f"{info[table].signature}. Make it with temper.utils.replay_tables.transition_table."
      )
    return cls(spec)

  @property
  def spec(self) -> types.Transition:
    """Specs of one transition's leaves."""
    return self._spec

  @property
  def signature(self) -> RowSignature:
    """Specs of an item: the row, the large observations, and those of the next step."""
    name = _encode(self._spec)
    return (
      tf.TensorSpec(self._row.shape, tf.uint8, name),
      *(self._leaf_specs[i] for i in self._columns),
    )

  def leaves(self, name: str, value: types.NestedArray) -> list[np.ndarray]:
    """Returns copies of the leaves of one field of a transition, in the order of `pack`.

    Args:
      name: the field, such as "observation".
      value: its value in one transition.

    Raises:
      ValueError: if it is nested otherwise than the spec.
    """
    leaves, spec = tree.flatten(value), getattr(self._spec, name)
    if name not in self._met or len(leaves) != self._met[name]:
      # Rather slow, so once for what has so many leaves ever after.
      if _paths_of(value) != _paths_of(spec):
        raise ValueError(f"{name} is {value!r}; the replay table holds {spec}.")
      self._met[name] = len(leaves)
    return [np.array(leaf) for leaf in leaves]

  def large_leaves(self, observation: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns those leaves of an observation that have columns of their own.

    Raises:
      ValueError: if a leaf has another shape than the spec, or a dtype that cannot be cast.
    """
    return [self._checked(i, observation[i]) for i in self._large]

  def pack(self, leaves: Sequence[Any]) -> np.ndarray:
    """Returns the row of one transition, uint8 `[row bytes]`.

    Args:
      leaves: those of all fields of the transition, one after the other.

    Raises:
      ValueError: if a leaf has another shape than the spec, or a dtype that cannot be cast; names
        it.
    """
    for index, view in zip(self._packed, self._views):
      leaf = leaves[index]
      if np.shape(leaf) != view.shape:
        self._checked(index, leaf)
      try:
        np.copyto(view, leaf, casting="same_kind")
      except TypeError:
        self._checked(index, leaf)
        raise
    return self._row.copy()

  def unpack(self, item: Sequence[tf.Tensor]) -> types.Transition:
    """Returns the transitions of a batch of items as `signature` describes them.

    Args:
      item: uint8 `[B, row bytes]` and, with a batch axis too, the large observations.

    Returns:
      Transition of the table's dtypes, leaves `[B, ...]`.
    """
    row, *large = item
    leaves: list[Optional[tf.Tensor]] = [None] * len(self._leaf_specs)
    for index, column in zip(self._columns, large):
      leaves[index] = column
    for index, (begin, end) in zip(self._packed, self._slices):
      leaves[index] = _from_bytes(row[:, begin:end], self._leaf_specs[index])
    return tree.unflatten_as(self._spec, leaves)

  def _checked(self, index: int, leaf: Any) -> np.ndarray:
    spec, array = self._leaf_specs[index], np.asarray(leaf)
    dtype = spec.dtype.as_numpy_dtype
    if array.shape != tuple(spec.shape) or not np.can_cast(array.dtype, dtype, "same_kind"):
      raise ValueError(
        f"{self._paths[index]} has shape {array.shape} and dtype {array.dtype}; the replay table "
        f"holds {tuple(spec.shape)} and {spec.dtype.name}. The environment must give what its spec "
        "says; temper.utils.environments.wrap sees to that."
      )
    return array.astype(dtype, copy=False)


def _paths_of(structure: types.NestedArray) -> list[tuple]:
  return [path for path, _ in tree.flatten_with_path(structure)]


def _bytes_of(spec: tf.TensorSpec) -> int:
  return int(np.prod(spec.shape)) * spec.dtype.size


def _from_bytes(data: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
  """Returns `[B, bytes]` as `[B, *shape]` of a dtype."""
  shape = [-1, *spec.shape]
  if spec.dtype == tf.uint8:
    return tf.reshape(data, shape)
  if spec.dtype == tf.bool:
    return tf.reshape(tf.cast(data, tf.bool), shape)
  if spec.dtype.size > 1:
    # A bitcast takes the bytes of one number from a last axis.
    shape.append(spec.dtype.size)
  return tf.bitcast(tf.reshape(data, shape), spec.dtype)


def _encode(spec: types.Transition) -> str:
  proto = nested_structure_coder.encode_structure(tuple(spec))
  return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def _decode(text: str) -> Optional[types.Transition]:
  """Returns the specs that `_encode` wrote; None for the name of some other tensor."""
  try:
    proto = nested_structure_coder.struct_pb2.StructuredValue.FromString(
      base64.b64decode(text, validate=True)
    )
    return types.Transition(*nested_structure_coder.decode_proto(proto))
  except Exception:  # pylint: disable=broad-except
    # Whatever a foreign name makes the decoders raise, it says that this is not one of ours.
    return None
