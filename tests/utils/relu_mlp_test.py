"""Tests of `temper.utils.relu_mlp`."""

import numpy as np
import pytest
import tensorflow as tf

from temper.utils import relu_mlp


def _values(module):
  return [variable.numpy() for variable in module.trainable_variables]


def test_it_computes_rectified_layers_and_a_last_linear_one():
  network = relu_mlp.ReluMLP((3, 4), 2, seed=0)
  x = np.random.RandomState(0).normal(size=(5, 6)).astype(np.float32)
  result = network(tf.constant(x))
  shapes = sorted(variable.shape.as_list() for variable in network.trainable_variables)
  assert shapes == sorted([[6, 3], [3], [3, 4], [4], [4, 2], [2]])
  by_shape = {tuple(v.shape): v.numpy() for v in network.trainable_variables}
  for weights, bias in (((6, 3), (3,)), ((3, 4), (4,))):
    x = np.maximum(x @ by_shape[weights] + by_shape[bias], 0)
  np.testing.assert_allclose(result, x @ by_shape[4, 2] + by_shape[2,], rtol=1e-5, atol=1e-6)
  assert np.any(result.numpy() < 0)


def test_weights_begin_uniform_within_one_over_the_root_of_the_inputs():
  network = relu_mlp.ReluMLP((200,), 100, seed=0, output_limit=3e-3)
  network(tf.zeros([1, 25]))
  for variable in network.trainable_variables:
    hidden = 200 in variable.shape and 100 not in variable.shape
    limit = 0.2 if hidden else 3e-3
    value = variable.numpy()
    assert np.abs(value).max() <= limit and np.abs(value).max() > 0.97 * limit
    # A uniform variable's deviation is its limit over the root of three.
    assert value.std() == pytest.approx(limit / np.sqrt(3), rel=0.15)
    assert abs(value.mean()) < 0.2 * limit


def test_without_a_limit_the_last_layer_begins_as_the_others():
  network = relu_mlp.ReluMLP((16,), 300, seed=0)
  network(tf.zeros([1, 4]))
  last = [v.numpy() for v in network.trainable_variables if 300 in v.shape]
  assert [np.abs(v).max() for v in last] == pytest.approx([0.25, 0.25], rel=0.02)


def test_the_seed_decides_the_weights_and_no_layer_repeats_another():
  def start(seed):
    network = relu_mlp.ReluMLP((4, 4), 4, seed=seed)
    network(tf.zeros([1, 4]))
    return _values(network)

  one, same, other = map(start, (1, 1, 2))
  for a, b, c in zip(one, same, other):
    np.testing.assert_array_equal(a, b)
    assert not np.any(a == c)
  matrices = [value for value in one if value.ndim == 2]
  assert not np.any(matrices[0] == matrices[1]) and not np.any(matrices[1] == matrices[2])


def test_it_computes_in_the_dtype_of_its_inputs():
  network = relu_mlp.ReluMLP((3,), 2, seed=0)
  assert network(tf.zeros([1, 4], tf.float64)).dtype == tf.float64
  assert {v.dtype for v in network.variables} == {tf.float64}


@pytest.mark.parametrize(
  "sizes,output,message",
  [((), 1, r"layer_sizes is \(\)"), ((0,), 1, "layer_sizes is"), ((4,), 0, "output_size is 0")],
)
def test_bad_sizes_are_refused(sizes, output, message):
  with pytest.raises(ValueError, match=message):
    relu_mlp.ReluMLP(sizes, output, seed=0)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_the_rectifier_and_its_gradient_are_exactly_tensorflows(dtype):
  values = np.random.RandomState(0).normal(size=(7, 300))
  values[0, :4] = (0.0, -0.0, 1e-30, -1e-30)
  x, upstream = tf.constant(values, dtype), tf.constant(values[::-1] * 3, dtype)

  def differentiate(function):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = function(x)
    return y, tape.gradient(y, x, output_gradients=upstream)

  for differentiated in (differentiate, tf.function(differentiate, autograph=False)):
    for result, expected in zip(differentiated(relu_mlp.relu), differentiate(tf.nn.relu)):
      np.testing.assert_array_equal(result, expected)
