import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import distributions

_SEED = tf.constant([1, 2])


def test_a_seed_decides_the_draw():
  normal = tfp.distributions.Normal(tf.zeros([3]), 1.0)
  first, second = (distributions.sample(normal, 4, _SEED) for _ in range(2))
  assert first.shape == (4, 3)
  np.testing.assert_array_equal(first, second)
  assert not np.array_equal(first, distributions.sample(normal, 4, tf.constant([1, 3])))


def test_without_a_seed_draws_differ():
  normal = tfp.distributions.Normal(tf.zeros([3]), 1.0)
  assert not np.array_equal(distributions.sample(normal), distributions.sample(normal))


def test_a_distribution_that_takes_no_seed_is_sampled_too():
  class Constant:
    def sample(self, sample_shape=()):
      return tf.ones([sample_shape, 2])

  np.testing.assert_array_equal(distributions.sample(Constant(), 3, _SEED), np.ones((3, 2)))


def test_a_seed_may_hide_among_keyword_arguments():
  class Wrapper:
    def sample(self, sample_shape=(), **kwargs):
      return kwargs["seed"]

  np.testing.assert_array_equal(distributions.sample(Wrapper(), 3, _SEED), _SEED)
