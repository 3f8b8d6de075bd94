"""What SVG0 refuses of networks and data, and what the message says."""

import itertools

from acme import specs
from acme.adders import reverb as reverb_adders
import numpy as np
import pytest
import reverb
import sonnet as snt
import svg0_cases
import tensorflow as tf
import tensorflow_probability as tfp

from temper.agents import sequences
from temper.agents.svg0_prior import learning
from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import svg0_utils

tfd = tfp.distributions
_SPEC = specs.EnvironmentSpec(
  specs.Array((3,), np.float32),
  specs.BoundedArray((2,), np.float32, -1, 1),
  specs.Array((), np.float32),
  specs.BoundedArray((), np.float32, 0, 1),
)


class _Net(snt.Module):
  """A linear layer and a function of what comes out of it."""

  def __init__(self, head, size=2):
    super().__init__()
    self._linear, self._head = snt.Linear(size), head

  def __call__(self, observation, action=None):
    inputs = observation if action is None else tf.concat([observation, action], 1)
    return self._head(self._linear(inputs))


def _gaussian(x):
  return tfd.Independent(tfd.Normal(x, 1.0), 1)


def _squashed(x):
  return tfd.Independent(tfd.TransformedDistribution(tfd.Normal(x, 1.0), tfp.bijectors.Tanh()), 1)


def _init(policy=_gaussian, critic=lambda x: x[:, :1], prior=None, size=2, **options):
  networks = networks_lib.SVG0Networks(
    _Net(policy, size), _Net(critic), None if prior is None else _Net(prior)
  )
  networks.init(_SPEC, **options)


def test_sound_networks_are_taken():
  _init(prior=_gaussian, entropy_estimator=svg0_utils.EntropyEstimator.ANALYTIC)
  _init(policy=_squashed, critic=lambda x: x[:, 0])


def test_checking_draws_nothing_from_the_global_generator():
  tf.random.set_seed(1)
  first = tf.random.normal([2]).numpy()
  networks = networks_lib.SVG0Networks(_Net(_gaussian), _Net(lambda x: x[:, :1]))
  for network, width in ((networks.policy_network, 3), (networks.critic_network, 5)):
    network(tf.zeros([1, width]))
  tf.random.set_seed(1)
  networks.init(_SPEC)
  np.testing.assert_array_equal(tf.random.normal([2]).numpy(), first)


@pytest.mark.parametrize(
  "networks, message",
  [
    (dict(policy=tf.tanh), "policy_network returned a float32 tensor.*no sample and no log_prob"),
    (dict(policy=lambda x: tfd.Normal(x, 1.0)), r"log_prob.*\[2, 2\].*tfd.Independent"),
    (dict(size=3), r"sample is a float32 tensor of shape \[2, 3\].*shape \[2, 2\] is needed"),
    (dict(policy=lambda x: _gaussian(tf.cast(x, tf.float64))), "sample is a float64 tensor"),
    (dict(critic=lambda x: x), r"critic_network returned a float32.*\[2, 2\].*snt.Linear\(1\)"),
    (dict(critic=lambda x: tf.reduce_sum(x)), r"critic_network returned .*shape \[\]"),
    (dict(critic=_gaussian), "critic_network returned a Independent"),
    (dict(prior=_squashed), "prior_network: policy.kl_divergence.*one kind of distribution"),
    (dict(prior=tf.tanh), "prior_network: policy.kl_divergence"),
  ],
)
def test_what_a_network_returns_is_checked(networks, message):
  with pytest.raises(ValueError, match=message):
    _init(**networks)


def test_the_analytic_estimator_needs_an_entropy():
  with pytest.raises(ValueError, match=r"policy_network: entropy\(\).*another entropy_estimator"):
    _init(policy=_squashed, entropy_estimator=svg0_utils.EntropyEstimator.ANALYTIC)


def test_the_prior_must_be_another_module_than_the_policy():
  policy = _Net(_gaussian)
  networks = networks_lib.SVG0Networks(policy, _Net(lambda x: x[:, :1]), policy)
  with pytest.raises(ValueError, match="prior_network is the same module as policy_network"):
    networks.init(_SPEC)


def _sample(**replaced):
  sample = svg0_cases.make_sample()
  return sample._replace(data=sample.data._replace(**replaced))


_BAD_SAMPLES = [
  (_sample(extras=()), r"extras are \(\).*SVG0Actor"),
  (_sample(extras={"logp": np.zeros((4, 6))}), r"extras are \['logp'\].*log_prob"),
  (_sample(start_of_episode=np.zeros((4, 6), np.float32)), "start_of_episode.*float32; bool"),
  (_sample(reward=np.zeros(4, np.float32)), r"rewards have shape \(4,\); \[B, T\+1\]"),
  (_sample(reward=np.zeros((4, 1), np.float32)), r"T\+1 at least 2"),
  (_sample(discount=np.zeros((4, 5), np.float32)), r"discount has shape \(4, 5\)"),
]


@pytest.mark.parametrize("sample, message", _BAD_SAMPLES)
def test_a_datasets_spec_is_checked_at_once_and_a_plain_iterator_at_its_first_sample(
  sample, message
):
  dataset = tf.data.Dataset.from_tensors(sample)
  for data in (dataset, iter(dataset)):
    with pytest.raises(ValueError, match=message):
      sequences.check_dataset(data, learning.NEEDED_EXTRAS)
  sequences.check_dataset(itertools.repeat(sample))  # Nothing is known of it.
  with pytest.raises(ValueError, match=message):
    sequences.check_sample(
      tf.nest.map_structure(tf.convert_to_tensor, sample), learning.NEEDED_EXTRAS
    )


def test_other_elements_than_sequences_of_steps_are_named():
  with pytest.raises(ValueError, match="type TensorSpec, without data.observation"):
    sequences.check_dataset(tf.data.Dataset.range(3))
  assert set(sequences._STEP_FIELDS) == set(reverb_adders.Step._fields)


def test_the_learner_checks_both_kinds_of_data():
  networks = svg0_cases.make_networks(networks_lib.make_network_with_prior)
  bad = _sample(extras={})
  with pytest.raises(ValueError, match="log_prob"):
    svg0_cases.make_learner(networks, tf.data.Dataset.from_tensors(bad))
  learner = svg0_cases.make_learner(networks, itertools.repeat(bad))
  with pytest.raises(ValueError, match="log_prob"):
    learner.step()


def test_actions_of_double_precision_are_cast():
  networks = svg0_cases.make_networks(networks_lib.make_network_with_prior)
  sample = _sample(action=svg0_cases.make_sample().data.action.astype(np.float64))
  assert isinstance(sample, reverb.ReplaySample)
  learner = svg0_cases.make_learner(networks, itertools.repeat(sample))
  learner.step()
  assert learner.num_steps == 1


@pytest.mark.parametrize(
  "name, value",
  [
    ("discount", 1.5),
    ("lambda_", -0.1),
    ("distillation_cost", -1.0),
    ("entropy_regularizer_cost", float("nan")),
    ("reward_scale", 0.0),
    ("num_action_samples", 0),
    ("sample_block_rows", 0),
    ("target_update_period", 2.5),
    ("max_gradient_norm", 0.0),
    ("entropy_estimator", "exact"),
  ],
)
def test_a_bad_number_of_the_learner_is_named(name, value):
  networks = svg0_cases.make_networks(networks_lib.make_network_with_prior)
  with pytest.raises(ValueError, match=f"^{name} is {value!r}; it must "):
    svg0_cases.make_learner(networks, svg0_cases.make_dataset(1), **{name: value})


def test_an_estimator_given_by_its_value_is_the_same_as_its_member():
  def loss(estimator):
    networks = svg0_cases.make_networks(networks_lib.make_network_with_prior)
    learner = svg0_cases.make_learner(
      networks,
      svg0_cases.make_dataset(1),
      entropy_estimator=estimator,
      entropy_regularizer_cost=1.0,
    )
    learner.step()
    return learner.metrics["policy_loss"]

  by_value = loss("analytic")
  assert by_value == loss(svg0_utils.EntropyEstimator.ANALYTIC)
  assert by_value != loss(svg0_utils.EntropyEstimator.SCORE)
