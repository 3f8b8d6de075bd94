"""SAC as a Launchpad program."""

from typing import Any, Callable, Optional

from acme import specs

from temper.agents import distributed
from temper.agents.sac import builder as builder_lib
from temper.agents.sac import config as config_lib
from temper.agents.sac import networks as networks_lib


class DistributedSAC(distributed.DistributedAgent):
  """Program of SAC: `DistributedSAC(...).build()` is what `launchpad.launch` takes."""

  def __init__(
    self,
    environment_factory: distributed.EnvironmentFactory,
    config: Optional[config_lib.SACConfig] = None,
    network_factory: Optional[Callable[[specs.EnvironmentSpec], networks_lib.SACNetworks]] = None,
    **options: Any,
  ):
    """Initialises the program's description.

    Args:
      environment_factory: makes an environment; its argument says whether it is for evaluation.
      config: the agent's numbers; None takes the defaults.
      network_factory: makes the networks, with variables, from the environment's specs; None takes
        the configuration's.
      **options: `num_actors`, `num_caches` and what else `DistributedAgent` takes.

    Raises:
      ValueError: if a number is out of its range or the specs are not canonical.
    """
    builder = builder_lib.SACBuilder(config or config_lib.SACConfig())
    make_networks = network_factory or builder.make_networks
    super().__init__(builder, environment_factory, make_networks, **options)

  def build(self, name: str = "sac") -> Any:
    """Makes the Launchpad program."""
    return super().build(name)
