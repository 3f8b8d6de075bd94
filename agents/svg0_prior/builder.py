"""Puts the parts of an SVG0 agent together."""

import copy
from typing import Any, Optional, Union

from acme import adders
from acme import core
from acme import specs
from acme.tf import variable_utils
from acme.utils import counting
from acme.utils import loggers
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import builder as builder_lib
from temper.agents import learner_data
from temper.agents.svg0_prior import acting
from temper.agents.svg0_prior import config as config_lib
from temper.agents.svg0_prior import learning
from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers
from temper.utils import replay

NetworkPair = tuple[networks_lib.SVG0Networks, networks_lib.SVG0Networks]


class SVG0Builder(builder_lib.AgentBuilder[config_lib.SVG0Config, networks_lib.SVG0Networks]):
  """Builder of SVG0's parts; method names and leading arguments are Acme's."""

  def __init__(self, config: config_lib.SVG0Config):
    """Keeps the configuration."""
    super().__init__(config)

  @property
  def extras(self) -> actor_lib.Extras:
    """Log density of each action, and the version of the policy that chose it."""
    return acting.EXTRAS

  def make_update_schedule(self) -> replay.UpdateSchedule:
    """Makes the rule of learner steps; as in Acme, it waits for a whole batch of steps at least."""
    config = self._config
    return replay.UpdateSchedule(
      config.samples_per_insert, config.batch_size, max(config.batch_size, config.min_replay_size)
    )

  def make_networks(
    self, environment_spec: specs.EnvironmentSpec, seed: int = 0
  ) -> networks_lib.SVG0Networks:
    """Makes the default networks that the configuration describes."""
    config = self._config
    common = dict(
      policy_layer_sizes=config.policy_layer_sizes,
      critic_layer_sizes=config.critic_layer_sizes,
      policy_keys=config.policy_keys,
      observation_spec=environment_spec.observations,
      init_scale=config.init_scale,
      min_scale=config.min_scale,
      seed=seed,
    )
    if config.use_prior:
      made = networks_lib.make_network_with_prior(
        environment_spec.actions,
        prior_layer_sizes=config.prior_layer_sizes,
        prior_keys=config.prior_keys,
        **common,
      )
    else:
      made = networks_lib.make_default_networks(environment_spec.actions, **common)
    networks = networks_lib.SVG0Networks(made["policy"], made["critic"], made.get("prior"))
    networks.init(environment_spec, entropy_estimator=config.entropy_estimator)
    return networks

  def make_replay_tables(
    self,
    environment_spec: specs.EnvironmentSpec,
    sequence_length: Optional[int] = None,
    *,
    in_process: bool = False,
  ) -> list[reverb.Table]:
    """Makes the table of sequences, of the configuration's length if `sequence_length` is None."""
    builder_lib.check_environment_spec(environment_spec)
    config = self._config
    length = config.sequence_length if sequence_length is None else sequence_length
    if in_process:
      limiter = reverb.rate_limiters.MinSize(1)
    else:
      limiter = replay.rate_limiter(
        config.samples_per_insert, config.min_replay_size, config.batch_size, length
      )
    return [
      replay.sequence_table(
        config.replay_table_name,
        environment_spec,
        actor_lib.extras_spec(self.extras),
        length + 1,
        config.max_replay_size,
        limiter,
      )
    ]

  def make_dataset(
    self, replay_client: reverb.Client, *, in_process: bool = False
  ) -> tf.data.Dataset:
    """Makes the dataset of batches of sequences, `[B, T+1, ...]`."""
    config = self._config
    return replay.make_dataset(
      replay_client.server_address,
      config.replay_table_name,
      config.batch_size,
      min(config.prefetch_size, 1) if in_process else config.prefetch_size,
      replay.IN_PROCESS_TIMEOUT_MS if in_process else -1,
    )

  def make_adder(self, replay_client: reverb.Client) -> adders.Adder:
    """Makes the adder of sequences of T + 1 steps, one every T steps, over episode ends."""
    config = self._config
    return replay.SequenceAdder(
      replay_client, config.sequence_length + 1, config.sequence_length, config.replay_table_name
    )

  def make_policy(self, networks: networks_lib.SVG0Networks) -> snt.Module:
    """Returns the policy network."""
    return networks.make_policy()

  def make_actor(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_source: Optional[core.VariableSource] = None,
    deterministic_policy: bool = False,
    **kwargs: Any,
  ) -> acting.SVG0Actor:
    """Makes an actor; one with a source of variables starts from those and knows their version."""
    client = None
    if variable_source is not None:
      version = tf.Variable(0, dtype=tf.int32, trainable=False)
      client = variable_utils.VariableClient(
        client=variable_source,
        variables={"policy": policy_network.variables, "num_steps": [version]},
        update_period=self._config.variable_update_period,
      )
      client.update_and_wait()
      kwargs.setdefault("policy_version", lambda: int(version.numpy()))
    return acting.SVG0Actor(
      policy_network, adder, client, deterministic_policy, extras=self.extras, **kwargs
    )

  def make_learner(
    self,
    networks: Union[networks_lib.SVG0Networks, NetworkPair],
    dataset: learner_data.Dataset,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    strategy: Optional[tf.distribute.Strategy] = None,
    **kwargs: Any,
  ) -> learning.SVG0Learner:
    """Makes the learner.

    `networks` are the online ones, or a pair of online and target networks as in Acme.
    """
    config = self._config
    with (strategy or tf.distribute.get_strategy()).scope():
      online, target = (
        networks if isinstance(networks, tuple) else (networks, copy.deepcopy(networks))
      )
      make = optimizers.Adam
      policy_optimizer = config.policy_optimizer or make(config.policy_learning_rate)
      critic_optimizer = config.critic_optimizer or make(config.critic_learning_rate)
      prior_optimizer = config.prior_optimizer or make(config.prior_learning_rate)
    return learning.SVG0Learner(
      policy_network=online.policy_network,
      critic_network=online.critic_network,
      target_policy_network=target.policy_network,
      target_critic_network=target.critic_network,
      discount=config.discount,
      target_update_period=config.target_update_period,
      dataset_iterator=dataset,
      prior_network=online.prior_network,
      target_prior_network=target.prior_network,
      policy_optimizer=policy_optimizer,
      critic_optimizer=critic_optimizer,
      prior_optimizer=prior_optimizer,
      distillation_cost=config.distillation_cost,
      entropy_regularizer_cost=config.entropy_regularizer_cost,
      num_action_samples=config.num_action_samples,
      lambda_=config.lambda_,
      counter=counter,
      logger=logger,
      checkpoint=checkpoint,
      entropy_estimator=config.entropy_estimator,
      soft_value_target=config.soft_value_target,
      reward_scale=config.reward_scale,
      max_gradient_norm=config.max_gradient_norm,
      sample_block_rows=config.sample_block_rows,
      strategy=strategy,
      **kwargs,
    )
