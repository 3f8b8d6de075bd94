"""SVG0 in one process, with the constructor of `acme.agents.tf.svg0_prior.SVG0`."""

from typing import Any, Optional

from acme import specs
from acme.adders import reverb as reverb_adders
from acme.utils import counting
from acme.utils import loggers
import sonnet as snt

from temper.agents import local
from temper.agents import policies
from temper.agents.svg0_prior import builder as builder_lib
from temper.agents.svg0_prior import config as config_lib
from temper.agents.svg0_prior import networks as networks_lib


class SVG0(local.LocalAgent):
  """SVG0 with an optional behaviour prior: acts, fills replay and learns in one process."""

  def __init__(
    self,
    environment_spec: specs.EnvironmentSpec,
    policy_network: snt.Module,
    critic_network: snt.Module,
    discount: float = 0.99,
    batch_size: int = 256,
    prefetch_size: int = 4,
    target_update_period: int = 100,
    prior_network: Optional[snt.Module] = None,
    policy_optimizer: Optional[snt.Optimizer] = None,
    critic_optimizer: Optional[snt.Optimizer] = None,
    prior_optimizer: Optional[snt.Optimizer] = None,
    distillation_cost: Optional[float] = 1e-3,
    entropy_regularizer_cost: Optional[float] = 1e-3,
    min_replay_size: int = 1000,
    max_replay_size: int = 1_000_000,
    samples_per_insert: float = 32.0,
    sequence_length: int = 10,
    sigma: float = 0.3,
    replay_table_name: str = reverb_adders.DEFAULT_PRIORITY_TABLE,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = True,
    *,
    directory: Optional[str] = None,
    seed: int = 0,
    behaviour_policy: policies.PolicyChoice = policies.RAW,
    **config_options: Any,
  ):
    """Initialises the agent.

    The arguments before the star are Acme's; `SVG0Config` describes them.

    Args:
      environment_spec: specs of the environment.
      policy_network: batch of observations to a distribution over actions.
      critic_network: batches of observations and of actions to values.
      discount: agent's discount.
      batch_size: sequences a learner step.
      prefetch_size: batches sampled ahead; at most one is, in one process.
      target_update_period: learner steps between target updates.
      prior_network: optional behaviour prior.
      policy_optimizer, critic_optimizer, prior_optimizer: None makes Adam(1e-4).
      distillation_cost: weight of the KL to the prior.
      entropy_regularizer_cost: weight of the entropy.
      min_replay_size: environment steps before learning.
      max_replay_size: sequences in replay at the most.
      samples_per_insert: sequences sampled per environment step.
      sequence_length: pairs of a sequence.
      sigma: unused.
      replay_table_name: name of the table.
      counter: counts learner steps.
      logger: gets the learner's metrics.
      checkpoint: whether to keep the learner's checkpoints in `directory`.
      directory: where; Acme wrote below the home directory, here nothing is written unless this is
        given.
      seed: seed of actions and draws.
      behaviour_policy: how the agent itself takes actions; RAW or BOLTZMANN.
      **config_options: further fields of `SVG0Config`.

    Raises:
      ValueError: if a number is out of its range, specs are not canonical, or a network returns
        something else than is needed; names it.
    """
    config = config_lib.SVG0Config(
      min_replay_size=min_replay_size,
      max_replay_size=max_replay_size,
      sequence_length=sequence_length,
      samples_per_insert=samples_per_insert,
      batch_size=batch_size,
      prefetch_size=prefetch_size,
      discount=discount,
      sigma=sigma,
      entropy_regularizer_cost=entropy_regularizer_cost,
      distillation_cost=distillation_cost,
      critic_optimizer=critic_optimizer,
      policy_optimizer=policy_optimizer,
      prior_optimizer=prior_optimizer,
      target_update_period=target_update_period,
      replay_table_name=replay_table_name,
      use_prior=prior_network is not None,
      **config_options,
    )
    networks = networks_lib.SVG0Networks(policy_network, critic_network, prior_network)
    networks.init(environment_spec, entropy_estimator=config.entropy_estimator)
    super().__init__(
      builder_lib.SVG0Builder(config),
      environment_spec,
      networks=networks,
      counter=counter,
      logger=logger,
      seed=seed,
      behaviour_policy=behaviour_policy,
      checkpoint=checkpoint,
      directory=directory,
    )
