"""Tests of `temper.agents.batch_actor`."""

from acme import specs
import dm_env
import numpy as np
import pytest

from temper.agents import actor as actor_lib
from temper.agents import batch_actor
from temper.agents import crr
from temper.agents import policies
from temper.agents import sac
from temper.utils.policy_kinds import PolicyKind

_SPEC = specs.EnvironmentSpec(
  observations={"a": specs.Array((3,), np.float32), "b": specs.Array((), np.float32)},
  actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)


def _policy(choice, recurrent):
  if recurrent:
    config = crr.CRRConfig(policy_layer_sizes=(8,), critic_layer_sizes=(8,), lstm_size=8)
    builder = crr.CRRBuilder(config)
  else:
    config = sac.SACConfig(policy_layer_sizes=(8,), critic_layer_sizes=(8,))
    builder = sac.SACBuilder(config)
  networks = builder.make_networks(_SPEC, seed=3)
  return choice.make(builder.make_policy(networks), builder.make_critic(networks), _SPEC.actions)


def _observations(count, seed=0):
  random = np.random.default_rng(seed)
  return [
    {"a": random.normal(size=3).astype(np.float32), "b": np.float32(random.normal())}
    for _ in range(count)
  ]


def _stack(observations):
  return {name: np.stack([o[name] for o in observations]) for name in ("a", "b")}


@pytest.mark.parametrize("recurrent", [False, True])
def test_each_row_acts_as_an_actor_of_its_own(recurrent):
  policy = _policy(policies.MEAN, recurrent)
  batch = batch_actor.BatchActor(policy, 3)
  assert batch.choice == policies.MEAN
  singles = [actor_lib.Actor(policy) for _ in range(3)]
  for step in range(6):
    for row, single in enumerate(singles):
      # The rows' episodes begin at different steps.
      if step in (0, row + 2):
        batch.begin(row)
        single.observe_first(dm_env.restart(None))
    observations = _observations(3, seed=step)
    expected = [single.select_action(o) for single, o in zip(singles, observations)]
    actions = batch.select_actions(_stack(observations))
    np.testing.assert_allclose(actions, expected, atol=1e-6)


def test_the_state_of_a_row_decides_its_action():
  batch = batch_actor.BatchActor(_policy(policies.MEAN, True), 2)
  same = _stack(_observations(1) * 2)
  first = batch.select_actions(same)
  second = batch.select_actions(same)
  assert np.abs(second - first).max() > 1e-4
  batch.begin(1)
  third = batch.select_actions(same)
  np.testing.assert_allclose(third[1], first[1], atol=1e-6)
  assert np.abs(third[0] - first[0]).max() > 1e-4


@pytest.mark.parametrize("kind", [PolicyKind.RAW, PolicyKind.BOLTZMANN])
@pytest.mark.parametrize("recurrent", [False, True])
def test_one_row_draws_what_an_actor_draws(kind, recurrent):
  policy = _policy(policies.PolicyChoice(kind), recurrent)
  actor = actor_lib.Actor(policy, seed=5)
  row = batch_actor.OneRow(batch_actor.BatchActor(policy, 1, seed=5))
  for one in (actor, row):
    one.observe_first(dm_env.restart(None))
  for observation in _observations(4):
    expected = actor.select_action(observation)
    np.testing.assert_array_equal(row.select_action(observation), expected)


def test_rows_draw_different_actions_and_a_restart_repeats_them():
  batch = batch_actor.BatchActor(_policy(policies.RAW, False), 2, seed=1)
  same = _stack(_observations(1) * 2)
  first, second = batch.select_actions(same), batch.select_actions(same)
  assert np.abs(first[0] - first[1]).max() > 1e-3 and np.abs(first - second).max() > 1e-3
  batch.restart()
  np.testing.assert_array_equal(batch.select_actions(same), first)


def test_actions_that_are_not_finite_are_refused():
  policy = _policy(policies.MEAN, False)
  for variable in policy.trainable_variables:
    variable.assign(np.nan * variable)
  batch = batch_actor.BatchActor(policy, 2)
  with pytest.raises(ValueError, match="not finite.*learning has diverged"):
    batch.select_actions(_stack(_observations(2)))
