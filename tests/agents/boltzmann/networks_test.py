"""Tests of `temper.agents.boltzmann.networks`, beside dm-acme's where that works."""

import inspect

from acme import specs
from acme.tf import networks as acme_networks
from acme.tf.networks import recurrence as acme_recurrence
import numpy as np
import pytest
from scipy import stats
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import boltzmann
from temper.agents import svg0_prior

tfd = tfp.distributions

_ACTIONS = np.float32([-0.5, 0.1, 0.7, 0.2])
_DRAWS = 100_000
_ATOMS = np.float32([-2.0, 0.0, 2.0])


class Proposals(snt.Module):
  """Proposes the same N actions, in the same order, at every observation; returns actions.

  The networks get rows that are ordered by proposal first.
  """

  def __call__(self, observation):
    return tf.repeat(tf.constant(_ACTIONS), tf.shape(observation)[0] // len(_ACTIONS))[:, None]


class Counting(snt.Module):
  """Normal distribution around the observation; counts the rows of each call."""

  def __init__(self, action_shape=(2,)):
    super().__init__()
    self.rows = []
    self._shape = action_shape

  def __call__(self, observation):
    self.rows.append(observation.shape[0])
    mean = tf.reshape(observation[:, 0], [-1] + [1] * len(self._shape))
    mean = mean * tf.ones([1, *self._shape])
    return tfd.Independent(tfd.Normal(mean, 1.0), len(self._shape))


def _value(action):
  return 1.5 * action + action**2


def _flat_critic(observation, action):
  return _value(action[:, 0]) + 0.0 * observation[:, 0]


def _column_critic(observation, action):
  return _flat_critic(observation, action)[:, None]


def _distributional_critic(observation, action):
  mean = _flat_critic(observation, action)
  high, low = (1 + mean / 4) / 2, (1 - mean / 4) / 2
  probs = tf.stack([low, tf.zeros_like(mean), high], axis=1)
  return acme_networks.DiscreteValuedDistribution(2 * tf.constant(_ATOMS), probs=probs)


_CRITICS = {"[N·B]": _flat_critic, "[N·B, 1]": _column_critic, "returns": _distributional_critic}


class ProposalCore(snt.RNNCore):
  """The same proposals as a recurrent policy, whose state remembers the action proposed."""

  def __call__(self, observation, prev_state):
    actions = Proposals()(observation)
    return actions, prev_state + 10.0 * actions[:, 0]

  def initial_state(self, batch_size):
    return tf.zeros([batch_size])


class CriticCore(snt.RNNCore):
  """A critic of one of the shapes, whose state remembers the actions that it saw."""

  def __init__(self, critic):
    super().__init__()
    self._critic = critic

  def __call__(self, observation, action, prev_state):
    return self._critic(observation, action), {"seen": prev_state["seen"] + action}

  def initial_state(self, batch_size):
    return {"seen": tf.zeros([batch_size, 1])}


def _check_law(actions, beta):
  """Compares the chosen actions with the law, given their values."""
  weights = np.exp(_value(_ACTIONS.astype(np.float64)) / beta)
  counts = np.array([np.sum(np.isclose(actions, action)) for action in _ACTIONS])
  assert counts.sum() == len(actions)
  expected = weights / weights.sum() * len(actions)
  assert stats.chisquare(counts, expected).pvalue > 1e-4


@pytest.mark.parametrize("critic", _CRITICS.values(), ids=_CRITICS)
def test_the_feed_forward_policy_follows_the_law(critic):
  policy = boltzmann.ExpQWeightedPolicy(Proposals(), critic, 0.8, len(_ACTIONS))
  actions = tf.function(policy)(tf.zeros([_DRAWS, 3]), tf.constant([1, 2]))
  assert actions.shape == [_DRAWS, 1]
  _check_law(actions.numpy()[:, 0], 0.8)


@pytest.mark.parametrize("critic", _CRITICS.values(), ids=_CRITICS)
def test_the_recurrent_policy_follows_the_law_and_keeps_the_chosen_states(critic):
  policy = boltzmann.RecurrentExpQWeightedPolicy(
    ProposalCore(), CriticCore(critic), 0.8, len(_ACTIONS)
  )
  before = policy.initial_state(_DRAWS)
  assert isinstance(before, acme_recurrence.PolicyCriticRNNState)
  before = tree.map_structure(
    lambda x: x + tf.range(float(_DRAWS)) if x.shape.rank == 1 else x, before
  )
  actions, after = tf.function(policy)(tf.zeros([_DRAWS, 3]), before, tf.constant([1, 2]))
  _check_law(actions.numpy()[:, 0], 0.8)
  np.testing.assert_allclose(after.policy, before.policy + 10 * actions[:, 0], rtol=1e-5)
  np.testing.assert_array_equal(after.critic["seen"], actions)


def test_many_samples_of_a_normal_policy_are_tilted_by_the_values():
  # exp(a / beta) tilts a standard normal by 1 / beta: mean 0.5, variance 1.
  policy = boltzmann.ExpQWeightedPolicy(
    Counting((1,)), lambda observation, action: action, beta=2.0, num_action_samples=200
  )
  actions = policy(tf.zeros([20_000, 1]), tf.constant([1, 2])).numpy()
  assert actions.mean() == pytest.approx(0.5, abs=0.04)
  assert actions.std() == pytest.approx(1.0, abs=0.03)


def test_a_distribution_is_computed_once_for_each_observation():
  network = Counting()
  policy = boltzmann.ExpQWeightedPolicy(network, _flat_critic, num_action_samples=8)
  for _ in range(3):
    policy(tf.zeros([3, 2]))
  # Only at the very first call it is not known yet what the network returns.
  assert network.rows == [24, 3, 3, 3]


def test_equal_seeds_give_equal_actions():
  policy = boltzmann.ExpQWeightedPolicy(Counting(), _flat_critic)
  observation = tf.random.stateless_normal([5, 2], [1, 1])
  one, same, other = (policy(observation, tf.constant([7, s])).numpy() for s in (1, 1, 2))
  np.testing.assert_array_equal(one, same)
  assert (one != other).all()
  draws = []
  for _ in range(2):
    tf.random.set_seed(4)
    draws.append(policy(observation).numpy())
  np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("beta", [0.0, "variable"])
def test_beta_zero_is_greedy(beta):
  variable = tf.Variable(0.0)
  policy = boltzmann.ExpQWeightedPolicy(
    Counting(), _flat_critic, variable if beta == "variable" else beta, 32
  )
  greedy = policy(tf.zeros([4, 2]), tf.constant([1, 2])).numpy()
  samples = Counting()(tf.zeros([4, 2])).sample(32, seed=tf.constant([1, 2])).numpy()
  best = _value(samples[..., 0]).argmax(axis=0)
  np.testing.assert_array_equal(greedy, samples[best, np.arange(4)])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)], ids=str)
def test_actions_of_any_shape(shape):
  critic = lambda observation, action: tf.reduce_sum(tf.reshape(action, [48, -1]), axis=1)
  policy = boltzmann.ExpQWeightedPolicy(Counting(shape), critic, 0.0)
  actions = policy({"x": tf.zeros([3, 2])}["x"], tf.constant([1, 2]))
  samples = Counting(shape)(tf.zeros([3, 2])).sample(16, seed=tf.constant([1, 2])).numpy()
  best = samples.reshape(16, 3, -1).sum(axis=-1).argmax(axis=0)
  np.testing.assert_array_equal(actions, samples[best, np.arange(3)])


class NestedPolicy(snt.Module):
  """A joint distribution, or samples of it, over a dict of actions."""

  def __init__(self, sampled):
    super().__init__()
    self._sampled = sampled

  def __call__(self, observation):
    mean = observation["position"]
    joint = tfd.JointDistributionNamed(
      {
        "arm": tfd.Independent(tfd.Normal(tf.stack([mean, mean], axis=1), 1.0), 1),
        "grip": tfd.Normal(mean, 1.0),
      }
    )
    return joint.sample() if self._sampled else joint


@pytest.mark.parametrize("sampled", [False, True], ids=["distribution", "actions"])
def test_nested_observations_and_actions(sampled):
  seen = []

  def critic(observation, action):
    seen.append((observation["position"].shape[0], action["arm"].shape, action["grip"].shape))
    # Best where both parts of an action were drawn to agree.
    return -tf.abs(action["arm"][:, 0] - action["grip"])

  policy = boltzmann.ExpQWeightedPolicy(NestedPolicy(sampled), critic, 0.0, 64)
  actions = policy({"position": tf.constant([0.0, 5.0])})
  assert actions["arm"].shape == [2, 2] and actions["grip"].shape == [2]
  assert seen == [(128, [128, 2], [128])]
  np.testing.assert_allclose(actions["arm"][:, 0], actions["grip"], atol=0.3)


def test_the_critic_sees_actions_inside_the_bounds():
  spec = specs.BoundedArray((2,), np.float32, [-0.1, -0.2], [0.3, 0.1])
  seen = []
  critic = lambda observation, action: seen.append(action) or _flat_critic(observation, action)
  mixture = lambda observation: tfd.MixtureSameFamily(
    tfd.Categorical(logits=tf.zeros([4, 2])),
    tfd.MultivariateNormalDiag(tf.tile([[[-3.0, 0], [3, 0]]], [4, 1, 1]), tf.ones([4, 2, 2])),
  )
  policy = boltzmann.ExpQWeightedPolicy(mixture, critic, action_spec=spec)
  actions = policy(tf.zeros([4, 1]), tf.constant([1, 2])).numpy()
  assert (seen[0] >= spec.minimum).numpy().all() and (seen[0] <= spec.maximum).numpy().all()
  # What the policy proposed is what is returned: its density is the policy's.
  samples = mixture(None).sample(16, seed=tf.constant([1, 2])).numpy()
  assert all((samples[:, row] == actions[row]).all(axis=1).any() for row in range(4))
  assert np.abs(actions).max() > 1


def test_a_critic_that_knows_its_structure_gives_the_same_actions():
  spec = specs.BoundedArray((2,), np.float32, -1.0, 1.0)
  networks = svg0_prior.make_default_networks(spec, (8,), (16, 16), seed=3)
  observation = tf.random.stateless_normal([5, 3], [1, 1])
  networks["critic"](observation, tf.zeros([5, 2]))
  generic = lambda observation, action: 1e3 * networks["critic"](observation, action)

  class Structured:
    def given(self, observation):
      values = networks["critic"].given(observation)
      return lambda actions: 1e3 * values(actions)

  chosen = [
    boltzmann.ExpQWeightedPolicy(networks["policy"], critic)(observation, tf.constant([1, 2]))
    for critic in (generic, Structured())
  ]
  np.testing.assert_array_equal(*chosen)


class GivenCore(CriticCore):
  """A recurrent critic that is asked for what follows from observation and state."""

  def __call__(self, observation, action, prev_state):
    raise AssertionError("`given` is there to be asked")

  def given(self, observation, state):
    def evaluate(actions):
      count = actions.shape[0]
      seen = tf.reshape(state["seen"] + actions, [-1, 1])
      merged = tf.reshape(actions, [-1, 1])
      return self._critic(tf.tile(observation, [count, 1]), merged), {"seen": seen}

    return evaluate


def test_a_recurrent_critic_that_knows_its_structure_gives_the_same_actions_and_states():
  results = []
  for make in (CriticCore, GivenCore):
    policy = boltzmann.RecurrentExpQWeightedPolicy(
      ProposalCore(), make(_column_critic), beta=0.5, num_action_samples=4
    )
    state = tree.map_structure(lambda x: x + 2.0, policy.initial_state(50))
    results.append(policy(tf.zeros([50, 3]), state, tf.constant([1, 2])))
  tree.map_structure(np.testing.assert_array_equal, *results)


def test_constructors_are_dm_acmes():
  for ours, theirs in (
    (boltzmann.ExpQWeightedPolicy, acme_networks.ExpQWeightedPolicy),
    (boltzmann.RecurrentExpQWeightedPolicy, acme_recurrence.RecurrentExpQWeightedPolicy),
  ):
    positional = [
      (p.name, p.default)
      for p in inspect.signature(ours).parameters.values()
      if p.kind is not p.KEYWORD_ONLY
    ]
    wanted = [(p.name, p.default) for p in inspect.signature(theirs).parameters.values()]
    assert positional == wanted


def test_both_classes_take_both_names_of_the_temperature():
  critic, core = CriticCore(_flat_critic), ProposalCore()
  for make in (
    lambda **options: boltzmann.ExpQWeightedPolicy(Proposals(), _flat_critic, **options),
    lambda **options: boltzmann.RecurrentExpQWeightedPolicy(core, critic, **options),
  ):
    make(beta=0.5), make(temperature_beta=0.5)
    for name in ("beta", "temperature_beta"):
      with pytest.raises(ValueError, match=rf"^{name} is -1.0; .*at least 0"):
        make(**{name: -1.0})
    with pytest.raises(ValueError, match="two names of one number"):
      make(beta=1.0, temperature_beta=0.5)
    for count in (0, 2.5):
      with pytest.raises(ValueError, match=f"num_action_samples is {count}"):
        make(num_action_samples=count)


def test_recurrent_networks_are_told_where_they_belong():
  for networks in ((ProposalCore(), _flat_critic), (Proposals(), CriticCore(_flat_critic))):
    with pytest.raises(TypeError, match="is recurrent: use RecurrentExpQWeightedPolicy"):
      boltzmann.ExpQWeightedPolicy(*networks)


def test_one_of_two_networks_may_be_feed_forward():
  policy = boltzmann.RecurrentExpQWeightedPolicy(Counting((1,)), CriticCore(_flat_critic))
  action, state = policy(tf.zeros([2, 1]), policy.initial_state(2))
  assert state.policy == ()
  np.testing.assert_array_equal(state.critic["seen"], action)
  policy = boltzmann.RecurrentExpQWeightedPolicy(ProposalCore(), _flat_critic)
  action, state = policy(tf.zeros([2, 1]), policy.initial_state(2))
  assert state.critic == ()
  np.testing.assert_array_equal(state.policy, 10 * action[:, 0])


def test_a_drop_in_for_the_feed_forward_original():
  observation = tf.zeros([20_000, 3])
  theirs = acme_networks.ExpQWeightedPolicy(Proposals(), _flat_critic, 0.8, 4)(observation)
  ours = boltzmann.ExpQWeightedPolicy(Proposals(), _flat_critic, 0.8, 4)(observation)
  assert theirs.shape == ours.shape
  counts = [[np.isclose(x, action).sum() for action in _ACTIONS] for x in (ours, theirs)]
  assert stats.chi2_contingency(counts).pvalue > 1e-4


def test_a_drop_in_for_the_recurrent_original():
  """A policy of Acme's layers that ends in a sampling head, and a distributional critic."""
  policy = snt.DeepRNN(
    [
      snt.LSTM(4),
      acme_networks.MultivariateNormalDiagHead(1),
      acme_networks.StochasticSamplingHead(),
    ]
  )
  critic = acme_recurrence.CriticDeepRNN(
    [
      lambda observation, action: tf.concat([observation, action], axis=1),
      snt.LSTM(4),
      acme_networks.DiscreteValuedHead(-5.0, 5.0, 11),
    ]
  )
  observation = tf.repeat(tf.constant([[0.5, -1.0]]), 1000, axis=0)
  results = {}
  for name, module in (("ours", boltzmann), ("theirs", acme_recurrence)):
    both = module.RecurrentExpQWeightedPolicy(policy, critic, 0.05, 16)
    state = both.initial_state(1000)
    action, after = tf.function(both)(observation, state)
    tree.assert_same_structure(state, after)
    assert [x.shape for x in tree.flatten(after)] == [x.shape for x in tree.flatten(state)]
    results[name] = action.numpy()[:, 0], after
    # The critic's state is what the chosen action leads to.
    _, wanted = critic(observation, action, state.critic)
    tree.map_structure(
      lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), after.critic, wanted
    )
  assert stats.ks_2samp(results["ours"][0], results["theirs"][0]).pvalue > 1e-4


def test_gradients_reach_the_policy_through_the_chosen_action():
  linear = snt.Linear(1)
  network = lambda observation: tfd.Independent(tfd.Normal(linear(observation), 1.0), 1)
  policy = boltzmann.ExpQWeightedPolicy(network, _flat_critic, num_action_samples=4)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(policy(tf.ones([3, 2])))
  np.testing.assert_allclose(tape.gradient(loss, linear.b), [3.0])


def test_variables_of_both_networks_are_tracked():
  actor, critic = snt.Linear(1), snt.Linear(1)
  policy = boltzmann.ExpQWeightedPolicy(
    snt.Sequential([actor, lambda mean: tfd.Independent(tfd.Normal(mean, 1.0), 1)]),
    snt.Sequential([lambda observation, action: action, critic]),
  )
  policy(tf.zeros([1, 2]))
  assert {id(v) for v in policy.variables} == {id(v) for v in (*actor.variables, *critic.variables)}
