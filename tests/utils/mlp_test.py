from acme.tf import networks as acme_networks
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import mlp


def _normal(*shape, seed=0, scale=1.0):
  return tf.constant(scale * np.random.RandomState(seed).normal(size=shape).astype(np.float32))


def _normalised_linear(input_size, size):
  """A layer with every variable away from its initial value."""
  layer = mlp.NormalisedLinear(size, seed=1)
  layer(_normal(1, input_size))
  for seed, variable in enumerate(layer.trainable_variables):
    variable.assign_add(0.3 * _normal(*variable.shape, seed=10 + seed))
  return layer


def _in_double_precision(layer, x):
  w, b, scale, offset = (np.float64(v) for v in (layer.w, layer.b, layer.scale, layer.offset))
  x = np.float64(x) @ w + b
  x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
  return x * scale + offset


@pytest.mark.parametrize("input_size, size", [(3, 7), (24, 256), (40, 8)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_normalised_linear_equals_double_precision(input_size, size, scale):
  layer = _normalised_linear(input_size, size)
  x = _normal(16, input_size, scale=scale)
  expected = _in_double_precision(layer, x)
  np.testing.assert_allclose(layer(x), expected, rtol=1e-3, atol=1e-4)
  split = layer.given(x[:, :-2], 2)(x[None, :, -2:])
  np.testing.assert_allclose(split, expected, rtol=1e-3, atol=1e-4)


def test_normalised_linear_equals_sonnets_layers():
  layer, linear = _normalised_linear(3, 7), snt.Linear(7)
  norm = snt.LayerNorm(-1, create_scale=True, create_offset=True)
  x = _normal(4, 3)
  norm(linear(x))
  for mine, other in ((layer.w, linear.w), (layer.b, linear.b)):
    other.assign(mine)
  norm.scale.assign(layer.scale)
  norm.offset.assign(layer.offset)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    ours = layer(x)
    theirs = norm(linear(x))
    losses = [tf.reduce_sum(tf.sin(y)) for y in (ours, theirs)]
  np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
  mine = tape.gradient(losses[0], [x, layer.w, layer.b, layer.scale, layer.offset])
  other = tape.gradient(losses[1], [x, linear.w, linear.b, norm.scale, norm.offset])
  for a, b in zip(mine, other):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_normalised_linear_by_hand():
  layer = mlp.NormalisedLinear(3, seed=0, epsilon=1e-12)
  layer(tf.zeros([1, 1]))
  layer.w.assign([[1.0, 2.0, 3.0]])
  # Mean 2, variance 2/3; the input's size does not matter, its sign does.
  for x in (1.0, -5.0):
    expected = np.sign(x) * np.array([[-np.sqrt(1.5), 0, np.sqrt(1.5)]])
    np.testing.assert_allclose(layer(tf.constant([[x]])), expected, rtol=1e-5, atol=1e-6)


def test_features_that_do_not_differ_become_the_offset():
  layer = _normalised_linear(3, 4)
  layer.w.assign(tf.ones([3, 4]))
  layer.b.assign(tf.ones([4]))
  x = _normal(5, 3)
  for result in (layer(x), layer.given(x[:, :2], 1)(x[None, :, 2:])):
    np.testing.assert_allclose(result, np.tile(layer.offset, (5, 1)), atol=1e-3)


def test_what_is_given_is_used_for_every_block():
  network = mlp.LayerNormMLP((8, 6), seed=3, activate_final=True)
  fixed, rest = _normal(5, 3), _normal(4, 5, 2, seed=1)
  network(tf.concat([fixed, rest[0]], 1))
  blocks = tf.reshape(network.given(fixed, 2)(rest), [4, 5, 6])
  for block, actions in zip(blocks, rest):
    expected = network(tf.concat([fixed, actions], 1))
    np.testing.assert_allclose(block, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activate_final", [True, False])
def test_layer_norm_mlp_equals_acmes_with_the_same_weights(activate_final):
  ours = mlp.LayerNormMLP((8, 6, 4), seed=3, activate_final=activate_final)
  theirs = acme_networks.LayerNormMLP((8, 6, 4), activate_final=activate_final)
  x = _normal(5, 3)
  ours(x)
  theirs(x)
  pool = list(ours.variables)
  for variable in theirs.variables:
    # The two order their variables differently; biases, offsets and scales of one size start equal.
    match = next(
      v
      for v in pool
      if v.shape == variable.shape and (v.name.split("/")[-1] == variable.name.split("/")[-1])
    )
    pool = [v for v in pool if v is not match]
    variable.assign(match)
  assert not pool
  np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_a_nest_is_flattened():
  network = mlp.LayerNormMLP((4,), seed=0)
  assert network((_normal(5, 2, 2), {"x": _normal(5)[:, None]})).shape == (5, 4)
  assert network.trainable_variables[0].shape[-1] == 4


def test_the_seed_decides_the_weights_and_layers_differ():
  x = _normal(2, 4)

  def make(seed):
    return mlp.LayerNormMLP((4, 4, 4), seed=seed)

  np.testing.assert_array_equal(make(1)(x), make(1)(x))
  assert not np.allclose(make(1)(x), make(2)(x))
  network = make(1)
  network(x)
  first, second, third = (v.numpy() for v in network.trainable_variables if v.name.endswith("w:0"))
  assert not np.allclose(first, second)
  assert not np.allclose(second, third)


def test_initial_variances():
  weights = mlp.fan_out_uniform(0)((300, 400), tf.float32).numpy()
  assert weights.var() == pytest.approx(0.333 / 400, rel=0.02)
  assert np.abs(weights).max() <= np.sqrt(3 * 0.333 / 400) + 1e-6
  weights = mlp.near_zero(0)((300, 400), tf.float32).numpy()
  assert weights.var() == pytest.approx(1e-4 / 300, rel=0.02)


@pytest.mark.parametrize("sizes", [(), (0,), (4, -1), "44", 4, (2.5,)])
def test_bad_layer_sizes_are_refused(sizes):
  with pytest.raises(ValueError, match="layer_sizes is"):
    mlp.LayerNormMLP(sizes, seed=0)


def test_elu_and_its_gradient_equal_tensorflows():
  x = tf.constant([-200.0, -3.0, -1e-3, -0.0, 0.0, 1e-3, 5.0, 1e30])
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    ours, theirs = mlp.elu(x), tf.nn.elu(x)
  np.testing.assert_array_equal(ours, theirs)
  np.testing.assert_allclose(tape.gradient(ours, x), tape.gradient(theirs, x), rtol=1e-6)
