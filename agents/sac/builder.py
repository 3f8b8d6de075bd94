"""Puts the parts of a SAC agent together."""

from collections.abc import Callable
from typing import Any, Optional

from acme import adders
from acme import specs
from acme import types
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import builder as builder_lib
from temper.agents import learner_data
from temper.agents import policies
from temper.agents.sac import config as config_lib
from temper.agents.sac import learning
from temper.agents.sac import networks as networks_lib
from temper.utils import optimizers
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import replay_datasets
from temper.utils import replay_rates
from temper.utils import replay_row_store
from temper.utils import replay_rows
from temper.utils import replay_tables
from temper.utils import replay_transition_adder
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report

EXTRAS: actor_lib.Extras = {
  "policy_version": actor_lib.Extra(specs.Array((), np.int32, "policy_version"))
}


class SACBuilder(builder_lib.AgentBuilder[config_lib.SACConfig, networks_lib.SACNetworks]):
  """Builder of SAC's parts; method names and leading arguments are Acme's."""

  def __init__(self, config: config_lib.SACConfig):
    """Keeps the configuration, with the variant's values in the place of None."""
    super().__init__(config.resolved())

  @property
  def extras(self) -> actor_lib.Extras:
    """The version of the policy that chose each action."""
    return EXTRAS

  def make_update_schedule(self) -> replay_rates.UpdateSchedule:
    """Makes the rule of learner steps."""
    config: Any = self._config
    return replay_rates.UpdateSchedule(
      config.samples_per_insert, config.batch_size, config.min_replay_size
    )

  def make_networks(
    self, environment_spec: specs.EnvironmentSpec, seed: int = 0
  ) -> networks_lib.SACNetworks:
    """Makes the default networks that the configuration describes."""
    return networks_lib.make_networks(environment_spec, self._config, seed=seed)

  def make_replay_tables(
    self, environment_spec: specs.EnvironmentSpec, *, in_process: bool = False
  ) -> list[reverb.Table]:
    """Makes the table of transitions."""
    builder_lib.check_environment_spec(environment_spec)
    config: Any = self._config
    limiter = replay_rates.rate_limiter(
      config.samples_per_insert,
      config.min_replay_size,
      config.batch_size,
      period=1,
      in_process=in_process,
    )
    prioritised = config.prioritised_replay
    return [
      replay_tables.transition_table(
        config.replay_table_name,
        environment_spec,
        actor_lib.extras_spec(self.extras),
        config.max_replay_size,
        limiter,
        priority_exponent=prioritised.priority_exponent if prioritised else None,
      )
    ]

  def make_dataset(
    self, replay_client: reverb.Client, *, in_process: bool = False
  ) -> tf.data.Dataset:
    """Makes the dataset of batches of transitions."""
    config: Any = self._config
    return replay_datasets.make_transition_dataset(
      replay_client,
      config.replay_table_name,
      config.batch_size,
      *replay_datasets.depth(config.prefetch_size, in_process=in_process),
    )

  def make_row_store(
    self, environment_spec: specs.EnvironmentSpec
  ) -> Optional[replay_row_store.RowStore]:
    """Makes a copy of replay in memory, if the configuration asks for it and rows are small."""
    config: Any = self._config
    rows = replay_rows.TransitionRows.of_specs(environment_spec, actor_lib.extras_spec(self.extras))
    if not config.sample_in_memory or config.prioritised_replay or len(rows.signature) > 1:
      return None
    return replay_row_store.RowStore(rows, config.max_replay_size)

  def make_adder(
    self,
    replay_client: reverb.Client,
    *,
    priority: Optional[Callable[[], float]] = None,
    row_store: Optional[replay_row_store.RowStore] = None,
  ) -> adders.Adder:
    """Makes the adder of transitions; new ones get `priority`, which prioritised replay reads."""
    config = self._config
    return replay_transition_adder.TransitionAdder(
      replay_client,
      config.n_step,
      config.discount,
      config.replay_table_name,
      priority if config.prioritised_replay else None,
      bootstrap_on_truncation=config.bootstrap_on_truncation,
      row_store=row_store,
    )

  def make_policy(self, networks: networks_lib.SACNetworks) -> snt.Module:
    """Returns the policy network."""
    return networks.make_policy()

  def make_critic(self, networks: networks_lib.SACNetworks) -> snt.Module:
    """Returns the smaller value of the twin critics."""
    return networks_lib.MinimumCritic(networks.critic_network)

  def make_warm_up(self, action_spec: Optional[types.NestedSpec]) -> Optional[actor_lib.WarmUp]:
    """Makes the first actions uniform, as many as the configuration says.

    Raises:
      ValueError: if it says some and `action_spec` is None.
    """
    steps = self._config.warm_up_steps
    if not steps:
      return None
    if action_spec is None:
      raise ValueError(
        f"warm_up_steps is {steps}: uniform actions need action_spec, which is None. Give the "
        "spec, or set warm_up_steps=0."
      )
    return actor_lib.WarmUp(policies.UniformPolicy(action_spec), steps)

  def make_learner(
    self,
    networks: networks_lib.SACNetworks,
    dataset: learner_data.Dataset,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    replay_client: Optional[reverb.Client] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    directory: Optional[str] = None,
    **kwargs: Any,
  ) -> learning.SACLearner:
    """Makes the learner, with a target network and a temperature.

    Args:
      networks: the online networks.
      dataset: what `make_dataset` returned, or other transitions.
      counter: counts updates.
      logger: gets the metrics.
      checkpoint: whether to keep checkpoints in `directory`.
      environment_spec: what the networks were made for; a target entropy that is not given follows
        from its actions.
      replay_client: where prioritised replay's priorities are written to.
      strategy: distribution strategy.
      directory: where checkpoints are kept.
      **kwargs: see `SACLearner`.

    Raises:
      ValueError: if the networks do not fit the variant, prioritised replay has no client, or the
        temperature no target.
    """
    config: Any = self._config
    networks_lib.check_variant(networks, config.variant)
    prioritised = config.prioritised_replay
    priority_writer = None
    if prioritised is not None:
      priority_writer = prioritised_lib.make_writer(replay_client, config.replay_table_name)
    make = optimizers.Adam
    with (strategy or tf.distribute.get_strategy()).scope():
      trained = networks.value_network or networks.critic_network
      return learning.SACLearner(
        networks,
        networks_lib.target_of(trained),
        dataset,
        temperature_lib.make_temperature(
          config.temperature, environment_spec.actions if environment_spec else None
        ),
        discount=config.discount,
        target_update_rate=config.target_update_rate,
        policy_update_period=config.policy_update_period,
        updates_per_call=config.updates_per_call,
        policy_optimizer=config.policy_optimizer or make(config.policy_learning_rate),
        critic_optimizer=config.critic_optimizer or make(config.critic_learning_rate),
        value_optimizer=config.value_optimizer or make(config.critic_learning_rate),
        learning_rate_decay_period=config.learning_rate_decay_period,
        max_critic_gradient_norm=config.max_critic_gradient_norm,
        reward_scale=config.reward_scale,
        prioritised_replay=prioritised,
        priority_writer=priority_writer,
        bound_report=temperature_report.BoundReport(config.temperature),
        counter=counter,
        logger=logger,
        strategy=strategy,
        directory=directory if checkpoint else None,
        **kwargs,
      )
