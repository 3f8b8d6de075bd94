"""Tests of `temper.utils.variables`."""

import numpy as np
import pytest
import tensorflow as tf

from temper.utils import variables as variable_utils


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_targets_move_towards_their_sources_by_the_rate(dtype):
  sources = [tf.Variable(tf.constant([1.0, -2.0], dtype)), tf.Variable(tf.constant(4.0, dtype))]
  targets = [tf.Variable(tf.constant([3.0, 2.0], dtype)), tf.Variable(tf.constant(0.0, dtype))]
  move = tf.function(lambda: variable_utils.move_towards(sources, targets, 0.25), autograph=False)
  move()
  np.testing.assert_allclose(targets[0], [2.5, 1.0])
  np.testing.assert_allclose(targets[1], 1.0)
  move()
  np.testing.assert_allclose(targets[0], [2.125, 0.25])
  np.testing.assert_array_equal(sources[0], [1.0, -2.0])


def test_a_rate_of_one_copies():
  source, target = tf.Variable([1.0, -2.5]), tf.Variable([7.0, 7.0])
  variable_utils.move_towards([source], [target], 1.0)
  np.testing.assert_allclose(target, source)


def test_small_moves_of_many_add_up_to_the_exponential():
  source, target = tf.Variable(tf.ones([])), tf.Variable(tf.zeros([]))
  move = tf.function(
    lambda: variable_utils.move_towards([source], [target], 0.005), autograph=False
  )
  for _ in range(400):
    move()
  assert float(target) == pytest.approx(1 - 0.995**400, rel=1e-4)


def test_what_cannot_be_averaged_is_copied():
  # Such as the counter of a user's own network.
  source, target = tf.Variable(5), tf.Variable(2)
  flags = tf.Variable([True, False]), tf.Variable([False, False])
  variable_utils.move_towards([source, flags[0]], [target, flags[1]], 0.005)
  assert int(target) == 5
  np.testing.assert_array_equal(flags[1], [True, False])


def test_each_replica_moves_its_own_copy():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  with strategy.scope():
    source, target = tf.Variable(1.0), tf.Variable(0.0)
  tf.function(
    lambda: strategy.run(variable_utils.move_towards, args=([source], [target], 0.5)),
    autograph=False,
  )()
  copies = strategy.experimental_local_results(target)
  assert [float(copy) for copy in copies] == [0.5, 0.5]


def test_pairs_are_checked():
  one, two = tf.Variable([1.0], name="one"), tf.Variable([1.0, 2.0], name="two")
  with pytest.raises(ValueError, match="2 online and 1 target variables cannot be paired"):
    variable_utils.copy([one, two], [one])
  with pytest.raises(ValueError, match=r"one:0 has shape \(1,\), its target two:0 \(2,\)"):
    variable_utils.copy([one], [two])
