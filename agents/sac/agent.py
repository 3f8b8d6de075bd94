"""SAC in one process."""

from typing import Any, Optional

from acme import specs
from acme.utils import counting
from acme.utils import loggers

from temper.agents import builder as agent_builder
from temper.agents import local
from temper.agents.sac import builder as builder_lib
from temper.agents.sac import config as config_lib
from temper.agents.sac import networks as networks_lib


class SAC(local.LocalAgent):
  """SAC that acts, fills replay and learns in one process."""

  def __init__(
    self,
    environment_spec: specs.EnvironmentSpec,
    config: Optional[config_lib.SACConfig] = None,
    networks: Optional[networks_lib.SACNetworks] = None,
    *,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    **options: Any,
  ):
    """Initialises the agent.

    Args:
      environment_spec: of a canonical environment; see `temper.utils.environments`.
      config: the agent's numbers; None takes the defaults.
      networks: the networks; None makes the configuration's.
      counter: counts updates.
      logger: gets the learner's metrics.
      **options: `strategy`, `seed`, `behaviour_policy` and what else `LocalAgent` takes.

    Raises:
      ValueError: if specs are not canonical, the networks do not fit the variant, or one returns
        something else than is needed; names it.
    """
    config = config or config_lib.SACConfig()
    if networks is not None:
      agent_builder.check_environment_spec(environment_spec)
      networks.init(environment_spec)
    super().__init__(
      builder_lib.SACBuilder(config),
      environment_spec,
      networks=networks,
      counter=counter,
      logger=logger,
      **options,
    )
