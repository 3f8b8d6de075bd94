"""Tests of `temper.agents.actor`."""

from acme import specs
import dm_env
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import actor as actor_lib

tfd = tfp.distributions


class _Policy(snt.Module):
  """Normal distribution around the sum of all numbers observed; counts how often it is traced."""

  def __init__(self, action_shape=(2,), scale=0.5):
    super().__init__(name="policy")
    self.calls = 0
    self._shape = action_shape
    self._scale = scale

  def __call__(self, observation):
    self.calls += 1
    leaves = [tf.cast(leaf, tf.float32) for leaf in tree.flatten(observation)]
    total = tf.add_n([tf.reduce_sum(x, axis=list(range(1, len(x.shape)))) for x in leaves])
    mean = tf.reshape(total, [-1] + [1] * len(self._shape)) * tf.ones([1, *self._shape])
    return tfd.Independent(tfd.Normal(mean, self._scale), len(self._shape))


class _Adder:
  """Keeps what it is given."""

  def __init__(self):
    self.first, self.added = [], []

  def add_first(self, timestep):
    self.first.append(timestep)

  def add(self, action, next_timestep, extras):
    self.added.append((action, next_timestep, dict(extras)))


_OBSERVATION = np.array([0.25, 0.5], np.float32)
_LOG_PROB = {
  "log_prob": actor_lib.Extra(specs.Array((), np.float32), lambda pi, a: pi.log_prob(a)),
  "version": actor_lib.Extra(specs.Array((), np.int32)),
}


def _draws(actor, n=5):
  return np.stack([actor.select_action(_OBSERVATION) for _ in range(n)])


def test_draws_depend_on_the_seed_alone():
  one, same, other = (_draws(actor_lib.Actor(_Policy(), seed=seed)) for seed in (3, 3, 4))
  np.testing.assert_array_equal(one, same)
  assert not np.isclose(one, other).any()
  assert len(np.unique(one)) == one.size  # No draw repeats another.
  tf.random.set_seed(7)  # Nor do they hang on global state.
  np.testing.assert_array_equal(one, _draws(actor_lib.Actor(_Policy(), seed=3)))


def test_any_integer_is_a_seed():
  for seed in (2**40 + 1, 2**32 - 1):
    assert np.isfinite(_draws(actor_lib.Actor(_Policy(), seed=seed), 1)).all()


def test_draws_follow_the_distribution():
  draws = _draws(actor_lib.Actor(_Policy(scale=0.5), seed=0), 2000)
  # Standard errors are 0.5 / sqrt(2000) = 0.011 and 0.5 / sqrt(4000) = 0.008.
  np.testing.assert_allclose(draws.mean(axis=0), 0.75, atol=0.05)
  np.testing.assert_allclose(draws.std(axis=0), 0.5, atol=0.04)


def test_deterministic_takes_the_mean_and_says_so():
  actor = actor_lib.Actor(_Policy(), deterministic=True, seed=0)
  assert actor.deterministic
  np.testing.assert_array_equal(_draws(actor), np.full((5, 2), 0.75, np.float32))
  assert not actor_lib.Actor(_Policy()).deterministic


def test_state_continues_the_draws():
  whole = _draws(actor_lib.Actor(_Policy(), seed=1), 6)
  first = actor_lib.Actor(_Policy(), seed=1)
  np.testing.assert_array_equal(_draws(first, 4), whole[:4])
  second = actor_lib.Actor(_Policy(), seed=1)
  second.load_state(first.state())
  np.testing.assert_array_equal(_draws(second, 2), whole[4:])


def test_extras_belong_to_the_action_and_its_policy():
  adder, version = _Adder(), [7]
  actor = actor_lib.Actor(
    _Policy(scale=0.5), adder, seed=0, extras=_LOG_PROB, policy_version=lambda: version[0]
  )
  first = dm_env.restart(_OBSERVATION)
  actor.observe_first(first)
  following = dm_env.transition(np.float32(1), _OBSERVATION)
  for number in (7, 8):
    version[0] = number
    action = actor.select_action(_OBSERVATION)
    actor.observe(action, following)
    stored, timestep, extras = adder.added[-1]
    assert stored is action and timestep is following
    # Two independent normals with mean 0.75 and standard deviation 0.5.
    z = (action - 0.75) / 0.5
    expected = np.sum(-0.5 * z**2 - np.log(0.5) - 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(extras["log_prob"], expected, rtol=1e-5)
    assert extras["log_prob"].dtype == np.float32 and extras["log_prob"].shape == ()
    assert extras["version"] == number and extras["version"].dtype == np.int32
  assert adder.first == [first]
  assert actor_lib.extras_spec(_LOG_PROB) == {n: e.spec for n, e in _LOG_PROB.items()}


def test_without_an_adder_nothing_is_kept():
  actor = actor_lib.Actor(_Policy(), extras=_LOG_PROB)
  actor.observe_first(dm_env.restart(_OBSERVATION))
  action = actor.select_action(_OBSERVATION)
  actor.observe(action, dm_env.transition(0.0, _OBSERVATION))
  actor.update()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_actions_of_any_shape(shape):
  action = actor_lib.Actor(_Policy(shape), seed=0).select_action(_OBSERVATION)
  assert isinstance(action, np.ndarray)
  assert action.shape == shape and action.dtype == np.float32


@pytest.mark.parametrize(
  "observation,total",
  [
    ({"b": np.float32([1, 2]), "a": np.float32(3)}, 6),
    ((np.float32([1]), (np.float32([[2]]), np.float32(0.5))), 3.5),
    ({"pixels": np.full((4, 4, 3), 1, np.uint8), "n": np.int32(2)}, 50),
    ([np.float32([0.5]), {"x": np.bool_(True)}], 1.5),
  ],
  ids=["dict", "tuple", "pixels", "list"],
)
def test_nested_observations(observation, total):
  action = actor_lib.Actor(_Policy(), deterministic=True).select_action(observation)
  np.testing.assert_allclose(action, total)


def test_the_policy_is_traced_once():
  policy = _Policy()
  _draws(actor_lib.Actor(policy, extras=_LOG_PROB), 10)
  assert policy.calls == 1


@pytest.mark.parametrize("deterministic", [False, True])
def test_an_action_that_is_not_finite_is_refused(deterministic):
  actor = actor_lib.Actor(_Policy(), deterministic=deterministic)
  for value in (np.nan, np.inf):
    with pytest.raises(ValueError, match="not finite.*observation.*diverged"):
      actor.select_action(np.array([value, 0], np.float32))
  assert np.isfinite(actor.select_action(_OBSERVATION)).all()


def test_the_actor_sees_new_weights_at_once():
  network = snt.Sequential([snt.Linear(2), lambda mean: tfd.Independent(tfd.Normal(mean, 1.0), 1)])
  network(tf.ones([1, 2]))
  actor = actor_lib.Actor(network, deterministic=True)
  before = actor.select_action(_OBSERVATION)
  for variable in network.variables:
    variable.assign_add(tf.ones_like(variable))
  np.testing.assert_allclose(actor.select_action(_OBSERVATION), before + 1.75, rtol=1e-5)
