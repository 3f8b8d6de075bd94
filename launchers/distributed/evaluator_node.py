"""The node that plays the evaluations while a distributed run trains."""

import time
from typing import Any

from acme import core
import launchpad as lp

from temper.agents import variable_sources
from temper.launchers import best_checkpoints
from temper.launchers import evaluating
from temper.launchers import run_loading
from temper.launchers.distributed import node_networks
from temper.launchers.distributed.settings import RunSettings
from temper.utils import variable_client
from temper.utils.checkpointing import Checkpointer
from temper.utils.progress import Progress

_ASK_SECONDS = 0.2


class _EndOfRun(BaseException):
  """Leaves an evaluation in the middle of an episode; no error."""


class EvaluatorNode:
  """Plays the evaluations while training, and keeps the networks that did best in them."""

  def __init__(self, settings: RunSettings, source: core.VariableSource, monitor: Any):
    """Makes environment and networks.

    Args:
      settings: the run.
      source: client of the learner or a cache.
      monitor: client of the monitor.
    """
    self._settings, self._monitor = settings, monitor
    config, builder = settings.config, settings.config.builder
    environments = evaluating.EnvironmentSource(config.environment, config.environment_options)
    self._environment = environments.make(config.seed)
    networks = node_networks.make_networks(settings)
    policy, critic = builder.make_policy(networks), builder.make_critic(networks)
    # All of them, since a best checkpoint is loaded whole.
    self._trackables = run_loading.network_parts(networks)
    self._variables = variable_client.VariableClient(
      variable_sources.PatientSource(source),
      {name: network.variables for name, network in self._trackables.items()},
      period_calls=1,
    )
    self._evaluator = evaluating.Evaluator(
      environments,
      self._environment,
      lambda choice, seed: builder.make_actor(
        policy,
        None,
        choice=choice,
        critic_network=critic,
        action_spec=settings.environment_spec.actions,
        seed=seed,
      ),
      seed=config.seed,
      progress=Progress(config.steps),
      check_stop=_check_stop,
    )
    newest = Checkpointer(settings.directory.checkpoints).latest()
    self._best = best_checkpoints.BestCheckpoints(
      settings.directory.best, resume_step=1 if newest else 0
    )

  def run(self) -> None:
    """Plays the evaluations that are due until the run ends."""
    config = self._settings.config
    self._monitor.evaluator_started()
    try:
      while True:
        _check_stop()
        answer = self._monitor.evaluation_due()
        if answer["end"]:
          return
        if not answer["due"]:
          time.sleep(_ASK_SECONDS)
          continue
        self._variables.update_and_wait()
        result = self._evaluator.evaluate(config.eval_policy, config.eval_episodes_training)
        if answer["steps"] > 0:  # Untrained networks are no result.
          self._best.offer(result.mode, answer["steps"], result.mean, lambda: self._trackables)
        self._monitor.evaluated(answer["steps"], result)
    except _EndOfRun:
      pass
    finally:
      self._environment.close()


def _check_stop() -> None:
  if lp.wait_for_stop(0):
    raise _EndOfRun()
