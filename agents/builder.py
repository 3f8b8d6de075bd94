"""The contract between an agent and what runs it."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
from typing import Any, Generic, Optional, TypeVar, Union

from acme import adders
from acme import core
from acme import specs
from acme import types
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import actor as actor_lib
from temper.agents import learner as learner_lib
from temper.agents import learner_data
from temper.agents import policies
from temper.agents import vector_actor
from temper.utils import replay_rates
from temper.utils import replay_row_store
from temper.utils import variable_client

Config = TypeVar("Config")
Networks = TypeVar("Networks")


class AgentBuilder(abc.ABC, Generic[Config, Networks]):
  """Makes the parts of which a one-process agent or a distributed program is put together.

  The parts meet in this order: networks → replay tables → adder → actor (writes), dataset → learner
  (reads), variables → actor. What an actor stores beside each action is declared once, by `extras`.
  """

  def __init__(self, config: Config):
    """Keeps the configuration, which checked itself when it was made."""
    self._config = config

  @property
  def config(self) -> Config:
    """The agent's configuration."""
    return self._config

  @property
  @abc.abstractmethod
  def extras(self) -> actor_lib.Extras:
    """What the actor stores beside each action, through the adder, and the tables have room for."""

  @abc.abstractmethod
  def make_update_schedule(self) -> replay_rates.UpdateSchedule:
    """Makes the rule that says, in one process, how many learner steps are due."""

  @abc.abstractmethod
  def make_networks(self, environment_spec: specs.EnvironmentSpec, seed: int = 0) -> Networks:
    """Makes the default networks of this configuration, with their variables."""

  @abc.abstractmethod
  def make_replay_tables(
    self, environment_spec: specs.EnvironmentSpec, *, in_process: bool = False
  ) -> list[reverb.Table]:
    """Makes the replay tables.

    Args:
      environment_spec: what will be added.
      in_process: whether one process both adds and samples. Then the table never blocks: the agent
        itself keeps the rate. Otherwise the table's limiter keeps it.
    """

  @abc.abstractmethod
  def make_dataset(
    self, replay_client: reverb.Client, *, in_process: bool = False
  ) -> tf.data.Dataset:
    """Makes the dataset of whole batches, which no strategy has split; shallow if `in_process`."""

  def make_dataset_iterator(self, replay_client: reverb.Client) -> Iterator[reverb.ReplaySample]:
    """Makes an iterator over `make_dataset`."""
    return iter(self.make_dataset(replay_client))

  def make_row_store(
    self, environment_spec: specs.EnvironmentSpec
  ) -> Optional[replay_row_store.RowStore]:
    """Makes what one process may sample from in place of its replay server; None: nothing."""
    del environment_spec
    return None

  @abc.abstractmethod
  def make_adder(
    self,
    replay_client: reverb.Client,
    *,
    priority: Optional[Callable[[], float]] = None,
    row_store: Optional[replay_row_store.RowStore] = None,
  ) -> adders.Adder:
    """Makes the adder, which writes an actor's experience.

    Args:
      replay_client: client of the replay.
      priority: returns the priority of new items; prioritised replay alone reads it.
      row_store: what `make_row_store` made, to which experience goes too.
    """

  @abc.abstractmethod
  def make_policy(self, networks: Networks) -> snt.Module:
    """Returns the module whose actions an actor takes."""

  @abc.abstractmethod
  def make_critic(self, networks: Networks) -> snt.Module:
    """Returns the module by which an actor may value actions."""

  def modules_to_snapshot(
    self, networks: Networks, environment_spec: specs.EnvironmentSpec
  ) -> dict[str, snt.Module]:
    """Returns what a run leaves as snapshots, by name; see `temper.utils.snapshots`. None here."""
    del networks, environment_spec
    return {}

  def make_warm_up(self, action_spec: Optional[types.NestedSpec]) -> Optional[actor_lib.WarmUp]:
    """Makes the way in which an actor that stores experience begins; None: as it goes on.

    Args:
      action_spec: of one action; None if it is not known.

    Raises:
      ValueError: if the spec is needed and missing.
    """
    del action_spec
    return None

  def make_share_of_warm_up(
    self, action_spec: Optional[types.NestedSpec], num_actors: int, steps_done: int = 0
  ) -> Optional[actor_lib.WarmUp]:
    """Makes the warm-up of one of several actors, which together take what a single one would.

    Args:
      action_spec: of one action; None if it is not known.
      num_actors: actors that begin at once.
      steps_done: environment steps that all actors have done already.

    Raises:
      ValueError: if the spec is needed and missing.
    """
    warm_up = self.make_warm_up(action_spec)
    if warm_up is None:
      return None
    left = max(0, warm_up.num_actions - steps_done)
    return warm_up._replace(num_actions=-(-left // num_actors))

  def make_actor(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_source: Optional[core.VariableSource] = None,
    deterministic_policy: bool = False,
    *,
    choice: Optional[policies.PolicyChoice] = None,
    critic_network: Optional[snt.Module] = None,
    action_spec: Optional[types.NestedSpec] = None,
    **kwargs: Any,
  ) -> actor_lib.Actor:
    """Makes an actor; one with a source of variables starts from those and knows their version.

    Args:
      policy_network: what `make_policy` returned.
      adder: where experience goes; None keeps none.
      variable_source: where variables are fetched from; without one, the learner shares them.
      deterministic_policy: whether to take the policy's mean; that, or `choice`.
      choice: how to take actions; None: as the flag says.
      critic_network: what `make_critic` returned; the Boltzmann policy alone needs it.
      action_spec: of one action; bounds uniform actions, and what the Boltzmann policy's critic
        sees.
      **kwargs: see `temper.agents.actor.Actor`.

    Raises:
      ValueError: if both the flag and `choice` are given, or the critic or the spec is needed and
        missing.
    """
    choice = policies.choice_of(deterministic_policy, choice)
    if adder is not None:
      kwargs.setdefault("warm_up", self.make_warm_up(action_spec))
    policy = choice.make(policy_network, critic_network, action_spec)
    variables = functools.partial(choice.variables, policy_network, critic_network)
    client = self._follow(variable_source, variables, kwargs)
    return actor_lib.Actor(policy, adder, client, extras=self.extras, **kwargs)

  def make_vector_actor(
    self,
    policy_network: snt.Module,
    row_adders: Sequence[adders.Adder],
    variable_source: Optional[core.VariableSource] = None,
    *,
    choice: policies.PolicyChoice = policies.RAW,
    critic_network: Optional[snt.Module] = None,
    action_spec: Optional[types.NestedSpec] = None,
    **kwargs: Any,
  ) -> Union[vector_actor.VectorActor, vector_actor.OneEnvironmentActor]:
    """Makes an actor of several environments, which evaluates the policy once for all of them.

    Args:
      policy_network: what `make_policy` returned.
      row_adders: one for each environment, each made by `make_adder`.
      variable_source: as for `make_actor`.
      choice: how to take actions.
      critic_network: as for `make_actor`.
      action_spec: as for `make_actor`.
      **kwargs: see `temper.agents.vector_actor.VectorActor`.

    Raises:
      ValueError: if the critic or the spec is needed and missing, or there is no adder.
    """
    if len(row_adders) == 1:
      actor = self.make_actor(
        policy_network,
        row_adders[0],
        variable_source,
        choice=choice,
        critic_network=critic_network,
        action_spec=action_spec,
        **kwargs,
      )
      return vector_actor.OneEnvironmentActor(actor)
    kwargs.setdefault("warm_up", self.make_warm_up(action_spec))
    policy = choice.make(policy_network, critic_network, action_spec)
    variables = functools.partial(choice.variables, policy_network, critic_network)
    client = self._follow(variable_source, variables, kwargs, steps_per_call=len(row_adders))
    return vector_actor.VectorActor(policy, row_adders, client, extras=self.extras, **kwargs)

  def _follow(
    self,
    source: Optional[core.VariableSource],
    variables: Callable[[], Mapping[str, Sequence[tf.Variable]]],
    actor_options: dict[str, Any],
    *,
    steps_per_call: int = 1,
  ) -> Optional[variable_client.VariableClient]:
    """Makes the client of an actor, which has the newest variables already.

    Args:
      source: where they are fetched from; None where the learner shares them.
      variables: returns what is written to, by name.
      actor_options: of the actor, which is told by them what version its policy is.
      steps_per_call: the actor's steps between two calls of its `update`.
    """
    if source is None:
      return None
    config: Any = self._config
    period = config.variable_update_period
    client = variable_client.VariableClient(
      source,
      variables(),
      period_calls=None if period is None else max(period // steps_per_call, 1),
      period_seconds=config.variable_update_seconds if period is None else None,
    )
    client.update_and_wait()
    actor_options.setdefault("policy_version", client.policy_version)
    return client

  @abc.abstractmethod
  def make_learner(
    self,
    networks: Networks,
    dataset: learner_data.Dataset,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    replay_client: Optional[reverb.Client] = None,
    **kwargs: Any,
  ) -> learner_lib.Learner:
    """Makes the learner of the networks.

    Args:
      networks: the online networks.
      dataset: what `make_dataset` returned, or other data of its kind.
      counter: counts learner steps.
      logger: gets the metrics.
      checkpoint: whether the learner keeps checkpoints in the `directory` that it is given.
      environment_spec: what the networks were made for; a temperature without a target needs it.
      replay_client: where new priorities go; prioritised replay needs it.
      **kwargs: see the learner.

    Raises:
      ValueError: if the configuration needs what is None.
    """


def check_environment_spec(environment_spec: specs.EnvironmentSpec) -> None:
  """Raises ValueError for specs that no agent here can learn from; says how to mend it."""
  mend = "Wrap the environment with temper.utils.environments.wrap, which makes it canonical."
  actions = tree.flatten(environment_spec.actions)
  if len(actions) != 1 or isinstance(actions[0], specs.DiscreteArray):
    raise ValueError(
      f"The action spec is {environment_spec.actions!r}; one continuous array is needed."
    )
  if actions[0].dtype != np.float32:
    raise ValueError(f"The action has dtype {actions[0].dtype}; policies act in float32. {mend}")
  for name in ("rewards", "discounts"):
    spec = getattr(environment_spec, name)
    if tree.is_nested(spec) or spec.shape:
      raise ValueError(f"The spec of {name} is {spec!r}; a scalar is needed.")
  for path, leaf in tree.flatten_with_path(environment_spec.observations):
    if any(size is None or size < 0 for size in leaf.shape):
      name = "/".join(map(str, path))
      raise ValueError(
        f"The observation {name!r} has shape {leaf.shape}; its length must not vary."
      )
    if not (np.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool):
      raise ValueError(
        f"The observation {'/'.join(map(str, path))!r} has dtype {leaf.dtype}; numbers are needed."
      )
