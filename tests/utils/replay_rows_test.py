"""Tests of `temper.utils.replay_rows`: what is packed comes out again, bit for bit."""

import collections

from acme import specs
from acme import types
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
import numpy as np
import pytest
import reverb
import tensorflow as tf
import tree

from temper.utils import replay_rows

_FRAME = specs.Array((20, 20, 3), np.uint8)
_SPEC = specs.EnvironmentSpec(
  observations={"frame": _FRAME, "speed": specs.Array((2,), np.float32)},
  actions=specs.BoundedArray((2,), np.float32, -1, 1),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0, 1),
)
_EXTRAS = {"version": specs.Array((), np.int32), "log_prob": specs.Array((), np.float32)}


def _round_trip(rows, transitions):
  """Packs each transition, and unpacks all of them as one batch."""
  items = []
  for transition in transitions:
    observation, following = tree.flatten(transition.observation), transition.next_observation
    items.append(
      (
        rows.pack(tree.flatten(transition)),
        *rows.large_leaves(observation),
        *rows.large_leaves(tree.flatten(following)),
      )
    )
  for item in items:
    assert [(x.shape, x.dtype) for x in item] == [
      (tuple(spec.shape), spec.dtype.as_numpy_dtype) for spec in rows.signature
    ]
  return rows.unpack([tf.constant(np.stack(column)) for column in zip(*items)])


_LEAVES = st.tuples(
  st.sampled_from(
    [np.float32, np.float64, np.float16, np.uint8, np.int8, np.int32, np.int64, bool]
  ),
  st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(data=st.data(), leaves=st.lists(_LEAVES, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_structure_comes_back_bit_for_bit(data, leaves):
  # Half of the leaves in a dict in a tuple, and some of them large.
  structure = (
    specs.Array((300,), np.float32),
    {f"leaf_{i}": specs.Array(shape, dtype) for i, (dtype, shape) in enumerate(leaves)},
  )
  spec = _SPEC._replace(observations=structure)
  rows = replay_rows.TransitionRows.of_specs(spec, _EXTRAS)

  def draw(leaf):
    words = data.draw(st.binary(min_size=8, max_size=8))
    size = int(np.prod(leaf.shape))
    raw = np.resize(np.frombuffer(words, np.uint8), size * np.dtype(leaf.dtype).itemsize)
    if leaf.dtype == bool:
      return (raw % 2).astype(bool).reshape(leaf.shape)
    return raw.view(leaf.dtype).reshape(leaf.shape)

  transition = types.Transition(
    *(
      tree.map_structure(draw, part)
      for part in (
        structure,
        specs.Array((2,), np.float32),
        specs.Array((), np.float32),
        specs.Array((), np.float32),
        structure,
        _EXTRAS,
      )
    )
  )
  unpacked = _round_trip(rows, [transition, transition])

  def compare(path, expected, batch):
    assert batch.dtype == expected.dtype, path
    for row in batch.numpy():
      assert row.tobytes() == expected.tobytes(), path

  tree.map_structure_with_path(compare, transition, unpacked)


def test_frames_have_columns_and_all_else_one_row():
  rows = replay_rows.TransitionRows.of_specs(_SPEC, _EXTRAS)
  row, frame, next_frame = rows.signature
  # Two speeds of 2, action of 2, reward, discount, version and log_prob, 4 bytes each.
  assert row.shape == [4 * (2 + 2 + 2 + 4)] and row.dtype == tf.uint8
  assert frame.shape == next_frame.shape == [20, 20, 3]
  small = replay_rows.TransitionRows.of_specs(
    _SPEC._replace(observations=specs.Array((3,), np.float32)), {}
  )
  assert [tuple(spec.shape) for spec in small.signature] == [(4 * (3 + 2 + 1 + 1 + 3),)]


def test_the_layout_comes_from_the_table_alone():
  rows = replay_rows.TransitionRows.of_specs(_SPEC, _EXTRAS)
  tables = [
    reverb.Table(
      name,
      reverb.selectors.Uniform(),
      reverb.selectors.Fifo(),
      max_size=1,
      rate_limiter=reverb.rate_limiters.MinSize(1),
      signature=signature,
    )
    for name, signature in [
      ("transitions", rows.signature),
      ("others", tf.TensorSpec([40], tf.uint8, "row")),
      ("without", None),
    ]
  ]
  server = reverb.Server(tables)
  client = reverb.Client(f"localhost:{server.port}")
  found = replay_rows.TransitionRows.of_table(client, "transitions")
  assert found.signature == rows.signature
  assert isinstance(found.spec, types.Transition)
  tree.assert_same_structure(found.spec, rows.spec)
  for name in ("others", "without"):
    with pytest.raises(ValueError, match=f"'{name}' does not hold transitions.*transition_table"):
      replay_rows.TransitionRows.of_table(client, name)
  with pytest.raises(ValueError, match="no replay table 'absent'.*transitions"):
    replay_rows.TransitionRows.of_table(client, "absent")
  server.stop()


def test_what_does_not_fit_is_refused_by_name():
  rows = replay_rows.TransitionRows.of_specs(_SPEC, {})
  good = types.Transition(
    observation={"frame": np.zeros((20, 20, 3), np.uint8), "speed": np.zeros(2, np.float32)},
    action=np.zeros(2, np.float32),
    reward=0.0,
    discount=1.0,
    next_observation={"frame": np.zeros((20, 20, 3), np.uint8), "speed": np.zeros(2, np.float32)},
  )
  rows.pack(tree.flatten(good))
  with pytest.raises(ValueError, match=r"action has shape \(\).*holds \(2,\) and float32"):
    rows.pack(tree.flatten(good._replace(action=np.float32(0))))
  bad = {**good.observation, "speed": np.zeros(2, np.complex64)}
  with pytest.raises(ValueError, match="observation/speed has .* dtype complex64"):
    rows.pack(tree.flatten(good._replace(observation=bad)))
  with pytest.raises(ValueError, match="observation/frame has shape"):
    rows.large_leaves([np.zeros((20, 3), np.uint8), np.zeros(2, np.float32)])
  for other in ({"frame": 0}, (1, 2), {"frame": 0, "pace": 1}):
    with pytest.raises(ValueError, match="the replay table holds"):
      rows.leaves("observation", other)


def test_leaves_are_copies_in_the_order_of_the_row():
  rows = replay_rows.TransitionRows.of_specs(_SPEC, _EXTRAS)
  speed = np.ones(2, np.float32)
  ordered = collections.OrderedDict(speed=speed, frame=np.zeros((20, 20, 3), np.uint8))
  leaves = rows.leaves("observation", ordered)
  speed[:] = 7  # As an environment does that reuses its arrays.
  assert [leaf.shape for leaf in leaves] == [(20, 20, 3), (2,)]
  assert leaves[1].tolist() == [1, 1]
