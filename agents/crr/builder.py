"""Makes the parts of a CRR agent, to learn from replay or from a dataset on disk."""

import copy
from typing import Any, Optional

from acme import specs
from acme.tf import utils as tf2_utils
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import boltzmann
from temper.agents import learner_data
from temper.agents import sequence_builder
from temper.agents.crr import config as config_lib
from temper.agents.crr import learning
from temper.agents.crr import networks as networks_lib
from temper.agents.crr import snapshots
from temper.utils import optimizers
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report
from temper.utils import torsos

# The learner step that the policy came from, for the age of samples.
_EXTRAS: actor_lib.Extras = {
  "policy_version": actor_lib.Extra(specs.Array((), np.int32, "policy_version"))
}


class CRRBuilder(sequence_builder.SequenceBuilder[config_lib.CRRConfig, networks_lib.CRRNetworks]):
  """Builder of CRR's parts.

  What has to do with replay is for learning online; offline, `temper.utils.datasets` makes the
  dataset.
  """

  def __init__(self, config: config_lib.CRRConfig):
    """Keeps the configuration."""
    super().__init__(config)

  @property
  def extras(self) -> actor_lib.Extras:
    """The version of the policy that chose an action."""
    return _EXTRAS

  @property
  def steps_per_sequence(self) -> int:
    """Burn-in and T together."""
    return self._config.burn_in_length + self._config.sequence_length

  @property
  def period(self) -> int:
    """T - 1, so that each pair is trained on from one sequence."""
    return self._config.sequence_length - 1

  def make_networks(
    self,
    environment_spec: specs.EnvironmentSpec,
    seed: int = 0,
    *,
    observation_statistics: Optional[torsos.ObservationStatistics] = None,
  ) -> networks_lib.CRRNetworks:
    """Makes the default networks that the configuration describes.

    Args:
      environment_spec: canonical specs.
      seed: seed of the initial weights.
      observation_statistics: mean and deviation by which the networks normalise observations.
    """
    config = self._config
    return networks_lib.make_networks(
      environment_spec,
      policy_layer_sizes=config.policy_layer_sizes,
      critic_layer_sizes=config.critic_layer_sizes,
      lstm_size=config.lstm_size,
      policy_head=config.policy_head,
      num_mixture_components=config.num_mixture_components,
      init_scale=config.init_scale,
      min_scale=config.min_scale,
      vmin=config.vmin,
      vmax=config.vmax,
      num_atoms=config.num_atoms,
      observation_statistics=observation_statistics,
      seed=seed,
    )

  def make_policy(self, networks: networks_lib.CRRNetworks) -> snt.RNNCore:
    """Returns the policy network."""
    return networks.policy_network

  def make_critic(self, networks: networks_lib.CRRNetworks) -> snt.RNNCore:
    """Returns the critic network."""
    return networks.critic_network

  def modules_to_snapshot(
    self, networks: networks_lib.CRRNetworks, environment_spec: specs.EnvironmentSpec
  ) -> dict[str, snt.Module]:
    """Returns the raw policy, the critic's mean and the critic-weighted policy."""
    cwp_network = boltzmann.RecurrentExpQWeightedPolicy(
      networks.policy_network, networks.critic_network, action_spec=environment_spec.actions
    )
    tf2_utils.create_variables(cwp_network, [environment_spec.observations])
    return snapshots.modules_to_snapshot(
      networks.policy_network, networks.critic_network, cwp_network=cwp_network
    )

  def make_learner(
    self,
    networks: networks_lib.CRRNetworks,
    dataset: learner_data.Dataset,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    replay_client: Optional[reverb.Client] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    **kwargs: Any,
  ) -> learning.RCRRLearner:
    """Makes the learner of the networks, with target networks that begin as their copies."""
    config = self._config
    with (strategy or tf.distribute.get_strategy()).scope():
      target = copy.deepcopy(networks)
      policy_optimizer = optimizers.Adam(config.policy_learning_rate)
      critic_optimizer = optimizers.Adam(config.critic_learning_rate)
      temperature, bound_report = None, None
      if config.temperature is not None:
        actions = environment_spec.actions if environment_spec is not None else None
        temperature = temperature_lib.make_temperature(config.temperature, actions)
        bound_report = temperature_report.BoundReport(config.temperature)
    clipping: dict[str, Any] = {"clipping": config.max_gradient_norm is not None}
    if config.max_gradient_norm is not None:
      clipping["max_gradient_norm"] = config.max_gradient_norm
    return learning.RCRRLearner(
      policy_network=networks.policy_network,
      critic_network=networks.critic_network,
      target_policy_network=target.policy_network,
      target_critic_network=target.critic_network,
      dataset=dataset,
      accelerator_strategy=strategy,
      policy_optimizer=policy_optimizer,
      critic_optimizer=critic_optimizer,
      discount=config.discount,
      target_update_period=config.target_update_period,
      num_action_samples_td_learning=config.num_action_samples_td_learning,
      num_action_samples_policy_weight=config.num_action_samples_policy_weight,
      baseline_reduce_function=config.baseline_reduce_function,
      policy_improvement_modes=config.policy_improvement_modes,
      ratio_upper_bound=config.ratio_upper_bound,
      beta=config.beta,
      counter=counter,
      logger=logger,
      checkpoint=checkpoint,
      burn_in_length=config.burn_in_length,
      normalise_by_valid=config.normalise_by_valid,
      reward_scale=config.reward_scale,
      temperature=temperature,
      bound_report=bound_report,
      learning_rate_decay_period=config.learning_rate_decay_period,
      **clipping,
      **kwargs,
    )
