"""Tests of `temper.utils.noise`, alone and through `temper.utils.distributions`."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import distributions
from temper.utils import noise
from temper.utils.squashed_gaussian import SquashedGaussian

tfd = tfp.distributions

_LOC = tf.constant([[0.5, -1.0], [2.0, 0.0]])
_SCALE = tf.constant([[0.1, 2.0], [1.0, 0.5]])


def _mixture():
  loc = tf.constant([[[0.0], [10.0], [20.0]], [[-1.0], [-2.0], [-3.0]]])  # [B, K, 1]
  scale = tf.constant([[[0.5], [1.0], [2.0]], [[1.0], [1.0], [3.0]]])
  return tfd.MixtureSameFamily(
    tfd.Categorical(logits=tf.math.log([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])),
    tfd.Independent(tfd.Normal(loc, scale), 1),
  )


@pytest.mark.parametrize(
  "distribution",
  [
    tfd.Independent(tfd.Normal(_LOC, _SCALE), 1),
    tfd.MultivariateNormalDiag(_LOC, _SCALE),
    SquashedGaussian(_LOC, tf.math.log(_SCALE)),
  ],
  ids=lambda d: type(d).__name__,
)
def test_noise_is_scaled_and_its_density_is_the_distributions(distribution):
  given = noise.Noise(tf.constant([[1.0, 0.5], [-1.0, 0.0]]))
  action, log_prob = noise.sample_and_log_prob(distribution, given)
  expected = np.array([[0.6, 0.0], [1.0, 0.0]])
  if isinstance(distribution, SquashedGaussian):
    expected = np.tanh(expected)
  np.testing.assert_allclose(action, expected, atol=1e-6)
  np.testing.assert_allclose(log_prob, distribution.log_prob(action), rtol=1e-5)


def test_several_draws_and_scalar_actions():
  distribution = tfd.Normal([1.0, 2.0], [1.0, 3.0])
  action, log_prob = noise.sample_and_log_prob(distribution, noise.Noise(tf.ones([4, 2])))
  np.testing.assert_allclose(action, [[2.0, 5.0]] * 4)
  np.testing.assert_allclose(log_prob, distribution.log_prob(action), rtol=1e-6)


def test_a_mixture_takes_the_component_that_the_uniform_number_falls_into():
  given = noise.Noise(tf.constant([[2.0], [1.0]]), tf.constant([0.4, 0.85]))
  action, log_prob = noise.sample_and_log_prob(_mixture(), given)
  np.testing.assert_allclose(action, [[12.0], [0.0]])
  np.testing.assert_allclose(log_prob, _mixture().log_prob(action), rtol=1e-6)


def test_draws_of_a_mixture_follow_its_law():
  random = np.random.default_rng(0)
  given = noise.Noise(
    tf.constant(random.standard_normal((20_000, 2, 1), np.float32)),
    tf.constant(random.random((20_000, 2), np.float32)),
  )
  drawn = distributions.sample(_mixture(), 20_000, given)
  np.testing.assert_allclose(tf.reduce_mean(drawn, 0), _mixture().mean(), atol=0.15)
  np.testing.assert_allclose(tf.math.reduce_variance(drawn, 0), _mixture().variance(), rtol=0.05)


@pytest.mark.parametrize(
  "uniform, expected", [(0.0, 1), (0.19, 1), (0.21, 2), (0.5, 4), (0.999999, 4), (1.0, 4)]
)
def test_choose_inverts_the_cumulative_and_never_takes_what_has_no_probability(uniform, expected):
  probabilities = tf.constant([[0.0, 0.2, 0.3, 0.0, 0.5, 0.0]])
  assert noise.choose(probabilities, tf.constant([uniform])).numpy() == [expected]


def test_the_mean_of_a_mixture_is_tensorflow_probabilitys():
  np.testing.assert_allclose(distributions.mean(_mixture()), _mixture().mean(), rtol=1e-6)
  normal = tfd.Normal([1.0], 1.0)
  np.testing.assert_array_equal(distributions.mean(normal), [1.0])


def test_what_cannot_be_drawn_from_noise_is_refused():
  with pytest.raises(TypeError, match="Uniform.*SquashedGaussian"):
    noise.sample_and_log_prob(tfd.Uniform([0.0], 1.0), noise.Noise(tf.zeros([1])))
  with pytest.raises(ValueError, match="noise.component"):
    noise.sample_and_log_prob(_mixture(), noise.Noise(tf.zeros([2, 1])))
