"""What every agent must do on every kind of environment; each agent's `contract_test.py` runs it.

A test module subclasses `AgentContract` and says how a small agent of its kind is made. An agent
that cannot do one of the kinds must refuse it, which its own tests show.
"""

import abc
import contextlib

import acme
from acme.utils import loggers
from dm_env import specs
import numpy as np
import pytest
import tree

from temper.agents import builder as builder_lib
from temper.agents import local
from temper.agents import policies
from temper.utils import checkpointing
from temper.utils import environments
from temper.utils import fakes
from temper.utils import replay_tables

OBSERVATIONS = {
  "vector": specs.Array((3,), np.float32),
  "float64": specs.BoundedArray((2,), np.float64, -5.0, 5.0),
  "integer": specs.BoundedArray((2,), np.int64, -3, 3),
  "scalar": specs.Array((), np.float64),
  "dict": {"arm": specs.Array((2,), np.float32), "load": specs.Array((), np.float32)},
  "tuple": (specs.Array((2,), np.float32), {"deep": specs.Array((1, 2), np.float64)}),
  "pixels": specs.BoundedArray((16, 16, 3), np.uint8, 0, 255),
  "pixels and vector": {
    "pixels": specs.BoundedArray((16, 16, 3), np.uint8, 0, 255),
    "speed": specs.Array((2,), np.float32),
  },
}
ACTIONS = {
  "vector": specs.BoundedArray((2,), np.float32, -1.0, 1.0),
  "scalar": specs.BoundedArray((), np.float32, -2.0, 2.0),
  "matrix": specs.BoundedArray((2, 3), np.float64, 0.0, 5.0),
  "asymmetric": specs.BoundedArray((3,), np.float32, [-1.0, 0.0, 10.0], [0.5, 7.0, 11.0]),
  "integer": specs.BoundedArray((1,), np.int32, -3, 4),
}
# Each kind of observation and of action once, and pairs that are likely to interfere.
KINDS = [(observation, "vector") for observation in OBSERVATIONS]
KINDS += [("vector", action) for action in ACTIONS if action != "vector"]
KINDS += [("pixels and vector", "matrix"), ("dict", "scalar"), ("tuple", "asymmetric")]

_STEPS = 30


def make_environment(observation="vector", action="vector", **options):
  """Returns a canonical environment, whose inside checks the actions that reach it."""
  fake = fakes.FakeEnvironment(OBSERVATIONS[observation], ACTIONS[action], seed=0, **options)
  return environments.wrap(fake)


def act(agent, environment, steps, learn=True):
  """Runs whole episodes of at least so many steps; returns the actions and time steps, in order."""
  actions, timesteps = [], []
  while len(actions) < steps:
    timestep = environment.reset()
    agent.observe_first(timestep)
    while not timestep.last():
      actions.append(agent.select_action(timestep.observation))
      timestep = environment.step(actions[-1])
      timesteps.append(timestep)
      agent.observe(actions[-1], timestep)
      if learn:
        agent.update()
  return actions, timesteps


def weights(agent):
  """Returns a copy of everything that a checkpoint of the agent holds in variables."""
  tracked = agent.checkpointables()
  variables = {}
  for name, item in tracked.items():
    found = getattr(item, "variables", [item])
    variables.update({f"{name}/{i}": variable.numpy() for i, variable in enumerate(found)})
  return variables


def equal(one, other):
  """Says whether two results of `weights` are equal bit for bit."""
  assert one.keys() == other.keys()
  return all(np.array_equal(one[name], other[name]) for name in one)


class AgentContract(abc.ABC):
  """The tests; a subclass whose name begins with Test is collected by pytest."""

  @abc.abstractmethod
  def make_builder(self) -> builder_lib.AgentBuilder:
    """Returns a builder of a tiny agent that learns from step ten on, one update a step."""

  @contextlib.contextmanager
  def agent(self, environment, **options):
    """Makes an agent for an environment and closes it in the end."""
    spec = acme.make_environment_spec(environment)
    options.setdefault("logger", loggers.NoOpLogger())
    with local.LocalAgent(self.make_builder(), spec, **options) as agent:
      yield agent

  @pytest.mark.parametrize("observation,action", KINDS, ids=str)
  def test_acts_and_learns_on_every_kind(self, observation, action):
    environment = make_environment(observation, action)
    with self.agent(environment) as agent:
      before = weights(agent)
      actions, _ = act(agent, environment, _STEPS)
      after = weights(agent)
      assert agent.learner.num_steps > 10
      changed = [name for name in before if not np.array_equal(before[name], after[name])]
      assert {name.split("/")[0] for name in changed} == {n.split("/")[0] for n in before}
      assert all(np.isfinite(value).all() for value in after.values())
    spec = environment.action_spec()
    assert all(a.shape == spec.shape and a.dtype == spec.dtype for a in actions)
    inside = tree.flatten(environment.environment.actions)
    low, high = ACTIONS[action].minimum, ACTIONS[action].maximum
    assert all((a >= low).all() and (a <= high).all() for a in inside)

  def test_evaluation_changes_nothing(self):
    environment = make_environment()
    with self.agent(environment) as agent:
      act(agent, environment, _STEPS)
      before, state = weights(agent), agent.state()
      sizes = agent.replay_sizes()
      for kind in policies.PolicyKind:
        choice = policies.PolicyChoice(kind)
        evaluator = agent.make_evaluation_actor(choice, seed=1)
        assert evaluator.choice == choice
        assert evaluator.deterministic is (kind is policies.PolicyKind.MEAN)
        act(evaluator, environment, 10)
      assert equal(before, weights(agent)) and agent.state() == state
      assert agent.replay_sizes() == sizes

  def test_a_deterministic_actor_repeats_itself_and_a_stochastic_one_does_not(self):
    environment = make_environment()
    timestep = environment.reset()

    def first_action(actor):
      actor.observe_first(timestep)  # A recurrent policy begins anew.
      return actor.select_action(timestep.observation)

    with self.agent(environment) as agent:
      calm, wild, weighted = (
        agent.make_evaluation_actor(policies.PolicyChoice(kind), seed=1)
        for kind in ("mean", "raw", "boltzmann")
      )
      np.testing.assert_array_equal(*(first_action(calm) for _ in range(2)))
      for actor in (wild, weighted):
        assert not np.array_equal(*(first_action(actor) for _ in range(2)))

  def test_the_seed_decides_initial_weights_and_first_actions(self):
    def start(seed):
      environment = make_environment()
      with self.agent(environment, seed=seed) as agent:
        return weights(agent), act(agent, environment, 5, learn=False)[0]

    (one, one_actions), (same, same_actions), (other, other_actions) = map(start, (1, 1, 2))
    assert equal(one, same) and not equal(one, other)
    np.testing.assert_array_equal(one_actions, same_actions)
    assert not np.array_equal(one_actions, other_actions)

  def test_a_resumed_agent_equals_the_one_that_was_saved(self, tmp_path):
    environment = make_environment()
    checkpointer = checkpointing.Checkpointer(str(tmp_path))
    with self.agent(environment, seed=1) as agent:
      act(agent, environment, _STEPS)
      sizes = agent.replay_sizes()
      path = checkpointer.save(
        _STEPS, agent.checkpointables(), agent.state(), extra=agent.save_replay
      )
      saved, state, steps = weights(agent), agent.state(), agent.learner.num_steps
      policy = agent.make_evaluation_actor(policies.PolicyChoice(), seed=5)
      observation = environment.reset().observation
      action = policy.select_action(observation)
    with self.agent(environment, seed=2, replay_checkpoint=path) as resumed:
      assert not equal(saved, weights(resumed))
      resumed.load_state(checkpointer.restore(path, resumed.checkpointables()))
      assert equal(saved, weights(resumed))
      assert resumed.state() == state and resumed.learner.num_steps == steps
      policy = resumed.make_evaluation_actor(policies.PolicyChoice(), seed=5)
      np.testing.assert_array_equal(policy.select_action(observation), action)
      act(resumed, environment, 10)
      # Learning goes on from the experience that was saved, without a new minimum to be waited for.
      assert resumed.learner.num_steps > steps
      assert not equal(saved, weights(resumed))
      assert all(resumed.replay_sizes()[name] > number > 0 for name, number in sizes.items())

  @pytest.mark.parametrize("terminate", [False, True], ids=["truncation", "termination"])
  def test_rewards_and_discounts_are_stored_as_they_were(self, terminate):
    environment = make_environment(reward_dtype=np.int64, episode_length=3, terminate=terminate)
    with self.agent(environment) as agent:
      _, timesteps = act(agent, environment, 6, learn=False)
      agent.flush()
      dataset = agent.builder.make_dataset(agent._replay.client, in_process=True)
      pairs = set()
      for sample in dataset.take(30):
        data = sample.data
        assert data.reward.dtype == data.discount.dtype == np.float32
        rewards, discounts = (np.ravel(x.numpy()) for x in (data.reward, data.discount))
        pairs |= set(zip(rewards.tolist(), discounts.tolist()))
    # A sequence also has rows of zeros where an episode ends.
    stored = {(float(t.reward), float(t.discount)) for t in timesteps}
    assert stored <= pairs <= stored | {(0.0, 0.0)}
    assert {t.discount for t in timesteps if t.last()} == {0.0 if terminate else 1.0}

  def test_every_table_has_a_signature_and_a_memory_estimate(self):
    environment = make_environment("pixels and vector", "matrix")
    spec = acme.make_environment_spec(environment)
    for in_process in (True, False):
      for table in self.make_builder().make_replay_tables(spec, in_process=in_process):
        signature = table.info.signature
        assert signature is not None
        # At least a picture, a speed, an action, a reward and a discount are counted.
        assert replay_tables.estimate_bytes(signature, 1) >= 16 * 16 * 3 + 4 * (2 + 6 + 1 + 1)

  @pytest.mark.parametrize(
    "change,message",
    [
      (dict(actions=specs.BoundedArray((2,), np.float32, -np.inf, 1.0)), "finite"),
      (dict(actions=specs.Array((2,), np.float32)), "bound|Bound"),
      (dict(actions=specs.BoundedArray((2,), np.float64, -1, 1)), "float64.*environments.wrap"),
      (dict(actions=specs.DiscreteArray(3)), "continuous"),
      (
        dict(
          actions={"a": specs.BoundedArray((2,), np.float32, -1, 1)}
          | {"b": specs.Array((), np.float32)}
        ),
        "one",
      ),
      (dict(rewards=specs.Array((2,), np.float32)), "rewards.*scalar"),
      (dict(observations={"x": specs.StringArray(())}), "x"),
    ],
    ids=["infinite", "unbounded", "float64", "discrete", "nested", "rewards", "text"],
  )
  def test_specs_that_it_cannot_learn_from_are_refused(self, change, message):
    spec = acme.make_environment_spec(make_environment())._replace(**change)
    with pytest.raises(ValueError, match=message):
      local.LocalAgent(self.make_builder(), spec)

  def test_metrics_tell_losses_rates_and_the_age_of_samples(self):
    environment = make_environment()
    with self.agent(environment) as agent:
      assert agent.metrics() == {}
      act(agent, environment, _STEPS)
      metrics = agent.metrics()
      assert any(name.endswith("loss") for name in metrics)
      assert 0 <= metrics["sample_age"] <= agent.learner.num_steps
      assert metrics["learner_steps_per_second"] > 0 and agent.learning_seconds > 0
