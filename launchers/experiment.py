"""One run from the first step to the last artefact, as a function."""

from collections.abc import Mapping
import contextlib
import os
from typing import Any, Optional

from acme import specs
from acme.utils import counting
from acme.utils import loggers
import dm_env
import numpy as np

from temper.agents import exported_policies
from temper.agents import local
from temper.agents import policies
from temper.launchers import artefacts
from temper.launchers import best_checkpoints
from temper.launchers import callbacks
from temper.launchers import command_line
from temper.launchers import evaluating
from temper.launchers import run_checkpoint
from temper.launchers import training
from temper.launchers import wandb_log
from temper.launchers.experiment_config import ExperimentConfig
from temper.launchers.outcomes import Result
from temper.launchers.outcomes import SettingsError
from temper.launchers.run_directory import RunDirectory
from temper.launchers.run_directory import write_json
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import environment_wrappers
from temper.utils import evaluation
from temper.utils import numbered_starts
from temper.utils import plotting
from temper.utils import run_loggers
from temper.utils import strategies
from temper.utils.checkpointing import Checkpointer
from temper.utils.progress import Progress
from temper.utils.progress import rates_per_second


def run_experiment(
  config: ExperimentConfig, stop: Optional[StopSignal] = None, *, just_trained: bool = False
) -> Result:
  """Trains an agent, or resumes a run, and leaves its artefacts in the directory.

  Ctrl-C and SIGTERM end the run at its next step, with a checkpoint.

  Args:
    config: what to run.
    stop: an entered signal of the caller, which may have come already; None takes one of its own.
    just_trained: whether the caller has done all steps, so that nobody needs to hear that they are.

  Returns:
    The evaluations and counts.

  Raises:
    SettingsError: if agent, environment or directory do not allow it; nothing is changed on disk.
    StopRequested: if the user stops it before training begins; nothing is changed on disk.
    CheckpointError: if the newest checkpoint is damaged; says which, and what can be done.
    TrainingFailed: if a loss is NaN or infinite, replay is gone, or the environment returns what it
      may not or never ends; nothing is saved after the last good checkpoint.
  """
  # An ExitStack may swallow exceptions for all a type checker knows, hence no return inside.
  with contextlib.ExitStack() as cleanup:
    signal = cleanup.enter_context(StopSignal()) if stop is None else stop
    try:
      run = _Run(config, signal, cleanup)
    except ValueError as error:
      raise SettingsError(str(error)) from error
    result = run.to_the_end(just_trained)
  return result


class _Run:
  """The parts of one run while it goes on."""

  def __init__(self, config: ExperimentConfig, signal: StopSignal, cleanup: contextlib.ExitStack):
    """Makes or restores everything; what can be refused is refused before the folder is touched."""
    if config.wandb_project is not None:
      wandb_log.import_wandb()
    self._config = config
    self._signal = signal
    self._directory = RunDirectory(config.directory)
    self._record = config.record()
    source = evaluating.EnvironmentSource(config.environment, config.environment_options)
    self._test_environment = source.make(config.seed)
    cleanup.callback(self._test_environment.close)
    self._spec = specs.make_environment_spec(self._test_environment)
    signal.check()
    strategy = strategies.make_strategy(config.strategy)
    learning_on = strategies.description(strategy, config.builder.config.batch_size)
    networks = None
    if config.networks_factory is not None:
      with strategy.scope():
        networks = config.networks_factory(self._spec)
    self._directory.check(self._record)
    cleanup.callback(self._directory.claim().release)

    self._checkpointer = Checkpointer(self._directory.checkpoints, keep=config.checkpoints_to_keep)
    self._checkpoint = self._checkpointer.latest()
    run_checkpoint.check(self._checkpoint, self._record)
    self._counter = counting.Counter(prefix="learner")
    self._agent = local.LocalAgent(
      config.builder,
      self._spec,
      networks=networks,
      counter=self._counter,
      logger=loggers.NoOpLogger(),
      strategy=strategy,
      seed=config.seed,
      behaviour_policy=config.behaviour_policy,
      replay_checkpoint=self._checkpoint,
      replay_scratch=self._directory.replay_scratch,
    )
    cleanup.callback(self._agent.close)
    self._state = run_checkpoint.restore(
      self._checkpointer, self._checkpoint, self._agent, training.RunState, self._counter
    )
    self._finished = training.finished(self._state, config.steps, config.early_stop)
    self._environment = self._training_environment(source)
    cleanup.callback(self._environment.close)
    signal.check()

    self._directory.open(self._record)
    self._log = run_loggers.RunLog(
      self._directory.logs, resume_step=self._state.steps, evaluate_again=self._finished
    )
    cleanup.callback(self._log.close)
    if config.wandb_project is not None:
      self._log.add_sink(
        wandb_log.WandbLog(
          config.wandb_project,
          self._directory.logs,
          name=os.path.basename(os.path.abspath(self._directory.path)),
          record=self._record,
        )
      )
    self._best = best_checkpoints.BestCheckpoints(
      self._directory.best, resume_step=self._state.steps
    )
    self._callbacks = callbacks.CallbackList(config.callbacks)
    self._progress = Progress(max(config.steps, self._state.steps), initial=self._state.steps)
    cleanup.callback(self._progress.close)
    self._evaluator = evaluating.Evaluator(
      source,
      self._test_environment,
      self._agent.make_evaluation_actor,
      seed=config.seed,
      progress=self._progress,
      check_stop=signal.check,
    )
    for name, size in self._agent.replay_bytes.items():
      self._progress.note(f"Replay takes up to {size / 2**20:,.0f} MiB once {name!r} is full.")
    self._progress.note(
      f"Acting while training: {config.behaviour_policy}; in evaluations: {config.eval_policy}."
    )
    self._progress.note(learning_on)
    self._progress.note(f"{command_line.threads_text()} --intra_op_threads changes it.")
    schedule = config.builder.make_update_schedule()
    if not schedule.updates_due(config.steps):
      self._progress.note(
        f"Nothing will be learnt: the first learner step is due after {schedule.min_size:,} "
        f"environment steps, and the run has {config.steps:,}."
      )

  def to_the_end(self, just_trained: bool) -> Result:
    """Trains, evaluates and makes the artefacts."""
    if self._finished and not just_trained:
      self._progress.note(self._why_finished())
    elif self._checkpoint and not self._finished:
      items = ", ".join(f"{size:,} in {name}" for name, size in self._agent.replay_sizes().items())
      self._progress.note(f"Resuming from {self._checkpoint}; replay holds {items}.")
    try:
      with run_checkpoint.failures_told(
        lambda: f"environment step {self._state.steps:,}",
        lambda: self._checkpoint,
        self._progress,
      ):
        if not self._finished:
          self._train()
        self._progress.close()
        evaluations = self._evaluate_at_the_end()
        summary = self._finish(evaluations)
    except StopRequested as stop:
      self._save()
      return Result({}, self._state.steps, stop, {}, self._checkpoint)
    return Result(evaluations, self._state.steps, None, summary, self._checkpoint)

  def _training_environment(self, source: evaluating.EnvironmentSource) -> dm_env.Environment:
    config = self._config
    if config.fixed_start:
      return environment_wrappers.FixedStart(source.make(config.seed), config.seed)
    environment = source.make(_environment_seed(config.seed, self._state.steps))
    if not environment.can_seed:
      return environment
    return numbered_starts.NumberedStarts(
      environment, config.seed, begun=self._state.begun_episodes
    )

  def _why_finished(self) -> str:
    config, path, steps = self._config, self._directory.path, self._state.steps
    if steps >= config.steps:
      return (
        f"{path} has done its {steps:,} steps, so it is only evaluated again. Ask for more steps "
        "than that to train on."
      )
    return (
      f"{path} has met its early stop {self._early_stop_outcome()}; so it is only evaluated again. "
      "Ask for another early stop, or for none, to train on."
    )

  def _early_stop_outcome(self) -> str:
    assert self._config.early_stop is not None
    return self._config.early_stop.outcome(self._state.last_returns, self._state.steps)

  def _train(self) -> None:
    training.Trainer(
      self._agent,
      self._environment,
      state=self._state,
      schedule=self._config.schedule(),
      log=self._log,
      progress=self._progress,
      check_stop=self._signal.check,
      evaluate=self._evaluate_while_training,
      save=self._save,
      early_stop=self._config.early_stop,
      callbacks=self._callbacks,
    ).run()
    if self._state.steps < self._config.steps:
      self._progress.note(f"Early stop {self._early_stop_outcome()}.")
    self._save()

  def _evaluate_while_training(self) -> None:
    result = self._evaluate(self._config.eval_policy, self._config.eval_episodes_training)
    if self._state.steps > 0:  # Untrained networks are no result.
      self._best.offer(result.mode, self._state.steps, result.mean, self._agent.checkpointables)
    self._progress.note(
      f"step {self._state.steps:,}: mean return {result.mean:.1f} [{result.low:.1f}, "
      f"{result.high:.1f}] over {len(result.returns)} episodes, {result.mode}"
    )

  def _evaluate_at_the_end(self) -> dict[str, evaluation.EvaluationResult]:
    choices = {choice.kind: choice for choice in (policies.MEAN, policies.RAW)}
    choices.setdefault(self._config.eval_policy.kind, self._config.eval_policy)
    results = [self._evaluate(choice, self._config.eval_episodes) for choice in choices.values()]
    return {result.mode: result for result in results}

  def _evaluate(self, choice: policies.PolicyChoice, episodes: int) -> evaluation.EvaluationResult:
    result = self._evaluator.evaluate(choice, episodes)
    self._log.write_evaluation(self._state.steps, result, self._state.wall_seconds)
    self._callbacks.on_evaluation(self._state.steps, result)
    return result

  def _finish(self, evaluations: Mapping[str, evaluation.EvaluationResult]) -> dict[str, Any]:
    """Makes the artefacts and returns what result.json holds."""
    directory, agent = self._directory, self._agent
    agent_title = self._config.title or self._record["agent"]
    title = f"{agent_title} on {self._record['environment']}, seed {self._config.seed}"
    unexported = artefacts.export_policy(
      exported_policies.ExportedNetworks(
        self._config.builder.make_policy(agent.networks),
        self._spec,
        self._test_environment.action_mapping,
      ),
      directory.policy,
      metadata={**self._record, "step": self._state.steps},
    )
    if unexported:
      self._progress.note(unexported)
    try:
      plotting.plot_learning_curve(directory.logs, directory.learning_curve, title=title)
    except ImportError as error:
      self._progress.note(f"No learning curve: {error}")
    if self._config.gif:
      self._evaluator.film(policies.MEAN, evaluations["deterministic"], directory.episode)
    state, learner_steps = self._state, agent.learner.num_steps
    summary = {
      "title": title,
      **{name: self._record[name] for name in ("agent", "environment", "seed")},
      "evaluations": {mode: result.as_dict() for mode, result in evaluations.items()},
      "environment_steps": state.steps,
      "episodes": state.episodes,
      "early_stop": self._early_stop_summary(),
      "learner_steps": learner_steps,
      "wall_seconds": state.wall_seconds,
      **rates_per_second(
        environment_steps=state.steps,
        learner_steps=learner_steps,
        acting_seconds=state.acting_seconds,
        learning_seconds=state.learning_seconds,
        # In a program of several nodes both go on at once.
        elapsed_seconds=state.wall_seconds if self._record.get("distributed") else None,
      ),
      "artefacts": artefacts.existing(directory, self._checkpoint or ""),
    }
    write_json(directory.result, summary)
    return summary

  def _early_stop_summary(self) -> Optional[dict[str, Any]]:
    """Returns what was asked for and the step at which it was met, None if not; None if nothing."""
    early_stop, state = self._config.early_stop, self._state
    if early_stop is None:
      return None
    return {
      "return": early_stop.threshold,
      "patience": early_stop.patience,
      "step": state.steps if early_stop.met(state.last_returns) else None,
      "outcome": early_stop.outcome(state.last_returns, state.steps),
    }

  def _save(self) -> None:
    self._checkpoint = run_checkpoint.save(
      self._checkpointer,
      self._agent,
      self._state,
      self._counter,
      self._record,
      self._agent.save_replay,
    )
    self._log.flush()
    self._callbacks.on_checkpoint(self._state.steps, self._checkpoint)


def _environment_seed(seed: int, steps: int) -> int:
  """Returns the run's seed at its start; later another one, for what cannot be seeded again."""
  if steps == 0:
    return seed
  return int(np.random.SeedSequence([seed, steps]).generate_state(1)[0])
