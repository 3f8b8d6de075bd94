"""Puts the parts of an SVG0 agent together."""

import copy
from typing import Any, Optional, Union

from acme import specs
from acme.utils import counting
from acme.utils import loggers
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import learner_data
from temper.agents import sequence_builder
from temper.agents.svg0_prior import acting
from temper.agents.svg0_prior import config as config_lib
from temper.agents.svg0_prior import learning
from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report

NetworkPair = tuple[networks_lib.SVG0Networks, networks_lib.SVG0Networks]


class SVG0Builder(
  sequence_builder.SequenceBuilder[config_lib.SVG0Config, networks_lib.SVG0Networks]
):
  """Builder of SVG0's parts; method names and leading arguments are Acme's."""

  def __init__(self, config: config_lib.SVG0Config):
    """Keeps the configuration."""
    super().__init__(config)

  @property
  def extras(self) -> actor_lib.Extras:
    """Log density of each action, and the version of the policy that chose it."""
    return acting.EXTRAS

  @property
  def steps_per_sequence(self) -> int:
    """T + 1: the last step is bootstrapped from."""
    return self._config.sequence_length + 1

  @property
  def period(self) -> int:
    """T, so that each pair is stored once."""
    return self._config.sequence_length

  @property
  def prioritised_replay(self) -> Optional[prioritised_lib.PrioritisedReplay]:
    """As the configuration says."""
    return self._config.prioritised_replay

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
    length = self._config.sequence_length if sequence_length is None else sequence_length
    return self._make_tables(environment_spec, length + 1, length, in_process=in_process)

  def make_policy(self, networks: networks_lib.SVG0Networks) -> snt.Module:
    """Returns the policy network."""
    return networks.make_policy()

  def make_critic(self, networks: networks_lib.SVG0Networks) -> snt.Module:
    """Returns the critic network."""
    return networks.critic_network

  def make_learner(
    self,
    networks: Union[networks_lib.SVG0Networks, NetworkPair],
    dataset: learner_data.Dataset,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    replay_client: Optional[reverb.Client] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    **kwargs: Any,
  ) -> learning.SVG0Learner:
    """Makes the learner.

    `networks` are the online ones, or a pair of online and target networks as in Acme.
    """
    config = self._config
    priority_writer = None
    if config.prioritised_replay is not None:
      priority_writer = prioritised_lib.make_writer(replay_client, config.replay_table_name)
    with (strategy or tf.distribute.get_strategy()).scope():
      online, target = (
        networks if isinstance(networks, tuple) else (networks, copy.deepcopy(networks))
      )
      make = optimizers.Adam
      policy_optimizer = config.policy_optimizer or make(config.policy_learning_rate)
      critic_optimizer = config.critic_optimizer or make(config.critic_learning_rate)
      prior_optimizer = config.prior_optimizer or make(config.prior_learning_rate)
      temperature, bound_report = None, None
      if config.temperature is not None:
        actions = environment_spec.actions if environment_spec is not None else None
        temperature = temperature_lib.make_temperature(config.temperature, actions)
        bound_report = temperature_report.BoundReport(config.temperature)
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
      temperature=temperature,
      bound_report=bound_report,
      prioritised_replay=config.prioritised_replay,
      priority_writer=priority_writer,
      strategy=strategy,
      **kwargs,
    )
