"""Tests of `temper.utils.learning_rate_decay`."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import learning_rate_decay
from temper.utils import optimizers


@pytest.mark.parametrize("make", [optimizers.Adam, snt.optimizers.Adam, snt.optimizers.SGD])
def test_the_rates_fall_in_a_line_to_a_tenth_and_stay(make):
  made = {"policy": make(0.1), "critic": make(0.4)}
  decay = learning_rate_decay.LinearDecay(made, 10)
  assert decay.active
  apply = tf.function(decay.apply, autograph=False)
  for updates, factor in ((0, 1.0), (1, 0.91), (5, 0.55), (10, 0.1), (20, 0.1), (0, 1.0)):
    assert float(apply(tf.constant(updates))) == pytest.approx(factor, rel=1e-6)
    assert float(made["policy"].learning_rate) == pytest.approx(0.1 * factor, rel=1e-6)
    assert float(made["critic"].learning_rate) == pytest.approx(0.4 * factor, rel=1e-6)


def test_the_optimizer_steps_by_the_newest_rate():
  optimizer, weight = snt.optimizers.SGD(1.0), tf.Variable(0.0)
  decay = learning_rate_decay.LinearDecay({"critic": optimizer}, 2)

  @tf.function(autograph=False)
  def step(updates):
    decay.apply(updates)
    optimizer.apply([tf.constant(-1.0)], [weight])

  seen = []
  for updates in range(4):
    step(tf.constant(updates))
    seen.append(float(weight))
  # Rates of 1, 0.55, 0.1 and 0.1.
  np.testing.assert_allclose(seen, [1.0, 1.55, 1.65, 1.75], rtol=1e-6)


def test_without_a_period_optimizers_stay_as_they_are():
  optimizer = optimizers.Adam(tf.Variable(0.1))
  before = optimizer.learning_rate
  decay = learning_rate_decay.LinearDecay({"critic": optimizer}, None)
  assert not decay.active and float(decay.apply(tf.constant(5))) == 1.0
  assert optimizer.learning_rate is before


def test_a_checkpoint_of_an_optimizer_holds_its_rate(tmp_path):
  def make():
    optimizer = optimizers.Adam(0.1)
    return optimizer, learning_rate_decay.LinearDecay({"critic": optimizer}, 10)

  optimizer, decay = make()
  decay.apply(tf.constant(10))
  path = tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "checkpoint"))
  restored, _ = make()
  tf.train.Checkpoint(optimizer=restored).restore(path).assert_consumed()
  assert float(restored.learning_rate) == pytest.approx(0.01, rel=1e-6)


def test_a_rate_that_somebody_else_changes_is_refused():
  optimizer = optimizers.Adam(tf.Variable(0.1))
  with pytest.raises(ValueError, match="rate of the critic's optimizer is <tf.Variable.*a number"):
    learning_rate_decay.LinearDecay({"critic": optimizer}, 10)
  with pytest.raises(ValueError, match="learning_rate_decay_period is 0"):
    learning_rate_decay.LinearDecay({"critic": optimizers.Adam(0.1)}, 0)
