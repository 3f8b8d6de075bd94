"""The sizes of the programs that benchmark_distributed compares; loads no TensorFlow."""

import dataclasses
import json

from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.utils import checks

OBSERVATION_SIZE = 24
ACTION_SIZE = 6
EPISODE_STEPS = 100
LAYER_SIZES = (64, 64)
BATCH_SIZE = 32
# T: an item holds one step more.
SEQUENCE_LENGTH = 10
# Each pair is learnt from so often; dm-acme counts by item, which is T times as much.
SAMPLES_PER_STEP = 1.6
MIN_REPLAY_ITEMS = 20
# Environment steps between two requests for variables; dm-acme's is fixed.
VARIABLE_PERIOD = 1000

# Of a policy of these layers, about.
POLICY_PARAMETERS = 7_000


@dataclasses.dataclass(frozen=True)
class ProgramSize:
  """What one program is.

  Attributes:
    side: `OURS` or `THEIRS`.
    num_actors: actor nodes, at least 1.
    environment_seconds: how long a step of the environment sleeps, 0 or more.
    limited: whether replay's limiter couples learning to acting.
    folder: where the actors' environments count their steps.
  """

  side: str
  num_actors: int
  environment_seconds: float
  limited: bool
  folder: str

  def __post_init__(self) -> None:
    if self.side not in (OURS, THEIRS):
      raise ValueError(f"side is {self.side!r}; it must be {OURS} or {THEIRS}.")
    checks.integer("num_actors", self.num_actors, minimum=1)
    if not self.environment_seconds >= 0:
      raise ValueError(f"environment_seconds is {self.environment_seconds}; it must be 0 or more.")

  def to_text(self) -> str:
    """Returns what `from_text` reads."""
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def from_text(cls, text: str) -> "ProgramSize":
    """Returns the size that `to_text` wrote."""
    return cls(**json.loads(text))
