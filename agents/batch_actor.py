"""An actor for several environments at once, which stores nothing: one call acts in all of them."""

from typing import Any, Callable, Optional

from acme import core
from acme import types
import dm_env
import numpy as np
import tensorflow as tf
import tree

from temper.agents import policies


class BatchActor:
  """Acts by a policy, recurrent or not, on B observations at a time.

  Each row has a recurrent state of its own. The draws depend on the seed and on the number of calls
  before, as those of `temper.agents.actor.Actor` do.
  """

  def __init__(self, policy: policies.ActingPolicy, batch_size: int, *, seed: int = 0):
    """Initialises the actor.

    Args:
      policy: what acts.
      batch_size: B, the number of rows.
      seed: seed of the draws.
    """
    self._policy = policy
    self._seed = np.int32(seed % (2**31))
    self._num_calls = 0
    initial = policy.initial_state(batch_size)
    self._initial = [tf.convert_to_tensor(leaf) for leaf in tree.flatten(initial)]
    self._structure = initial
    self._state = [tf.Variable(leaf, trainable=False) for leaf in self._initial]
    self._begins = np.ones([batch_size], bool)
    self._act: Optional[Callable[..., Any]] = None

  @property
  def choice(self) -> policies.PolicyChoice:
    """How the actor takes actions from its policy."""
    return self._policy.choice

  def restart(self) -> None:
    """Begins an episode in each row, and the draws anew."""
    self._num_calls = 0
    self._begins[:] = True

  def begin(self, row: int) -> None:
    """Begins an episode in a row: its recurrent state becomes the initial one."""
    self._begins[row] = True

  def select_actions(self, observations: types.NestedArray) -> types.NestedArray:
    """Returns an action for each row, nest of `[B, ...]`.

    Args:
      observations: nest of `[B, ...]`, of the same shapes in each call.

    Raises:
      ValueError: if an action has NaN or infinity, or the critic's value of it.
    """
    leaves = [np.asarray(leaf) for leaf in tree.flatten(observations)]
    if self._act is None:
      self._act = self._compile(observations, leaves)
    seed = np.array([self._seed, self._num_calls % (2**31)], np.int32)
    self._num_calls += 1
    begins = tf.constant(self._begins.copy())  # A tensor may share the memory of its array.
    self._begins[:] = False
    try:
      actions = self._act(tf.constant(seed), begins, *map(tf.constant, leaves))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(f"The policy cannot choose actions. {_DIVERGED}") from error
    actions = tree.map_structure(lambda leaf: leaf.numpy(), actions)
    if not all(np.isfinite(leaf).all() for leaf in tree.flatten(actions)):
      raise ValueError(f"The policy's actions {actions} are not finite. {_DIVERGED}")
    return actions

  def _compile(
    self, observations: types.NestedArray, leaves: list[np.ndarray]
  ) -> Callable[..., Any]:
    """Compiles all that the actions take: seed, beginnings and observations in, actions out."""

    def act(seed: tf.Tensor, begins: tf.Tensor, *leaves: tf.Tensor) -> types.NestedTensor:
      rows = [
        tf.where(
          tf.reshape(begins, [-1] + [1] * (initial.shape.rank - 1)), initial, variable.read_value()
        )
        for initial, variable in zip(self._initial, self._state)
      ]
      state = tree.unflatten_as(self._structure, rows)
      acted = self._policy(tree.unflatten_as(observations, leaves), state, seed)
      for variable, leaf in zip(self._state, tree.flatten(acted.next_state)):
        variable.assign(leaf)
      return acted.action

    signature = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
    return tf.function(act, autograph=False).get_concrete_function(
      tf.TensorSpec([2], tf.int32), tf.TensorSpec(self._begins.shape, tf.bool), *signature
    )


class OneRow(core.Actor):
  """A batch actor of one row, or whatever acts like one, as an actor of one environment."""

  def __init__(self, batch_actor: Any):
    """Takes what has `begin` and `select_actions`."""
    self._actor = batch_actor

  def select_action(self, observation: types.NestedArray) -> types.NestedArray:
    """Returns an action for one observation."""
    batch = tree.map_structure(lambda leaf: np.asarray(leaf)[None], observation)
    return tree.map_structure(lambda leaf: leaf[0], self._actor.select_actions(batch))

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Begins an episode."""
    self._actor.begin(0)

  def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    """Stores nothing."""

  def update(self, wait: bool = False) -> None:
    """Learns nothing."""


_DIVERGED = (
  "Either an observation is not finite, or the variables of the policy or its critic are not: "
  "learning has diverged."
)
