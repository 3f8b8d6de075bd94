"""In how many environments at once an evaluation is quickest, by what is measured first."""

from collections.abc import Sequence
import contextlib
import dataclasses
import time
from typing import Any, Callable, NamedTuple

import dm_env
import numpy as np
import tree

from temper.utils import batched_evaluation
from temper.utils import evaluation

# More rows than that cost memory, and save little.
_MOST = 32
# Seconds that are not worth a second environment.
_TOO_LITTLE = 1.0
# Calls that are timed; the first call of all compiles, and is not.
_TIMED_CALLS = 5

MakeActor = Callable[[int], batched_evaluation.BatchActor]


@dataclasses.dataclass(frozen=True)
class Measured:
  """What was measured in the first episode and beside it; seconds.

  Attributes:
    steps: environment steps that are still to be done, if all episodes are as long as the first.
    step: one step of the environment.
    policy: one call of the policy for one environment.
    making: to make one more environment.
    batched_policy: one call of the policy for all environments.
  """

  steps: int
  step: float
  policy: float
  making: float
  batched_policy: float

  def one_by_one(self) -> float:
    """Returns the seconds that one environment would take."""
    return self.steps * (self.step + self.policy)

  def at_once(self, count: int) -> float:
    """Returns the seconds that `count` environments would take, two of which are made."""
    calls = -(-self.steps // count)
    return (count - 2) * self.making + self.steps * self.step + calls * self.batched_policy


class Chosen(NamedTuple):
  """How an evaluation is to be done.

  Attributes:
    environments: what was made, as many as are to be played in at once.
    actor: acts in them.
    reason: why so many, in words.
  """

  environments: list[dm_env.Environment]
  actor: batched_evaluation.BatchActor
  reason: str


def balanced(episodes: int) -> int:
  """Returns how many environments at once leave the fewest idle, of `_MOST` at the most."""
  rounds = -(-episodes // _MOST)
  return -(-episodes // rounds)


def choose(
  environment: dm_env.Environment,
  make_environment: Callable[[], dm_env.Environment],
  make_actor: MakeActor,
  seeds: Sequence[int],
  *,
  check_stop: Callable[[], None],
  cleanup: contextlib.ExitStack,
) -> Chosen:
  """Plays the first episode alone, and chooses by what it took.

  The episode is played again in the evaluation, which is then the same as one for which the number
  was given.

  Args:
    environment: the first one.
    make_environment: makes another.
    make_actor: makes an actor of so many environments.
    seeds: the starts of all episodes.
    check_stop: called at each step; raises when the user wants to stop.
    cleanup: closes what is made.

  Returns:
    What to evaluate with.
  """
  single = make_actor(1)
  timed = _TimedActor(single)
  episode, seconds = _play(environment, timed, seeds[0], check_stop)
  policy = timed.seconds_a_call()
  # What the first call took longer than others was compiling.
  step = max(0.0, seconds - timed.seconds) / episode.length
  steps = episode.length * len(seeds)
  speed = f"A step of the environment takes {_ms(step)} and the policy {_ms(policy)}"
  alone = Chosen([environment], single, "")
  if steps * policy < _TOO_LITTLE:
    return alone._replace(reason=f"{speed}: there is too little to gain.")

  count = balanced(len(seeds))
  begun = time.monotonic()
  second = make_environment()
  cleanup.callback(second.close)
  making = time.monotonic() - begun
  check_stop()
  batch = make_actor(count)
  batched_policy = _time_batch(batch, episode.timestep.observation, count)
  measured = Measured(steps, step, policy, making, batched_policy)
  found = (
    f"{speed}, {_ms(batched_policy)} for {count} at once: one by one would take about "
    f"{measured.one_by_one():.0f} s, {count} at once {measured.at_once(count):.0f} s."
  )
  if measured.at_once(count) >= measured.one_by_one():
    return alone._replace(reason=found)
  environments = [environment, second]
  for _ in range(count - 2):
    check_stop()
    environments.append(make_environment())
    cleanup.callback(environments[-1].close)
  batch.restart()
  return Chosen(environments, batch, found)


class _TimedActor:
  """Times the calls of another one."""

  def __init__(self, actor: batched_evaluation.BatchActor):
    self._actor = actor
    self._calls: list[float] = []

  @property
  def seconds(self) -> float:
    """Of all calls together."""
    return sum(self._calls)

  def seconds_a_call(self) -> float:
    """Returns the median, which leaves the compiling call aside."""
    return float(np.median(self._calls))

  def restart(self) -> None:
    self._actor.restart()

  def begin(self, row: int) -> None:
    self._actor.begin(row)

  def select_actions(self, observations: Any) -> np.ndarray:
    begun = time.monotonic()
    actions = self._actor.select_actions(observations)
    self._calls.append(time.monotonic() - begun)
    return actions


def _play(
  environment: dm_env.Environment,
  actor: _TimedActor,
  seed: int,
  check_stop: Callable[[], None],
) -> tuple[evaluation.RunningEpisode, float]:
  """Plays an episode; returns it and the seconds that it took, its beginning left aside."""
  episode = evaluation.RunningEpisode(environment, seed)
  actor.begin(0)
  begun = time.monotonic()
  while episode.outcome() is None:
    observation = tree.map_structure(
      lambda leaf: np.asarray(leaf)[None], episode.timestep.observation
    )
    episode.step(actor.select_actions(observation)[0])
    check_stop()
  seconds = time.monotonic() - begun
  actor.restart()
  return episode, seconds


def _time_batch(actor: batched_evaluation.BatchActor, observation: Any, count: int) -> float:
  batch = tree.map_structure(lambda leaf: np.stack([leaf] * count), observation)
  calls = []
  for _ in range(1 + _TIMED_CALLS):
    begun = time.monotonic()
    actor.select_actions(batch)
    calls.append(time.monotonic() - begun)
  return float(np.median(calls[1:]))


def _ms(seconds: float) -> str:
  return f"{1000 * seconds:.2g} ms"
