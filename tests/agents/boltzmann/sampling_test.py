"""Tests of `temper.agents.boltzmann.sampling`: the law of the choice, and what is refused."""

from acme.tf import networks as acme_networks
import numpy as np
import pytest
from scipy import stats
import tensorflow as tf

from temper.agents.boltzmann import sampling
from temper.utils import noise

_DRAWS = 100_000
_SEED = tf.constant([3, 5])


def _probabilities(values, beta):
  """Softmax of values over beta by its definition, in double precision."""
  values = np.asarray(values, np.float64)
  weights = np.exp((values - values.max()) / beta)
  return weights / weights.sum()


def _check_law(counts, expected):
  """Compares counts with expected shares by a chi-square test; rare outcomes are put together."""
  rare = expected * counts.sum() < 10
  assert counts[expected < 1e-12].sum() == 0
  observed, wanted = (
    np.append(x[~rare], x[rare].sum()) for x in (counts.astype(float), expected * counts.sum())
  )
  observed, wanted = observed[wanted > 0], wanted[wanted > 0]
  if len(wanted) == 1:
    assert observed[0] == pytest.approx(counts.sum())
  else:
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4


@pytest.mark.parametrize("beta", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e6], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e4], ids=lambda scale: f"values times {scale:g}")
@pytest.mark.parametrize("as_variable", [False, True], ids=["number", "variable"])
def test_frequencies_are_softmax_of_value_over_beta(beta, scale, as_variable):
  values = np.float32([0.3, -1.2, 0.35, 2.0, 1.9]) * np.float32(scale)
  tiled = tf.repeat(tf.constant(values)[:, None], _DRAWS, axis=1)
  choice = sampling.choose(tiled, tf.Variable(beta) if as_variable else beta, _SEED)
  expected = _probabilities(values, beta)
  _check_law(np.bincount(choice.index, minlength=5), expected)
  np.testing.assert_allclose(np.exp(choice.log_weight), expected[choice.index], rtol=2e-3)


@pytest.mark.parametrize("beta", [0.0, 0, 1e-300, np.float32(0), "variable"], ids=str)
def test_at_zero_the_best_is_chosen_and_equal_ones_are_equally_likely(beta):
  beta = tf.Variable(0.0) if beta == "variable" else sampling.resolve_beta(beta, None)
  values = np.random.RandomState(0).normal(size=(7, 50)).astype(np.float32)
  for magnitude in (1e-30, 1.0, 1e30):
    choice = sampling.choose(tf.constant(values * np.float32(magnitude)), beta, _SEED)
    np.testing.assert_array_equal(choice.index, values.argmax(axis=0))
    np.testing.assert_array_equal(choice.log_weight, np.zeros(50))
  tie = tf.repeat(tf.constant([[2.0], [1.0], [2.0]]), 10_000, axis=1)
  choice = sampling.choose(tie, beta, _SEED)
  _check_law(np.bincount(choice.index, minlength=3), np.array([0.5, 0.0, 0.5]))
  np.testing.assert_allclose(choice.log_weight, np.log(0.5), rtol=1e-6)


def test_an_infinite_temperature_ignores_the_values():
  values = tf.repeat(tf.constant([[-5.0], [1e6], [3.0]]), 30_000, axis=1)
  index = sampling.choose(values, np.inf, _SEED).index
  _check_law(np.bincount(index, minlength=3), np.full(3, 1 / 3))


def test_rows_are_chosen_apart_from_each_other():
  # Two rows with two equal proposals each: all four pairs are equally likely.
  index = np.array(
    [sampling.choose(tf.zeros([2, 2]), 1.0, tf.constant([0, i])).index for i in range(1000)]
  )
  _check_law(np.bincount(index[:, 0] * 2 + index[:, 1], minlength=4), np.full(4, 0.25))


def test_the_seed_decides_and_without_one_the_global_generator_does():
  values = tf.zeros([16, 20])
  draw = lambda seed: sampling.choose(values, 1.0, seed).index.numpy()
  np.testing.assert_array_equal(draw(_SEED), draw(_SEED))
  assert (draw(_SEED) != draw(tf.constant([3, 6]))).any()
  draws = []
  for seed in (1, 1, 2):
    tf.random.set_seed(seed)
    draws.append(draw(None))
  np.testing.assert_array_equal(draws[0], draws[1])
  assert (draws[0] != draws[2]).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
  with pytest.raises(tf.errors.InvalidArgumentError, match="critic's value.*diverged"):
    sampling.choose(tf.constant([[0.0], [value]]), 1.0, _SEED)


@pytest.mark.parametrize("value", [-1e-6, np.nan, -np.inf])
def test_a_wrong_temperature_is_refused_also_when_a_variable_takes_it_later(value):
  for beta in (value, tf.Variable(value, dtype=tf.float32)):
    with pytest.raises(ValueError, match="beta is .*it must be a number of at least 0"):
      sampling.resolve_beta(beta, None)
    with pytest.raises(ValueError, match="temperature_beta is .*at least 0"):
      sampling.resolve_beta(sampling.DEFAULT_BETA, beta)
  beta = tf.Variable(1.0)
  compiled = tf.function(lambda: sampling.choose(tf.zeros([2, 1]), beta, _SEED).index)
  compiled()
  beta.assign(value)
  with pytest.raises(tf.errors.InvalidArgumentError, match="variable beta is.*at least 0"):
    compiled()
  beta.assign(0.0)
  compiled()


def test_what_is_no_temperature_is_refused():
  for value in ("1", True, [1.0], tf.Variable([1.0]), tf.Variable(1)):
    with pytest.raises(TypeError, match="beta is"):
      sampling.resolve_beta(value, None)


def test_two_names_are_one_number():
  assert sampling.resolve_beta(sampling.DEFAULT_BETA, None) == 1.0
  assert sampling.resolve_beta(None, None) == 1.0
  assert sampling.resolve_beta(0.5, None) == sampling.resolve_beta(None, 0.5) == 0.5
  variable = tf.Variable(2.0)
  assert sampling.resolve_beta(variable, None) is variable
  for pair in ((1.0, 1.0), (2.0, 1.0), (1.0, variable)):
    with pytest.raises(ValueError, match="two names of one number"):
      sampling.resolve_beta(*pair)


def test_values_of_every_shape_and_of_distributions():
  flat = tf.range(6.0)
  wanted = np.arange(6).reshape(3, 2)
  for shape in ([6], [6, 1], [3, 2], [3, 2, 1]):
    np.testing.assert_array_equal(sampling.as_values(tf.reshape(flat, shape), [3, 2]), wanted)
  logits = tf.math.log(tf.stack([1 - flat / 10, flat / 10], axis=1))
  of_returns = acme_networks.DiscreteValuedDistribution(tf.constant([0.0, 10.0]), logits)
  np.testing.assert_allclose(sampling.as_values(of_returns, [3, 2]), wanted, atol=1e-5)
  for shape in ([2, 3], [1, 6], [6, 2], [5]):
    with pytest.raises(
      ValueError, match="critic_network's values have shape.*one value per action"
    ):
      sampling.as_values(tf.zeros(shape), [3, 2])


def test_unknown_batch_sizes():
  @tf.function(input_signature=[tf.TensorSpec([None, None, 2]), tf.TensorSpec([None], tf.int32)])
  def chosen(proposals, index):
    return sampling.take(sampling.merge(proposals), index)

  proposals = np.arange(24.0, dtype=np.float32).reshape(3, 4, 2)
  index = np.int32([2, 0, 1, 1])
  np.testing.assert_array_equal(chosen(proposals, index), proposals[index, np.arange(4)])


def test_given_noise_is_the_choice():
  values = np.log([[0.2], [0.5], [0.3]]).astype(np.float32)
  uniform = np.linspace(0, 1, 1_001, dtype=np.float32)
  given = noise.Noise(tf.zeros([3, 1_001, 1]), choice=tf.constant(uniform))
  choice = sampling.choose(tf.tile(values, [1, 1_001]), 1.0, given)
  edges = (uniform > 0.2).astype(int) + (uniform > 0.7)
  assert np.mean(choice.index != edges) <= 2e-3  # The two on an edge.
  np.testing.assert_allclose(choice.log_weight, values[choice.index, 0], atol=1e-6)
  greedy = sampling.choose(tf.tile(values, [1, 1_001]), 0.0, given)
  np.testing.assert_array_equal(greedy.index, np.ones(1_001))
