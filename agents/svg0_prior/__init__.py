"""SVG0 with a behaviour prior. The names are those of `acme.agents.tf.svg0_prior`."""

from temper.agents.svg0_prior.acting import SVG0Actor
from temper.agents.svg0_prior.agent import SVG0
from temper.agents.svg0_prior.agent_distributed import DistributedSVG0
from temper.agents.svg0_prior.builder import SVG0Builder
from temper.agents.svg0_prior.config import SVG0Config
from temper.agents.svg0_prior.learning import SVG0Learner
from temper.agents.svg0_prior.networks import SVG0Networks
from temper.agents.svg0_prior.networks import make_default_networks
from temper.agents.svg0_prior.networks import make_network_with_prior
from temper.utils.svg0_utils import EntropyEstimator

__all__ = [
  "DistributedSVG0",
  "EntropyEstimator",
  "SVG0",
  "SVG0Actor",
  "SVG0Builder",
  "SVG0Config",
  "SVG0Learner",
  "SVG0Networks",
  "make_default_networks",
  "make_network_with_prior",
]
