"""When a run may end before its steps are done: once training episodes have become good enough."""

from collections.abc import Sequence
import dataclasses

from temper.utils import checks

# How many of the last returns a run remembers, whatever it was asked for: another early stop, asked
# for on a resume, then knows the past too.
REMEMBERED_RETURNS = 100


@dataclasses.dataclass(frozen=True)
class EarlyStop:
  """Ends training when the worst of the last returns is good enough.

  Attributes:
    threshold: the return that each of the last training episodes must reach.
    patience: how many episodes those are.
  """

  threshold: float
  patience: int = 10

  def __post_init__(self) -> None:
    checks.number("early_stop_return", self.threshold)
    checks.integer("early_stop_patience", self.patience, minimum=1)

  @property
  def remembered(self) -> int:
    """How many of the last returns must be kept."""
    return max(self.patience, REMEMBERED_RETURNS)

  def met(self, returns: Sequence[float]) -> bool:
    """Whether training may end.

    Args:
      returns: those of the training episodes in time order, the last `patience` at least.
    """
    return len(returns) >= self.patience and min(returns[-self.patience :]) >= self.threshold

  def state(self, returns: Sequence[float]) -> str:
    """Says in a few words how far the run is from its early stop, for a line of progress."""
    if not returns:
      return f"stops at {self.threshold:.4g}"
    last = returns[-self.patience :]
    return f"worst of {len(last)} {min(last):.4g}, stops at {self.threshold:.4g}"

  def outcome(self, returns: Sequence[float], steps: int) -> str:
    """Says whether and when training ended early, for a table.

    Args:
      returns: as for `met`.
      steps: steps of the run.
    """
    episodes = f"last {self.patience} training episodes"
    if self.met(returns):
      return f"at step {steps:,}: the {episodes} returned {self.threshold:.4g} or more"
    if len(returns) < self.patience:
      return f"not met: {len(returns)} training episodes of the {self.patience} needed"
    worst = min(returns[-self.patience :])
    return f"not met: the worst of the {episodes} returned {worst:.4g}, not {self.threshold:.4g}"
