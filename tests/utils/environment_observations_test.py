import collections

from dm_env import specs
import numpy as np
import pytest
import tree

from temper.utils.environment_observations import ObservationMapping

Pair = collections.namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
  "spec, value, expected",
  [
    (specs.Array((2,), np.float64), np.array([1.5, 2.5]), np.float32([1.5, 2.5])),
    (specs.Array((), np.float64), 3.0, np.float32(3.0)),
    (specs.Array((2,), np.int64), np.array([1, -2]), np.float32([1, -2])),
    (specs.Array((2,), bool), np.array([True, False]), np.float32([1, 0])),
    (specs.Array((2,), np.uint8), np.array([7, 255], np.uint8), np.float32([7, 255])),
    (specs.Array((1, 2), np.float16), [[1, 2]], np.float32([[1, 2]])),
    (specs.Array((1, 1, 3), np.uint8), np.uint8([[[0, 128, 255]]]), np.uint8([[[0, 128, 255]]])),
    (specs.DiscreteArray(3), np.int32(1), np.float32([0, 1, 0])),
    (specs.BoundedArray((), np.int32, 0, 9), 4, np.float32(4)),
  ],
)
def test_leaves(spec, value, expected):
  mapping = ObservationMapping(spec)
  result = mapping(value)
  assert result.dtype == expected.dtype
  np.testing.assert_array_equal(result, expected)
  mapping.spec.validate(result)


def test_structure_is_kept():
  leaf = specs.Array((2,), np.float64)
  spec = collections.OrderedDict(
    z=leaf, a=(leaf, specs.Array((8, 8, 3), np.uint8)), p=Pair(leaf, [leaf])
  )
  value = tree.map_structure(lambda s: np.ones(s.shape, s.dtype), spec)
  mapping = ObservationMapping(spec)
  result = mapping(value)
  tree.assert_same_structure(mapping.spec, result)
  assert type(result) is dict
  assert isinstance(result["a"], tuple)
  assert isinstance(result["p"], Pair)
  tree.map_structure(lambda s, v: s.validate(v), mapping.spec, result)
  assert result["a"][1].dtype == np.uint8


def test_results_are_copies():
  buffer = np.zeros((2,), np.float32)
  result = ObservationMapping(specs.Array((2,), np.float32))(buffer)
  buffer[:] = 1.0
  np.testing.assert_array_equal(result, [0, 0])


@pytest.mark.parametrize(
  "spec, value, message",
  [
    (specs.Array((), np.float64), np.nan, "observation is nan, which"),
    (
      {"a": specs.Array((2, 2), np.float64)},
      {"a": [[0, 1], [2, -np.inf]]},
      r"\['a'\] is -inf at \[1, 1\]",
    ),
  ],
)
def test_what_is_not_finite_is_refused(spec, value, message):
  with pytest.raises(ValueError, match=message):
    ObservationMapping(spec)(value)


_LEAF = specs.Array((2,), np.float64)


@pytest.mark.parametrize(
  "spec, message",
  [
    ({}, "no observations"),
    ({"a": {"b": specs.Array((-1, 3), np.float32)}}, r"observation\['a'\]\['b'\].*not fixed"),
    ((specs.StringArray(()),), r"observation\[0\] has dtype"),
    (specs.Array((1,), np.complex64), "dtype complex64"),
    ({"a": np.zeros(3)}, r"observation\['a'\] is described by"),
    (
      {"a": {3: specs.Array((1,), np.float32)}},
      r"observation\['a'\] has the key 3, a int; .*texts",
    ),
  ],
)
def test_refused_specs(spec, message):
  with pytest.raises(ValueError, match=message):
    ObservationMapping(spec)


@pytest.mark.parametrize(
  "spec, value, message",
  [
    ({"a": _LEAF}, {"a": np.zeros(3)}, r"\['a'\] has shape \(3,\).*spec says \(2,\)"),
    ({"a": _LEAF}, {"b": np.zeros(2)}, r"observation is \['b'\] where.*\['a'\]"),
    ({"a": _LEAF}, {"a": np.zeros(2), "b": 0}, r"is \['a', 'b'\]"),
    ({"a": {"c": _LEAF}}, {"a": np.zeros(2)}, r"observation\['a'\] is ndarray"),
    ((_LEAF, _LEAF), (np.zeros(2),), "is 1 items where the spec has a sequence of 2"),
    ((_LEAF,), np.zeros(2), "is ndarray where"),
    (_LEAF, ["x", "y"], "dtype <U1"),
    (specs.Array((1, 1, 3), np.uint8), np.zeros((1, 1, 3)), "dtype float64"),
    (specs.DiscreteArray(3), 3, "is 3 where the spec allows 0 to 2"),
  ],
)
def test_refused_values(spec, value, message):
  with pytest.raises(ValueError, match=message):
    ObservationMapping(spec)(value)
