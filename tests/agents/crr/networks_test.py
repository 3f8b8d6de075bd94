"""CRR's networks: what they return, and that whole sequences equal step after step."""

from acme import specs
import crr_cases
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import crr
from temper.agents.crr import unrolling
from temper.utils import recurrent
from temper.utils import torsos

_LENGTH, _BATCH_SIZE = 5, 3
_SMALL = dict(policy_layer_sizes=(8,), critic_layer_sizes=(8,), lstm_size=4, num_atoms=7)


def _make(observation=crr_cases.OBSERVATION, action=crr_cases.ACTION, **options):
  spec = crr_cases.environment_spec(observation, action)
  return crr.make_networks(spec, **{**_SMALL, **options})


def _normal(*shape, seed=0):
  return tf.constant(np.random.RandomState(seed).normal(size=shape).astype(np.float32))


def _moved(networks, seed=0):
  """Gives all weights a size that matters, as near-zero last layers hide what comes before."""
  random = np.random.RandomState(seed)
  for network in (networks.policy_network, networks.critic_network):
    for variable in network.trainable_variables:
      variable.assign_add(0.3 * random.normal(size=variable.shape).astype(np.float32))
  return networks


# What they return.


@pytest.mark.parametrize("action_shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("head", crr.PolicyHead)
def test_a_policy_returns_a_distribution_of_actions(head, action_shape):
  action = specs.BoundedArray(action_shape, np.float32, -1, 1)
  policy = _make(action=action, policy_head=head).policy_network
  distribution, state = policy(_normal(_BATCH_SIZE, 3), policy.initial_state(_BATCH_SIZE))
  sample = distribution.sample(5, seed=[1, 2])
  assert sample.shape == (5, _BATCH_SIZE, *action_shape)
  assert distribution.log_prob(sample).shape == (5, _BATCH_SIZE)
  assert distribution.mean().shape == (_BATCH_SIZE, *action_shape)
  assert [x.shape for x in tree.flatten(state)] == [(_BATCH_SIZE, 4)] * 2


def test_a_gaussian_starts_near_zero_with_its_scale():
  policy = _make(init_scale=0.5, min_scale=0.02).policy_network
  distribution, _ = policy(_normal(_BATCH_SIZE, 3), policy.initial_state(_BATCH_SIZE))
  np.testing.assert_allclose(distribution.mean(), np.zeros((_BATCH_SIZE, 2)), atol=0.02)
  np.testing.assert_allclose(distribution.stddev(), np.full((_BATCH_SIZE, 2), 0.52), rtol=0.02)


def test_a_mixture_starts_with_unlike_components():
  policy = _make(policy_head=crr.PolicyHead.MIXTURE, num_mixture_components=3).policy_network
  distribution, _ = policy(_normal(1, 3), policy.initial_state(1))
  means = distribution.components_distribution.mean()[0]
  assert means.shape == (3, 2) and np.abs(means).max() < 1
  for one, other in ((0, 1), (0, 2), (1, 2)):
    assert np.abs(means[one] - means[other]).max() > 0.05


def test_a_critic_returns_a_distribution_of_returns():
  critic = _make(vmin=-2.0, vmax=4.0, num_atoms=7).critic_network
  returns, state = critic(_normal(3, 3), _normal(3, 2), critic.initial_state(3))
  np.testing.assert_allclose(returns.values, [-2, -1, 0, 1, 2, 3, 4])
  assert returns.logits.shape == (3, 7)
  np.testing.assert_allclose(returns.mean(), np.ones(3), atol=0.1)
  assert [x.shape for x in tree.flatten(state)] == [(3, 4)] * 2


def test_a_critic_sees_what_the_environment_sees_of_an_action():
  action = specs.BoundedArray((2,), np.float32, [-1, -0.5], [1, 2])
  critic = _moved(_make(action=action)).critic_network
  logits = lambda *a: critic(tf.ones([1, 3]), tf.constant([a]), critic.initial_state(1))[0].logits
  np.testing.assert_array_equal(logits(-7.0, 9.0), logits(-1.0, 2.0))
  assert np.abs(logits(0.5, 1.5) - logits(-1.0, 2.0)).max() > 1e-3


def test_networks_without_a_core_have_no_state():
  networks = _make(lstm_size=None)
  policy, critic = networks.policy_network, networks.critic_network
  assert policy.initial_state(3) == critic.initial_state(3) == ()
  assert policy(_normal(3, 3), ())[1] == ()
  assert not any("lstm" in v.name for v in (*policy.variables, *critic.variables))


def test_the_seed_decides_the_weights():
  one, same, other = (
    [v.numpy() for n in (m.policy_network, m.critic_network) for v in n.trainable_variables]
    for m in (_make(seed=1), _make(seed=1), _make(seed=2))
  )
  assert all(np.array_equal(a, b) for a, b in zip(one, same))
  matrices = [(a, b) for a, b in zip(one, other) if a.ndim > 1]
  assert not any(np.array_equal(a, b) for a, b in matrices)


def test_nested_observations_are_taken():
  observation = {"arm": specs.Array((2,), np.float32), "goal": specs.Array((), np.float64)}
  networks = _make(observation)
  value = {"arm": _normal(3, 2), "goal": tf.zeros([3], tf.float64)}
  policy = networks.policy_network
  assert policy(value, policy.initial_state(3))[0].mean().shape == (3, 2)


def test_observations_are_normalised_by_their_statistics():
  mean, std = np.array([5.0, -2.0, 0.0]), np.array([10.0, 0.1, 1.0])
  statistics = torsos.ObservationStatistics(mean.astype(np.float32), std.astype(np.float32))
  plain, normalised = _make(), _make(observation_statistics=statistics)
  for networks in (plain, normalised):
    _moved(networks)
  x = _normal(4, 3)
  raw = tf.constant((x * std + mean).numpy().astype(np.float32))
  for one, other, more in (
    (plain.policy_network, normalised.policy_network, ()),
    (plain.critic_network, normalised.critic_network, (_normal(4, 2),)),
  ):
    state = one.initial_state(4)
    np.testing.assert_allclose(
      other(raw, *more, state)[0].mean(), one(x, *more, state)[0].mean(), rtol=1e-3, atol=1e-4
    )


def test_actions_without_bounds_are_refused():
  with pytest.raises(ValueError, match="BoundedArray"):
    _make(action=specs.Array((2,), np.float32))


# Whole sequences.


def _sequences():
  reset = np.zeros((_LENGTH, _BATCH_SIZE), bool)
  reset[2, 0], reset[[1, 4], 1], reset[0, 2] = True, True, True
  observation = _normal(_LENGTH, _BATCH_SIZE, *crr_cases.OBSERVATION.shape, seed=1)
  action = _normal(_LENGTH, _BATCH_SIZE, *crr_cases.ACTION.shape, seed=2)
  return observation, action, tf.constant(reset)


def _step_after_step(network, inputs, state, reset):
  """Returns the outputs, and the states before and after each step, as an actor would see them."""
  outputs, before, after = [], [], []
  for t in range(_LENGTH):
    restarted = network.initial_state(_BATCH_SIZE)
    state = tree.map_structure(
      lambda x, y, t=t: tf.where(reset[t][:, None], y, x), state, restarted
    )
    before.append(tree.flatten(state))
    output, state = network(*(x[t] for x in inputs), state)
    outputs.append(output)
    after.append(tree.flatten(state))
  return outputs, before, after


@pytest.fixture(
  name="case",
  params=[
    (crr_cases.Kind.OWN, crr_cases.own_lstm),
    (crr_cases.Kind.OWN, snt.GRU),
    (crr_cases.Kind.OWN, snt.LSTM),
    (crr_cases.Kind.OWN, crr_cases.stateless),
    (crr_cases.Kind.DEEP_RNN, snt.LSTM),
    (crr_cases.Kind.DEEP_RNN, crr_cases.stateless),
  ],
  ids=lambda param: f"{param[0].value}_{param[1].__name__}",
)
def _case(request):
  return crr_cases.make_networks(*request.param)


def _warm_state(network):
  return tree.map_structure(
    lambda x: x + _normal(*x.shape, seed=3), network.initial_state(_BATCH_SIZE)
  )


def test_a_policy_over_a_sequence_is_what_it_is_step_after_step(case):
  observation, action, reset = _sequences()
  state = _warm_state(case.policy)
  outputs, _, after = _step_after_step(case.policy, (observation,), state, reset)
  unrolled = unrolling.unroll_policy(case.policy, observation, state, reset)
  expected = tf.stack([output.log_prob(a) for output, a in zip(outputs, action)])
  np.testing.assert_allclose(unrolled.log_prob(action), expected, rtol=1e-4, atol=1e-5)
  samples = tf.reshape(unrolled.sample(2, tf.constant([0, 0])), [2, _LENGTH, _BATCH_SIZE, -1])
  for t, output in enumerate(outputs):
    np.testing.assert_allclose(samples[:, t], output.sample(2), rtol=1e-4, atol=1e-5)
  for mine, other in zip(tree.flatten(unrolled.final_state), after[-1]):
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_a_critic_over_a_sequence_is_what_it_is_step_after_step(case):
  observation, action, reset = _sequences()
  state = _warm_state(case.critic)
  outputs, before, after = _step_after_step(case.critic, (observation, action), state, reset)
  unrolled = unrolling.unroll_critic(case.critic, observation, action, state, reset)
  np.testing.assert_allclose(
    unrolled.logits, tf.stack([output.logits for output in outputs]), rtol=1e-4, atol=1e-5
  )
  np.testing.assert_allclose(unrolled.atoms, outputs[0].values)
  states = unrolling.states_of_critic(case.critic, observation, action, state, reset)
  for found in (states, unrolled.states_before):
    for i, leaf in enumerate(tree.flatten(found)):
      np.testing.assert_allclose(leaf, tf.stack([b[i] for b in before]), rtol=1e-4, atol=1e-6)
  for mine, other in zip(tree.flatten(unrolled.final_state), after[-1]):
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_samples_are_valued_at_the_states_before_their_steps(case):
  observation, action, reset = _sequences()
  unrolled = unrolling.unroll_critic(
    case.critic, observation, action, case.critic.initial_state(_BATCH_SIZE), reset
  )
  samples = _normal(4, _LENGTH * _BATCH_SIZE, *crr_cases.ACTION.shape, seed=5)
  logits = unrolling.logits_of_samples(case.critic, observation, samples, unrolled.states_before)
  flat = lambda x: tf.reshape(x, [_LENGTH * _BATCH_SIZE, *x.shape[2:]])
  states = tree.map_structure(flat, unrolled.states_before)
  for s in range(4):
    expected, _ = case.critic(flat(observation), samples[s], states)
    np.testing.assert_allclose(logits[s], expected.logits, rtol=1e-4, atol=1e-5)


def test_gradients_over_a_sequence_are_those_of_step_after_step():
  networks = crr_cases.make_networks()
  observation, action, reset = _sequences()
  state = networks.critic.initial_state(_BATCH_SIZE)
  weights = _normal(_LENGTH, _BATCH_SIZE, crr_cases.NUM_ATOMS, seed=6)
  variables = networks.critic.trainable_variables
  with tf.GradientTape(persistent=True) as tape:
    unrolled = unrolling.unroll_critic(networks.critic, observation, action, state, reset)
    whole = tf.reduce_sum(weights * unrolled.logits)
    outputs, _, _ = _step_after_step(networks.critic, (observation, action), state, reset)
    steps = tf.reduce_sum(weights * tf.stack([output.logits for output in outputs]))
  mine, other = tape.gradient(whole, variables), tape.gradient(steps, variables)
  for a, b, variable in zip(mine, other, variables):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=variable.name)


def test_a_policy_draws_unlike_numbers_at_each_step():
  for kind, core in ((crr_cases.Kind.OWN, crr_cases.own_lstm), (crr_cases.Kind.OPAQUE, snt.LSTM)):
    policy = crr_cases.make_networks(kind, core, noise=False).policy
    observation = tf.zeros([_LENGTH, 1, 3])
    reset = tf.ones([_LENGTH, 1], tf.bool)  # Each step has the same distribution.
    unrolled = unrolling.unroll_policy(policy, observation, policy.initial_state(1), reset)
    samples = unrolled.sample(2, tf.constant([3, 4])).numpy().reshape(2 * _LENGTH, -1)
    assert len(np.unique(samples, axis=0)) == 2 * _LENGTH, kind
    again = unrolled.sample(2, tf.constant([3, 4])).numpy().reshape(2 * _LENGTH, -1)
    np.testing.assert_array_equal(samples, again)


def test_the_graph_of_own_networks_does_not_grow_with_the_length():
  networks = crr_cases.make_networks()
  sizes = []
  for length in (4, 40):

    @tf.function(autograph=False)
    def call(observation, action, reset):
      critic = networks.critic
      return unrolling.unroll_critic(
        critic, observation, action, critic.initial_state(_BATCH_SIZE), reset
      ).logits

    graph = call.get_concrete_function(
      tf.TensorSpec([length, _BATCH_SIZE, 3]),
      tf.TensorSpec([length, _BATCH_SIZE, 2]),
      tf.TensorSpec([length, _BATCH_SIZE], tf.bool),
    ).graph
    sizes.append(len(graph.as_graph_def().node))
  assert sizes[0] == sizes[1]


def test_the_stateless_core_returns_its_inputs():
  core, x = recurrent.Stateless(), _normal(2, 3)
  output, state = core(x, core.initial_state(2))
  np.testing.assert_array_equal(output, x)
  assert state == ()
