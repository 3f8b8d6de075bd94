"""CRR as a Launchpad program."""

from typing import Any, Callable, Optional

from acme import specs

from temper.agents import distributed
from temper.agents.crr import builder as builder_lib
from temper.agents.crr import config as config_lib
from temper.agents.crr import networks as networks_lib


class DistributedCRR(distributed.DistributedAgent):
  """Program of CRR: `DistributedCRR(...).build()` is what `launchpad.launch` takes."""

  def __init__(
    self,
    environment_factory: distributed.EnvironmentFactory,
    config: Optional[config_lib.CRRConfig] = None,
    network_factory: Optional[Callable[[specs.EnvironmentSpec], networks_lib.CRRNetworks]] = None,
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
    builder = builder_lib.CRRBuilder(config or config_lib.CRRConfig())
    make_networks = network_factory or builder.make_networks
    super().__init__(builder, environment_factory, make_networks, **options)

  def build(self, name: str = "crr") -> Any:
    """Makes the Launchpad program."""
    return super().build(name)
