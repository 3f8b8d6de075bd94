"""An actor whose policy, sampling and extras are one compiled function."""

from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple, Optional

from acme import adders
from acme import core
from acme import specs
from acme import types
from acme.tf import variable_utils
import dm_env
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.utils import distributions


class Extra(NamedTuple):
  """What an actor stores beside each action.

  Attributes:
    spec: shape and dtype of one step's value.
    compute: maps the policy's distribution and the action, both with a batch axis, to the value; it
      is compiled with the policy. None for the policy's version, which the actor itself knows.
  """

  spec: specs.Array
  compute: Optional[Callable[[tfp.distributions.Distribution, tf.Tensor], tf.Tensor]] = None


Extras = Mapping[str, Extra]


def extras_spec(extras: Extras) -> dict[str, specs.Array]:
  """Returns the specs of extras by name, for a table's signature."""
  return {name: extra.spec for name, extra in extras.items()}


class Actor(core.Actor):
  """Acts with a policy network that maps observations to a distribution over actions.

  The draws depend on the seed and on how many actions were taken, on nothing else.
  """

  def __init__(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_client: Optional[variable_utils.VariableClient] = None,
    *,
    deterministic: bool = False,
    seed: int = 0,
    extras: Optional[Extras] = None,
    policy_version: Callable[[], int] = lambda: 0,
  ):
    """Initialises the actor.

    Args:
      policy_network: maps a batch of observations to a distribution with `sample` or, when
        deterministic, `mean`.
      adder: where experience goes; None keeps none.
      variable_client: fetches the policy's variables, when they are not shared with the learner.
      deterministic: whether to take the distribution's mean instead of a sample.
      seed: seed of the samples.
      extras: what to store with each action.
      policy_version: returns the learner step whose policy acts; stored by the extra without
        `compute`.
    """
    self._policy = policy_network
    self._adder = adder
    self._variable_client = variable_client
    self._deterministic = deterministic
    self._seed = np.int32(seed % (2**31))
    self._num_actions = 0
    extras = extras or {}
    self._compiled_extras = {n: e.compute for n, e in extras.items() if e.compute is not None}
    self._version_extras = {n: e.spec.dtype for n, e in extras.items() if e.compute is None}
    self._policy_version = policy_version
    self._extras: dict[str, np.ndarray] = {}
    self._act: Optional[Callable[..., list[tf.Tensor]]] = None

  @property
  def deterministic(self) -> bool:
    """Whether the actor takes the mean of its policy's distribution."""
    return self._deterministic

  def select_action(self, observation: types.NestedArray) -> types.NestedArray:
    """Returns an action for one observation, both without a batch axis.

    Raises:
      ValueError: if the action has NaN or infinity; tells where to look.
    """
    leaves = [np.asarray(leaf) for leaf in tree.flatten(observation)]
    if self._act is None:
      self._act = self._compile(observation, leaves)
    seed = np.array([self._seed, self._num_actions % (2**31)], np.int32)
    self._num_actions += 1
    action, *extras = self._act(tf.constant(seed), *map(tf.constant, leaves))
    action = np.asarray(action.numpy())
    if not np.isfinite(action).all():
      raise ValueError(
        f"The policy's action {action} is not finite. Either the observation is not "
        f"({observation}), or the policy's variables are not: learning has diverged."
      )
    self._extras = {name: value.numpy() for name, value in zip(self._compiled_extras, extras)}
    return action

  def _compile(
    self, observation: types.NestedArray, leaves: Sequence[np.ndarray]
  ) -> Callable[..., list[tf.Tensor]]:
    def act(seed: tf.Tensor, *leaves: tf.Tensor) -> list[tf.Tensor]:
      batched = tree.unflatten_as(observation, [leaf[None] for leaf in leaves])
      distribution = self._policy(batched)
      if self._deterministic:
        action = distribution.mean()
      else:
        action = distributions.sample(distribution, (), seed)
      extras = [compute(distribution, action) for compute in self._compiled_extras.values()]
      return [x[0] for x in (action, *extras)]

    signature = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
    return tf.function(act, autograph=False).get_concrete_function(
      tf.TensorSpec([2], tf.int32), *signature
    )

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Stores the first observation of an episode."""
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

  def state(self) -> dict[str, int]:
    """Returns what decides the next draws, to be saved."""
    return {"num_actions": self._num_actions}

  def load_state(self, state: Mapping[str, int]) -> None:
    """Takes up the draws where `state` left them."""
    self._num_actions = int(state["num_actions"])
