"""A run's nodes as a discrete-event simulation, to check `temper.utils.scaling_model`.

Where the model knows bounds alone, the simulation has queues: requests wait for the replay server,
the sources of variables and the shared CPUs, inserts and samples for the limiter.
"""

from collections.abc import Callable
import heapq
import itertools
from typing import Any, Optional

import numpy as np

from temper.utils import scaling_model

# Batches that are sampled ahead of the learner.
_PREFETCH = 2


class _Servers:
  """Equal servers with one queue, first come first served; none means that nobody ever waits."""

  def __init__(self, count: Optional[int]):
    self._free_at = None if count is None else [0.0] * count

  def serve(self, now: float, seconds: float) -> float:
    """Returns when work that comes now is done; calls must be in the order of time."""
    if self._free_at is None:
      return now + seconds
    done = max(now, heapq.heappop(self._free_at)) + seconds
    heapq.heappush(self._free_at, done)
    return done


class _Simulation:
  """The state of all nodes, and the events to come."""

  def __init__(
    self, costs: scaling_model.NodeCosts, shape: scaling_model.RunShape, warm_up: float, seed: int
  ):
    self._costs, self._shape, self._warm_up = costs, shape, warm_up
    self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
    self._order = itertools.count()
    self.now = 0.0
    self._random = np.random.default_rng(seed)
    self._cpus, self._replay = _Servers(shape.cpus), _Servers(1)
    self._sources = [_Servers(1) for _ in range(shape.num_sources)]
    self._per_item = shape.samples_per_step * shape.steps_per_item
    # As `temper.utils.replay_rates` makes limiters.
    self._buffer = 2.0 * max(shape.batch_size, self._per_item, 1.0)
    self._inserted = self._sampled = 0
    self._blocked: list[int] = []
    self._waiting_batches, self._sampling, self._learning = 0, False, False
    self._unfetched = [0] * shape.num_actors
    self._fetching = [False] * shape.num_actors
    self._asked_at = [0.0] * shape.num_actors
    self._made_at = [0.0] * shape.num_actors
    self._aged_at = [warm_up] * shape.num_actors
    self.items = self.updates = self.fetches = 0
    self.age_integral = 0.0

  def run(self, end: float) -> None:
    """Lets time pass until `end`; all actors start within the time of one item."""
    each = self._shape.steps_per_item * (self._costs.environment + self._costs.acting)
    for actor in range(self._shape.num_actors):
      self._at(self._random.uniform(0, each), self._think, actor)
    for _ in range(self._shape.num_evaluators):
      self._at(self._random.uniform(0, each), self._evaluate)
    while self._events and self._events[0][0] < end:
      self.now, _, function, arguments = heapq.heappop(self._events)
      function(*arguments)
    self.now = end
    for actor in range(self._shape.num_actors):
      self._age(actor)

  def _at(self, time: float, function: Callable[..., None], *arguments: Any) -> None:
    heapq.heappush(self._events, (time, next(self._order), function, arguments))

  @property
  def _counting(self) -> bool:
    return self.now >= self._warm_up

  def _act(self, actor: int) -> None:
    # The environment's steps of a whole item, then the policy's: waits are the same in sum.
    waits = self._shape.steps_per_item * self._costs.environment
    self._at(self.now + waits, self._think, actor)

  def _think(self, actor: int) -> None:
    thinks = self._shape.steps_per_item * self._costs.acting
    self._at(self._cpus.serve(self.now, thinks), self._insert, actor)

  def _evaluate(self) -> None:
    steps = self._shape.steps_per_item
    done = self._cpus.serve(self.now, steps * self._costs.acting)
    self._at(done + steps * self._costs.environment, self._evaluate)

  def _insert(self, actor: int) -> None:
    if self._inserted * self._per_item - self._sampled > self._buffer:
      self._blocked.append(actor)
      return
    self._inserted += 1
    self._at(self._replay.serve(self.now, self._costs.insert), self._add, actor)
    self._sample()

  def _add(self, actor: int) -> None:
    self.items += self._counting
    self._unfetched[actor] += self._shape.steps_per_item
    if self._wants_variables(actor) and not self._fetching[actor]:
      self._unfetched[actor], self._fetching[actor] = 0, True
      self._asked_at[actor] = self.now
      source = self._sources[actor % len(self._sources)]
      self._at(source.serve(self.now, self._costs.fetch), self._fetched, actor)
    self._act(actor)

  def _wants_variables(self, actor: int) -> bool:
    if self._shape.fetch_seconds is None:
      return self._unfetched[actor] >= self._shape.fetch_period
    return self.now - self._asked_at[actor] >= self._shape.fetch_seconds

  def _fetched(self, actor: int) -> None:
    self._age(actor)
    made_at = self.now - self._costs.fetch
    if self._shape.num_caches:
      refresh = scaling_model.CACHE_REFRESH_SECONDS
      made_at = made_at // refresh * refresh
    self._made_at[actor], self._fetching[actor] = made_at, False
    self.fetches += self._counting

  def _age(self, actor: int) -> None:
    """Adds up how old an actor's variables were since it was last asked."""
    begun = self._aged_at[actor]
    if self.now > begun:
      middle = (begun + self.now) / 2
      self.age_integral += (self.now - begun) * (middle - self._made_at[actor])
      self._aged_at[actor] = self.now

  def _sample(self) -> None:
    left = self._inserted * self._per_item - self._sampled - self._shape.batch_size
    if self._sampling or self._waiting_batches >= _PREFETCH or left < -self._buffer:
      return
    self._sampling = True
    self._sampled += self._shape.batch_size
    done = self._replay.serve(self.now, self._shape.batch_size * self._costs.sample)
    self._at(done, self._have_sampled)
    blocked, self._blocked = self._blocked, []
    for actor in blocked:
      self._insert(actor)

  def _have_sampled(self) -> None:
    self._sampling = False
    self._waiting_batches += 1
    self._learn()
    self._sample()

  def _learn(self) -> None:
    if not self._learning and self._waiting_batches:
      self._learning = True
      self._waiting_batches -= 1
      self._at(self._cpus.serve(self.now, self._costs.learning), self._have_learnt)

  def _have_learnt(self) -> None:
    self._learning = False
    self.updates += self._counting
    self._learn()
    self._sample()


def simulate(
  costs: scaling_model.NodeCosts,
  shape: scaling_model.RunShape,
  seconds: float,
  *,
  warm_up: float = 0.0,
  seed: int = 0,
) -> scaling_model.Rates:
  """Simulates a run and counts. Actors ask for variables when they have added an item.

  Args:
    costs: of single nodes.
    shape: of the run.
    seconds: simulated time in which things are counted, above 0.
    warm_up: simulated time before, in which the queues fill.
    seed: of when each actor starts.

  Raises:
    ValueError: if `seconds` is not above 0.
  """
  if not seconds > 0:
    raise ValueError(f"seconds is {seconds}; it must be above 0.")
  simulation = _Simulation(costs, shape, warm_up, seed)
  simulation.run(warm_up + seconds)
  return scaling_model.Rates(
    simulation.items * shape.steps_per_item / seconds,
    simulation.updates / seconds,
    simulation.fetches / seconds,
    simulation.age_integral / seconds / shape.num_actors,
  )
