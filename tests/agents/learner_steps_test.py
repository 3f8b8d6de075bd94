"""Tests of `temper.agents.learner_steps`: phases, several updates a call, keys and priorities."""

import learner_probes
import numpy as np
import pytest
import tensorflow as tf

from temper.agents import learner_steps


def _dataset(count):
  """Batches of two, whose numbers tell which they are."""
  index = np.arange(2 * count).reshape(count, 2)
  batches = {"x": index.astype(np.float32), "place": index}
  return tf.data.Dataset.from_tensor_slices(batches).with_options(learner_probes.untuned())


class Steps:
  """Compiled steps whose updates make a chain of their batches, which shows their order."""

  def __init__(self, dataset, *, strategy=None, **options):
    self.traces = []
    self.chain = tf.Variable(0.0, trainable=False)
    strategy = strategy or tf.distribute.get_strategy()
    self.steps = learner_steps.CompiledSteps(self._update, dataset, strategy, **options)
    self.num_updates = 0
    self.at_once = options.get("updates_per_call", 1)

  def _update(self, batch, phase):
    self.traces.append(phase)
    # Which is not the same in another order.
    chain = 0.5 * self.chain.read_value() + tf.reduce_sum(batch["x"]) * (phase + 1)
    self.chain.assign(chain)
    metrics = {"first": batch["x"][0], "chain": chain}
    if phase == 1:
      metrics["second_phase"] = batch["x"][1]
    return learner_steps.Update(metrics)

  def __call__(self):
    result = self.steps(self.num_updates)
    self.num_updates += self.at_once
    return result


def _expected(count, num_phases):
  chain, history = 0.0, []
  for k in range(count):
    chain = 0.5 * chain + (4 * k + 1) * (k % num_phases + 1)
    history.append(chain)
  return history


def test_each_phase_is_compiled_once_and_comes_in_turn():
  steps = Steps(_dataset(7), num_phases=3)
  results = [steps() for _ in range(7)]
  assert steps.traces == [0, 1, 2]
  expected = _expected(7, 3)
  for k, result in enumerate(results):
    assert result.metrics["first"] == 2 * k
    assert result.metrics["chain"] == pytest.approx(expected[k])
    assert ("second_phase" in result.metrics) == (k % 3 == 1)
    np.testing.assert_array_equal(result.batch["x"], [2 * k, 2 * k + 1])
    assert set(result.batch) == {"x"}  # Integers cannot be infinite.


def test_a_count_from_a_checkpoint_decides_the_phase():
  steps = Steps(_dataset(2), num_phases=3)
  steps.num_updates = 7
  steps()
  assert steps.traces == [1]


@pytest.mark.parametrize("num_phases,at_once", [(1, 2), (1, 6), (2, 2), (2, 6), (3, 6)])
def test_several_updates_a_call_are_those_of_single_calls(num_phases, at_once):
  steps = Steps(_dataset(12), num_phases=num_phases, updates_per_call=at_once)
  expected = _expected(12, num_phases)
  for call in range(12 // at_once):
    result = steps()
    numbers = np.arange(call * at_once, (call + 1) * at_once)
    assert float(steps.chain) == pytest.approx(expected[numbers[-1]])
    assert result.metrics["first"] == pytest.approx(np.mean(2 * numbers))
    assert result.metrics["chain"] == pytest.approx(np.mean([expected[k] for k in numbers]))
    if num_phases > 1:
      told = [2 * k + 1 for k in numbers if k % num_phases == 1]
      assert result.metrics["second_phase"] == pytest.approx(np.mean(told))
    np.testing.assert_array_equal(result.batch["x"], [2 * numbers[-1], 2 * numbers[-1] + 1])


def test_turns_are_counted_from_where_the_call_begins():
  # After one single update, say before a checkpoint, a call of two begins in the second phase.
  steps = Steps(_dataset(2), num_phases=2, updates_per_call=2)
  steps.num_updates = 1
  steps()
  assert steps.traces == [1, 0]
  assert float(steps.chain) == pytest.approx(0.5 * (1 * 2) + 5)


@pytest.mark.parametrize(
  "options,message",
  [
    (dict(num_phases=2, updates_per_call=3), "3 updates a call, .*turns of 2.*multiple of 2"),
    (dict(num_phases=3, updates_per_call=2), "2 updates a call, .*turns of 3"),
  ],
)
def test_a_call_that_ends_within_a_turn_is_refused(options, message):
  with pytest.raises(ValueError, match=message):
    Steps(_dataset(1), **options)


def test_several_updates_need_what_a_graph_can_advance():
  batches = (batch for batch in [{"x": np.zeros(2, np.float32)}])
  with pytest.raises(ValueError, match="2 updates a call need a tf.data.Dataset.*generator"):
    Steps(batches, updates_per_call=2)


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_end_of_the_data_is_told_and_changes_nothing(at_once):
  steps = Steps(_dataset(2), updates_per_call=at_once)
  for _ in range(2 // at_once):
    steps()
  before = float(steps.chain)
  for _ in range(2):
    with pytest.raises((StopIteration, tf.errors.OutOfRangeError, tf.errors.CancelledError)):
      steps()
  assert float(steps.chain) == before


def test_a_cancelled_call_ends():
  steps = Steps(_dataset(2))
  steps()
  steps.steps.cancel()
  with pytest.raises(tf.errors.CancelledError):
    steps()
