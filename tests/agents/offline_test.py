"""Tests of `temper.agents.offline`."""

from acme import specs
from acme.utils import counting
import numpy as np
import pytest
import tensorflow as tf

from temper.agents import crr
from temper.agents import learner as learner_lib
from temper.agents import offline
from temper.agents import policies
from temper.agents import svg0_prior
from temper.utils import environments
from temper.utils import evaluation
from temper.utils import fakes
from temper.utils import torsos
from temper.utils.datasets import episodes
from temper.utils.datasets import windows

_CONFIG = crr.CRRConfig(
  batch_size=8,
  sequence_length=4,
  lstm_size=None,
  policy_layer_sizes=(8,),
  critic_layer_sizes=(8,),
  target_update_period=3,
  vmin=-30.0,
  vmax=0.0,
)


def _environment():
  return environments.wrap(fakes.PointMass(seed=0))


def _episodes():
  random = np.random.default_rng(0)
  made = []
  for _ in range(4):
    observation = random.uniform(-1, 1, size=(11, 2)).astype(np.float32)
    made.append(
      episodes.Episode(
        observation=observation,
        action=random.uniform(-1, 1, size=(10, 2)).astype(np.float32),
        reward=-np.square(observation[1:]).sum(axis=1),
        discount=np.ones(10, np.float32),
      )
    )
  return episodes.InMemoryDataset(made, path="data.npz", format=episodes.DatasetFormat.NPZ)


def _batches(**options):
  return windows.make_windows(_episodes(), sequence_length=4, batch_size=8, **options)


def _agent(batches=None, **options):
  return offline.OfflineAgent(
    crr.CRRBuilder(_CONFIG),
    specs.make_environment_spec(_environment()),
    _batches() if batches is None else batches,
    **options,
  )


def _values(agent):
  return [v.numpy() for o in agent.checkpointables().values() for v in getattr(o, "variables", ())]


def _equal(one, other):
  return all(np.array_equal(a, b) for a, b in zip(_values(one), _values(other)))


def test_steps_learn_and_are_counted():
  counter = counting.Counter(prefix="learner")
  agent = _agent(counter=counter)
  before = _values(agent)
  assert agent.metrics() == {} and agent.learning_seconds == 0
  for _ in range(3):
    agent.step()
  assert agent.learner.num_steps == 3 and counter.get_counts()["learner_steps"] == 3
  assert {"critic_loss", "policy_loss"} <= set(agent.metrics())
  assert agent.learning_seconds > 0
  assert any(not np.array_equal(a, b) for a, b in zip(before, _values(agent)))


def test_the_seed_decides_everything():
  one, same, other = _agent(seed=1), _agent(seed=1), _agent(seed=2)
  assert _equal(one, same) and not _equal(one, other)
  for agent in (one, same):
    agent.step()
  assert _equal(one, same)


def test_a_restored_agent_goes_on_as_if_never_interrupted(tmp_path):
  whole, first = _agent(), _agent()
  for _ in range(5):
    whole.step()
  for _ in range(2):
    first.step()
  path = tf.train.Checkpoint(**first.checkpointables()).write(str(tmp_path / "saved"))
  second = _agent(_batches(start_step=2))
  tf.train.Checkpoint(**second.checkpointables()).read(path).assert_existing_objects_matched()
  second.load_state(first.state())
  assert second.learning_seconds == first.learning_seconds
  for _ in range(3):
    second.step()
  assert second.learner.num_steps == 5 and _equal(whole, second)


@pytest.mark.parametrize("kind", policies.PolicyKind)
def test_evaluation_actors_act_by_the_learners_networks(kind):
  agent, environment = _agent(), _environment()
  actor = agent.make_evaluation_actor(policies.PolicyChoice(kind), seed=3)
  observation = environment.reset().observation
  before = actor.select_action(observation)
  assert before.shape == (2,)
  for variable in agent.networks.policy_network.trainable_variables:
    variable.assign_add(0.5 * tf.ones_like(variable))
  actor.load_state({"num_actions": 0})
  assert not np.allclose(before, actor.select_action(observation))
  result = evaluation.evaluate(environment, actor, seeds=evaluation.start_seeds(2), kind=kind)
  assert len(result.returns) == 2 and agent.learner.num_steps == 0


def test_variables_are_served_by_network_name():
  agent = _agent()
  (policy,) = agent.get_variables(["policy"])
  assert len(policy) == len(agent.networks.policy_network.variables)


def test_statistics_reach_the_networks_and_networks_of_ones_own_are_used():
  statistics = torsos.ObservationStatistics(np.float32([1, 2]), np.float32([3, 4]))
  agent = _agent(observation_statistics=statistics)
  assert any(np.array_equal(v, [3, 4]) for v in agent.networks.policy_network.variables)
  own = agent.networks
  assert _agent(networks=own).networks is own
  with pytest.raises(ValueError, match="Both networks and observation_statistics"):
    _agent(networks=own, observation_statistics=statistics)


def test_a_dataset_that_ends_says_so():
  agent = _agent(_batches(repeat=False).take(1))
  agent.step()
  with pytest.raises(learner_lib.DataExhaustedError, match="learner step 2"):
    agent.step()


def test_data_without_what_an_agent_needs_is_refused():
  with pytest.raises(ValueError, match="log_prob"):
    offline.OfflineAgent(
      svg0_prior.SVG0Builder(svg0_prior.SVG0Config(policy_layer_sizes=(4,))),
      specs.make_environment_spec(_environment()),
      _batches(),
    )


def test_two_replicas_share_each_batch():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  agent = _agent(strategy=strategy)
  agent.step()
  assert agent.learner.strategy is strategy and agent.learner.num_steps == 1
