import copy

from acme import specs
from acme.agents.tf.svg0_prior import networks as acme_networks
from acme.tf import utils as tf2_utils
import numpy as np
import pytest
import tensorflow as tf

from temper.agents.svg0_prior import builder as builder_lib
from temper.agents.svg0_prior import config as config_lib
from temper.agents.svg0_prior import networks as networks_lib

_VECTOR = specs.Array((3,), np.float32)
_ACTION = specs.BoundedArray((2,), np.float32, [-1, -2], [1, 0.5])


def _environment_spec(observation=_VECTOR, action=_ACTION):
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(
    observation, action, scalar, specs.BoundedArray((), np.float32, 0, 1)
  )


def _normal(*shape, seed=0, scale=1.0):
  return tf.constant(scale * np.random.RandomState(seed).normal(size=shape).astype(np.float32))


def _make(make=networks_lib.make_default_networks, action=_ACTION, **options):
  return make(action, (8, 8), (8, 8), **options)


@pytest.mark.parametrize(
  "names, make, theirs",
  [
    ("policy critic", networks_lib.make_default_networks, acme_networks.make_default_networks),
    (
      "policy critic prior",
      networks_lib.make_network_with_prior,
      acme_networks.make_network_with_prior,
    ),
  ],
)
def test_there_are_as_many_parameters_as_in_acmes_networks(names, make, theirs):
  made, other = make(_ACTION), theirs(_ACTION)
  assert set(made) == set(other) == set(names.split())
  observation = {"x": _VECTOR} if "prior" in made else _VECTOR
  for name in made:
    inputs = [observation, _ACTION] if name == "critic" else [observation]
    for networks in (made, other):
      tf2_utils.create_variables(networks[name], inputs)
    # Ours keeps mean and scale in one layer, so the shapes differ and the sum does not.
    sizes = [
      sum(v.shape.num_elements() for v in networks[name].trainable_variables)
      for networks in (made, other)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
  "make, scale",
  [(networks_lib.make_default_networks, 1.0), (networks_lib.make_network_with_prior, 0.8)],
)
def test_the_policy_starts_near_zero_with_the_initial_scale(make, scale):
  pi = _make(make)["policy"](_normal(4, 3))
  assert np.abs(pi.mean()).max() < 0.1
  np.testing.assert_allclose(pi.stddev(), np.full((4, 2), scale), atol=0.1)
  assert pi.sample().shape == (4, 2)
  assert pi.log_prob(tf.zeros([4, 2])).shape == (4,)


def test_mean_and_scale_stay_in_their_range():
  policy = _make(min_scale=0.25)["policy"]
  policy(_normal(4, 3))
  for variable in policy.trainable_variables:
    variable.assign_add(5 * _normal(*variable.shape, seed=3))
  pi = policy(_normal(100, 3))
  assert np.abs(pi.mean()).max() <= 1
  assert np.min(pi.stddev()) >= 0.25


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_actions_of_any_shape(shape):
  action = specs.BoundedArray(shape, np.float32, -1, 1)
  made = _make(networks_lib.make_network_with_prior, action)
  pi, prior = (made[name](_normal(4, 3)) for name in ("policy", "prior"))
  sample = pi.sample(5)
  assert sample.shape == (5, 4, *shape)
  assert pi.log_prob(sample).shape == (5, 4)
  assert pi.kl_divergence(prior).shape == (4,)
  assert pi.entropy().shape == (4,)
  assert made["critic"](_normal(4, 3), sample[0]).shape == (4, 1)


def test_the_critic_sees_clipped_actions():
  critic = _make()["critic"]
  observation = _normal(3, 3)
  outside = tf.constant([[3.0, 9.0], [-5.0, -2.5], [0.5, 0.6]])
  with tf.GradientTape() as tape:
    tape.watch(outside)
    values = critic(observation, outside)
  inside = critic(observation, tf.constant([[1.0, 0.5], [-1.0, -2.0], [0.5, 0.5]]))
  np.testing.assert_array_equal(values, inside)
  slopes = tape.gradient(values, outside).numpy()
  np.testing.assert_array_equal(slopes[[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]], np.zeros(5))
  assert slopes[2, 0] != 0


def test_huge_observations_keep_everything_finite():
  made = _make(networks_lib.make_network_with_prior)
  observation = _normal(4, 3, scale=1e6)
  pi = made["policy"](observation)
  for value in (
    pi.mean(),
    pi.stddev(),
    pi.log_prob(tf.ones([4, 2])),
    pi.kl_divergence(made["prior"](observation)),
    made["critic"](observation, tf.ones([4, 2])),
  ):
    assert np.isfinite(value).all()


def test_the_prior_sees_its_keys_only():
  made = _make(networks_lib.make_network_with_prior, policy_keys=["a", "b"], prior_keys=["b"])
  observation = {"a": _normal(2, 3), "b": _normal(2, 1), "c": _normal(2, 1)}

  def changed(key):
    return {**observation, key: observation[key] + 1}

  def mean(name, seen):
    return made[name](seen).mean().numpy()

  assert np.array_equal(mean("prior", observation), mean("prior", changed("a")))
  assert not np.array_equal(mean("prior", observation), mean("prior", changed("b")))
  assert not np.array_equal(mean("policy", observation), mean("policy", changed("a")))
  assert np.array_equal(mean("policy", observation), mean("policy", changed("c")))
  assert np.array_equal(
    made["critic"](observation, tf.zeros([2, 2])), made["critic"](changed("c"), tf.zeros([2, 2]))
  )


def test_the_default_policy_and_critic_see_their_keys_only():
  made = _make(policy_keys=["b"])
  observation = {"a": _normal(4, 2), "b": _normal(4, 3, seed=1)}
  other = {"a": _normal(4, 2, seed=2), "b": observation["b"]}
  action = tf.zeros([4, 2])
  np.testing.assert_array_equal(made["policy"](observation).mean(), made["policy"](other).mean())
  np.testing.assert_array_equal(made["critic"](observation, action), made["critic"](other, action))


@pytest.mark.parametrize("use_prior", [False, True])
def test_the_configured_keys_reach_the_networks(use_prior):
  config = config_lib.SVG0Config(policy_keys=("b",), use_prior=use_prior, policy_layer_sizes=(8,))
  spec = _environment_spec({"a": _VECTOR, "b": specs.Array((5,), np.float32)})
  policy = builder_lib.SVG0Builder(config).make_networks(spec).policy_network
  # The first layer maps the five numbers of `b`, not all eight, to eight units.
  assert (5, 8) in {tuple(v.shape) for v in policy.trainable_variables}


def test_pixels_beside_vectors():
  observation = {"pixels": specs.BoundedArray((20, 20, 3), np.uint8, 0, 255), "x": _VECTOR}
  spec = _environment_spec(observation)
  made = _make(networks_lib.make_network_with_prior, observation_spec=observation)
  networks = networks_lib.SVG0Networks(made["policy"], made["critic"], made["prior"])
  networks.init(spec)
  assert any(len(v.shape) == 4 for v in networks.policy_network.trainable_variables)


def test_the_seed_decides_the_weights_and_no_two_networks_start_equal():
  observation = _normal(2, 3)
  first, same, other = (
    _make(networks_lib.make_network_with_prior, seed=seed) for seed in (1, 1, 2)
  )

  def mean(made, name):
    return made[name](observation).mean().numpy()

  np.testing.assert_array_equal(mean(first, "policy"), mean(same, "policy"))
  assert not np.array_equal(mean(first, "policy"), mean(other, "policy"))
  wide = networks_lib.make_network_with_prior(_ACTION, (8,), (8,), (8,), seed=0)
  assert not np.array_equal(mean(wide, "policy"), mean(wide, "prior"))


@pytest.mark.parametrize(
  "action, message",
  [
    (specs.DiscreteArray(3), "one BoundedArray of continuous actions"),
    (specs.Array((2,), np.float32), "one BoundedArray of continuous actions"),
    ({"a": _ACTION}, "one BoundedArray of continuous actions"),
    (specs.BoundedArray((2,), np.float32, -np.inf, 1), "finite bounds are needed"),
    (specs.BoundedArray((2,), np.int32, 0, 4), "dtype int32"),
  ],
)
@pytest.mark.parametrize(
  "make", [networks_lib.make_default_networks, networks_lib.make_network_with_prior]
)
def test_actions_that_no_gaussian_can_take_are_refused(action, message, make):
  with pytest.raises(ValueError, match=message):
    make(action)


def test_the_structure_makes_variables_and_hands_out_networks():
  made = _make(networks_lib.make_network_with_prior)
  networks = networks_lib.SVG0Networks(made["policy"], made["critic"], made["prior"])
  networks.init(_environment_spec())
  assert networks.make_policy() is made["policy"]
  assert networks.make_prior() is made["prior"]
  assert networks_lib.SVG0Networks(made["policy"], made["critic"]).make_prior() is None
  target = copy.deepcopy(networks)
  for mine, other in zip(networks.critic_network.variables, target.critic_network.variables):
    assert mine is not other
    np.testing.assert_array_equal(mine, other)


def test_a_network_that_is_no_module_is_refused():
  networks = networks_lib.SVG0Networks(lambda observation: observation, _make()["critic"])
  with pytest.raises(TypeError, match="policy_network is a function; a snt.Module is needed"):
    networks.init(_environment_spec())
