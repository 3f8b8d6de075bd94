"""An actor whose policy, choice of actions and extras are one compiled function."""

from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

from absl import logging
from acme import adders
from acme import core
from acme import specs
from acme import types
from acme.tf import variable_utils
import dm_env
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import policies
from temper.utils import variable_client as variable_client_lib

# Maps the distribution that the policy acted by and the action, both with a batch axis, to a value.
ComputedExtra = Callable[[tfp.distributions.Distribution, tf.Tensor], tf.Tensor]


class Extra(NamedTuple):
  """What an actor stores beside each action.

  Attributes:
    spec: shape and dtype of one step's value.
    compute: makes the value of a batch; it is compiled with the policy. None for the policy's
      version, which the actor itself knows.
  """

  spec: specs.Array
  compute: Optional[ComputedExtra] = None


class WarmUp(NamedTuple):
  """How an actor begins.

  Attributes:
    policy: takes the first actions; it has no state.
    num_actions: how many.
  """

  policy: policies.ActingPolicy
  num_actions: int


Extras = Mapping[str, Extra]

# Ours measures how old the variables are.
VariableClient = Union[variable_client_lib.VariableClient, variable_utils.VariableClient]


def extras_spec(extras: Extras) -> dict[str, specs.Array]:
  """Returns the specs of extras by name, for a table's signature."""
  return {name: extra.spec for name, extra in extras.items()}


class Actor(core.Actor):
  """Acts by a policy, recurrent or not, one observation at a time.

  The draws depend on the seed and on how many actions were taken, on nothing else. A recurrent
  policy's state is the initial one after `observe_first`, and is carried on by `select_action`.
  """

  def __init__(
    self,
    policy: policies.ActingPolicy,
    adder: Optional[adders.Adder] = None,
    variable_client: Optional[VariableClient] = None,
    *,
    seed: int = 0,
    extras: Optional[Extras] = None,
    policy_version: Callable[[], int] = lambda: 0,
    warm_up: Optional[WarmUp] = None,
  ):
    """Initialises the actor.

    Args:
      policy: what acts; `temper.agents.policies.PolicyChoice.make` makes it of networks.
      adder: where experience goes; None keeps none.
      variable_client: fetches the policy's variables, when they are not shared with the learner.
      seed: seed of the draws.
      extras: what to store with each action.
      policy_version: returns the learner step whose policy acts; stored by the extra without
        `compute`.
      warm_up: how the first actions are taken; None: as the others.
    """
    self._policy = policy
    self._warm_up = warm_up
    self._adder = adder
    self._variable_client = variable_client
    self._seed = np.int32(seed % (2**31))
    self._num_actions = 0
    extras = extras or {}
    self._compiled_extras = {n: e.compute for n, e in extras.items() if e.compute is not None}
    self._version_extras = {n: e.spec.dtype for n, e in extras.items() if e.compute is None}
    self._policy_version = policy_version
    self._extras: dict[str, np.ndarray] = {}
    # By the policy that it acts by.
    self._act: dict[policies.ActingPolicy, Callable[..., Any]] = {}
    # The leaves of the recurrent state, inside of what is compiled: each tensor that is passed in
    # and out costs as much as several operations. None until the first action.
    self._state: Optional[list[tf.Variable]] = None
    self._in_episode = False
    logging.info("An actor takes actions of the policy: %s.", policy.choice)

  @property
  def choice(self) -> policies.PolicyChoice:
    """How the actor takes actions from its policy."""
    return self._policy.choice

  @property
  def deterministic(self) -> bool:
    """Whether the actor takes the mean of its policy's distribution."""
    return self.choice.kind is policies.PolicyKind.MEAN

  def select_action(self, observation: types.NestedArray) -> types.NestedArray:
    """Returns an action for one observation, both without a batch axis.

    Raises:
      ValueError: if the action has NaN or infinity, or the critic's value of it; tells where to
        look.
    """
    leaves = [np.asarray(leaf) for leaf in tree.flatten(observation)]
    if not self._in_episode:
      self._set_state(self._initial_state())
    policy = self._policy
    if self._warm_up is not None and self._num_actions < self._warm_up.num_actions:
      policy = self._warm_up.policy
    if policy not in self._act:
      self._act[policy] = self._compile(policy, observation, leaves)
    seed = np.array([self._seed, self._num_actions % (2**31)], np.int32)
    self._num_actions += 1
    try:
      action, extras = self._act[policy](tf.constant(seed), *map(tf.constant, leaves))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(f"The policy cannot choose an action. {_diverged(observation)}") from error
    action = tree.map_structure(lambda x: np.asarray(x.numpy()), action)
    if not all(np.isfinite(leaf).all() for leaf in tree.flatten(action)):
      raise ValueError(f"The policy's action {action} is not finite. {_diverged(observation)}")
    self._extras = {name: value.numpy() for name, value in zip(self._compiled_extras, extras)}
    return action

  def _initial_state(self) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(x) for x in tree.flatten(self._policy.initial_state(1))]

  def _set_state(self, leaves: Sequence[tf.Tensor]) -> None:
    if self._state is None:
      self._state = [tf.Variable(leaf, trainable=False) for leaf in leaves]
    for variable, leaf in zip(self._state, leaves):
      variable.assign(leaf)
    self._in_episode = True

  def _compile(
    self,
    policy: policies.ActingPolicy,
    observation: types.NestedArray,
    leaves: Sequence[np.ndarray],
  ) -> Callable[..., Any]:
    """Compiles all that an action takes: seed and observation in, action and extras out."""
    structure = policy.initial_state(1)
    variables = self._state if self._state and policy is self._policy else []

    def act(seed: tf.Tensor, *leaves: tf.Tensor) -> tuple[Any, list[tf.Tensor]]:
      batched = tree.unflatten_as(observation, [leaf[None] for leaf in leaves])
      state = tree.unflatten_as(structure, [variable.read_value() for variable in variables])
      acted = policy(batched, state, seed)
      for variable, leaf in zip(variables, tree.flatten(acted.next_state)):
        variable.assign(leaf)
      first = lambda x: x[0]
      extras = [
        first(compute(acted.distribution, acted.action))
        for compute in self._compiled_extras.values()
      ]
      return tree.map_structure(first, acted.action), extras

    signature = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
    return tf.function(act, autograph=False).get_concrete_function(
      tf.TensorSpec([2], tf.int32), *signature
    )

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Begins an episode: resets the recurrent state and stores the first observation."""
    self._in_episode = False
    if self._adder:
      self._adder.add_first(timestep)

  def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    """Stores an action, what it led to, and the extras of the newest action that was selected."""
    if not self._adder:
      return
    extras = dict(self._extras)
    for name, dtype in self._version_extras.items():
      extras[name] = np.asarray(self._policy_version(), dtype)
    self._adder.add(action, next_timestep, extras)

  def update(self, wait: bool = False) -> None:
    """Fetches variables when it is time to, if they are not shared."""
    if self._variable_client:
      self._variable_client.update(wait)

  @property
  def policy_version(self) -> int:
    """The learner step whose policy acts."""
    return self._policy_version()

  def metrics(self) -> dict[str, float]:
    """Returns how old the policy's variables were since this was asked last, if that is known.

    See `temper.utils.variable_client.VariableClient.metrics`.
    """
    return variable_client_lib.metrics_of(self._variable_client)

  def state(self) -> dict[str, Any]:
    """Returns what decides the next draws, as JSON can represent it.

    In the middle of an episode that is the recurrent state too.
    """
    state: dict[str, Any] = {"num_actions": self._num_actions}
    if self._in_episode and self._state:
      state["recurrent_state"] = [leaf.numpy().tolist() for leaf in self._state]
    return state

  def load_state(self, state: Mapping[str, Any]) -> None:
    """Takes up the draws where `state` left them.

    Raises:
      ValueError: if the recurrent state is not of this policy.
    """
    self._num_actions = int(state["num_actions"])
    self._in_episode = False
    if "recurrent_state" not in state:
      return
    initial, saved = self._initial_state(), state["recurrent_state"]
    if len(saved) != len(initial):
      raise ValueError(f"{len(saved)} recurrent states were saved; the policy has {len(initial)}.")
    self._set_state([tf.constant(x, leaf.dtype, leaf.shape) for x, leaf in zip(saved, initial)])


def _diverged(observation: types.NestedArray) -> str:
  return (
    f"Either the observation is not finite ({observation}), or the variables of the policy or its "
    "critic are not: learning has diverged."
  )
