"""Tests of unrolled cores against Sonnet's LSTM, called step by step."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import recurrent

_LENGTH, _BATCH, _INPUTS, _HIDDEN = 5, 3, 4, 6


class _Wrapped(snt.RNNCore):
  """A core of a class of its own, so that the generic path takes it."""

  def __init__(self, core: snt.RNNCore):
    super().__init__(name="wrapped")
    self._core = core

  def __call__(self, inputs, prev_state):
    return self._core(inputs, prev_state)

  def initial_state(self, batch_size, **kwargs):
    return self._core.initial_state(batch_size, **kwargs)


def _normal(*shape, seed=0):
  return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def _state(rows=_BATCH):
  return snt.LSTMState(_normal(rows, _HIDDEN, seed=1), _normal(rows, _HIDDEN, seed=2))


def _cores(generic):
  """Returns the core to test and Sonnet's, which has the same weights."""
  ours, sonnets = recurrent.LSTM(_HIDDEN, seed=3), snt.LSTM(_HIDDEN)
  for core in (ours, sonnets):
    core(tf.zeros([1, _INPUTS]), core.initial_state(1))
  for x, y in zip(sonnets.trainable_variables, ours.trainable_variables):
    assert x.shape == y.shape
    y.assign(_normal(*y.shape, seed=4) * 0.5)
    x.assign(y)
  return (_Wrapped(ours) if generic else ours), sonnets


def _resets():
  reset = np.zeros([_LENGTH, _BATCH], bool)
  reset[0, 1] = reset[2, 0] = reset[4, 2] = True
  return tf.constant(reset)


def _by_hand(core, inputs, state, reset):
  outputs, before = [], []
  for t in range(_LENGTH):
    kept = 1.0 - tf.cast(reset[t], tf.float32)[:, None]
    state = tree.map_structure(lambda x, kept=kept: x * kept, state)
    before.append(state)
    output, state = core(inputs[t], state)
    outputs.append(output)
  return tf.stack(outputs), tree.map_structure(lambda *x: tf.stack(x), *before), state


def _assert_close(actual, desired):
  tree.map_structure(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), actual, desired
  )


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_unroll_is_sonnets_lstm_step_by_step(generic, compiled):
  ours, sonnets = _cores(generic)
  inputs, state, reset = _normal(_LENGTH, _BATCH, _INPUTS), _state(), _resets()
  weights = _normal(_LENGTH, _BATCH, _HIDDEN, seed=5)

  def ours_with_gradients():
    with tf.GradientTape() as tape:
      tape.watch(inputs)
      unrolled = recurrent.unroll(ours, inputs, state, reset)
      loss = tf.reduce_sum(weights * unrolled.outputs**2)
    return unrolled, tape.gradient(loss, [inputs, *ours.trainable_variables])

  call = tf.function(ours_with_gradients) if compiled else ours_with_gradients
  unrolled, gradients = call()
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    outputs, before, final_state = _by_hand(sonnets, inputs, state, reset)
    loss = tf.reduce_sum(weights * outputs**2)
  _assert_close(unrolled.outputs, outputs)
  _assert_close(tuple(unrolled.states_before), tuple(before))
  _assert_close(tuple(unrolled.final_state), tuple(final_state))
  _assert_close(gradients, tape.gradient(loss, [inputs, *sonnets.trainable_variables]))


@pytest.mark.parametrize("generic", [False, True])
def test_states_carry_no_gradient(generic):
  ours, _ = _cores(generic)
  inputs = _normal(_LENGTH, _BATCH, _INPUTS)
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    unrolled = recurrent.unroll(ours, inputs, _state(), _resets())
    states = tree.flatten((unrolled.states_before, unrolled.final_state))
    loss = tf.add_n([tf.reduce_sum(x) for x in states])
  assert tape.gradient(loss, inputs) is None


# One sample has fewer rows than the input weights, four have more: the product is split otherwise.
@pytest.mark.parametrize("num_samples", [1, 4])
@pytest.mark.parametrize("generic", [False, True])
def test_step_given_is_sonnets_step_of_each_sample(generic, num_samples):
  ours, sonnets = _cores(generic)
  state, inputs = _state(), _normal(num_samples * _BATCH, _INPUTS)
  output, after = recurrent.step_given(ours, state)(inputs)
  tiled = tree.map_structure(lambda x: tf.tile(x, [num_samples, 1]), state)
  desired_output, desired_after = sonnets(inputs, tiled)
  _assert_close(output, desired_output)
  _assert_close(tuple(after), tuple(desired_after))


def test_stateless_core_returns_its_inputs():
  inputs = _normal(_LENGTH, _BATCH, _INPUTS)
  unrolled = recurrent.unroll(recurrent.Stateless(), inputs, (), _resets())
  np.testing.assert_array_equal(unrolled.outputs, inputs)
  assert unrolled.states_before == () and unrolled.final_state == ()


def test_lstm_of_the_same_seed_has_the_same_weights():
  first, second, other = (recurrent.LSTM(_HIDDEN, seed=seed) for seed in (7, 7, 8))
  for core in (first, second, other):
    core(tf.zeros([1, _INPUTS]), core.initial_state(1))
  np.testing.assert_array_equal(first.input_to_hidden, second.input_to_hidden)
  assert not np.allclose(first.input_to_hidden, other.input_to_hidden)
