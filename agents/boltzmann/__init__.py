"""Policies weighted by a critic. The names are those of `acme.tf.networks`."""

from temper.agents.boltzmann.networks import BoltzmannSampler
from temper.agents.boltzmann.networks import Draw
from temper.agents.boltzmann.networks import ExpQWeightedPolicy
from temper.agents.boltzmann.networks import PolicyCriticRNNState
from temper.agents.boltzmann.networks import RecurrentExpQWeightedPolicy

__all__ = [
  "BoltzmannSampler",
  "Draw",
  "ExpQWeightedPolicy",
  "PolicyCriticRNNState",
  "RecurrentExpQWeightedPolicy",
]
