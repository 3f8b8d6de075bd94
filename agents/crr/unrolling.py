"""Networks over whole sequences: what the losses need of them, for any kind of recurrent network.

A network that tells its parts, `encode`, `core` and `head`, is applied to all steps at once except
for its core. Any other `snt.RNNCore`, such as Acme's `CriticDeepRNN`, is called step by step, so
that its graph grows with the length of a sequence.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from acme import types
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import distributions
from temper.utils import entropy_target
from temper.utils import recurrent

# Rows of one evaluation of sampled actions. Larger ones leave the processor's cache.
_BLOCK_ROWS = 1024


class PolicyUnroll:
  """Distributions over actions at each step of a batch of sequences."""

  def __init__(self, per_call: Sequence[Any], length: int, final_state: types.NestedTensor):
    """Initialises it.

    Args:
      per_call: one distribution of batch shape `[T * B]`, or T of batch shape `[B]`.
      length: T.
      final_state: nest of `[B, ...]`, state after the last step.
    """
    self._per_call = per_call
    self._steps_per_call = length // len(per_call)
    self.final_state = final_state

  def log_prob(self, actions: tf.Tensor) -> tf.Tensor:
    """Returns the log density of actions `[T, B, *A]`, `[T, B]`."""
    parts = []
    for i, distribution in enumerate(self._per_call):
      rows = actions[i * self._steps_per_call : (i + 1) * self._steps_per_call]
      log_prob = distribution.log_prob(_merge(rows))
      if log_prob.shape.rank != 1:
        raise ValueError(
          f"The policy's log_prob has shape {log_prob.shape} for a batch of actions; one number "
          "per action, rank 1, is needed. Make the action's axes one event, such as "
          "tfd.Independent(tfd.Normal(mean, scale), 1)."
        )
      parts.append(tf.reshape(log_prob, tf.shape(rows)[:2]))
    return tf.concat(parts, axis=0)

  def sample(self, num_samples: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws `[S, T * B, *A]`, without a gradient; int32 `[2]` is the seed of all draws."""
    parts = [
      distributions.sample(distribution, num_samples, _seed_of_step(seed, i))
      for i, distribution in enumerate(self._per_call)
    ]
    return tf.stop_gradient(tf.concat(parts, axis=1))

  def entropies(self, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the entropies, `[T * B]`, nats, and what to differentiate in their place, `[T * B]`.

    int32 `[2]` is the seed of all draws; see `entropy_target.entropy_with_fallback`.
    """
    pairs = [
      entropy_target.entropy_with_fallback(distribution, _seed_of_step(seed, i))
      for i, distribution in enumerate(self._per_call)
    ]
    entropy, for_gradient = (tf.concat(parts, axis=0) for parts in zip(*pairs))
    return entropy, for_gradient


def _seed_of_step(seed: tf.Tensor, step: int) -> tf.Tensor:
  # A stride that no step count reaches keeps the steps' draws apart.
  return seed + tf.constant([0, 1_000_000_007 * step % 2**31], seed.dtype) if step else seed


class CriticUnroll(NamedTuple):
  """Distributions over returns at each step of a batch of sequences.

  Attributes:
    logits: `[T, B, K]`.
    atoms: `[K]`.
    states_before: nest of `[T, B, ...]`, the states that the steps began with.
    final_state: nest of `[B, ...]`, state after the last step.
  """

  logits: tf.Tensor
  atoms: tf.Tensor
  states_before: types.NestedTensor
  final_state: types.NestedTensor


def unroll_policy(
  policy: snt.RNNCore,
  observations: types.NestedTensor,
  state: types.NestedTensor,
  reset: tf.Tensor,
) -> PolicyUnroll:
  """Evaluates a policy at each step.

  Args:
    policy: maps observations and a state to a distribution and the next state.
    observations: nest of `[T, B, ...]`, T known.
    state: state before the first step.
    reset: bool `[T, B]`, whether a step begins with the initial state.
  """
  if _tells_its_parts(policy):
    unrolled = _unroll_core(policy, (observations,), state, reset)
    head = policy.head(_merge(unrolled.outputs))
    return PolicyUnroll([head], reset.shape[0], unrolled.final_state)
  outputs, _, state = _step_by_step(policy, (observations,), state, reset)
  return PolicyUnroll(outputs, reset.shape[0], state)


def unroll_critic(
  critic: snt.RNNCore,
  observations: types.NestedTensor,
  actions: tf.Tensor,
  state: types.NestedTensor,
  reset: tf.Tensor,
) -> CriticUnroll:
  """Evaluates a critic at each step.

  Args:
    critic: maps observations, actions and a state to a distribution over returns and the next
      state.
    observations: nest of `[T, B, ...]`, T known.
    actions: `[T, B, *A]`.
    state: state before the first step.
    reset: bool `[T, B]`, whether a step begins with the initial state.
  """
  if _tells_its_parts(critic):
    unrolled = _unroll_core(critic, (observations, actions), state, reset)
    returns = critic.head(_merge(unrolled.outputs))
    logits = _split(returns.logits, reset)
    return CriticUnroll(logits, returns.values, unrolled.states_before, unrolled.final_state)
  outputs, before, state = _step_by_step(critic, (observations, actions), state, reset)
  logits = tf.stack([returns.logits for returns in outputs])
  return CriticUnroll(logits, outputs[0].values, before, state)


def states_of_critic(
  critic: snt.RNNCore,
  observations: types.NestedTensor,
  actions: tf.Tensor,
  state: types.NestedTensor,
  reset: tf.Tensor,
) -> types.NestedTensor:
  """Returns the states before each step, nest of `[T, B, ...]`; the last step is not taken.

  The arguments are those of `unroll_critic`.
  """
  taken = reset.shape[0] - 1
  cut = lambda nest: tree.map_structure(lambda x: x[:taken], nest)
  before: types.NestedTensor
  if not taken:
    return _with_time_axis(recurrent.reset_states(state, reset[0]))
  if _tells_its_parts(critic):
    unrolled = _unroll_core(critic, cut((observations, actions)), state, cut(reset))
    before, state = unrolled.states_before, unrolled.final_state
  else:
    _, before, state = _step_by_step(critic, cut((observations, actions)), state, cut(reset))
  last = _with_time_axis(recurrent.reset_states(state, reset[-1]))
  return tree.map_structure(lambda x, y: tf.concat([x, y], axis=0), before, last)


def logits_of_samples(
  critic: snt.RNNCore,
  observations: types.NestedTensor,
  actions: tf.Tensor,
  states: types.NestedTensor,
) -> tf.Tensor:
  """Evaluates a critic at several actions for each step.

  Args:
    critic: as in `unroll_critic`.
    observations: nest of `[T, B, ...]`.
    actions: `[S, T * B, *A]`, S known.
    states: nest of `[T, B, ...]`, states before the steps.

  Returns:
    `[S, T * B, K]`.
  """
  observations, states = tree.map_structure(_merge, (observations, states))
  num_samples, num_rows = actions.shape[0], actions.shape[1]
  per_block = num_samples if num_rows is None else max(1, _BLOCK_ROWS // num_rows)
  evaluate = _evaluation_at(critic, observations, states)
  blocks = [evaluate(actions[i : i + per_block]) for i in range(0, num_samples, per_block)]
  logits = tf.concat(blocks, axis=0) if len(blocks) > 1 else blocks[0]
  return tf.reshape(logits, [num_samples, -1, logits.shape[-1]])


def _evaluation_at(
  critic: snt.RNNCore, observations: types.NestedTensor, states: types.NestedTensor
) -> Callable[[tf.Tensor], tf.Tensor]:
  """Returns the function from actions `[K, N, *A]` to logits `[K * N, ...]` at N observations."""
  if hasattr(critic, "given"):
    given = critic.given(observations, states)
    return lambda actions: given(actions)[0].logits

  def evaluate(actions: tf.Tensor) -> tf.Tensor:
    tile = lambda x: tf.tile(x, [actions.shape[0]] + [1] * (x.shape.rank - 1))
    tiled = tree.map_structure(tile, (observations, states))
    return critic(tiled[0], _merge(actions), tiled[1])[0].logits

  return evaluate


def _tells_its_parts(network: snt.RNNCore) -> bool:
  return all(hasattr(network, part) for part in ("encode", "core", "head"))


def _unroll_core(
  network: Any, inputs: tuple[types.NestedTensor, ...], state: types.NestedTensor, reset: tf.Tensor
) -> recurrent.Unroll:
  encoded = network.encode(*tree.map_structure(_merge, inputs))
  return recurrent.unroll(network.core, _split(encoded, reset), state, reset)


def _step_by_step(
  network: snt.RNNCore,
  inputs: tuple[types.NestedTensor, ...],
  state: types.NestedTensor,
  reset: tf.Tensor,
) -> tuple[list[Any], types.NestedTensor, types.NestedTensor]:
  """Returns the outputs of each step, the stacked states before them, and the final state."""
  outputs, before = [], []
  for t in range(reset.shape[0]):
    state = recurrent.reset_states(state, reset[t])
    before.append(tree.map_structure(tf.stop_gradient, state))
    output, state = network(*tree.map_structure(lambda x, t=t: x[t], inputs), state)
    outputs.append(output)
  stacked = tree.map_structure(lambda *steps: tf.stack(steps), *before)
  return outputs, stacked, tree.map_structure(tf.stop_gradient, state)


def _merge(x: tf.Tensor) -> tf.Tensor:
  """`[T, B, ...]` to `[T * B, ...]`."""
  known: Optional[int] = None if None in x.shape[:2] else x.shape[0] * x.shape[1]
  merged = tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], axis=0))
  return tf.ensure_shape(merged, [known, *x.shape[2:]])


def _split(x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
  """`[T * B, F]` to `[T, B, F]`, T and B those of another tensor."""
  split = tf.reshape(x, tf.concat([tf.shape(like)[:2], [x.shape[-1]]], axis=0))
  return tf.ensure_shape(split, [*like.shape[:2], x.shape[-1]])


def _with_time_axis(nest: types.NestedTensor) -> types.NestedTensor:
  return tree.map_structure(lambda x: x[None], nest)
