"""An actor for several environments at once, which stores nothing: one call acts in all of them."""

from collections.abc import Mapping
from typing import Any, Callable, Optional

from acme import core
from acme import types
import dm_env
import numpy as np
import tensorflow as tf
import tree

from temper.agents import actor as actor_lib
from temper.agents import policies


class BatchActor:
  """Acts by a policy, recurrent or not, on B observations at a time.

  Each row has a recurrent state of its own. The draws depend on the seed and on the number of calls
  before, as those of `temper.agents.actor.Actor` do.
  """

  def __init__(
    self,
    policy: policies.ActingPolicy,
    batch_size: int,
    *,
    seed: int = 0,
    extras: Optional[Mapping[str, actor_lib.ComputedExtra]] = None,
    warm_up: Optional[actor_lib.WarmUp] = None,
  ):
    """Initialises the actor.

    Args:
      policy: what acts.
      batch_size: B, the number of rows.
      seed: seed of the draws.
      extras: what to compute beside the actions, by name.
      warm_up: how the first actions are taken, counted over all rows; the call that takes the last
        of them takes all of its actions so. None: as the others.
    """
    self._policy = policy
    self._batch_size = batch_size
    self._warm_up = warm_up
    self._compute_extras = dict(extras or {})
    self._extras: dict[str, np.ndarray] = {}
    self._seed = np.int32(seed % (2**31))
    self._num_calls = 0
    self._state = [
      tf.Variable(leaf, trainable=False) for leaf in tree.flatten(policy.initial_state(batch_size))
    ]
    self._begins = np.ones([batch_size], bool)
    # By the policy that it acts by.
    self._act: dict[policies.ActingPolicy, Callable[..., Any]] = {}

  @property
  def choice(self) -> policies.PolicyChoice:
    """How the actor takes actions from its policy."""
    return self._policy.choice

  @property
  def batch_size(self) -> int:
    """B, the number of rows."""
    return self._batch_size

  @property
  def extras(self) -> dict[str, np.ndarray]:
    """The extras of the newest actions, `[B, ...]` by name."""
    return self._extras

  @property
  def num_calls(self) -> int:
    """Calls of `select_actions`, which decide the next draws."""
    return self._num_calls

  @num_calls.setter
  def num_calls(self, value: int) -> None:
    self._num_calls = value

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
    policy = self._policy
    if self._warm_up is not None:
      if self._num_calls * self._batch_size < self._warm_up.num_actions:
        policy = self._warm_up.policy
    if policy not in self._act:
      self._act[policy] = self._compile(policy, observations, leaves)
    seed = np.array([self._seed, self._num_calls % (2**31)], np.int32)
    self._num_calls += 1
    begins = tf.constant(self._begins.copy())  # A tensor may share the memory of its array.
    if policy is self._policy:  # A recurrent one begins after the warm-up.
      self._begins[:] = False
    try:
      actions, extras = self._act[policy](tf.constant(seed), begins, *map(tf.constant, leaves))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(f"The policy cannot choose actions. {_DIVERGED}") from error
    actions = tree.map_structure(lambda leaf: leaf.numpy(), actions)
    if not all(np.isfinite(leaf).all() for leaf in tree.flatten(actions)):
      raise ValueError(f"The policy's actions {actions} are not finite. {_DIVERGED}")
    self._extras = {name: x.numpy() for name, x in zip(self._compute_extras, extras)}
    return actions

  def _compile(
    self,
    policy: policies.ActingPolicy,
    observations: types.NestedArray,
    leaves: list[np.ndarray],
  ) -> Callable[..., Any]:
    """Compiles all that the actions take: seed, beginnings and observations in, actions out."""
    # A warm-up's policy has no state, and leaves the other's as it is.
    variables = self._state if policy is self._policy else []

    def act(
      seed: tf.Tensor, begins: tf.Tensor, *leaves: tf.Tensor
    ) -> tuple[types.NestedTensor, list[tf.Tensor]]:
      # In the graph, since an initial state may be learnt.
      initial_state = policy.initial_state(self._batch_size)
      rows = [
        tf.where(
          tf.reshape(begins, [-1] + [1] * (variable.shape.rank - 1)), initial, variable.read_value()
        )
        for initial, variable in zip(tree.flatten(initial_state), variables)
      ]
      state = tree.unflatten_as(initial_state, rows)
      acted = policy(tree.unflatten_as(observations, leaves), state, seed)
      for variable, leaf in zip(variables, tree.flatten(acted.next_state)):
        variable.assign(leaf)
      compute = self._compute_extras.values()
      return acted.action, [extra(acted.distribution, acted.action) for extra in compute]

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
