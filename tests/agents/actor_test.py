"""Tests of `temper.agents.actor`."""

import json

from acme import specs
import dm_env
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import actor as actor_lib
from temper.agents import policies

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


def _actor(network=None, *args, kind="raw", critic=None, **kwargs):
  choice = policies.PolicyChoice(kind, num_action_samples=4)
  return actor_lib.Actor(choice.make(network or _Policy(), critic), *args, **kwargs)


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
  one, same, other = (_draws(_actor(_Policy(), seed=seed)) for seed in (3, 3, 4))
  np.testing.assert_array_equal(one, same)
  assert not np.isclose(one, other).any()
  assert len(np.unique(one)) == one.size  # No draw repeats another.
  tf.random.set_seed(7)  # Nor do they hang on global state.
  np.testing.assert_array_equal(one, _draws(_actor(_Policy(), seed=3)))


def test_any_integer_is_a_seed():
  for seed in (2**40 + 1, 2**32 - 1):
    assert np.isfinite(_draws(_actor(_Policy(), seed=seed), 1)).all()


def test_draws_follow_the_distribution():
  draws = _draws(_actor(_Policy(scale=0.5), seed=0), 2000)
  # Standard errors are 0.5 / sqrt(2000) = 0.011 and 0.5 / sqrt(4000) = 0.008.
  np.testing.assert_allclose(draws.mean(axis=0), 0.75, atol=0.05)
  np.testing.assert_allclose(draws.std(axis=0), 0.5, atol=0.04)


def test_deterministic_takes_the_mean_and_says_so():
  actor = _actor(_Policy(), kind="mean", seed=0)
  assert actor.deterministic and actor.choice.kind is policies.PolicyKind.MEAN
  np.testing.assert_array_equal(_draws(actor), np.full((5, 2), 0.75, np.float32))
  assert not _actor(_Policy()).deterministic


def test_state_continues_the_draws():
  whole = _draws(_actor(_Policy(), seed=1), 6)
  first = _actor(_Policy(), seed=1)
  np.testing.assert_array_equal(_draws(first, 4), whole[:4])
  second = _actor(_Policy(), seed=1)
  second.load_state(first.state())
  np.testing.assert_array_equal(_draws(second, 2), whole[4:])


def test_extras_belong_to_the_action_and_its_policy():
  adder, version = _Adder(), [7]
  actor = _actor(
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
  actor = _actor(_Policy(), extras=_LOG_PROB)
  actor.observe_first(dm_env.restart(_OBSERVATION))
  action = actor.select_action(_OBSERVATION)
  actor.observe(action, dm_env.transition(0.0, _OBSERVATION))
  actor.update()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_actions_of_any_shape(shape):
  action = _actor(_Policy(shape), seed=0).select_action(_OBSERVATION)
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
  action = _actor(_Policy(), kind="mean").select_action(observation)
  np.testing.assert_allclose(action, total)


def test_the_policy_is_traced_once():
  policy = _Policy()
  _draws(_actor(policy, extras=_LOG_PROB), 10)
  assert policy.calls == 1


@pytest.mark.parametrize("kind", ["raw", "mean", "boltzmann"])
def test_an_action_that_is_not_finite_is_refused(kind):
  actor = _actor(kind=kind, critic=lambda observation, action: action[:, 0])
  for value in (np.nan, np.inf):
    with pytest.raises(ValueError, match="observation is not finite.*diverged"):
      actor.select_action(np.array([value, 0], np.float32))
  assert np.isfinite(actor.select_action(_OBSERVATION)).all()


def test_the_actor_sees_new_weights_at_once():
  network = snt.Sequential([snt.Linear(2), lambda mean: tfd.Independent(tfd.Normal(mean, 1.0), 1)])
  network(tf.ones([1, 2]))
  actor = _actor(network, kind="mean")
  before = actor.select_action(_OBSERVATION)
  for variable in network.variables:
    variable.assign_add(tf.ones_like(variable))
  np.testing.assert_allclose(actor.select_action(_OBSERVATION), before + 1.75, rtol=1e-5)


class CountingCore(snt.RNNCore):
  """Normal distribution around the number of steps of the episode; its state is a pair."""

  def __init__(self):
    super().__init__()
    self.start = tf.Variable(0.0)

  def __call__(self, observation, prev_state):
    steps, total = prev_state["steps"] + 1, prev_state["total"] + observation
    mean = tf.stack([tf.cast(steps, tf.float32), total[:, 0]], axis=1)
    return tfd.Independent(tfd.Normal(mean, 0.5), 1), {"steps": steps, "total": total}

  def initial_state(self, batch_size):
    return {
      "steps": tf.zeros([batch_size], tf.int32),
      "total": self.start * tf.ones([batch_size, 2]),
    }


def _sum_critic(observation, action):
  return tf.reduce_sum(action, axis=1)


def test_a_recurrent_state_is_carried_through_an_episode_and_ends_with_it():
  network = CountingCore()
  actor = _actor(network, kind="mean")
  for start in (0.0, 10.0):
    # A trainable initial state is the newest one.
    network.start.assign(start)
    actor.observe_first(dm_env.restart(_OBSERVATION))
    for step in range(1, 4):
      action = actor.select_action(_OBSERVATION)
      np.testing.assert_allclose(action, [step, start + 0.25 * step])
      actor.observe(action, dm_env.transition(0.0, _OBSERVATION))


@pytest.mark.parametrize("kind", ["raw", "boltzmann"])
def test_a_saved_actor_goes_on_in_the_middle_of_an_episode(kind):
  make = lambda: _actor(CountingCore(), kind=kind, critic=_sum_critic, seed=1)
  whole = _draws(make(), 6)
  first = make()
  np.testing.assert_array_equal(_draws(first, 4), whole[:4])
  state = json.loads(json.dumps(first.state()))
  second = make()
  second.load_state(state)
  assert second.state() == state == first.state()
  np.testing.assert_array_equal(_draws(second, 2), whole[4:])
  second.observe_first(dm_env.restart(_OBSERVATION))
  assert second.state() == {"num_actions": 6}
  with pytest.raises(ValueError, match="2 recurrent states were saved; the policy has 0"):
    _actor().load_state(state)


def test_a_boltzmann_actor_prefers_what_the_critic_values():
  draws = [_draws(_actor(kind=k, critic=_sum_critic, seed=2), 200) for k in ("raw", "boltzmann")]
  # The best of four sums of two normals with deviation 0.5 is about 1.03 · 0.7 higher on average,
  # and at a temperature of 1 less.
  assert 0.2 < np.sum(draws[1].mean(axis=0) - draws[0].mean(axis=0)) < 0.73


def test_the_density_of_a_boltzmann_action_is_stored():
  adder = _Adder()
  actor = _actor(kind="boltzmann", critic=_sum_critic, adder=adder, seed=0, extras=_LOG_PROB)
  action = actor.select_action(_OBSERVATION)
  actor.observe(action, dm_env.transition(0.0, _OBSERVATION))
  stored = adder.added[0][2]["log_prob"]
  raw = _Policy()(_OBSERVATION[None]).log_prob(action[None])[0]
  # The weight among four is between 0 and 1.
  assert np.isfinite(stored) and stored < raw + np.log(4) and stored != raw


def test_nested_actions():
  joint = lambda observation: tfd.JointDistributionNamed(
    {"arm": tfd.Independent(tfd.Normal(observation, 1.0), 1), "grip": tfd.Normal([0.0], 1.0)}
  )
  critic = lambda observation, action: action["grip"]
  for kind in ("raw", "boltzmann"):
    action = _actor(joint, kind=kind, critic=critic).select_action(_OBSERVATION)
    assert action["arm"].shape == (2,) and action["grip"].shape == ()


def test_the_log_says_how_an_actor_acts(caplog):
  with caplog.at_level("INFO", logger="absl"):
    _actor(kind="boltzmann", critic=_sum_critic)
  assert "actions of the policy: boltzmann (beta 1, 4 samples)" in caplog.text


_SPEC = specs.BoundedArray((2,), np.float32, [-3.0, 5.0], [-1.0, 6.0])


def _warm(count, **options):
  warm_up = actor_lib.WarmUp(policies.UniformPolicy(_SPEC), count)
  return _actor(_Policy(scale=0.01), warm_up=warm_up, **options)


def _is_uniform(draws):
  """Says which are within the bounds, where the policy's, around 0.75, never are."""
  return [bool(np.all(a >= _SPEC.minimum) and np.all(a <= _SPEC.maximum)) for a in draws]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_exactly_the_first_actions_are_uniform(count):
  draws = _draws(_warm(count, seed=3), 7)
  assert _is_uniform(draws) == [True] * count + [False] * (7 - count)
  np.testing.assert_array_equal(draws, _draws(_warm(count, seed=3), 7))
  assert len(np.unique(draws)) == draws.size
  # The policy's own draws are those of an actor that began otherwise.
  np.testing.assert_array_equal(draws[count:], _draws(_warm(0, seed=3), 7)[count:])
  assert not np.any(draws == _draws(_warm(count, seed=4), 7))


def test_a_warm_up_goes_on_over_episodes_and_where_it_was_saved():
  whole = _draws(_warm(5, seed=1), 8)
  first = _warm(5, seed=1)
  np.testing.assert_array_equal(_draws(first, 2), whole[:2])
  first.observe_first(dm_env.restart(_OBSERVATION))
  np.testing.assert_array_equal(_draws(first, 1), whole[2:3])
  second = _warm(5, seed=1)
  second.load_state(json.loads(json.dumps(first.state())))
  draws = _draws(second, 5)
  np.testing.assert_array_equal(draws, whole[3:])
  assert _is_uniform(draws) == [True] * 2 + [False] * 3
  later = _warm(5, seed=1)
  later.load_state({"num_actions": 5})
  assert _is_uniform(_draws(later, 2)) == [False] * 2


def test_uniform_actions_have_extras_too():
  adder = _Adder()
  actor = _warm(1, adder=adder, seed=0, extras=_LOG_PROB)
  for _ in range(2):
    actor.observe(actor.select_action(_OBSERVATION), dm_env.transition(0.0, _OBSERVATION))
  densities = [extras["log_prob"] for _, _, extras in adder.added]
  # Of the uniform distribution over an area of two; then of a sharp normal one.
  assert densities[0] == pytest.approx(-np.log(2), rel=1e-5) and densities[1] > 0


def test_a_recurrent_policy_begins_after_the_warm_up():
  warm_up = actor_lib.WarmUp(policies.UniformPolicy(_SPEC), 2)
  actor = _actor(CountingCore(), kind="mean", warm_up=warm_up)
  actor.observe_first(dm_env.restart(_OBSERVATION))
  assert _is_uniform(_draws(actor, 2)) == [True] * 2
  np.testing.assert_allclose(actor.select_action(_OBSERVATION), [1, 0.25])
