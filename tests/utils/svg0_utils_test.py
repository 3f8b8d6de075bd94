from acme.agents.tf.svg0_prior import utils as acme_utils
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.utils import svg0_utils

tfd = tfp.distributions


def _normal(*shape, seed=0):
  return tf.constant(np.random.RandomState(seed).normal(size=shape).astype(np.float32))


def _assert_equal_nests(ours, theirs, **tolerances):
  tree.assert_same_structure(ours, theirs)
  tree.map_structure(lambda a, b: np.testing.assert_allclose(a, b, **tolerances), ours, theirs)


@pytest.mark.parametrize("seed", range(4))
def test_static_rnn_equals_acmes_on_random_nests(seed):
  random = np.random.RandomState(seed)
  length, batch = random.randint(2, 6), random.randint(1, 4)

  def make(depth):
    if depth == 0 or random.rand() < 0.3:
      return tf.constant(
        random.normal(size=(length, batch, *random.randint(1, 4, random.randint(3))))
      )
    children = [make(depth - 1) for _ in range(random.randint(1, 4))]
    return (
      tuple(children)
      if random.rand() < 0.5
      else {f"k{i}": child for i, child in enumerate(children)}
    )

  inputs = (make(3), make(1))

  def core(nest):
    return {"twice": tree.map_structure(lambda x: 2 * x, nest[0]), "same": nest[1]}

  for unroll in (1, length):
    _assert_equal_nests(
      svg0_utils.static_rnn(core, inputs, unroll), acme_utils.static_rnn(core, inputs, unroll)
    )


def test_static_rnn_gives_none_where_a_tensor_has_ended():
  seen = []

  def core(inputs):
    seen.append(inputs[1] is None)
    return inputs[0] if inputs[1] is None else inputs[0] + inputs[1]

  inputs = (_normal(3, 2), _normal(1, 2))
  ours = svg0_utils.static_rnn(core, inputs, 3)
  assert seen == [False, True, True]
  _assert_equal_nests(ours, acme_utils.static_rnn(core, inputs, 3))


@pytest.mark.parametrize("seed", range(3))
def test_mask_out_restarting_equals_acmes(seed):
  start = tf.constant(np.random.RandomState(seed).rand(5, 3) < 0.3)
  x = _normal(5, 3, seed=seed)
  _assert_equal_nests(
    svg0_utils.mask_out_restarting(x, start), acme_utils.mask_out_restarting(x, start)
  )


def test_masked_entries_are_zero_whatever_they_were():
  x = tf.constant([[np.inf, 1.0], [np.nan, -np.inf]])
  start = tf.constant([[True, False], [True, True]])
  np.testing.assert_array_equal(svg0_utils.mask_out_restarting(x, start), [[0, 1], [0, 0]])


@pytest.mark.parametrize("shapes", [((3,), (3, 1)), ((3, 1), (3,)), ((3, 1, 1), (3, 1))])
def test_mask_out_restarting_wants_rank_two(shapes):
  with pytest.raises(ValueError, match="rank 2"):
    svg0_utils.mask_out_restarting(tf.zeros(shapes[0]), tf.zeros(shapes[1], tf.bool))


@pytest.mark.parametrize("keys", [None, (), ("b",), ("c", "a"), ["a", "b", "c"]])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_batch_concat_selection_equals_acmes(keys, dtype):
  observation = {
    "b": _normal(2, 3, 2),
    "a": tf.constant([[1], [2]]),
    "c": tf.cast(_normal(2, 4, seed=1), tf.float64),
  }
  ours = svg0_utils.batch_concat_selection(observation, keys, dtype)
  assert ours.dtype == dtype
  _assert_equal_nests(ours, acme_utils.batch_concat_selection(observation, keys, dtype))


def test_batch_concat_selection_takes_an_iterator_of_keys_and_nests():
  observation = {"a": (_normal(2, 3), {"x": _normal(2, 1)}), "b": _normal(2, 2)}
  assert svg0_utils.batch_concat_selection(observation, iter(["a"])).shape == (2, 4)


def test_a_missing_key_is_named():
  with pytest.raises(KeyError, match="torque.*position"):
    svg0_utils.batch_concat_selection({"position": _normal(1, 2)}, ["torque"])


# OnlineTargetPiQ.


class Policy(snt.Module):
  """Normal with a linear mean, whose samples have fixed noise; takes no seed."""

  def __init__(self, shift):
    super().__init__()
    self._shift = shift

  def __call__(self, observation):
    distribution = tfd.MultivariateNormalDiag(
      observation[:, :2] + self._shift, tf.fill([2], 0.5 + self._shift)
    )
    noise = tf.constant(np.linspace(-1, 1, 8).reshape(4, 1, 2).astype(np.float32))
    distribution.sample = lambda n: distribution.mean() + 0.5 * noise[:n]
    return distribution


def _critic(weight):
  return lambda observation, action: (
    tf.reduce_sum(observation, 1, keepdims=True) + weight * action[:, :1]
  )


def _cores(module, **options):
  networks = [Policy(0.1), _critic(1.0), Policy(0.3), _critic(2.0)]
  return module.OnlineTargetPiQ(*networks, 4, **options)


@pytest.mark.parametrize("prior", [False, True])
def test_fields_and_values_equal_acmes(prior):
  priors = dict(online_prior=Policy(0.2), target_prior=Policy(0.7)) if prior else {}
  inputs = (_normal(5, 3), _normal(5, 2, seed=1))
  ours = _cores(svg0_utils, **priors)(inputs)
  theirs = _cores(acme_utils, **priors)(inputs)
  assert ours._fields == theirs._fields
  for field in theirs._fields:
    np.testing.assert_allclose(
      getattr(ours, field), getattr(theirs, field), rtol=1e-6, err_msg=field
    )


def test_merged_axes_equal_an_unroll_over_time():
  time_major = (_normal(4, 5, 3), _normal(4, 5, 2, seed=1))
  core = _cores(svg0_utils)
  unrolled = svg0_utils.static_rnn(core, time_major, 4)
  merged = core(tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), time_major))
  np.testing.assert_allclose(
    tf.reshape(merged.online_samples, [4, 4, 5, 2]),
    tf.transpose(unrolled.online_samples, [1, 0, 2, 3]),
    rtol=1e-6,
  )
  np.testing.assert_allclose(tf.reshape(merged.target_q, [4, 5, 1]), unrolled.target_q, rtol=1e-6)


@pytest.mark.parametrize("name", ["online_prior", "target_prior"])
def test_one_prior_alone_is_refused(name):
  with pytest.raises(ValueError, match="both, or neither"):
    _cores(svg0_utils, **{name: Policy(0.0)})


def test_no_samples_are_refused():
  with pytest.raises(ValueError, match="num_samples is 0"):
    svg0_utils.OnlineTargetPiQ(Policy(0.0), _critic(1.0), Policy(0.0), _critic(1.0), 0)


def _gaussian_outputs(scale, estimator, num_samples=4000):
  def policy(observation):
    return tfd.Independent(tfd.Normal(tf.zeros_like(observation), scale), 1)

  core = svg0_utils.OnlineTargetPiQ(
    policy,
    _critic(1.0),
    policy,
    _critic(1.0),
    num_samples,
    entropy_estimator=estimator,
    seeds=(tf.constant([1, 2]), tf.constant([3, 4])),
  )
  return core((tf.zeros([2, 1]), tf.zeros([2, 1])))


def _entropy(outputs, estimator):
  if estimator is svg0_utils.EntropyEstimator.ANALYTIC:
    return tf.reduce_mean(outputs.online_entropy)
  return -tf.reduce_mean(outputs.online_log_probs)


@pytest.mark.parametrize("estimator", svg0_utils.EntropyEstimator)
def test_value_and_expected_gradient_of_the_entropy(estimator):
  scale = tf.Variable(0.5)
  with tf.GradientTape() as tape:
    entropy = _entropy(_gaussian_outputs(scale, estimator), estimator)
  # H = log(scale sqrt(2 pi e)), so dH / d scale = 1 / scale = 2; the score's expectation is 0.
  assert float(entropy) == pytest.approx(np.log(0.5 * np.sqrt(2 * np.pi * np.e)), abs=0.03)
  expected = 0.0 if estimator is svg0_utils.EntropyEstimator.SCORE else 2.0
  assert float(tape.gradient(entropy, scale)) == pytest.approx(expected, abs=0.1)


def test_seeds_decide_the_samples():
  first, second = (_gaussian_outputs(1.0, svg0_utils.EntropyEstimator.SCORE, 3) for _ in range(2))
  np.testing.assert_array_equal(first.online_samples, second.online_samples)
  assert not np.array_equal(first.online_samples, first.target_samples)
