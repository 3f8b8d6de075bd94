import math

from acme.tf import losses as acme_losses
from acme.tf import networks as acme_networks
from acme.tf.losses import distributional
import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from temper.agents.crr import losses

_Mode = losses.PolicyImprovementMode
_Reduce = losses.BaselineReduce
_ATOMS = tf.constant([0.0, 1.0, 2.0])


def _random(seed, *shape, scale=1.0):
  return (scale * np.random.RandomState(seed).normal(size=shape)).astype(np.float32)


def _gradient(function, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    total = tf.reduce_sum(function(x))
  return tape.gradient(total, x).numpy()


def _finite_difference(function, x, step=1e-4):
  x = x.numpy().astype(np.float64)
  slopes = np.zeros_like(x)
  for index in np.ndindex(x.shape):
    for sign in (1, -1):
      moved = x.copy()
      moved[index] += sign * step
      slopes[index] += sign * float(tf.reduce_sum(function(tf.constant(moved)))) / (2 * step)
  return slopes


# Averaged distributions.


def test_the_mean_of_two_distributions_by_hand():
  logits = tf.math.log([[[1.0, 1.0, 2.0]], [[6.0, 2.0, 0.0]]]) + [[[3.0]], [[-5.0]]]
  mean = tf.nn.softmax(losses.mean_of_distributions(logits))
  # Probabilities (1/4, 1/4, 1/2) and (3/4, 1/4, 0), whatever is added to all logits of one.
  np.testing.assert_allclose(mean, [[0.5, 0.25, 0.25]], rtol=1e-6)


@pytest.mark.parametrize("num_samples", [1, 2, 7])
def test_the_mean_of_distributions_is_that_of_their_probabilities(num_samples):
  logits = _random(num_samples, num_samples, 5, 11, scale=5.0)
  mean = tf.nn.softmax(losses.mean_of_distributions(tf.constant(logits)))
  np.testing.assert_allclose(mean, np.mean(tf.nn.softmax(logits), axis=0), rtol=1e-5, atol=1e-7)


def test_the_mean_of_extreme_distributions_is_finite():
  logits = tf.constant([[[1e4, -1e4, 0.0]], [[-1e4, 1e4, 0.0]]])
  mean = tf.nn.softmax(losses.mean_of_distributions(logits))
  np.testing.assert_allclose(mean, [[0.5, 0.5, 0.0]], atol=1e-6)


def test_expected_value_by_hand():
  logits = tf.math.log([[[1.0, 1.0, 2.0]], [[0.0, 3.0, 0.0]]])
  value = losses.expected_value(logits, tf.constant([-1.0, 0.0, 4.0]))
  np.testing.assert_allclose(value, [[-0.25 + 2.0], [0.0]], atol=1e-6)


# Projection.


@pytest.mark.parametrize(
  "value, expected",
  [
    (0.0, (1, 0, 0)),
    (0.25, (0.75, 0.25, 0)),
    (1.0, (0, 1, 0)),
    (1.9, (0, 0.1, 0.9)),
    (2.0, (0, 0, 1)),
    (7.0, (0, 0, 1)),
    (-7.0, (1, 0, 0)),
    (np.inf, (0, 0, 1)),
    (-np.inf, (1, 0, 0)),
  ],
)
def test_projection_of_one_value_by_hand(value, expected):
  projected = losses.project(tf.constant([[value]]), tf.ones([1, 1]), _ATOMS)
  np.testing.assert_allclose(projected, [expected], atol=1e-6)


def test_projection_onto_atoms_of_unequal_gaps_by_hand():
  values, probabilities = tf.constant([[0.5, 2.0]]), tf.constant([[0.4, 0.6]])
  projected = losses.project(values, probabilities, tf.constant([0.0, 1.0, 3.0]))
  np.testing.assert_allclose(projected, [[0.2, 0.2 + 0.3, 0.3]], atol=1e-6)


def test_projection_keeps_the_mean_and_the_whole():
  values = tf.constant(np.random.RandomState(0).uniform(0, 2, (20, 7)).astype(np.float32))
  probabilities = tf.nn.softmax(_random(1, 20, 7, scale=2.0))
  projected = losses.project(values, probabilities, _ATOMS)
  np.testing.assert_allclose(tf.reduce_sum(projected, axis=1), np.ones(20), rtol=1e-5)
  expected = tf.reduce_sum(values * probabilities, axis=1)
  np.testing.assert_allclose(tf.linalg.matvec(projected, _ATOMS), expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_projection_equals_acmes(scale):
  values, atoms = _random(0, 30, 9, scale=scale), np.linspace(-4, 4, 9, dtype=np.float32)
  probabilities = tf.nn.softmax(_random(1, 30, 9))
  expected = distributional.l2_project(tf.constant(values), probabilities, tf.constant(atoms))
  projected = losses.project(tf.constant(values), probabilities, tf.constant(atoms))
  np.testing.assert_allclose(projected, expected, rtol=1e-4, atol=1e-6)


# Categorical TD.


def _td(logits, r_t=0.5, discount_t=0.5, q_logits_t=((0.0, 100.0, 0.0),)):
  shape = [len(q_logits_t), 1]
  dtype = logits.dtype
  return losses.categorical_td_loss(
    logits[:, None],
    tf.fill(shape, tf.cast(r_t, dtype)),
    tf.fill(shape, tf.cast(discount_t, dtype)),
    tf.cast(tf.constant(q_logits_t), dtype)[:, None],
    tf.cast(_ATOMS, dtype),
  )


def test_categorical_td_by_hand():
  logits = tf.math.log([[1.0, 2.0, 5.0]])
  # All of the target's return is 1, so the projected target is 0.5 + 0.5 * 1 = 1.
  np.testing.assert_allclose(_td(logits), [[-math.log(2 / 8)]], rtol=1e-5)
  # 0.25 + 0.5 * 1 = 0.75: a quarter of it falls on 0.
  expected = -0.25 * math.log(1 / 8) - 0.75 * math.log(2 / 8)
  np.testing.assert_allclose(_td(logits, r_t=0.25), [[expected]], rtol=1e-5)
  # At a termination the reward alone is left; beyond the atoms it is cut to the last of them.
  np.testing.assert_allclose(_td(logits, 2.0, 0.0), [[-math.log(5 / 8)]], rtol=1e-5)
  np.testing.assert_allclose(_td(logits, 9.0, 1.0), [[-math.log(5 / 8)]], rtol=1e-5)
  np.testing.assert_allclose(_td(logits, -9.0, 1.0), [[-math.log(1 / 8)]], rtol=1e-5)


@pytest.mark.parametrize("num_atoms", [2, 11, 51])
@pytest.mark.parametrize("spacing", ["equal", "unequal"])
def test_categorical_td_equals_acmes(num_atoms, spacing):
  atoms = np.linspace(-5, 5, num_atoms, dtype=np.float32)
  if spacing == "unequal":
    atoms = np.sign(atoms) * atoms**2
  length, batch_size = 4, 3
  q_tm1, q_t = (_random(s, length, batch_size, num_atoms, scale=3.0) for s in (1, 2))
  r_t = _random(3, length, batch_size, scale=4.0)
  discount_t = np.random.RandomState(4).choice([0.0, 0.9, 1.0], r_t.shape).astype(np.float32)
  tensors = [tf.constant(x) for x in (q_tm1, r_t, discount_t, q_t, atoms)]
  ours = losses.categorical_td_loss(*tensors)
  rows = lambda x: tf.constant(x.reshape(-1, num_atoms))
  with tf.GradientTape() as tape:
    logits = rows(q_tm1)
    tape.watch(logits)
    theirs = acme_losses.categorical(
      acme_networks.DiscreteValuedDistribution(tensors[-1], logits),
      tf.constant(r_t.ravel()),
      tf.constant(discount_t.ravel()),
      acme_networks.DiscreteValuedDistribution(tensors[-1], rows(q_t)),
    )
  np.testing.assert_allclose(tf.reshape(ours, [-1]), theirs, rtol=2e-5, atol=1e-5)
  gradient = _gradient(lambda x: losses.categorical_td_loss(x, *tensors[1:]), tensors[0])
  np.testing.assert_allclose(
    gradient.reshape(-1, num_atoms), tape.gradient(theirs, logits), rtol=1e-3, atol=1e-5
  )


def test_categorical_td_gradient():
  logits = tf.constant(_random(0, 1, 3))
  function = lambda x: _td(x, r_t=0.25)
  gradient = _gradient(function, logits)
  np.testing.assert_allclose(gradient, _finite_difference(function, logits), rtol=1e-3, atol=1e-5)
  # Softmax less target: probability is to move to the atoms of the target, away from the others.
  expected = tf.nn.softmax(logits) - [[0.25, 0.75, 0.0]]
  np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
  assert gradient[0, 2] > 0 > gradient[0, 1]


def test_the_target_of_categorical_td_is_stopped():
  x = tf.constant(_random(0, 2, 2, 3))
  scalar = x[..., 0]
  with tf.GradientTape() as tape:
    tape.watch([x, scalar])
    loss = losses.categorical_td_loss(tf.zeros_like(x), scalar, scalar, x, _ATOMS)
  assert all(g is None or not np.any(g) for g in tape.gradient(loss, [x, scalar]))


def test_the_mass_outside_the_support_by_hand():
  logits = tf.math.log([[[1.0, 1.0, 2.0]]])
  outside = lambda r, d: losses.mass_outside_support(
    tf.constant([[r]]), tf.constant([[d]]), logits, _ATOMS
  )
  # Returns of 0, 1 and 2 become r + d times that.
  for reward, discount, expected in (
    (0.0, 1.0, 0.0),
    (0.5, 1.0, 0.5),
    (1.5, 1.0, 0.75),
    (-0.5, 1.0, 0.25),
    (-0.5, 0.0, 1.0),
    (2.0, 0.0, 0.0),
  ):
    np.testing.assert_allclose(outside(reward, discount), [[expected]], atol=1e-6)


# Baseline, weights.


@pytest.mark.parametrize(
  "reduce, expected", [(_Reduce.MEAN, [2, 0]), (_Reduce.MAX, [3, 4]), (_Reduce.MIN, [1, -5])]
)
def test_baselines_by_hand(reduce, expected):
  values = tf.constant([[[1.0, 1.0]], [[3.0, -5.0]], [[2.0, 4.0]]])
  np.testing.assert_allclose(losses.baseline(values, reduce), [expected])


@pytest.mark.parametrize(
  "mode, expected",
  [
    (_Mode.EXP, [math.exp(-4), 1.0, math.exp(0.5), 3.0, 3.0]),
    (_Mode.BINARY, [0, 0, 1, 1, 1]),
    (_Mode.ALL, [1, 1, 1, 1, 1]),
  ],
)
def test_weights_by_hand(mode, expected):
  # exp(A / 0.5), at most 3: the last but one is exp(1.2) = 3.32, cut.
  weights = losses.policy_weights(tf.constant([[-2.0, 0.0, 0.25, 0.6, 50.0]]), mode, 0.5, 3.0)
  np.testing.assert_allclose(weights, [expected], rtol=1e-5)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 7.0, 20.0, 70.0, 1e6])
def test_the_bound_of_weights_is_reached_and_never_exceeded(bound):
  around = math.log(bound) + np.linspace(-0.1, 0.1, 1001)
  weights = losses.policy_weights(tf.constant(around, tf.float32), _Mode.EXP, 1.0, bound).numpy()
  # Exactly: the share of weights at the bound is logged.
  assert weights.max() == np.float32(bound) == weights[-1]
  assert (np.diff(weights) >= 0).all()


@pytest.mark.parametrize("advantage", [np.inf, 3e38, 1e4, -1e4, -3e38, -np.inf])
@pytest.mark.parametrize("beta", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("mode", _Mode)
def test_weights_are_finite_for_any_advantage(mode, beta, advantage):
  weight = float(losses.policy_weights(tf.constant(advantage), mode, beta))
  upper = 20.0 if mode is _Mode.EXP else 1.0
  assert 0.0 <= weight <= upper
  if abs(advantage) >= 1e38 or beta < 1:
    assert weight == (upper if advantage > 0 or mode is _Mode.ALL else 0.0)


@pytest.mark.parametrize("mode", _Mode)
def test_weights_are_stopped(mode):
  advantage = tf.constant([-1.0, 0.5])
  with tf.GradientTape() as tape:
    tape.watch(advantage)
    weights = losses.policy_weights(advantage, mode)
  gradient = tape.gradient(weights, advantage)
  assert gradient is None or not np.any(gradient)


# Policy loss.


def test_policy_loss_by_hand():
  loss = losses.policy_loss(tf.constant([[-2.0, 0.5, 3.0]]), tf.constant([[1.0, 4.0, 0.0]]))
  np.testing.assert_allclose(loss, [[2.0, -2.0, 0.0]])


def test_policy_loss_gradient():
  weights = tf.constant([[1.0, 4.0, 0.0]])
  function = lambda x: losses.policy_loss(x, tf.cast(weights, x.dtype))
  log_prob = tf.constant([[-2.0, 0.5, 3.0]])
  gradient = _gradient(function, log_prob)
  np.testing.assert_allclose(gradient, _finite_difference(function, log_prob), rtol=1e-4)
  # A likelier action lowers the loss by its weight; one of weight zero does not matter.
  np.testing.assert_allclose(gradient, -weights)


def test_policy_loss_raises_the_density_of_better_actions_only():
  mean = tf.constant([0.0])
  actions, values = tf.constant([[-1.0, 1.0]]), tf.constant([[1.0, 3.0]])
  weights = losses.policy_weights(values - 2.0, _Mode.BINARY)
  density = lambda x: losses.policy_loss(-0.5 * tf.square(actions - x), weights)
  assert _gradient(density, mean) < 0  # Descent moves the mean up, to the better action.


def test_policy_loss_stops_its_weights():
  weights = tf.constant([[2.0]])
  with tf.GradientTape() as tape:
    tape.watch(weights)
    loss = losses.policy_loss(tf.constant([[3.0]]), weights)
  assert tape.gradient(loss, weights) is None


@pytest.mark.parametrize(
  "call, shape",
  [
    (lambda x: losses.policy_loss(x, x), (2, 3, 1)),
    (lambda x: losses.mean_of_distributions(x), (2, 3)),
    (lambda x: losses.project(x, x, _ATOMS), (2, 2, 3)),
    (lambda x: losses.categorical_td_loss(x, x[..., 0], x[..., 0], x, _ATOMS), (2, 3)),
    (lambda x: losses.categorical_td_loss(x, x, x, x, _ATOMS), (2, 2, 3)),
  ],
)
def test_a_wrong_rank_is_named(call, shape):
  with pytest.raises(ValueError, match=r"has shape \(2, .*\); it must have rank"):
    call(tf.zeros(shape))


_N, _K = 4, 5


def _arrays(low, high, *shape):
  size = int(np.prod(shape))
  low, high = float(np.float32(low)), float(np.float32(high))
  return st.lists(st.floats(low, high, width=32), min_size=size, max_size=size).map(
    lambda values: np.reshape(np.array(values, np.float32), shape)
  )


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
  logits=_arrays(-1e4, 1e4, 2, _N, 1, _K),
  reward=_arrays(-1e6, 1e6, _N, 1),
  discount=_arrays(0, 1, _N, 1),
  log_prob=_arrays(-1e4, 1e4, _N, 1),
  advantage=_arrays(-1e30, 1e30, _N, 1),
)
def test_every_loss_and_gradient_is_finite(logits, reward, discount, log_prob, advantage):
  atoms = tf.linspace(-10.0, 10.0, _K)
  q_tm1, q_t = map(tf.constant, logits)
  log_prob = tf.constant(log_prob)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([q_tm1, log_prob])
    critic = losses.categorical_td_loss(
      q_tm1, tf.constant(reward), tf.constant(discount), q_t, atoms
    )
    weights = losses.policy_weights(tf.constant(advantage), _Mode.EXP)
    policy = losses.policy_loss(log_prob, weights)
  gradients = [tape.gradient(critic, q_tm1), tape.gradient(policy, log_prob)]
  for x in (critic, policy, weights, *gradients):
    assert np.isfinite(x).all()
  assert np.min(critic) >= 0
