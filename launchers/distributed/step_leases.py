"""How a run's environment steps are handed out to its actors, and what these report of them."""

from collections.abc import Mapping
import dataclasses
from typing import NamedTuple

# How much acting an actor does between two reports.
_LEASE_SECONDS = 0.1
_MAX_LEASE = 1_000


class Episode(NamedTuple):
  """An episode that an actor has finished.

  Attributes:
    episode_return: sum of its rewards.
    length: its steps.
    at: how many of the reported steps, of all the actor's environments, were done when it ended.
  """

  episode_return: float
  length: int
  at: int


class Age(NamedTuple):
  """How old the variables of an actor were, at most, for a while.

  Attributes:
    steps: learner steps that they were behind.
    seconds: since the learner served them.
  """

  steps: float = 0.0
  seconds: float = 0.0

  def or_older(self, metrics: Mapping[str, float]) -> "Age":
    """Returns the larger of this and what an actor's metrics say, each for itself."""
    return Age(
      max(self.steps, metrics.get("variable_age_steps", 0.0)),
      max(self.seconds, metrics.get("variable_age_seconds", 0.0)),
    )


class Report(NamedTuple):
  """What an actor did since its last report.

  Attributes:
    steps: environment steps, of those that it was leased.
    seconds: time that they took.
    version: learner step whose policy it acts by.
    age: of its variables.
    episodes: those that ended, in order.
  """

  steps: int = 0
  seconds: float = 0.0
  version: int = 0
  age: Age = Age()
  episodes: tuple[Episode, ...] = ()


@dataclasses.dataclass
class _ActorRecord:
  """What is known of one actor."""

  leased: int = 0
  version: int = 0
  age: Age = Age()
  rate: float = 0.0
  done: bool = False


class StepLeases:
  """Leases steps to actors, so that together they do exactly as many as are asked for."""

  def __init__(self, envs_per_actor: int = 1):
    """Initialises the book without actors.

    Args:
      envs_per_actor: environments of each actor, all of which take a step in a round. A lease is of
        whole rounds, but for the last steps of a run.
    """
    self._envs_per_actor = envs_per_actor
    self._actors: dict[int, _ActorRecord] = {}

  def take_in(self, actor_id: int) -> None:
    """Takes an actor in, anew if it was started again: what it had not reported is done again."""
    self._actors[actor_id] = _ActorRecord()

  def give_up(self, actor_id: int) -> None:
    """Hears that an actor does no more: it has ended, or is gone for good."""
    self._actors.setdefault(actor_id, _ActorRecord()).done = True
    self._actors[actor_id].leased = 0

  def give_all_up(self) -> None:
    """Counts on none of the actors any longer."""
    for actor_id in self._actors:
      self.give_up(actor_id)

  def hear(self, actor_id: int, report: Report) -> None:
    """Takes back what an actor had been leased, and remembers what it says of itself."""
    actor = self._actors.setdefault(actor_id, _ActorRecord())
    actor.leased, actor.version = 0, report.version
    actor.age = actor.age.or_older(
      {"variable_age_steps": report.age.steps, "variable_age_seconds": report.age.seconds}
    )
    if report.steps and report.seconds:
      actor.rate = report.steps / report.seconds

  def lease(self, actor_id: int, left: int) -> int:
    """Leases an actor, whose last lease is used up, steps of those that the run has left.

    Args:
      actor_id: the actor.
      left: steps that the run has left, with those that are leased.

    Returns:
      The steps; 0 if all are leased to others.
    """
    actor, rows = self._actors[actor_id], self._envs_per_actor
    left -= sum(record.leased for record in self._actors.values())
    wanted = max(rows, min(_MAX_LEASE, int(actor.rate * _LEASE_SECONDS)) // rows * rows)
    if left < rows and any(record.leased for record in self._actors.values()):
      return 0  # Others may yet leave a whole round.
    # Less than a round is left at the very end only.
    actor.leased = max(0, min(wanted, left if left < rows else left // rows * rows))
    return actor.leased

  @property
  def any_leased(self) -> bool:
    """Whether an actor that has not ended has a lease."""
    return any(actor.leased and not actor.done for actor in self._actors.values())

  @property
  def all_done(self) -> bool:
    """Whether none of the actors that were taken in does any more."""
    return all(actor.done for actor in self._actors.values())

  @property
  def num_known(self) -> int:
    """Actors that were taken in."""
    return len(self._actors)

  @property
  def num_acting(self) -> int:
    """Actors that have not ended."""
    return sum(not actor.done for actor in self._actors.values())

  @property
  def rates(self) -> list[float]:
    """Environment steps a second of each actor that has not ended, as it last reported."""
    return [actor.rate for _, actor in sorted(self._actors.items()) if not actor.done]

  def oldest(self, learner_steps: int) -> Age:
    """Returns how old an actor's variables were, at most, since `forget_ages`.

    Args:
      learner_steps: those that the learner has done, which variables may be behind.
    """
    acting = [actor for actor in self._actors.values() if not actor.done]
    return Age(
      max((max(actor.age.steps, learner_steps - actor.version) for actor in acting), default=0.0),
      max((actor.age.seconds for actor in acting), default=0.0),
    )

  def forget_ages(self) -> None:
    """Begins to look for the oldest variables anew."""
    for actor in self._actors.values():
      actor.age = Age()
