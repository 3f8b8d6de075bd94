"""An actor of several environments: one call of the policy acts in all, each has its own adder."""

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from acme import adders as adders_lib
from acme import types
import dm_env
import numpy as np
import tree

from temper.agents import actor as actor_lib
from temper.agents import batch_actor
from temper.agents import policies
from temper.utils import variable_client as variable_client_lib


class VectorActor:
  """Acts in E environments at a time and stores what each of them returns.

  What it stores is what E actors of one environment each would store; the environments' episodes
  begin and end at different steps. The draws depend on the seed and the number of calls.
  """

  def __init__(
    self,
    policy: policies.ActingPolicy,
    adders: Sequence[adders_lib.Adder],
    variable_client: Optional[actor_lib.VariableClient] = None,
    *,
    seed: int = 0,
    extras: Optional[actor_lib.Extras] = None,
    policy_version: Callable[[], int] = lambda: 0,
    warm_up: Optional[actor_lib.WarmUp] = None,
  ):
    """Initialises the actor.

    Args:
      policy: what acts.
      adders: E of them, one for each environment.
      variable_client: fetches the policy's variables, when they are not shared with the learner.
      seed: seed of the draws.
      extras: what to store with each action.
      policy_version: returns the learner step whose policy acts; stored by the extra without
        `compute`.
      warm_up: how the first actions of all environments together are taken, rounded up to whole
        calls; None: as the others.

    Raises:
      ValueError: if there is no adder.
    """
    if not adders:
      raise ValueError(
        "adders is empty; each environment needs one, and there must be one at least."
      )
    extras = extras or {}
    self._adders = tuple(adders)
    self._variable_client = variable_client
    self._policy_version = policy_version
    self._version_extras = {n: e.spec.dtype for n, e in extras.items() if e.compute is None}
    self._actor = batch_actor.BatchActor(
      policy,
      len(adders),
      seed=seed,
      extras={n: e.compute for n, e in extras.items() if e.compute is not None},
      warm_up=warm_up,
    )

  @property
  def num_environments(self) -> int:
    """E, the number of environments."""
    return len(self._adders)

  @property
  def choice(self) -> policies.PolicyChoice:
    """How the actor takes actions from its policy."""
    return self._actor.choice

  def observe_first(self, row: int, timestep: dm_env.TimeStep) -> None:
    """Begins an episode in the environment of a row, and stores its first observation."""
    self._actor.begin(row)
    self._adders[row].add_first(timestep)

  def select_actions(self, observations: types.NestedArray) -> types.NestedArray:
    """Returns an action for each environment, nest of `[E, ...]`.

    Args:
      observations: nest of `[E, ...]`, of the same shapes in each call.

    Raises:
      ValueError: if an action has NaN or infinity, or the critic's value of it.
    """
    return self._actor.select_actions(observations)

  def observe(self, row: int, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    """Stores the newest action of a row, what it led to, and its extras."""
    extras = {name: values[row] for name, values in self._actor.extras.items()}
    for name, dtype in self._version_extras.items():
      extras[name] = np.asarray(self._policy_version(), dtype)
    self._adders[row].add(action, next_timestep, extras)

  def update(self, wait: bool = False) -> None:
    """Fetches variables when it is time to, if they are not shared; once for all environments."""
    if self._variable_client:
      self._variable_client.update(wait)

  @property
  def policy_version(self) -> int:
    """The learner step whose policy acts."""
    return self._policy_version()

  def metrics(self) -> dict[str, float]:
    """Returns how old the policy's variables were since this was asked last, if that is known."""
    return variable_client_lib.metrics_of(self._variable_client)

  def state(self) -> dict[str, Any]:
    """Returns what decides the draws of the next episodes, as JSON can represent it."""
    return {"num_actions": self._actor.num_calls * self.num_environments}

  def load_state(self, state: Mapping[str, Any]) -> None:
    """Takes up the draws where `state` left them, of any number of environments.

    Every environment is to begin an episode then.
    """
    # Rounded up, so that no draw comes twice.
    self._actor.num_calls = -(-int(state["num_actions"]) // self.num_environments)


class OneEnvironmentActor:
  """An actor of one environment as one of several, without the cost of a batch."""

  num_environments = 1

  def __init__(self, actor: actor_lib.Actor):
    """Takes the actor, which has its adder."""
    self._actor = actor

  @property
  def choice(self) -> policies.PolicyChoice:
    """How the actor takes actions from its policy."""
    return self._actor.choice

  def observe_first(self, row: int, timestep: dm_env.TimeStep) -> None:
    """Begins an episode, and stores its first observation."""
    del row
    self._actor.observe_first(timestep)

  def select_actions(self, observations: types.NestedArray) -> types.NestedArray:
    """Returns the action, nest of `[1, ...]`, as `VectorActor` does."""
    action = self._actor.select_action(tree.map_structure(lambda leaf: leaf[0], observations))
    return tree.map_structure(lambda leaf: leaf[None], action)

  def observe(self, row: int, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    """Stores the newest action, what it led to, and its extras."""
    del row
    self._actor.observe(action, next_timestep)

  def update(self, wait: bool = False) -> None:
    """Fetches variables when it is time to, if they are not shared."""
    self._actor.update(wait)

  @property
  def policy_version(self) -> int:
    """The learner step whose policy acts."""
    return self._actor.policy_version

  def metrics(self) -> dict[str, float]:
    """Returns how old the policy's variables were since this was asked last, if that is known."""
    return self._actor.metrics()

  def state(self) -> dict[str, Any]:
    """Returns what decides the draws of the next episodes, as JSON can represent it."""
    return self._actor.state()

  def load_state(self, state: Mapping[str, Any]) -> None:
    """Takes up the draws where `state` left them."""
    self._actor.load_state(state)
