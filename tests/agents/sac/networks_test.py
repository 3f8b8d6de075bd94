"""The networks of SAC: what they compute, share, and are refused for."""

from acme import specs
import numpy as np
import pytest
import sac_cases
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from temper.agents import sac
from temper.agents.sac import networks as networks_lib
from temper.utils import squashed_gaussian

tfd = tfp.distributions

_PIXELS = {
  "pixels": specs.BoundedArray((8, 8, 3), np.uint8, 0, 255),
  "speed": specs.Array((2,), np.float32),
}
_SHARINGS = ("separate", "critics", "all")


def _spec(observation=sac_cases.SPEC.observations, action=sac_cases.SPEC.actions):
  return sac_cases.SPEC._replace(observations=observation, actions=action)


def _make(variant="twin_target", spec=sac_cases.SPEC, seed=0, **options):
  return networks_lib.make_networks(spec, sac_cases.make_config(variant, **options), seed=seed)


def _references(network):
  return {variable.ref() for variable in network.trainable_variables}


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_outputs_of_any_action_shape(variant, shape):
  networks = _make(variant, _spec(action=specs.BoundedArray(shape, np.float32, -1.0, 1.0)))
  observation, action = tf.ones([5, 3]), tf.zeros([5, *shape])
  distribution = networks.make_policy()(observation)
  assert distribution.sample().shape == (5, *shape)
  assert distribution.log_prob(action).shape == distribution.batch_shape == (5,)
  first, second = networks.critic_network(observation, action)
  assert first.shape == second.shape == (5,) and not np.any(first == second)
  minimum = networks_lib.MinimumCritic(networks.critic_network)
  np.testing.assert_array_equal(minimum(observation, action), np.minimum(first, second))
  assert _references(minimum) == _references(networks.critic_network)
  # Both values heed the action.
  for one, other in zip((first, second), networks.critic_network(observation, action + 0.5)):
    assert not np.any(one == other)
  assert (networks.value_network is None) == (variant == "twin_target")
  if networks.value_network is not None:
    assert networks.value_network(observation).shape == (5,)


def _parameters(distribution):
  return distribution.parameters["loc"].numpy(), distribution.parameters["log_scale"].numpy()


def test_mean_and_scale_pass_through_a_tanh_or_are_clipped():
  # Weights of a large last layer reach the ends.
  plain, squashed = (
    _make(squash_mean=squash, output_limit=100.0, min_log_scale=-3.0).policy_network
    for squash in (False, True)
  )
  observation = tf.constant(np.random.RandomState(0).normal(size=(50, 3)), tf.float32)
  loc, log_scale = _parameters(plain(observation))
  assert np.abs(loc).max() > 3 and log_scale.min() == -3.0 and log_scale.max() == 2.0
  squashed_loc, squashed_log_scale = _parameters(squashed(observation))
  np.testing.assert_allclose(squashed_loc, np.tanh(loc), rtol=1e-5)
  inside = (log_scale > -3) & (log_scale < 2)
  # tanh(x) in [-1, 1] is mapped to [-3, 2].
  expected = -0.5 + 2.5 * np.tanh(log_scale)
  np.testing.assert_allclose(squashed_log_scale[inside], expected[inside], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("squash_mean", [False, True])
def test_huge_observations_keep_scale_density_and_gradients_finite(squash_mean):
  networks = _make("value_network", squash_mean=squash_mean)
  observation = 1e6 * tf.constant(np.random.RandomState(0).normal(size=(20, 3)), tf.float32)
  with tf.GradientTape() as tape:
    distribution = networks.policy_network(observation)
    _, log_prob = distribution.experimental_sample_and_log_prob(seed=tf.constant([1, 2]))
    loss = tf.reduce_mean(log_prob)
  loc, log_scale = _parameters(distribution)
  assert np.isfinite(loc).all() and log_scale.min() >= -20 and log_scale.max() <= 2
  assert np.isfinite(log_prob).all()
  for gradient in tape.gradient(loss, networks.policy_network.trainable_variables):
    assert np.isfinite(gradient).all()


def test_the_limit_bounds_the_last_layers_alone():
  networks = _make("value_network")
  for network, size in (
    (networks.policy_network, 4),
    (networks.critic_network, 1),
    (networks.value_network, 1),
  ):
    last = [v for v in network.trainable_variables if v.shape[-1] == size]
    others = [v for v in network.trainable_variables if v.shape[-1] != size]
    assert last and all(np.abs(v).max() <= 3e-3 for v in last)
    assert all(np.abs(v).max() > 3e-3 for v in others)


def test_the_seed_decides_the_weights_and_no_network_repeats_another():
  def matrices(seed):
    networks = _make("value_network", seed=seed)
    bodies = (networks.policy_network, networks.critic_network, networks.value_network)
    return [v.numpy() for body in bodies for v in body.trainable_variables if v.shape.rank == 2]

  one, same, other = map(matrices, (1, 1, 2))
  for a, b, c in zip(one, same, other):
    np.testing.assert_array_equal(a, b)
    assert not np.any(a == c)
  # The twins, which see the same, must not be the same.
  of_observations = [m for m in one if m.shape == (5, 8)]
  assert len(of_observations) == 2 and not np.any(of_observations[0] == of_observations[1])


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
@pytest.mark.parametrize("sharing", _SHARINGS)
def test_which_variables_are_shared(variant, sharing):
  networks = _make(variant, _spec(_PIXELS), encoder_sharing=sharing)
  critic, policy = _references(networks.critic_network), _references(networks.policy_network)
  alone = _references(_make("twin_target").critic_network)
  encoders = {"separate": 2, "critics": 1, "all": 1}[sharing]
  encoder_size = 8  # Three convolutions and a normalised layer: twelve variables less the offsets.
  per_encoder = (len(critic) - len(alone)) / encoders
  assert per_encoder == int(per_encoder) >= encoder_size
  shared = critic & policy
  assert len(shared) == (per_encoder if sharing == "all" else 0)
  if networks.value_network is not None:
    assert not _references(networks.value_network) & (critic | policy)
  # An actor's copy needs the shared weights as well, so they are the policy's, too.
  assert len(policy) == per_encoder + 4


@pytest.mark.parametrize("sharing", _SHARINGS)
def test_a_shared_encoder_gets_no_gradient_from_the_policy(sharing):
  networks = _make(spec=_spec(_PIXELS), encoder_sharing=sharing)
  observation = {
    "pixels": tf.constant(np.random.RandomState(0).randint(0, 255, (3, 8, 8, 3)), tf.uint8),
    "speed": tf.ones([3, 2]),
  }
  with tf.GradientTape(persistent=True) as tape:
    action, log_prob = networks.policy_network(observation).experimental_sample_and_log_prob(
      seed=tf.constant([1, 2])
    )
    first, second = networks.critic_network(observation, tf.stop_gradient(action))
  shared = _references(networks.critic_network) & _references(networks.policy_network)
  for variable in networks.policy_network.trainable_variables:
    gradient = tape.gradient([action, log_prob], variable)
    assert (gradient is None) == (variable.ref() in shared)
  for variable in networks.critic_network.trainable_variables:
    assert tape.gradient([first, second], variable) is not None


@pytest.mark.parametrize("sharing", _SHARINGS)
def test_a_target_has_variables_of_its_own(sharing):
  networks = _make(spec=_spec(_PIXELS), encoder_sharing=sharing)
  target = networks_lib.target_of(networks.critic_network)
  assert not _references(target) & _references(networks.critic_network)
  assert len(target.variables) == len(networks.critic_network.variables)
  for mine, other in zip(target.variables, networks.critic_network.variables):
    np.testing.assert_array_equal(mine, other)
  before = target.variables[0].numpy()
  networks.critic_network.variables[0].assign_add(
    tf.ones_like(networks.critic_network.variables[0])
  )
  np.testing.assert_array_equal(target.variables[0], before)


# Networks of a user's own.


class Policy(snt.Module):
  def __init__(self, make=lambda x: squashed_gaussian.SquashedGaussian(x[:, :2], x[:, 2:])):
    super().__init__()
    self._layer = snt.Linear(4)
    self._make = make

  def __call__(self, observation):
    return self._make(self._layer(observation))


class Critic(snt.Module):
  def __init__(self, make=lambda x: (x[:, 0], x[:, 1])):
    super().__init__()
    self._layer = snt.Linear(2)
    self._make = make

  def __call__(self, observation, action):
    return self._make(self._layer(tf.concat([observation, action], axis=1)))


def _value(make=lambda x: x[:, 0]):
  return snt.Sequential([snt.Linear(1), make])


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_networks_of_ones_own_are_taken(variant):
  # A normal distribution that is not squashed has reparameterised samples, too.
  policy = Policy(lambda x: tfd.MultivariateNormalDiag(x[:, :2], tf.exp(x[:, 2:])))
  value = _value() if variant == "value_network" else None
  networks = sac.SACNetworks(policy, Critic(lambda x: tf.unstack(x, axis=1)), value)
  networks.init(sac_cases.SPEC)
  learner = sac_cases.make_learner(
    sac_cases.make_config(variant, policy_update_period=1),
    sac_cases.make_dataset(1),
    networks=networks,
  )
  before = sac_cases.values(learner)
  learner.step()
  moved = sac_cases.moved(before, sac_cases.values(learner))
  assert {"policy", "critic", "temperature"} <= moved


@pytest.mark.parametrize(
  "networks,error,message",
  [
    (lambda: (lambda x: x, Critic()), TypeError, "policy_network is a function; a snt.Module"),
    (lambda: (Policy(), lambda o, a: a), TypeError, "critic_network is a function"),
    (lambda: (Policy(), Critic(), 3.0), TypeError, "value_network is a float"),
    (lambda: (Policy(lambda x: x), Critic()), ValueError, "policy_network returned .* no sample"),
    (
      lambda: (Policy(lambda x: tfd.Normal(x[:, :2], 1.0)), Critic()),
      ValueError,
      r"log_prob is .*shape \[2\], is needed",
    ),
    (
      lambda: (Policy(lambda x: tfd.MultivariateNormalDiag(x)), Critic()),
      ValueError,
      r"sample is a float32 tensor of shape \[2, 4\].*\[2, 2\] is needed",
    ),
    (
      lambda: (Policy(lambda x: _Unreparameterised(x[:, :2])), Critic()),
      ValueError,
      "samples of policy_network's _Unreparameterised are not reparameterised.*SquashedGaussian",
    ),
    (
      lambda: (Policy(lambda x: tfd.MultivariateNormalDiag(tf.stop_gradient(x[:, :2]))), Critic()),
      ValueError,
      "are not reparameterised",
    ),
    (
      lambda: (Policy(), Critic(lambda x: x)),
      ValueError,
      r"critic_network returned a float32 tensor of shape \[2, 2\]; a tuple of two",
    ),
    (
      lambda: (Policy(), Critic(lambda x: (x[:, :1], x[:, 0]))),
      ValueError,
      r"critic_network's value is .*\[2, 1\].*Squeeze",
    ),
    (
      lambda: (Policy(), Critic(lambda x: (x[:, 0], x[:, :1]))),
      ValueError,
      r"critic_network's value is .*\[2, 1\].*Squeeze",
    ),
    (
      lambda: (Policy(), Critic(lambda x: (tf.reduce_mean(x),) * 2)),
      ValueError,
      r"critic_network's value is .*shape \[\]",
    ),
    (lambda: (Policy(), Critic(), _value(lambda x: x)), ValueError, r"value_network's.*\[2, 1\]"),
  ],
)
def test_networks_that_do_not_fit_are_refused_with_words(networks, error, message):
  with pytest.raises(error, match=message):
    sac.SACNetworks(*networks()).init(sac_cases.SPEC)


class _Unreparameterised(tfd.Independent):
  """Draws from a table, say."""

  def __init__(self, loc):
    super().__init__(tfd.Normal(loc, 1.0), 1)

  @property
  def reparameterization_type(self):
    return tfd.NOT_REPARAMETERIZED


@pytest.mark.parametrize(
  "variant,value,message",
  [
    ("value_network", False, "value_network is missing, but variant is value_network: give one"),
    ("twin_target", True, "value_network is given, but variant is twin_target: leave it None"),
  ],
)
def test_networks_of_the_other_variant_are_refused(variant, value, message):
  networks = sac.SACNetworks(Policy(), Critic(), _value() if value else None)
  networks.init(sac_cases.SPEC)
  with pytest.raises(ValueError, match=message):
    sac.SAC(sac_cases.SPEC, sac_cases.make_config(variant), networks)
  # Nor by the parts.
  with pytest.raises(ValueError, match=message):
    sac_cases.make_learner(
      sac_cases.make_config(variant), sac_cases.make_dataset(1), networks=networks
    )


@pytest.mark.parametrize(
  "action",
  [
    specs.BoundedArray((2,), np.float32, -np.inf, 1.0),
    specs.Array((2,), np.float32),
    specs.DiscreteArray(3),
    specs.BoundedArray((2,), np.int32, -1, 1),
  ],
  ids=["infinite", "unbounded", "discrete", "integer"],
)
def test_actions_that_no_network_can_be_made_for_are_refused(action):
  with pytest.raises(ValueError, match="action.*environments.wrap"):
    _make(spec=_spec(action=action))
