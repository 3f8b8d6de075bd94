"""SVG0's learner on networks of one or two numbers: losses and steps worked out by hand."""

import itertools

import learner_probes
import numpy as np
import pytest
import reverb
import sonnet as snt
import svg0_cases
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import svg0_utils

tfd = tfp.distributions
_Estimator = svg0_utils.EntropyEstimator


class Gaussian(snt.Module):
  """A normal policy of one action dimension that heeds no observation."""

  def __init__(self, mean=0.0, scale=0.5):
    super().__init__()
    self.mean = tf.Variable([float(mean)], name="mean")
    self.log_scale = tf.Variable([float(np.log(scale))], name="log_scale")

  def __call__(self, observation):
    zeros = tf.zeros_like(observation[:, :1])
    return tfd.Independent(tfd.Normal(self.mean + zeros, tf.exp(self.log_scale) + zeros), 1)


class Parabola(snt.Module):
  """Q = bias - height (a - 0.5)^2."""

  def __init__(self, bias=0.0, height=0.0):
    super().__init__()
    self.bias = tf.Variable(float(bias), name="bias")
    self._height = height

  def __call__(self, observation, action):
    return self.bias - self._height * tf.square(action - 0.5)


def _one_step(reward=1.0, discount=1.0, batch_size=1):
  """A batch of one pair each."""

  def column(value):
    return np.tile(np.array([[value, 0.0]], np.float32), (batch_size, 1))

  data = svg0_cases.make_sample().data._replace(
    observation=np.zeros((batch_size, 2, 1), np.float32),
    action=np.zeros((batch_size, 2, 1), np.float32),
    reward=column(reward),
    discount=column(discount),
    start_of_episode=np.zeros((batch_size, 2), bool),
    extras={"log_prob": column(-1.0)},
  )
  return reverb.ReplaySample(info=(), data=data)


def _small(height=0.0, bias=0.0, prior=None, scale=0.5):
  def pair(make):
    return (make(), make())

  policy, target_policy = pair(lambda: Gaussian(scale=scale))
  critic, target_critic = pair(lambda: Parabola(bias, height))
  priors = pair(lambda: Gaussian(prior)) if prior is not None else (None, None)
  return svg0_cases.Networks(policy, critic, priors[0], target_policy, target_critic, priors[1])


def _losses(networks, sample, **options):
  log = learner_probes.Log()
  options = {
    "discount": 0.9,
    "num_action_samples": 20,
    "distillation_cost": 0.0,
    "entropy_regularizer_cost": 0.0,
    **options,
  }
  svg0_cases.make_learner(networks, itertools.repeat(sample), log=log, **options).step()
  return log.rows[0]


def test_critic_loss_by_hand():
  # Q is 2 everywhere: the target is 1 + 0.9 * 2 = 2.8, and 1 at a termination.
  assert _losses(_small(bias=2.0), _one_step())["critic_loss"] == pytest.approx(
    0.5 * 0.8**2, rel=1e-5
  )
  assert _losses(_small(bias=2.0), _one_step(discount=0.0))["critic_loss"] == pytest.approx(
    0.5, rel=1e-5
  )


def test_rewards_are_scaled():
  row = _losses(_small(bias=2.0), _one_step(reward=8.0), reward_scale=0.125)
  assert row["critic_loss"] == pytest.approx(0.5 * 0.8**2, rel=1e-5)


def test_the_prior_lowers_the_bootstrap_value_but_not_past_a_termination():
  # Both scales are 0.5 and the means one apart: KL = 1 / (2 * 0.25) = 2.
  options = dict(distillation_cost=0.5)
  row = _losses(_small(bias=2.0, prior=1.0), _one_step(), **options)
  assert row["critic_loss"] == pytest.approx(0.5 * (1 + 0.9 * (2 - 0.5 * 2) - 2) ** 2, rel=1e-4)
  assert row["prior_loss"] == pytest.approx(2.0, rel=1e-5)
  assert row["policy_loss"] == pytest.approx(-2 + 0.5 * 2, rel=1e-5)
  row = _losses(_small(bias=2.0, prior=1.0), _one_step(discount=0.0), **options)
  assert row["critic_loss"] == pytest.approx(0.5, rel=1e-5)


def test_soft_value_target_adds_the_entropy_but_not_past_a_termination():
  entropy = 0.5 * np.log(2 * np.pi * np.e * 0.25)
  options = dict(
    entropy_regularizer_cost=0.3, entropy_estimator=_Estimator.ANALYTIC, soft_value_target=True
  )
  row = _losses(_small(bias=2.0), _one_step(), **options)
  assert row["critic_loss"] == pytest.approx(
    0.5 * (1 + 0.9 * (2 + 0.3 * entropy) - 2) ** 2, rel=1e-4
  )
  assert row["policy_loss"] == pytest.approx(-(2 + 0.3 * entropy), rel=1e-5)
  row = _losses(_small(bias=2.0), _one_step(discount=0.0), **options)
  assert row["critic_loss"] == pytest.approx(0.5, rel=1e-5)
  hard = _losses(_small(bias=2.0), _one_step(), **{**options, "soft_value_target": False})
  assert hard["critic_loss"] == pytest.approx(0.5 * 0.8**2, rel=1e-5)


def test_the_policy_moves_its_mean_towards_higher_values():
  networks = _small(height=1.0)
  _losses(networks, _one_step(), optimizer=lambda: snt.optimizers.SGD(0.1), num_action_samples=500)
  # d E[Q] / d mean = -2 (mean - 0.5) = 1.
  assert float(networks.policy.mean) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("estimator", _Estimator)
def test_what_each_estimator_does_to_the_scale(estimator):
  networks = _small()
  options = dict(entropy_regularizer_cost=1.0, entropy_estimator=estimator, num_action_samples=4000)
  row = _losses(networks, _one_step(), optimizer=lambda: snt.optimizers.SGD(0.1), **options)
  moved = float(networks.policy.log_scale) - np.log(0.5)
  # The entropy is log scale plus a constant: its gradient is 1, the score's expectation 0.
  assert moved == pytest.approx(0.0 if estimator is _Estimator.SCORE else 0.1, abs=0.01)
  assert row["policy_loss"] == pytest.approx(-0.5 * np.log(2 * np.pi * np.e * 0.25), abs=0.05)


def test_prior_and_policy_approach_each_other_and_only_through_their_own_losses():
  networks = _small(prior=1.0)

  def sgd():
    return snt.optimizers.SGD(0.01)

  _losses(networks, _one_step(), optimizer=sgd, distillation_cost=0.0)
  # KL = (mean - prior's mean)^2 / (2 * 0.25), so its gradient at a distance of one is 4.
  assert float(networks.prior.mean) == pytest.approx(1.0 - 0.04, rel=1e-4)
  assert float(networks.policy.mean) == 0.0
  networks = _small(prior=1.0)
  _losses(networks, _one_step(), optimizer=sgd, distillation_cost=0.5)
  assert float(networks.prior.mean) == pytest.approx(1.0 - 0.04, rel=1e-4)
  assert float(networks.policy.mean) == pytest.approx(0.5 * 0.04, rel=1e-4)


def test_costs_of_none_are_zero():
  sample = _one_step()
  options = dict(distillation_cost=None, entropy_regularizer_cost=None)
  assert _losses(_small(bias=2.0, prior=1.0), sample, **options)["policy_loss"] == pytest.approx(
    -2.0
  )


def test_a_gradient_is_clipped_to_the_norm():
  networks = _small(bias=50.0)
  row = _losses(
    networks, _one_step(), optimizer=lambda: snt.optimizers.SGD(1.0), max_gradient_norm=0.25
  )
  assert row["critic_gradient_norm"] == pytest.approx(4.0, rel=1e-4)  # |50 - (1 + 45)|
  assert float(networks.critic.bias) == pytest.approx(50 - 0.25, rel=1e-6)


def test_critics_without_a_last_axis_are_taken():
  class Flat(Parabola):
    def __call__(self, observation, action):
      return super().__call__(observation, action)[:, 0]

  networks = _small()._replace(critic=Flat(2.0, 1.0), target_critic=Flat(2.0, 1.0))
  flat = _losses(networks, _one_step())
  column = _losses(_small(bias=2.0, height=1.0), _one_step())
  assert flat["critic_loss"] == pytest.approx(column["critic_loss"], rel=1e-6)
  assert flat["policy_loss"] == pytest.approx(column["policy_loss"], rel=1e-6)


def test_integer_rewards_and_double_precision_numbers_are_taken():
  sample = _one_step()
  data = sample.data
  other = sample._replace(
    data=data._replace(
      reward=data.reward.astype(np.int64),
      discount=data.discount.astype(np.float64),
      extras={"log_prob": data.extras["log_prob"].astype(np.float64)},
    )
  )
  assert _losses(_small(bias=2.0), other)["critic_loss"] == pytest.approx(0.32, rel=1e-5)


@pytest.mark.parametrize("name", ["prior", "target_prior"])
def test_one_prior_alone_is_refused(name):
  networks = _small(prior=1.0)._replace(**{name: None})
  with pytest.raises(ValueError, match="prior_network and target_prior_network go together"):
    svg0_cases.make_learner(networks, itertools.repeat(_one_step()))


def test_the_seed_decides_the_draws():
  runs = [_losses(_small(height=1.0), _one_step(), seed=seed)["policy_loss"] for seed in (3, 3, 4)]
  assert runs[0] == runs[1] != runs[2]


def test_the_age_of_samples_is_logged():
  sample = _one_step(batch_size=2)
  # The newest version of a row counts, since an episode's closing entry holds none.
  extras = {**sample.data.extras, "policy_version": np.array([[-5, -4], [-7, -2]], np.int32)}
  row = _losses(_small(), sample._replace(data=sample.data._replace(extras=extras)))
  assert row["sample_age"] == pytest.approx(3.0)
