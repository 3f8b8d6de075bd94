"""SVG0 as a Launchpad program; its constructor is `acme.agents.tf.svg0_prior.DistributedSVG0`'s."""

from typing import Any, Callable, Optional

from acme import specs
import sonnet as snt

from temper.agents import distributed
from temper.agents.svg0_prior import builder as builder_lib
from temper.agents.svg0_prior import config as config_lib
from temper.agents.svg0_prior import networks as networks_lib


class DistributedSVG0(distributed.DistributedAgent):
  """Program of SVG0: `DistributedSVG0(...).build()` is what `launchpad.launch` takes."""

  def __init__(
    self,
    environment_factory: distributed.EnvironmentFactory,
    network_factory: Callable[[specs.BoundedArray], dict[str, snt.Module]],
    num_actors: int = 1,
    num_caches: int = 0,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    batch_size: int = 256,
    prefetch_size: int = 4,
    min_replay_size: int = 1000,
    max_replay_size: int = 1_000_000,
    samples_per_insert: Optional[float] = 32.0,
    sequence_length: int = 10,
    sigma: float = 0.3,
    discount: float = 0.99,
    policy_optimizer: Optional[snt.Optimizer] = None,
    critic_optimizer: Optional[snt.Optimizer] = None,
    prior_optimizer: Optional[snt.Optimizer] = None,
    distillation_cost: Optional[float] = 1e-3,
    entropy_regularizer_cost: Optional[float] = 1e-3,
    target_update_period: int = 100,
    max_actor_steps: Optional[int] = None,
    log_every: float = 10.0,
    *,
    envs_per_actor: int = 1,
    directory: Optional[str] = None,
    seed: int = 0,
    **config_options: Any,
  ):
    """Initialises the program's description. The arguments before the star are Acme's.

    Args:
      environment_factory: makes an environment; its argument says whether it is for evaluation.
      network_factory: maps the action spec to networks named `policy`, `critic` and, optionally,
        `prior`.
      num_actors: actor nodes.
      num_caches: nodes that cache variables for the actors.
      environment_spec: specs; None asks an environment.
      batch_size, prefetch_size, min_replay_size, max_replay_size, samples_per_insert,
      sequence_length, sigma, discount, policy_optimizer, critic_optimizer, prior_optimizer,
      distillation_cost, entropy_regularizer_cost,
      target_update_period: see `SVG0Config`.
      max_actor_steps: environment steps of all actors after which the program ends.
      log_every: seconds between log lines.
      envs_per_actor: environments in which each actor acts at once, by one call of its policy.
      directory: where learner and counter keep checkpoints; None keeps none.
      seed: seed of the draws.
      **config_options: further fields of `SVG0Config`.

    Raises:
      ValueError: if a number is out of its range or specs are not canonical.
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
      **config_options,
    )

    def make_networks(environment_spec: specs.EnvironmentSpec) -> networks_lib.SVG0Networks:
      made = network_factory(environment_spec.actions)
      networks = networks_lib.SVG0Networks(made["policy"], made["critic"], made.get("prior"))
      networks.init(environment_spec, entropy_estimator=config.entropy_estimator)
      return networks

    super().__init__(
      builder_lib.SVG0Builder(config),
      environment_factory,
      make_networks,
      num_actors=num_actors,
      num_caches=num_caches,
      envs_per_actor=envs_per_actor,
      environment_spec=environment_spec,
      max_actor_steps=max_actor_steps,
      log_every=log_every,
      directory=directory,
      seed=seed,
    )

  def build(self, name: str = "svg0") -> Any:
    """Makes the Launchpad program."""
    return super().build(name)
