"""How good is a policy: returns over chosen start states, and the interval their mean lies in."""

from collections.abc import Sequence
import dataclasses
import enum
from typing import Any, Callable, NamedTuple, Optional

from acme import core
from acme import types
import dm_env
import numpy as np

from temper.utils.policy_kinds import PolicyKind

# Far from the small numbers that people give as training seeds, so that a policy is never scored on
# the very start states it was trained on.
_FIRST_START_SEED = 1_000_003

# Fifty times what the longest common episodes take. Beyond it an episode is taken for endless.
MAX_EPISODE_STEPS = 100_000


class EndlessEpisodeError(RuntimeError):
  """An episode did not end, so that it has no return."""


class EpisodeEnd(enum.Enum):
  """What ended an episode."""

  TERMINATION = "termination"
  """The task: the last discount is 0."""
  TRUNCATION = "truncation"
  """A limit of steps, or the environment without a discount of 0."""


class Outcome(NamedTuple):
  """What an episode came to.

  Attributes:
    total: undiscounted return, reward units.
    length: environment steps.
    end: what ended it.
  """

  total: float
  length: int
  end: EpisodeEnd


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
  """The returns of a set of episodes and the interval around their mean.

  Attributes:
    seeds: which start each episode began from, in order.
    returns: undiscounted return of each episode, reward units.
    lengths: length of each episode, environment steps.
    ends: what ended each episode.
    mean: mean of `returns`.
    low: lower end of the 95 % bootstrap interval of the mean.
    high: upper end of that interval.
    kind: what was taken of the policy as its action.
  """

  seeds: Sequence[int]
  returns: Sequence[float]
  lengths: Sequence[int]
  ends: Sequence[EpisodeEnd]
  mean: float
  low: float
  high: float
  kind: PolicyKind

  @property
  def mode(self) -> str:
    """How the policy acted, such as "deterministic": for logs and tables."""
    return self.kind.mode

  def as_dict(self) -> dict[str, Any]:
    """Returns plain numbers that `json.dump` accepts."""
    return {
      "policy": self.kind.value,
      "mean": self.mean,
      "low": self.low,
      "high": self.high,
      "episodes": len(self.returns),
      "returns": list(self.returns),
      "lengths": list(self.lengths),
      "seeds": list(self.seeds),
      "ended_by": [end.value for end in self.ends],
    }


def summarise(
  seeds: Sequence[int], outcomes: Sequence[Outcome], kind: PolicyKind
) -> EvaluationResult:
  """Returns the result of episodes that were played.

  Args:
    seeds: which starts they began from, at least one.
    outcomes: what each came to.
    kind: what was taken of the policy as its action.
  """
  returns = [outcome.total for outcome in outcomes]
  low, high = bootstrap_interval(returns)
  return EvaluationResult(
    seeds=list(seeds),
    returns=returns,
    lengths=[outcome.length for outcome in outcomes],
    ends=[outcome.end for outcome in outcomes],
    mean=float(np.mean(returns)),
    low=low,
    high=high,
    kind=kind,
  )


def start_seeds(episodes: int) -> Sequence[int]:
  """Returns one seed an episode: different starts, yet the same ones at every call."""
  if episodes < 1:
    raise ValueError(f"episodes must be at least 1, got {episodes}.")
  return [_FIRST_START_SEED + index for index in range(episodes)]


def bootstrap_interval(
  values: Sequence[float],
  *,
  confidence: float = 0.95,
  resamples: int = 10_000,
  seed: int = 0,
) -> "tuple[float, float]":
  """Returns the percentile bootstrap interval of the mean of `values`.

  The values are drawn again with replacement `resamples` times; the interval holds the central
  `confidence` share of the means. One value alone gives an interval of no width.

  Args:
    values: the sample, at least one finite number.
    confidence: share of the means to hold, strictly between 0 and 1.
    resamples: number of redraws.
    seed: seed of the redraws, fixed so that a report can be repeated.

  Returns:
    The lower and the upper end.

  Raises:
    ValueError: if `values` is empty or holds NaN or infinity, or `confidence` is not in (0, 1).
  """
  sample = np.asarray(values, dtype=np.float64)
  if sample.size == 0 or not np.all(np.isfinite(sample)):
    raise ValueError(f"values must be one or more finite numbers, got {list(values)}.")
  if not 0.0 < confidence < 1.0:
    raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
  rng = np.random.default_rng(seed)
  means = sample[rng.integers(sample.size, size=(resamples, sample.size))].mean(axis=1)
  tail = 50.0 * (1.0 - confidence)
  low, high = np.percentile(means, [tail, 100.0 - tail])
  return float(low), float(high)


class RunningEpisode:
  """An episode as it is played, without learning.

  Attributes:
    timestep: the newest time step.
    total: undiscounted return so far.
    length: steps so far.
  """

  def __init__(self, environment: dm_env.Environment, seed: Optional[int] = None):
    """Begins the episode.

    Args:
      environment: where to play. If it has a `seed` method, that chooses the start state.
      seed: chooses the start state; None leaves the environment's own sequence of starts.
    """
    if seed is not None and _can_seed(environment):
      environment.seed(seed)
    self._environment = environment
    self.timestep = environment.reset()
    self.total, self.length = 0.0, 0

  def step(self, action: types.NestedArray) -> dm_env.TimeStep:
    """Takes a step, and returns what it led to.

    Raises:
      EndlessEpisodeError: if the episode goes on after `MAX_EPISODE_STEPS` steps.
    """
    if self.length >= MAX_EPISODE_STEPS:
      raise EndlessEpisodeError(
        f"An episode has not ended after {self.length:,} steps, so the policy cannot be evaluated. "
        "Give max_episode_steps to cut the episodes of an environment that never ends."
      )
    self.timestep = self._environment.step(action)
    self.total += float(self.timestep.reward)
    self.length += 1
    return self.timestep

  def outcome(self) -> Optional[Outcome]:
    """Returns what the episode came to, None while it goes on."""
    if not self.timestep.last():
      return None
    ended = EpisodeEnd.TRUNCATION if self.timestep.discount else EpisodeEnd.TERMINATION
    return Outcome(self.total, self.length, ended)


def run_episode(
  environment: dm_env.Environment,
  actor: core.Actor,
  *,
  seed: Optional[int] = None,
  on_step: Optional[Callable[[dm_env.TimeStep], None]] = None,
) -> Outcome:
  """Plays one episode without learning.

  Args:
    environment: where to play. If it has a `seed` method, that chooses the start state.
    actor: who plays. Its `observe_first`, `observe` are called, its `update` is not.
    seed: chooses the start state; None leaves the environment's own sequence of starts.
    on_step: called with every time step, the first included; whatever it raises passes through.

  Returns:
    What the episode came to.

  Raises:
    EndlessEpisodeError: if the episode goes on after `MAX_EPISODE_STEPS` steps.
  """
  episode = RunningEpisode(environment, seed)
  actor.observe_first(episode.timestep)
  if on_step:
    on_step(episode.timestep)
  while (outcome := episode.outcome()) is None:
    action = actor.select_action(episode.timestep.observation)
    timestep = episode.step(action)
    actor.observe(action, next_timestep=timestep)
    if on_step:
      on_step(timestep)
  return outcome


def _can_seed(environment: dm_env.Environment) -> bool:
  """Whether start states can be chosen: a wrapper may have `seed`, and nothing inside to seed."""
  return getattr(environment, "can_seed", callable(getattr(environment, "seed", None)))


def evaluate(
  environment: dm_env.Environment,
  actor: core.Actor,
  *,
  seeds: Sequence[int],
  kind: PolicyKind,
  on_step: Optional[Callable[[dm_env.TimeStep], None]] = None,
) -> EvaluationResult:
  """Plays one episode from each of the given starts, one after the other.

  Args:
    environment: where to play; not the environment that training is in the middle of.
    actor: an evaluation actor, which must not write to replay.
    seeds: the starts, at least one; `start_seeds` gives those that evaluations usually have.
    kind: what the actor takes of its policy, for the record.
    on_step: called after every step; what it raises ends the evaluation.

  Returns:
    The returns, their mean, and its 95 % interval.

  Raises:
    EndlessEpisodeError: see `run_episode`.
  """
  outcomes = [run_episode(environment, actor, seed=seed, on_step=on_step) for seed in seeds]
  return summarise(seeds, outcomes, kind)
