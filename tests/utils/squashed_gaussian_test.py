"""The squashed normal distribution against float64 arithmetic that shares no formula with it."""

from acme import specs
import numpy as np
import pytest
import tensorflow as tf

from temper.utils import distributions
from temper.utils import environment_actions
from temper.utils import squashed_gaussian

_SEED = tf.constant([1, 2])


def _make(loc, log_scale, dtype=tf.float32, **options):
  return squashed_gaussian.SquashedGaussian(
    tf.constant(loc, dtype), tf.constant(log_scale, dtype), **options
  )


def _normal(noise, log_scale):
  return -0.5 * noise**2 - log_scale - 0.5 * np.log(2 * np.pi)


def _true_log_prob(noise, loc, log_scale, offset=0.0):
  """In float64, by `1 - tanh(u)² = 1 / cosh(u)²`."""
  noise, loc, log_scale = (np.asarray(x, np.float64) for x in (noise, loc, log_scale))
  u = loc + np.exp(log_scale) * noise
  log_slope = -2 * (np.logaddexp(u, -u) - np.log(2))
  if offset:
    log_slope = np.logaddexp(log_slope, np.log(offset))
  return np.sum(_normal(noise, log_scale) - log_slope, axis=-1)


@pytest.mark.parametrize("scale", [1.0, 2.0, 100.0])
def test_log_prob_equals_a_numerical_change_of_variables(scale):
  # The density of the environment's action, by the slope of the map that makes it of u.
  mapping = environment_actions.ActionMapping(specs.BoundedArray((2,), np.float64, -scale, scale))
  squash = lambda u: mapping.to_environment(np.tanh(u))
  random = np.random.RandomState(0)
  loc, log_scale = random.normal(size=(50, 2)), random.uniform(-1.5, 0.5, size=(50, 2))
  noise = random.normal(size=(50, 2))
  u, step = loc + np.exp(log_scale) * noise, 1e-6
  slope = (squash(u + step) - squash(u - step)) / (2 * step)
  numerical = np.sum(_normal(noise, log_scale) - np.log(slope), axis=1)
  distribution = _make(loc, log_scale, tf.float64)
  action, log_prob = distribution.sample_and_log_prob(tf.constant(noise))
  np.testing.assert_allclose(mapping.to_environment(action.numpy()), squash(u), rtol=1e-12)
  # `log π` is of the canonical action: each dimension of the environment's is so much longer.
  np.testing.assert_allclose(log_prob - 2 * np.log(scale), numerical, rtol=1e-5, atol=1e-5)
  given = distribution.log_prob(mapping.to_canonical(squash(u)).astype(np.float64))
  # The canonical action was rounded to float32 on its way.
  np.testing.assert_allclose(given - 2 * np.log(scale), numerical, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loc,log_scale", [(0.0, 0.0), (1.5, -1.0), (-0.3, 0.7)])
def test_the_density_integrates_to_one(loc, log_scale):
  # Over u, whose range has no sharp ends: da = (1 - tanh²) du.
  u = np.linspace(-15, 15, 20_001)[:, None]
  density = np.exp(_make([loc], [log_scale], tf.float64).log_prob(np.tanh(u)))
  assert np.trapz(density / np.cosh(u[:, 0]) ** 2, u[:, 0]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e-7])
@pytest.mark.parametrize("loc", [-1e6, -20.0, -9.5, 0.0, 9.5, 20.0, 1e6])
def test_draws_have_their_density_and_gradients_where_tanh_is_one(loc, offset):
  noise = np.float32([[0.0], [1.5], [-2.5]])
  locs, log_scales = tf.fill([3, 1], np.float32(loc)), tf.fill([3, 1], np.float32(-0.7))
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([locs, log_scales])
    distribution = squashed_gaussian.SquashedGaussian(locs, log_scales, offset=offset)
    action, log_prob = distribution.sample_and_log_prob(tf.constant(noise))
  assert action.dtype == log_prob.dtype == tf.float32
  if abs(loc) > 15:
    np.testing.assert_array_equal(action, np.full((3, 1), np.sign(loc)))
  expected = _true_log_prob(noise, np.float32(loc), np.float32(-0.7), offset)
  np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=1e-5)
  for source in (locs, log_scales):
    for target in (action, log_prob):
      assert np.isfinite(tape.gradient(target, source)).all()
  # d log π / d loc = 2 tanh(u) (1 - a²) / (1 - a² + offset), as in float64.
  u = np.float64(np.float32(loc)) + np.exp(np.float64(np.float32(-0.7))) * noise.astype(np.float64)
  slope = 1 / np.cosh(np.clip(u, -300, 300)) ** 2
  wanted = 2 * np.tanh(u) * (slope / (slope + offset) if offset else 1.0)
  np.testing.assert_allclose(tape.gradient(log_prob, locs), wanted, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e-7])
def test_given_actions_have_their_density_as_far_as_they_tell_u(offset):
  u = np.linspace(-4, 4, 41)[:, None]
  action = np.tanh(u).astype(np.float32)
  distribution = _make(np.full([41, 1], 0.5), np.full([41, 1], 0.3), offset=offset)
  true_u = np.arctanh(action.astype(np.float64))
  noise = (true_u - 0.5) / np.exp(0.3)
  expected = _true_log_prob(noise, 0.5, 0.3, offset)
  np.testing.assert_allclose(distribution.log_prob(action), expected, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("log_scale", [-20.0, 0.0, 2.0])
@pytest.mark.parametrize("loc", [-20.0, 0.0, 20.0])
@pytest.mark.parametrize("offset", [0.0, 1e-7])
def test_given_actions_at_the_ends_are_finite_with_their_gradients(loc, log_scale, offset):
  # tanh has been seen to return a little more than one, too.
  action = tf.constant([[1.0], [-1.0], [1.0000001], [-1.0000001], [0.0]])
  locs, log_scales = tf.fill([5, 1], loc), tf.fill([5, 1], log_scale)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([action, locs, log_scales])
    log_prob = squashed_gaussian.SquashedGaussian(locs, log_scales, offset=offset).log_prob(action)
  assert np.isfinite(log_prob).all()
  for source in (action, locs, log_scales):
    assert np.isfinite(tape.gradient(log_prob, source)).all()


def test_draws_stay_within_the_bounds():
  loc = tf.constant(np.linspace(-30, 30, 100_001)[:, None], tf.float32)
  action, _ = squashed_gaussian.SquashedGaussian(loc, tf.zeros_like(loc) - 20).sample_and_log_prob(
    tf.zeros_like(loc)
  )
  assert np.abs(action).max() <= 1.0


def test_an_offset_is_added_inside_of_the_logarithm():
  noise = np.array([[0.2, -0.4], [1.0, 0.5]])
  distribution = _make(np.zeros((2, 2)), np.zeros((2, 2)), tf.float64, offset=1e-7)
  action, log_prob = distribution.sample_and_log_prob(tf.constant(noise))
  expected = _normal(noise, 0.0) - np.log(1 - action.numpy() ** 2 + 1e-7)
  np.testing.assert_allclose(log_prob, expected.sum(axis=1), rtol=1e-12)
  assert distribution.offset == 1e-7


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_actions_of_any_shape(shape):
  random = np.random.RandomState(0)
  # In float64, whose actions tell u: the log-probabilities of draws are those of their actions.
  loc, log_scale = random.normal(size=(2, 4, *shape))
  distribution = _make(loc, log_scale, tf.float64, event_rank=len(shape))
  assert distribution.batch_shape == [4] and distribution.event_shape == shape
  action = distribution.sample(5, seed=_SEED)
  assert action.shape == (5, 4, *shape)
  one, log_prob = distributions.sample_and_log_prob(distribution, _SEED)
  assert one.shape == (4, *shape) and log_prob.shape == (4,)
  assert distribution.log_prob(action).shape == (5, 4)
  np.testing.assert_allclose(distribution.log_prob(one), log_prob, rtol=1e-6)
  # Flat, it is the same.
  flat = lambda x: np.reshape(x, [*x.shape[: x.ndim - len(shape)], -1])
  same = _make(flat(loc), flat(log_scale), tf.float64)
  np.testing.assert_allclose(same.log_prob(flat(one.numpy())), distribution.log_prob(one))
  np.testing.assert_allclose(distribution.mean(), np.tanh(loc), rtol=1e-6)


def test_the_seed_decides_the_draw():
  distribution = _make(np.zeros((3, 2)), np.zeros((3, 2)))
  draw = lambda *seed: distributions.sample_and_log_prob(distribution, tf.constant(seed))
  np.testing.assert_array_equal(draw(1, 2)[0], draw(1, 2)[0])
  np.testing.assert_array_equal(draw(1, 2)[1], draw(1, 2)[1])
  assert not np.any(draw(1, 2)[0] == draw(1, 3)[0])
  assert len(np.unique(draw(1, 2)[0])) == 6  # Each row and dimension has noise of its own.
  assert not np.array_equal(distribution.sample(), distribution.sample())


def test_draws_follow_the_distribution():
  loc, log_scale = np.float32([[0.5, -1.0]]), np.float32([[-0.5, 0.3]])
  u = np.arctanh(_make(loc, log_scale).sample(20_000, seed=_SEED).numpy().astype(np.float64))
  # Standard errors are at most 1.35 / sqrt(20000) = 0.01.
  np.testing.assert_allclose(u.mean(axis=0), loc, atol=0.04)
  np.testing.assert_allclose(u.std(axis=0), np.exp(log_scale), rtol=0.03)


def test_a_batch_of_unknown_size_keeps_what_is_known():
  shapes = []

  @tf.function(
    autograph=False, input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([2], tf.int32)]
  )
  def draw(loc, seed):
    distribution = squashed_gaussian.SquashedGaussian(loc, tf.zeros_like(loc))
    action, log_prob = distributions.sample_and_log_prob(distribution, seed)
    shapes.extend([action.shape.as_list(), log_prob.shape.as_list()])
    return action, log_prob, distribution.sample(7, seed)

  action, log_prob, several = draw(tf.zeros([3, 2]), _SEED)
  assert shapes == [[None, 2], [None]]
  assert action.shape == (3, 2) and log_prob.shape == (3,) and several.shape == (7, 3, 2)


def test_slices_are_refused():
  with pytest.raises(NotImplementedError, match="cannot be sliced"):
    _make(np.zeros((3, 2)), np.zeros((3, 2)))[0]
