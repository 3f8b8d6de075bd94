"""How a policy's actions are taken, for every actor, evaluator and log."""

import enum


class PolicyKind(enum.Enum):
  """What is taken of a policy as its action."""

  RAW = "raw"
  """A sample of the policy's distribution."""
  MEAN = "mean"
  """The mean of the policy's distribution."""
  BOLTZMANN = "boltzmann"
  """One of several samples, chosen with a probability that grows with the critic's value."""

  @property
  def mode(self) -> str:
    """How tables, logs and pictures call the kind."""
    return _MODES[self]


_MODES = {
  PolicyKind.RAW: "stochastic",
  PolicyKind.MEAN: "deterministic",
  PolicyKind.BOLTZMANN: "boltzmann",
}
