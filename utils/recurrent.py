"""Recurrent cores over whole sequences: states reset at episode starts, and are kept for each step.

Only a core needs the loop over time. What comes before and after it is applied once to all steps,
and so is the core's product with its inputs.
"""

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from acme import types
import numpy as np
import sonnet as snt
import tensorflow as tf
import tree


class Unroll(NamedTuple):
  """What a core made of a sequence.

  Attributes:
    outputs: `[T, B, F]`.
    states_before: nest of `[T, B, ...]`, the state that each step began with, after a reset; its
      gradient is stopped.
    final_state: nest of `[B, ...]`, the state after the last step; its gradient is stopped.
  """

  outputs: tf.Tensor
  states_before: types.NestedTensor
  final_state: types.NestedTensor


class Stateless(snt.RNNCore):
  """A core that returns its inputs: what makes a recurrent network a feed-forward one."""

  def __call__(self, inputs: tf.Tensor, prev_state: tuple[()]) -> tuple[tf.Tensor, tuple[()]]:
    """Returns the inputs and the empty state."""
    return inputs, prev_state

  def initial_state(self, batch_size: int, **unused: Any) -> tuple[()]:
    """Returns the empty state."""
    return ()


class LSTM(snt.LSTM):
  """Sonnet's LSTM with a seed, unrolled by a loop whose gradient is written out.

  The products with the inputs, and those that give the gradients of the weights, are each one
  product over all steps. The gradient of TensorFlow's own loop has one per step.
  """

  def __init__(self, hidden_size: int, *, seed: int, name: Optional[str] = None):
    """Initialises the core.

    Args:
      hidden_size: H, size of the hidden and of the cell state.
      seed: seed of the initial weights.
      name: module name.
    """
    input_seed, hidden_seed = np.random.SeedSequence(seed).generate_state(2)
    super().__init__(
      hidden_size,
      w_i_init=_scaled_to_inputs(int(input_seed)),
      w_h_init=_scaled_to_inputs(int(hidden_seed)),
      name=name,
    )

  def unroll(self, inputs: tf.Tensor, state: snt.LSTMState, reset: tf.Tensor) -> Unroll:
    """Applies the core to each step; see `unroll`."""
    self._initialize(inputs[0])
    batch_shape = tf.shape(inputs)[:2]
    gates = tf.reshape(inputs, [-1, inputs.shape[-1]]) @ self.input_to_hidden + self.b
    gates = tf.reshape(gates, tf.concat([batch_shape, [4 * self._hidden_size]], axis=0))
    keep = tf.where(reset, 0.0, 1.0)[..., None]  # [T, B, 1]
    hidden, cell = _unroll_lstm(gates, tf.convert_to_tensor(self.hidden_to_hidden), state, keep)
    after = snt.LSTMState(*map(tf.stop_gradient, (hidden, cell)))
    before = tree.map_structure(
      lambda first, x: tf.concat([first[None], x[:-1]], axis=0) * keep, state, after
    )
    return Unroll(hidden, before, tree.map_structure(lambda x: x[-1], after))

  def given(self, state: snt.LSTMState) -> Callable[[tf.Tensor], tuple[tf.Tensor, snt.LSTMState]]:
    """Does what depends on the state alone.

    Args:
      state: state of N rows, `[N, H]` each.

    Returns:
      A function that maps inputs `[K * N, D]`, K for each state, to outputs `[K * N, H]` and the
      next states.
    """
    hidden, cell = state
    of_state = tf.split(hidden @ self.hidden_to_hidden + self.b, 4, axis=1)
    num_rows, size = tf.shape(cell)[0], self._hidden_size

    def step(inputs: tf.Tensor) -> tuple[tf.Tensor, snt.LSTMState]:
      products = self._gates_of_inputs(inputs)
      gates = [
        tf.reshape(product, [-1, num_rows, size]) + given
        for product, given in zip(products, of_state)
      ]
      next_state = [tf.reshape(x, [-1, size]) for x in _advance(_activate(gates), cell)]
      return next_state[0], snt.LSTMState(*next_state)

    return step

  def _gates_of_inputs(self, inputs: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns the inputs' part of each gate; of weights and product the smaller one is split."""
    weights = self.input_to_hidden
    if inputs.shape[0] is not None and inputs.shape[0] < weights.shape[0]:
      return tf.split(inputs @ weights, 4, axis=1)
    return [inputs @ part for part in tf.split(weights, 4, axis=1)]


def unroll(
  core: snt.RNNCore, inputs: tf.Tensor, state: types.NestedTensor, reset: tf.Tensor
) -> Unroll:
  """Applies a core to each step of a sequence, from zeros wherever an episode starts.

  Args:
    core: its outputs are `[B, F]` floats, and its initial state is zeros.
    inputs: `[T, B, D]`.
    state: state before the first step; no gradient flows to it.
    reset: bool `[T, B]`, whether a step begins with the initial state.

  Returns:
    Outputs and states; gradients flow from the outputs to the inputs and the core's variables.
  """
  if isinstance(core, Stateless):
    return Unroll(inputs, (), ())
  if isinstance(core, LSTM):
    return core.unroll(inputs, state, reset)

  def step(carry: Any, step_inputs: tuple[tf.Tensor, tf.Tensor]) -> Any:
    x, starts = step_inputs
    before = reset_states(carry[2], starts)
    output, after = core(x, before)
    return output, before, after

  output, _ = core(inputs[0], state)
  outputs, before, after = tf.scan(step, (inputs, reset), (tf.zeros_like(output), state, state))
  stopped = tree.map_structure(tf.stop_gradient, (before, after))
  return Unroll(outputs, stopped[0], tree.map_structure(lambda x: x[-1], stopped[1]))


def step_given(
  core: snt.RNNCore, state: types.NestedTensor
) -> Callable[[tf.Tensor], tuple[tf.Tensor, types.NestedTensor]]:
  """Prepares one step from N states, to be taken with several inputs for each of them.

  Args:
    core: as for `unroll`.
    state: nest of `[N, ...]`.

  Returns:
    A function that maps inputs `[K * N, D]`, K for each state, to outputs and next states, whose
    rows are in the same order.
  """
  if isinstance(core, LSTM):
    return core.given(state)

  def step(inputs: tf.Tensor) -> tuple[tf.Tensor, types.NestedTensor]:
    def tile(x: tf.Tensor) -> tf.Tensor:
      times = tf.shape(inputs)[0] // tf.shape(x)[0]
      return tf.tile(x, [times] + [1] * (x.shape.rank - 1))

    return core(inputs, tree.map_structure(tile, state))

  return step


def reset_states(state: types.NestedTensor, reset: tf.Tensor) -> types.NestedTensor:
  """Replaces the states of rows that start an episode, bool `[B]`, by zeros."""

  def select(x: tf.Tensor) -> tf.Tensor:
    condition = tf.reshape(reset, [-1] + [1] * (x.shape.rank - 1))
    return tf.where(condition, tf.zeros_like(x), x)

  return tree.map_structure(select, state)


def _activate(gates: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
  """Input, forget, cell-update and output gate, Sonnet's order."""
  i, f, g, o = gates
  return tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)


def _advance(activations: Sequence[tf.Tensor], cell: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  i, f, g, o = activations
  next_cell = f * cell + i * g
  return o * tf.tanh(next_cell), next_cell


@tf.custom_gradient
def _unroll_lstm(
  gates: tf.Tensor, weights: tf.Tensor, state: snt.LSTMState, keep: tf.Tensor
) -> tuple[Any, Callable[..., Any]]:
  """Unrolls an LSTM from the part of its gates that comes from the inputs.

  Args:
    gates: `[T, B, 4 H]`, inputs times input weights plus bias.
    weights: `[H, 4 H]`, hidden-to-hidden weights.
    state: before the first step; its gradient is not computed.
    keep: `[T, B, 1]`, 0 where a step starts from zeros, else 1.

  Returns:
    Hidden and cell states `[T, B, H]` after each step, and the gradient of the hidden ones.
  """
  length = tf.shape(gates)[0]

  def forward(t: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, *arrays: Any) -> Any:
    kept = keep[t]
    activations = _activate(tf.split(gates[t] + (hidden * kept) @ weights, 4, axis=-1))
    hidden, cell = _advance(activations, cell * kept)
    rows = (hidden, cell, tf.concat(activations, axis=-1))
    return t + 1, hidden, cell, *(array.write(t, row) for array, row in zip(arrays, rows))

  _, _, _, *arrays = tf.while_loop(
    lambda t, *_: t < length,
    forward,
    (0, *state, *(tf.TensorArray(gates.dtype, length) for _ in range(3))),
    maximum_iterations=length,
  )
  hidden, cell, activations = (array.stack() for array in arrays)
  hidden, cell = (tf.ensure_shape(x, [*gates.shape[:2], weights.shape[0]]) for x in (hidden, cell))

  def gradient(d_hidden: tf.Tensor, d_cell: tf.Tensor) -> Any:
    del d_cell  # Stopped by the callers.
    before = [
      tf.concat([first[None], x[:-1]], axis=0) * keep for first, x in zip(state, (hidden, cell))
    ]
    d_gates = _lstm_gate_gradients(d_hidden, activations, before[1], cell, weights, keep)
    flat = lambda x: tf.reshape(x, [-1, x.shape[-1]])
    d_weights = tf.matmul(flat(before[0]), flat(d_gates), transpose_a=True)
    return d_gates, d_weights, snt.LSTMState(None, None), None

  return (hidden, cell), gradient


def _lstm_gate_gradients(
  d_hidden: tf.Tensor,
  activations: tf.Tensor,
  cell_before: tf.Tensor,
  cell: tf.Tensor,
  weights: tf.Tensor,
  keep: tf.Tensor,
) -> tf.Tensor:
  """Runs back through time; returns the gradient of the gates before activation, `[T, B, 4 H]`."""
  i, f, g, o = tf.split(activations, 4, axis=-1)
  tanh_cell = tf.tanh(cell)
  # What does not depend on later steps is computed for all steps at once: the derivative of the
  # cell by the hidden state, and of the gates by cell and by hidden state.
  by_hidden = o * (1 - tanh_cell * tanh_cell)
  by_cell = tf.concat([g * i * (1 - i), cell_before * f * (1 - f), i * (1 - g * g)], axis=-1)
  of_output = tanh_cell * o * (1 - o)
  forget = f * keep
  transposed = tf.transpose(weights)
  length = tf.shape(cell)[0]

  def backward(t: tf.Tensor, d_h: tf.Tensor, d_c: tf.Tensor, array: Any) -> Any:
    d_h += d_hidden[t]
    d_c += d_h * by_hidden[t]
    d_gates = tf.concat([tf.tile(d_c, [1, 3]) * by_cell[t], d_h * of_output[t]], axis=-1)
    return t - 1, (d_gates @ transposed) * keep[t], d_c * forget[t], array.write(t, d_gates)

  zeros = tf.zeros_like(cell[0])
  array = tf.TensorArray(cell.dtype, length)
  array = tf.while_loop(
    lambda t, *_: t >= 0,
    backward,
    (length - 1, zeros, zeros, array),
    maximum_iterations=length,
  )[3]
  return tf.ensure_shape(array.stack(), activations.shape)


def _scaled_to_inputs(seed: int) -> tf.keras.initializers.Initializer:
  """Initial weights of variance 1 / fan-in, as Sonnet's own, the same ones for the same seed."""
  return tf.keras.initializers.VarianceScaling(1.0, "fan_in", "truncated_normal", seed=seed)
