"""Evaluation in several environments at once, the policy called once for all of them."""

from collections.abc import Sequence
from typing import Any, Callable, Optional, Protocol

import dm_env
import numpy as np
import tree

from temper.utils import evaluation
from temper.utils.policy_kinds import PolicyKind


class BatchActor(Protocol):
  """Acts in several environments, one a row; `temper.agents.batch_actor` has one."""

  def restart(self) -> None:
    """Begins an episode in every row, and what is random anew."""

  def begin(self, row: int) -> None:
    """Begins an episode in the environment of a row."""

  def select_actions(self, observations: Any) -> np.ndarray:
    """Returns an action `[B, *A]` for each observation, a nest of `[B, ...]`."""


def evaluate(
  environments: Sequence[dm_env.Environment],
  actor: BatchActor,
  *,
  seeds: Sequence[int],
  kind: PolicyKind,
  on_step: Optional[Callable[[], None]] = None,
  on_episode: Optional[Callable[[int], None]] = None,
) -> evaluation.EvaluationResult:
  """Plays one episode from each of the given starts, as many at once as there are environments.

  An environment whose episode has ended begins the next one at once. A policy that takes no random
  actions comes to what `evaluation.evaluate` finds, up to the rounding of a product with many rows;
  of one that does, the draws are others.

  Args:
    environments: B of one kind, at least one. They are stepped one after the other.
    actor: acts in B environments.
    seeds: the starts, at least one.
    kind: what the actor takes of its policy, for the record.
    on_step: called after each step of all environments; what it raises ends the evaluation.
    on_episode: called with the number of finished episodes when that grows.

  Returns:
    The returns in the order of the seeds, their mean, and its 95 % interval.

  Raises:
    EndlessEpisodeError: see `evaluation.run_episode`.
  """
  outcomes: dict[int, evaluation.Outcome] = {}
  # The place in `seeds` of the episode that a row plays, as long as it plays one.
  running: dict[int, tuple[int, evaluation.RunningEpisode]] = {}
  waiting = iter(range(len(seeds)))

  def begin(row: int) -> None:
    place = next(waiting, None)
    if place is None:
      running.pop(row, None)
      return
    actor.begin(row)
    running[row] = place, evaluation.RunningEpisode(environments[row], seeds[place])

  for row in range(min(len(environments), len(seeds))):
    begin(row)
  # A row that has nothing left to play keeps showing what it showed last; its action is not taken.
  first = running[0][1].timestep.observation
  observations = tree.map_structure(lambda leaf: np.stack([leaf] * len(environments)), first)
  while running:
    for row, (_, episode) in running.items():
      _put(observations, row, episode.timestep.observation)
    actions = actor.select_actions(observations)
    for row, (place, episode) in list(running.items()):
      episode.step(actions[row])
      outcome = episode.outcome()
      if outcome is not None:
        outcomes[place] = outcome
        begin(row)
        if on_episode:
          on_episode(len(outcomes))
    if on_step:
      on_step()
  return evaluation.summarise(seeds, [outcomes[place] for place in range(len(seeds))], kind)


def _put(batch: Any, row: int, observation: Any) -> None:
  """Writes an observation into a row of each array of the batch."""
  for into, leaf in zip(tree.flatten(batch), tree.flatten(observation)):
    into[row] = leaf
