"""Soft actor-critic, with a value network or with twin targets."""

from temper.agents.sac.agent import SAC
from temper.agents.sac.agent_distributed import DistributedSAC
from temper.agents.sac.builder import SACBuilder
from temper.agents.sac.config import EncoderSharing
from temper.agents.sac.config import SACConfig
from temper.agents.sac.config import SACVariant
from temper.agents.sac.learning import SACLearner
from temper.agents.sac.networks import SACNetworks
from temper.agents.sac.networks import make_networks

__all__ = [
  "SAC",
  "DistributedSAC",
  "EncoderSharing",
  "SACBuilder",
  "SACConfig",
  "SACLearner",
  "SACNetworks",
  "SACVariant",
  "make_networks",
]
