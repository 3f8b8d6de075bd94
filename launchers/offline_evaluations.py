"""Evaluations of an offline run: each policy, while training and at the end, last and best."""

from collections.abc import Sequence
import dataclasses
from typing import Any

from temper.agents import offline
from temper.agents import policies
from temper.launchers import best_checkpoints
from temper.launchers import evaluating
from temper.launchers import offline_training
from temper.launchers.callbacks import NO_CALLBACKS
from temper.launchers.callbacks import CallbackList
from temper.utils import evaluation
from temper.utils import run_loggers
from temper.utils.checkpointing import Checkpointer
from temper.utils.progress import Progress

ByMode = dict[str, evaluation.EvaluationResult]


@dataclasses.dataclass(frozen=True)
class BestEvaluation:
  """What the best networks of a run come to, for one way to act.

  Attributes:
    step: learner steps that they had done.
    result: over the same starts as the evaluation of the last networks.
  """

  step: int
  result: evaluation.EvaluationResult

  def as_dict(self) -> dict[str, Any]:
    """Returns plain values that `json.dump` accepts."""
    return {"step": self.step, **self.result.as_dict()}


class OfflineEvaluations:
  """Evaluates each policy of a run, and keeps the networks that did best with it."""

  def __init__(
    self,
    evaluator: evaluating.Evaluator,
    choices: Sequence[policies.PolicyChoice],
    *,
    agent: offline.OfflineAgent,
    state: offline_training.OfflineState,
    best: best_checkpoints.BestCheckpoints,
    log: run_loggers.RunLog,
    progress: Progress,
    callbacks: CallbackList = NO_CALLBACKS,
  ):
    """Initialises the evaluations.

    Args:
      evaluator: plays the episodes.
      choices: the policies, one of a kind.
      agent: whose networks are evaluated.
      state: the run's counts.
      best: keeps the best networks.
      log: where each evaluation is written.
      progress: what the user sees.
      callbacks: told of each evaluation.
    """
    self._evaluator = evaluator
    self._choices = choices
    self._agent = agent
    self._state = state
    self._best = best
    self._log = log
    self._progress = progress
    self._callbacks = callbacks

  def while_training(self, episodes: int) -> float:
    """Evaluates all policies, keeps the best networks, and returns the first mean return."""
    results = self._evaluate_all(episodes)
    steps = self._state.steps
    if steps > 0:  # Untrained networks are no result.
      for mode, result in results.items():
        self._best.offer(mode, steps, result.mean, self._agent.checkpointables)
    means = ", ".join(
      f"{mode} {result.mean:.1f} [{result.low:.1f}, {result.high:.1f}]"
      for mode, result in results.items()
    )
    self._progress.note(f"step {steps:,}: mean return over {episodes} episodes: {means}")
    return next(iter(results.values())).mean

  def at_the_end(
    self, episodes: int, checkpointer: Checkpointer, checkpoint: str
  ) -> tuple[ByMode, dict[str, BestEvaluation]]:
    """Evaluates the last networks, and those that did best while training.

    Args:
      episodes: episodes of each evaluation.
      checkpointer: reads the checkpoints.
      checkpoint: holds the last networks, which the agent has before and afterwards.

    Returns:
      By mode, the evaluation of the last networks, and the better of that and the one of the best.
    """
    final = self._evaluate_all(episodes)
    best = {}
    for choice in self._choices:
      mode = choice.kind.mode
      best[mode] = BestEvaluation(self._state.steps, final[mode])
      kept = self._best.of(mode)
      if kept is None or kept.step == self._state.steps:
        continue
      try:
        checkpointer.restore(kept.path, self._agent.checkpointables())
        again = self._evaluator.evaluate(choice, episodes)
      finally:
        # Whatever happens, a checkpoint that is written now must hold the last networks.
        checkpointer.restore(checkpoint, self._agent.checkpointables())
      if again.mean > final[mode].mean:
        best[mode] = BestEvaluation(kept.step, again)
    return final, best

  def _evaluate_all(self, episodes: int) -> ByMode:
    """Evaluates each policy with the networks as they are, and logs it."""
    results = {}
    for choice in self._choices:
      result = self._evaluator.evaluate(choice, episodes)
      self._log.write_evaluation(self._state.steps, result, self._state.wall_seconds)
      self._callbacks.on_evaluation(self._state.steps, result)
      results[result.mode] = result
    return results
