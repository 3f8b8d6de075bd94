"""Critic-regularised regression (CRR), recurrent and feed-forward, for offline data."""

from temper.agents.crr.agent_distributed import DistributedCRR
from temper.agents.crr.builder import CRRBuilder
from temper.agents.crr.config import CRRConfig
from temper.agents.crr.learning import RCRRLearner
from temper.agents.crr.losses import BaselineReduce
from temper.agents.crr.losses import PolicyImprovementMode
from temper.agents.crr.networks import CRRNetworks
from temper.agents.crr.networks import PolicyHead
from temper.agents.crr.networks import RecurrentCritic
from temper.agents.crr.networks import RecurrentPolicy
from temper.agents.crr.networks import make_networks

__all__ = [
  "BaselineReduce",
  "CRRBuilder",
  "CRRConfig",
  "CRRNetworks",
  "DistributedCRR",
  "PolicyHead",
  "PolicyImprovementMode",
  "RCRRLearner",
  "RecurrentCritic",
  "RecurrentPolicy",
  "make_networks",
]
