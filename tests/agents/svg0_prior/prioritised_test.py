"""SVG0 with prioritised replay: weighted losses, and new priorities, in Reverb at last."""

import acme
import agent_contract
import learner_probes
import numpy as np
import pytest
import reverb
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents import local
from temper.agents import svg0_prior
from temper.utils import prioritised_replay

_CONFIG = prioritised_replay.PrioritisedReplay(
  importance_exponent=0.5, final_importance_exponent=1.0, anneal_steps=2, min_priority=0.25
)


# Made once, since their initial weights differ each time.
_NETWORKS = svg0_cases.make_networks(prior=False)


class _Writer:
  """Keeps what a learner writes."""

  max_priority = 1.0

  def __init__(self):
    self.written = []

  def write(self, keys, priorities):
    self.written.append((keys.tolist(), priorities))


def _with_info(sample, probability, table_size=8):
  size = len(probability)
  info = reverb.SampleInfo(
    key=np.arange(10, 10 + size, dtype=np.uint64),
    probability=np.array(probability, np.float64),
    table_size=np.full(size, table_size, np.int64),
    priority=np.ones(size),
    times_sampled=np.ones(size, np.int32),
  )
  return sample._replace(info=info)


def _rows(sample, rows, num_steps=svg0_cases.NUM_PAIRS + 1):
  """Takes some sequences' first steps out of a batch."""
  data = tf.nest.map_structure(lambda x: x[rows, :num_steps].copy(), sample.data)
  return reverb.ReplaySample(info=(), data=data)


def _learn(samples, config=_CONFIG, networks=None):
  """Does a step on each sample, which moves nothing unless networks are given.

  Returns:
    The metrics of each step, and what was written in each.
  """
  log, writer = learner_probes.Log(), _Writer()
  learner = svg0_cases.make_learner(
    networks or svg0_cases.copy_networks(_NETWORKS),
    iter(samples),
    optimizer=None if networks else (lambda: snt.optimizers.SGD(0.0)),
    log=log,
    prioritised_replay=config,
    priority_writer=writer,
  )
  for _ in samples:
    learner.step()
  return log.rows, writer.written


def test_each_sequence_weighs_what_its_probability_says():
  whole = svg0_cases.make_sample()
  # A batch of four times the same sequence has the loss of that sequence.
  alone, _ = _learn([_rows(whole, [i] * 4) for i in range(4)], config=None)
  losses = np.array([row["critic_loss"] for row in alone])
  # N P is 1, 4, 1/4 and 1, of which the least gives the largest weight.
  sample = _with_info(whole, [1 / 8, 1 / 2, 1 / 32, 1 / 8])
  rows, written = _learn([sample] * 3)
  # The exponent goes from a half to one in two steps.
  for row, exponent in zip(rows, (0.5, 0.75, 1.0)):
    weights = np.array([1 / 4, 1 / 16, 1, 1 / 4]) ** exponent
    np.testing.assert_allclose(row["critic_loss"], np.mean(weights * losses), rtol=1e-5)
    # The policy learns from all alike.
    np.testing.assert_allclose(
      row["policy_loss"], np.mean([other["policy_loss"] for other in alone]), rtol=1e-4
    )
  assert [keys for keys, _ in written] == [[10, 11, 12, 13]] * 3


def test_a_sequence_of_one_pair_has_the_priority_of_its_error():
  sample = _with_info(_rows(svg0_cases.make_sample(), [0], num_steps=2), [0.5])
  rows, ((_, priorities),) = _learn([sample])
  # The loss is half the squared error, its weight 1 in a batch of one.
  error = np.sqrt(2 * rows[0]["critic_loss"])
  np.testing.assert_allclose(priorities, [error + 0.25], rtol=1e-5)


def test_the_step_into_the_next_episode_does_not_count():
  samples = []
  for reward in (0.0, 1e6):
    sample = _rows(svg0_cases.make_sample(), [0], num_steps=3)
    sample.data.start_of_episode[:] = [[False, False, True]]
    sample.data.reward[0, 1] = reward  # Of the pair that leads into the next episode.
    samples.append(_with_info(sample, [0.5]))
  _, ((_, first), (_, second)) = _learn(samples)
  assert first == second > 0.25


def test_equal_probabilities_change_no_bit():
  samples = [_with_info(svg0_cases.make_sample(seed), [0.125] * 4) for seed in range(3)]
  plain, weighted = (svg0_cases.copy_networks(_NETWORKS) for _ in range(2))
  rows, written = _learn(samples, config=None, networks=plain)
  assert not written
  others, written = _learn(samples, networks=weighted)
  assert len(written) == 3
  for row, other in zip(rows, others):
    assert row["critic_loss"] == other["critic_loss"]
  before, after = svg0_cases.values(plain), svg0_cases.values(weighted)
  for (name, one), other in zip(before.items(), after.values()):
    np.testing.assert_array_equal(one, other, err_msg=name)


def test_what_prioritised_replay_needs_is_asked_for():
  with pytest.raises(ValueError, match="elements are of type Step; .*info has the probability"):
    svg0_cases.make_learner(
      _NETWORKS,
      svg0_cases.make_dataset().map(lambda sample: sample.data),
      prioritised_replay=_CONFIG,
    )
  builder = svg0_prior.SVG0Builder(svg0_prior.SVG0Config(prioritised_replay=_CONFIG))
  with pytest.raises(ValueError, match="replay_client is None"):
    builder.make_learner(svg0_cases.make_networks(), svg0_cases.make_dataset())


def test_an_agents_priorities_reach_replay_and_new_items_enter_at_the_largest():
  config = svg0_prior.SVG0Config(
    batch_size=4,
    sequence_length=3,
    samples_per_insert=4.0,
    min_replay_size=8,
    num_action_samples=2,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
    reward_scale=100.0,  # Errors far above 1, the priority of the first items.
    prioritised_replay=prioritised_replay.PrioritisedReplay(),
  )
  environment = agent_contract.make_environment()
  builder = svg0_prior.SVG0Builder(config)
  spec = acme.make_environment_spec(environment)
  with local.LocalAgent(builder, spec, logger=learner_probes.Log()) as agent:
    agent_contract.act(agent, environment, 60)
    largest = agent.learner.max_priority
    assert largest > 1
    agent_contract.act(agent, environment, 40, learn=False)
    agent.flush()
    dataset = builder.make_dataset(agent._replay.client, in_process=True)
    samples = [sample.info for sample in dataset.take(200)]
    priority = {
      key: value
      for info in samples
      for key, value in zip(info.key.numpy().tolist(), info.priority.numpy().tolist())
    }
    values = np.array(list(priority.values()))
    # Those that were added since the last update, about one each three steps.
    assert np.sum(np.isclose(values, largest)) >= 10
    assert np.sum((values != 1) & (values < 0.99 * largest)) >= 5
