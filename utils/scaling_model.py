"""What limits a distributed run: rates of acting and learning from the costs of single nodes.

Acting and learning are coupled by replay's limiter, so that one of four things sets the pace of
both: how long the actors take for a step, how fast the learner is, how fast the replay server is,
or the CPUs that the nodes share. The source of variables sets no pace, since actors fetch while
they act; a saturated one makes their policies older.
"""

import dataclasses
import enum
from typing import Optional

from temper.utils import checks

# As variable caches are made, seconds.
CACHE_REFRESH_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class NodeCosts:
  """What single nodes take, in seconds.

  Attributes:
    environment: of one environment step, in which the CPU is free.
    acting: of one environment step for policy, adder and loop, in which the CPU is busy.
    learning: of one learner step; the CPU is busy.
    insert: of the replay server, for one item.
    sample: of the replay server, for one sampled item.
    fetch: of the source of variables, for one request.
  """

  environment: float
  acting: float
  learning: float
  insert: float
  sample: float
  fetch: float

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if not 0 <= value < float("inf"):
        raise ValueError(f"{field.name} is {value}; it must be a finite time of 0 s or more.")
    if not self.environment + self.acting > 0:
      raise ValueError("environment and acting are both 0; a step takes some time.")
    if not self.learning > 0:
      raise ValueError("learning is 0; a learner step takes some time.")


@dataclasses.dataclass(frozen=True)
class RunShape:
  """The nodes of a run and what couples them.

  Attributes:
    num_actors: actor nodes.
    num_caches: nodes that answer the actors' requests for variables; 0: the learner does.
    num_evaluators: nodes that act without adding to replay.
    steps_per_item: environment steps from one item to the next.
    batch_size: items of a learner step.
    samples_per_step: items sampled for each environment step.
    fetch_period: environment steps of an actor between two requests for variables.
    fetch_seconds: seconds between them instead; None counts steps.
    cpus: CPUs that all nodes share; None: each node has a machine of its own.
  """

  num_actors: int
  num_caches: int = 0
  num_evaluators: int = 0
  steps_per_item: int = 10
  batch_size: int = 256
  samples_per_step: float = 32.0
  fetch_period: int = 1000
  fetch_seconds: Optional[float] = None
  cpus: Optional[int] = None

  def __post_init__(self) -> None:
    for name in ("num_actors", "steps_per_item", "batch_size", "fetch_period"):
      checks.integer(name, getattr(self, name), minimum=1)
    for name in ("num_caches", "num_evaluators"):
      checks.integer(name, getattr(self, name), minimum=0)
    if self.cpus is not None:
      checks.integer("cpus", self.cpus, minimum=1)
    checks.number("fetch_seconds", self.fetch_seconds, above=0, optional=True)
    if not self.samples_per_step > 0:
      raise ValueError(f"samples_per_step is {self.samples_per_step}; it must be above 0.")

  @property
  def updates_per_step(self) -> float:
    """Learner steps for each environment step."""
    return self.samples_per_step / self.batch_size

  @property
  def num_sources(self) -> int:
    """Nodes that answer the actors' requests for variables."""
    return max(1, self.num_caches)


class Limit(enum.Enum):
  """What sets the pace of a run."""

  ACTORS = "actors"
  """More of them would make it faster."""
  LEARNER = "learner"
  """Actors wait for it at replay's limiter."""
  REPLAY = "replay"
  """The server has no time left."""
  CPUS = "cpus"
  """The nodes share a machine that has no time left."""


@dataclasses.dataclass(frozen=True)
class Rates:
  """How fast a run is.

  Attributes:
    environment_steps: of all actors, a second.
    learner_steps: a second.
    fetches: of variables by all actors, a second.
    variable_age: seconds since the variables that an actor acts by were the learner's, on average
      over time.
  """

  environment_steps: float
  learner_steps: float
  fetches: float
  variable_age: float


def bounds(costs: NodeCosts, shape: RunShape) -> dict[Limit, float]:
  """Returns the environment steps a second that each limit alone would allow, in all actors.

  Args:
    costs: of single nodes.
    shape: of the run.
  """
  updates = shape.updates_per_step
  replay = costs.insert / shape.steps_per_item + costs.sample * shape.samples_per_step
  found = {
    Limit.ACTORS: shape.num_actors / (costs.environment + costs.acting),
    Limit.LEARNER: 1 / (updates * costs.learning),
    Limit.REPLAY: 1 / replay if replay else float("inf"),
  }
  if shape.cpus is not None:
    evaluating = shape.num_evaluators / shape.num_actors
    found[Limit.CPUS] = shape.cpus / (costs.acting * (1 + evaluating) + updates * costs.learning)
  return found


def limit(costs: NodeCosts, shape: RunShape) -> Limit:
  """Returns what sets the pace.

  Args:
    costs: of single nodes.
    shape: of the run.
  """
  found = bounds(costs, shape)
  return min(found, key=found.__getitem__)


def predict(costs: NodeCosts, shape: RunShape) -> Rates:
  """Predicts a run's rates in the long run: the lowest bound holds, and nothing fluctuates.

  Args:
    costs: of single nodes.
    shape: of the run.
  """
  steps = min(bounds(costs, shape).values())
  wanted = steps / shape.fetch_period
  if shape.fetch_seconds is not None:
    # Actors ask at their steps only.
    wanted = min(shape.num_actors / shape.fetch_seconds, steps)
  fetches = min(wanted, shape.num_sources / costs.fetch) if costs.fetch else wanted
  # Just fetched, they are as old as the answer took; then they age until the next are there.
  age = costs.fetch + shape.num_actors / fetches / 2
  if shape.num_caches:
    age += CACHE_REFRESH_SECONDS / 2
  return Rates(steps, steps * shape.updates_per_step, fetches, age)
