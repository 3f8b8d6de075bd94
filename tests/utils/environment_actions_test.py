from dm_env import specs
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from temper.utils.environment_actions import ActionMapping


def _spec(minimum, maximum, shape=(1,), dtype=np.float64):
  return specs.BoundedArray(shape, dtype, minimum, maximum, name="torque")


def test_hand_numbers_for_asymmetric_bounds():
  mapping = ActionMapping(_spec([0.0, -10.0], [4.0, -2.0], shape=(2,)))
  # Centres 2 and -6, half widths 2 and 4.
  np.testing.assert_array_equal(mapping.to_environment(np.array([0.5, -0.5])), [3.0, -8.0])
  np.testing.assert_array_equal(mapping.to_environment(np.array([-1.0, 1.0])), [0.0, -2.0])
  np.testing.assert_array_equal(mapping.to_canonical(np.array([3.0, -8.0])), [0.5, -0.5])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 2, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64])
def test_any_shape_and_dtype(shape, dtype):
  spec = _spec(-3, 5, shape, dtype)
  mapping = ActionMapping(spec)
  assert mapping.canonical_spec == specs.BoundedArray(shape, np.float32, -1.0, 1.0)
  for value in (-1.0, 0.0, 0.3, 1.0):
    spec.validate(mapping.to_environment(np.full(shape, value, np.float32)))
  batch = np.random.RandomState(0).uniform(-2, 2, (4, 5, *shape)).astype(np.float32)
  assert mapping.to_environment(batch).shape == batch.shape
  canonical = mapping.to_canonical(mapping.to_environment(batch))
  assert canonical.dtype == np.float32
  assert canonical.shape == batch.shape


@settings(deadline=None, max_examples=200)
@given(
  low=st.floats(-1e6, 1e6),
  width=st.floats(0, 1e6),
  canonical=st.floats(-2, 2, width=32),
  dtype=st.sampled_from([np.float32, np.float64]),
)
def test_inside_the_bounds_exactly_and_inverse(low, width, canonical, dtype):
  low, high = dtype(low), max(dtype(low), dtype(low + width))
  spec = _spec(low, high, (), dtype)
  mapping = ActionMapping(spec)
  action = mapping.to_environment(np.float32(canonical))
  spec.validate(action)
  back = mapping.to_canonical(action)
  assert -1.0 <= back <= 1.0
  if high - low > 1e-3 * max(1.0, abs(low)):
    np.testing.assert_allclose(back, np.clip(canonical, -1, 1), atol=1e-3)


def test_just_beyond_one_is_clipped():
  spec = _spec(-0.1, 0.1)
  action = ActionMapping(spec).to_environment(np.array([-1.0000001], np.float32))
  np.testing.assert_array_equal(action, spec.minimum)


@settings(deadline=None, max_examples=100)
@given(st.floats(-1.5, 1.5, width=32))
def test_canonical_actions_stay_as_they_are(value):
  mapping = ActionMapping(_spec(-1.0, 1.0, (), np.float32))
  action = mapping.to_environment(np.float32(value))
  assert action.dtype == np.float32
  assert action == np.clip(np.float32(value), -1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_tensors_equal_arrays(dtype):
  mapping = ActionMapping(_spec([-2, 0], [2, 7], (2,), dtype))
  canonical = np.random.RandomState(1).uniform(-1.2, 1.2, (64, 2)).astype(np.float32)
  action = tf.function(mapping.to_environment)(tf.constant(canonical))
  assert action.dtype == dtype
  np.testing.assert_array_equal(action.numpy(), mapping.to_environment(canonical))
  back = tf.function(mapping.to_canonical)(action)
  np.testing.assert_array_equal(back.numpy(), mapping.to_canonical(action.numpy()))


def test_integers_are_rounded():
  mapping = ActionMapping(_spec(0, 10, (), np.int32))
  assert mapping.to_environment(np.float32(0.11)) == 6  # 5.55
  assert mapping.to_environment(np.float32(-1.0)) == 0


def test_equal_bounds_are_a_constant():
  mapping = ActionMapping(_spec([3.0, -1.0], [3.0, 1.0], (2,)))
  np.testing.assert_array_equal(mapping.to_environment(np.array([0.7, 0.5])), [3.0, 0.5])
  np.testing.assert_array_equal(mapping.to_canonical(np.array([3.0, 0.5])), [0.0, 0.5])


@pytest.mark.parametrize(
  "low, high, expected",
  [
    (-np.inf, np.inf, (-3.0, 3.0)),
    (1.0, np.inf, (1.0, 7.0)),
    (-np.inf, 1.0, (-5.0, 1.0)),
    (np.finfo(np.float64).min, np.finfo(np.float64).max, (-3.0, 3.0)),
    (-0.5, 0.5, (-0.5, 0.5)),
  ],
)
def test_infinite_action_scale(low, high, expected):
  mapping = ActionMapping(_spec(low, high), infinite_action_scale=3.0)
  ends = [mapping.to_environment(np.array([end]))[0] for end in (-1.0, 1.0)]
  np.testing.assert_array_equal(ends, expected)


def test_spec_without_bounds_needs_a_scale():
  spec = specs.Array((2,), np.float32)
  with pytest.raises(ValueError, match=r"dimension \[0\].*\[-inf, inf\].*infinite_action_scale"):
    ActionMapping(spec)
  action = ActionMapping(spec, infinite_action_scale=2).to_environment(np.ones(2))
  np.testing.assert_array_equal(action, [2, 2])


@pytest.mark.parametrize(
  "spec, message",
  [
    (_spec([0, -np.inf], [1, 1], (2,)), r"dimension \[1\] of torque has bounds \[-inf, 1.0\]"),
    (_spec([[0, 0]], [[1, np.inf]], (1, 2)), r"dimension \[0, 1\].*bounds \[0.0, inf\]"),
    (_spec(np.finfo(np.float32).min, 1, dtype=np.float32), "both must be finite"),
    (_spec(np.iinfo(np.int64).min, 1, dtype=np.int64), "both must be finite"),
    (_spec(np.nan, 1.0), r"bounds \[nan, 1.0\]; they must be numbers"),
    (_spec(np.inf, np.inf), "no finite value"),
    (specs.DiscreteArray(4, name="move"), r"discrete, 4 choices \(move\)"),
    ({"arm": _spec(0, 1)}, "nested"),
    ([_spec(0, 1)], "nested"),
    (None, "nested or not described"),
    (_spec(0, 1, (0,)), r"shape \(0,\) has no elements"),
    (_spec(False, True, (), bool), "dtype bool"),
  ],
)
def test_refused_specs(spec, message):
  with pytest.raises(ValueError, match=message):
    ActionMapping(spec)


@pytest.mark.parametrize("scale", [0, -1.0, np.inf, np.nan])
def test_refused_scales(scale):
  with pytest.raises(ValueError, match="infinite_action_scale is"):
    ActionMapping(_spec(0, 1), infinite_action_scale=scale)


def test_nan_is_named():
  mapping = ActionMapping(_spec(0, 1, (2,)))
  with pytest.raises(ValueError, match=r"holds NaN: \[0.5 nan\]"):
    mapping.to_environment(np.array([0.5, np.nan]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_in_float32_actions_stay_within_their_bounds(dtype):
  low, high = np.array([-3, 0.1, -100], dtype), np.array([3, 7.3, 200], dtype)
  mapping = ActionMapping(specs.BoundedArray((3,), dtype, low, high))
  canonical = np.random.default_rng(0).uniform(-1.2, 1.2, (500, 3)).astype(np.float32)
  action = mapping.to_environment(tf.constant(canonical), in_float32=True).numpy()
  assert action.dtype == (np.float32 if dtype == np.float64 else dtype)
  assert (action.astype(np.float64) >= low).all() and (action.astype(np.float64) <= high).all()
  np.testing.assert_allclose(action, mapping.to_environment(canonical), rtol=1e-5, atol=2e-5)
