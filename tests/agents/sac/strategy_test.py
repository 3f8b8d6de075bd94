"""SAC under strategies: two replicas with half the batch each equal one with all of it."""

import functools

import numpy as np
import pytest
import sac_cases
import tensorflow as tf

from temper.agents import sac
from temper.utils.prioritised_replay import PrioritisedReplay
from temper.utils.temperature_config import TemperatureConfig
from temper.utils.temperature_config import TemperatureKind

_STEPS = 4


class _Replay:
  """A client that remembers the priorities that it is given."""

  server_address = "nowhere"

  def __init__(self):
    self.priorities = []

  def mutate_priorities(self, table, updates):
    self.priorities.append(updates)


def _run(variant, strategy=None, *, replay_client=None, **options):
  config = sac_cases.make_config(
    variant,
    **{
      "policy_update_period": 2,
      "max_critic_gradient_norm": 0.5,
      "temperature": TemperatureConfig(learning_rate=1e-2, initial_alpha=0.5),
      **options,
    },
  )
  with (strategy or tf.distribute.get_strategy()).scope():
    networks = sac.SACBuilder(config).make_networks(sac_cases.SPEC)
    # Replicas draw differently, as they must; here they are not to.
    networks.policy_network = sac_cases.FixedNoisePolicy(lambda x: x, (8,), (2,), seed=3)
    networks.init(sac_cases.SPEC)
  learner = sac_cases.make_learner(
    config,
    sac_cases.make_dataset(_STEPS),
    networks=networks,
    strategy=strategy,
    replay_client=replay_client,
  )
  start = sac_cases.values(learner)
  rows = sac_cases.steps(learner, _STEPS // config.updates_per_call)
  return learner, start, rows


@functools.cache
def _reference(variant):
  return _run(variant)


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_replicas_equal_one_device_with_the_whole_batch(variant):
  reference, start, rows = _reference(variant)
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  learner, replicated_start, replicated_rows = _run(variant, strategy)
  for name, value in start.items():
    np.testing.assert_array_equal(replicated_start[name], value, err_msg=name)
  for mine, other in zip(replicated_rows, rows):
    assert mine.keys() == other.keys()
    for name in mine.keys() - {"walltime"}:
      assert mine[name] == pytest.approx(other[name], rel=1e-5, abs=1e-5), name
  end, replicated_end = sac_cases.values(reference), sac_cases.values(learner)
  for name, value in end.items():
    np.testing.assert_allclose(replicated_end[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
  assert sac_cases.moved(start, end) >= {"policy", "critic", "temperature", "critic_optimizer"}
  for item in learner.checkpointables().values():
    for variable in getattr(item, "variables", [item]):
      copies = strategy.experimental_local_results(variable)
      assert len(copies) == 2
      np.testing.assert_array_equal(*copies)


def _assert_equal(learner, rows, reference, expected_rows):
  for mine, other in zip(rows, expected_rows):
    for name in mine.keys() - {"walltime"}:
      assert mine[name] == pytest.approx(other[name], rel=1e-5, abs=1e-5), name
  values = sac_cases.values(learner)
  for name, value in sac_cases.values(reference).items():
    np.testing.assert_allclose(values[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", [kind for kind in TemperatureKind if kind.value != "gradient"])
def test_replicas_hold_one_temperature_of_any_kind(kind):
  options = {"temperature": TemperatureConfig(kind=kind), "policy_update_period": 1}
  reference, _, rows = _run("twin_target", **options)
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  learner, _, replicated_rows = _run("twin_target", strategy, **options)
  _assert_equal(learner, replicated_rows, reference, rows)


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_replicas_weigh_and_rank_prioritised_samples_as_one_device_does(variant):
  options = {"prioritised_replay": PrioritisedReplay(anneal_steps=3)}
  clients = _Replay(), _Replay()
  reference, _, rows = _run(variant, replay_client=clients[0], **options)
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  learner, _, replicated_rows = _run(variant, strategy, replay_client=clients[1], **options)
  _assert_equal(learner, replicated_rows, reference, rows)
  for one in (reference, learner):
    one._priority_writer.flush()
  one, two = (client.priorities for client in clients)
  assert len(one) == len(two) == _STEPS
  for written, expected in zip(two, one):
    # Each replica's items, none of them twice.
    assert written.keys() == expected.keys() and len(written) == sac_cases.BATCH_SIZE
    for key, priority in expected.items():
      assert written[key] == pytest.approx(priority, rel=1e-5)


def test_several_updates_a_call_under_a_strategy():
  reference, _, _ = _reference("twin_target")
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  learner, _, _ = _run("twin_target", strategy, updates_per_call=_STEPS)
  assert learner.num_steps == _STEPS
  for name, value in sac_cases.values(reference).items():
    np.testing.assert_allclose(
      sac_cases.values(learner)[name], value, rtol=1e-5, atol=1e-5, err_msg=name
    )


def test_replicas_draw_apart():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  config = sac_cases.make_config("twin_target")
  with strategy.scope():
    networks = sac.SACBuilder(config).make_networks(sac_cases.SPEC)
  half = sac_cases.make_sample(batch_size=2)
  twice = tf.nest.map_structure(lambda x: np.concatenate([x, x]), half)
  learner = sac_cases.make_learner(
    config, sac_cases.dataset_of([twice]), networks=networks, strategy=strategy
  )
  alone = sac_cases.make_learner(
    config, iter([half]), networks=sac.SACBuilder(config).make_networks(sac_cases.SPEC)
  )
  for one in (learner, alone):
    one.step()
  # Equal halves, but other noise on the second: the mean is not that of the first alone.
  assert learner.metrics["entropy"] != pytest.approx(alone.metrics["entropy"], rel=1e-4)


def test_what_was_made_outside_of_the_strategy_is_refused():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  config = sac_cases.make_config("twin_target")
  with pytest.raises(ValueError, match="not made under the strategy"):
    sac_cases.make_learner(config, sac_cases.make_dataset(1), strategy=strategy)
