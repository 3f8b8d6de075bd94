"""Wrong options of CRR are refused when they are given, in words that say what is allowed."""

import dataclasses

from acme.tf import networks as acme_networks
import crr_cases
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.agents import crr
from temper.utils import heads

# The configuration.


def test_defaults_are_sound_and_frozen():
  config = crr.CRRConfig()
  assert config.policy_improvement_modes is crr.PolicyImprovementMode.EXP
  assert config.baseline_reduce_function is crr.BaselineReduce.MEAN
  assert not config.normalise_by_valid
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.beta = 0.5


@pytest.mark.parametrize(
  "field, value",
  [
    ("sequence_length", 1),
    ("batch_size", 0),
    ("burn_in_length", -1),
    ("target_update_period", 0),
    ("num_action_samples_td_learning", 0),
    ("num_action_samples_policy_weight", 2.5),
    ("num_mixture_components", 0),
    ("min_replay_size", 0),
    ("max_replay_size", 0),
    ("variable_update_period", 0),
    ("variable_update_seconds", 0.0),
    ("variable_update_seconds", None),
    ("learning_rate_decay_period", 0),
    ("prefetch_size", -1),
    ("lstm_size", 0),
    ("discount", 1.1),
    ("discount", float("nan")),
    ("beta", 0.0),
    ("beta", -1.0),
    ("ratio_upper_bound", 0.0),
    ("reward_scale", 0.0),
    ("init_scale", 0.0),
    ("min_scale", -0.1),
    ("max_gradient_norm", 0.0),
    ("samples_per_insert", 0.0),
    ("policy_learning_rate", -1e-3),
    ("critic_learning_rate", None),
    ("policy_layer_sizes", ()),
    ("critic_layer_sizes", (0,)),
    ("baseline_reduce_function", "median"),
    ("policy_improvement_modes", "exponential"),
    ("policy_head", "beta"),
    ("replay_table_name", ""),
    ("vmin", float("-inf")),
    ("num_atoms", 1),
  ],
)
def test_a_bad_value_is_named(field, value):
  with pytest.raises(ValueError) as error:
    crr.CRRConfig(**{field: value})
  assert str(error.value).startswith(f"{field} is {value!r}; it must ")


@pytest.mark.parametrize(
  "field, value, member",
  [
    ("baseline_reduce_function", "max", crr.BaselineReduce.MAX),
    ("policy_improvement_modes", "binary", crr.PolicyImprovementMode.BINARY),
    ("policy_head", "mixture", crr.PolicyHead.MIXTURE),
  ],
)
def test_an_enumeration_may_be_given_by_its_value(field, value, member):
  assert getattr(crr.CRRConfig(**{field: value}), field) is member


@pytest.mark.parametrize("vmin, vmax", [(1.0, 1.0), (2.0, -2.0)])
def test_a_support_without_extent_is_refused(vmin, vmax):
  for make in (
    lambda: crr.CRRConfig(vmin=vmin, vmax=vmax),
    lambda: heads.ValueDistributionHead(vmin, vmax, 5, seed=0),
  ):
    with pytest.raises(ValueError, match=f"vmin is {vmin} and vmax is {vmax}.*must be below"):
      make()


def test_a_burn_in_without_memory_is_refused():
  with pytest.raises(ValueError, match="burn_in_length is 2, but lstm_size is None"):
    crr.CRRConfig(burn_in_length=2, lstm_size=None)


def test_a_replay_that_can_never_be_full_enough_is_refused():
  with pytest.raises(ValueError, match="min_replay_size is 1000.*at most 90"):
    crr.CRRConfig(min_replay_size=1000, max_replay_size=10, sequence_length=10)


# The learner's constructor.


@pytest.fixture(name="networks", scope="module")
def _networks():
  return crr_cases.make_networks()


def _make(networks, step=None, **options):
  step = step or crr_cases.make_step(valid=True)
  return crr_cases.make_learner(networks, crr_cases.as_dataset(step), **options)


@pytest.mark.parametrize(
  "option, value",
  [
    ("policy_improvement_modes", "exponential"),
    ("policy_improvement_modes", None),
    ("baseline_reduce_function", "median"),
    ("beta", 0.0),
    ("beta", -1.0),
    ("beta", float("nan")),
    ("ratio_upper_bound", 0.0),
    ("num_action_samples_td_learning", 0),
    ("num_action_samples_policy_weight", 0),
    ("num_action_samples_policy_weight", 1.5),
    ("discount", 1.5),
    ("discount", -0.1),
    ("target_update_period", 0),
    ("burn_in_length", -1),
    ("reward_scale", 0.0),
    ("max_gradient_norm", 0.0),
  ],
)
def test_the_learner_names_a_bad_value(networks, option, value):
  with pytest.raises(ValueError) as error:
    _make(networks, **{option: value})
  assert str(error.value).startswith(f"{option} is {value!r}; it must ")


def test_the_learner_lists_the_modes_that_there_are(networks):
  with pytest.raises(ValueError, match="EXP.*'exp'.*BINARY.*'binary'.*ALL.*'all'"):
    _make(networks, policy_improvement_modes="advantage")
  with pytest.raises(ValueError, match="MEAN.*'mean'.*MAX.*'max'.*MIN.*'min'"):
    _make(networks, baseline_reduce_function="sum")


@pytest.mark.parametrize(
  "option, members",
  [
    ("policy_improvement_modes", crr.PolicyImprovementMode),
    ("baseline_reduce_function", crr.BaselineReduce),
  ],
)
def test_the_learner_takes_modes_by_member_and_by_value(networks, option, members):
  for member in members:
    for value in (member, member.value):
      _make(networks, **{option: value})


@pytest.mark.parametrize("length, burn_in_length", [(1, 0), (2, 1), (4, 3), (4, 9)])
def test_sequences_without_a_pair_are_refused(networks, length, burn_in_length):
  step = crr_cases.cut(crr_cases.make_step(length=5), 0, length)
  with pytest.raises(ValueError, match="at least (two|2)"):
    _make(networks, step, burn_in_length=burn_in_length)


def _matrix_rewards(step):
  return step._replace(reward=step.reward[..., None])


def _float_starts(step):
  return step._replace(start_of_episode=step.start_of_episode.astype(np.float32))


def _short_discounts(step):
  return step._replace(discount=step.discount[:, :-1])


def _mask_of(change):
  return lambda step: step._replace(extras={"valid_mask": change(step.extras["valid_mask"])})


@pytest.mark.parametrize(
  "change, message",
  [
    (_matrix_rewards, r"rewards have shape \(3, 4, 1\)"),
    (_float_starts, "start_of_episode has dtype float32; bool"),
    (_short_discounts, r"discount has shape \(3, 3\)"),
    (_mask_of(lambda mask: mask.astype(np.float32)), "valid_mask has dtype float32; bool"),
    (_mask_of(lambda mask: mask[:, 1:]), r"valid_mask has shape \(3, 3\)"),
  ],
  ids=["rewards", "starts", "discounts", "mask_dtype", "mask_shape"],
)
def test_data_of_a_wrong_shape_or_dtype_are_refused(networks, change, message):
  with pytest.raises(ValueError, match=message):
    _make(networks, change(crr_cases.make_step(valid=True)))


def test_data_that_are_no_steps_are_refused(networks):
  dataset = tf.data.Dataset.from_tensors({"observation": tf.zeros([3, 4, 3])})
  with pytest.raises(ValueError, match="reverb.ReplaySample.*is needed"):
    crr_cases.make_learner(networks, dataset)


def test_target_networks_of_another_size_are_refused(networks):
  other = crr_cases.make_networks(width=5)
  with pytest.raises(ValueError):
    _make(networks._replace(target_critic=other.target_critic))


# What networks must be.


def _init(policy=None, critic=None):
  made = crr_cases.make_networks(crr_cases.Kind.DEEP_RNN, snt.LSTM)
  networks = crr.CRRNetworks(policy or made.policy, critic or made.critic)
  networks.init(crr_cases.environment_spec())


def test_networks_that_are_no_cores_are_refused():
  _init()
  linear = snt.Linear(2)
  for name in ("policy", "critic"):
    with pytest.raises(TypeError, match=f"{name}_network is a Linear; a snt.RNNCore is needed"):
      _init(**{name: linear})


@pytest.mark.parametrize(
  "head, message",
  [
    (snt.Linear(2), "critic_network returned .*has no logits and no values"),
    (
      acme_networks.DiscreteValuedHead(np.zeros(2, np.float32), np.ones(2, np.float32), 5),
      "critic_network returned logits of shape",
    ),
  ],
)
def test_critics_without_one_distribution_of_returns_are_refused(head, message):
  critic = acme_networks.CriticDeepRNN([acme_networks.CriticMultiplexer(), snt.LSTM(3), head])
  with pytest.raises(ValueError, match=message):
    _init(critic=critic)


def test_policies_without_a_distribution_of_actions_are_refused():
  with pytest.raises(ValueError, match="policy_network returned .*has no sample and no log_prob"):
    _init(policy=snt.DeepRNN([snt.LSTM(3), snt.Linear(2)]))
  head = acme_networks.MultivariateNormalDiagHead(3)
  with pytest.raises(ValueError, match=r"policy_network's sample is .*shape \[2, 2\] is needed"):
    _init(policy=snt.DeepRNN([snt.LSTM(3), head]))
