"""One offline run from the dataset to the last artefact, as a function."""

from collections.abc import Mapping
import contextlib
import dataclasses
import os
from typing import Any, Optional

from acme.utils import counting

from temper.agents import exported_policies
from temper.agents import offline
from temper.launchers import artefacts
from temper.launchers import best_checkpoints
from temper.launchers import callbacks
from temper.launchers import divergence
from temper.launchers import evaluating
from temper.launchers import offline_data
from temper.launchers import offline_evaluations
from temper.launchers import offline_training
from temper.launchers import run_checkpoint
from temper.launchers import wandb_log
from temper.launchers.offline_evaluations import BestEvaluation
from temper.launchers.offline_experiment_config import OfflineExperimentConfig
from temper.launchers.outcomes import Result
from temper.launchers.outcomes import SettingsError
from temper.launchers.run_directory import RunDirectory
from temper.launchers.run_directory import write_json
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import checkpointing
from temper.utils import environment_wrappers
from temper.utils import evaluation
from temper.utils import plotting
from temper.utils import run_loggers
from temper.utils import snapshots
from temper.utils import strategies
from temper.utils.checkpointing import Checkpointer
from temper.utils.datasets import opening
from temper.utils.datasets import windows
from temper.utils.progress import Progress


@dataclasses.dataclass(frozen=True)
class OfflineResult(Result):
  """What an offline run has come to.

  Attributes:
    best: by mode, as `evaluations`: the better of the last networks and of the checkpoint that did
      best while training, both evaluated at the end.
  """

  best: Mapping[str, BestEvaluation] = dataclasses.field(default_factory=dict)


def run_offline_experiment(
  config: OfflineExperimentConfig, stop: Optional[StopSignal] = None
) -> OfflineResult:
  """Learns from a dataset, or resumes a run, and leaves its artefacts in the directory.

  A resumed run goes on with the very batches that it would have had. Ctrl-C and SIGTERM end the run
  at its next step, with a checkpoint.

  Args:
    config: what to run.
    stop: an entered signal of the caller, which may have come already; None takes one of its own.

  Returns:
    The evaluations and counts.

  Raises:
    SettingsError: if agent, dataset, environment or directory do not allow it; nothing is changed
      on disk.
    StopRequested: if the user stops it before training begins; nothing is changed on disk.
    CheckpointError: if a checkpoint is damaged; says which, and what can be done.
    TrainingFailed: if a loss is NaN or infinite, or an evaluation fails; nothing is saved after the
      last good checkpoint.
    ImportError: if a package for the dataset's format is not installed.
  """
  # An ExitStack may swallow exceptions for all a type checker knows, hence no return inside.
  with contextlib.ExitStack() as cleanup:
    signal = cleanup.enter_context(StopSignal()) if stop is None else stop
    try:
      run = _Run(config, signal, cleanup)
    except ValueError as error:
      raise SettingsError(str(error)) from error
    result = run.to_the_end()
  return result


class _Run:
  """The parts of one run while it goes on."""

  def __init__(
    self, config: OfflineExperimentConfig, signal: StopSignal, cleanup: contextlib.ExitStack
  ):
    """Makes or restores everything; what can be refused is refused before the folder is touched."""
    if config.wandb_project is not None:
      wandb_log.import_wandb()
    self._config = config
    self._signal = signal
    self._directory = RunDirectory(config.directory)
    environment = None
    if config.environment is not None:
      source = evaluating.EnvironmentSource(config.environment, config.environment_options)
      environment = source.make(config.seed)
      cleanup.callback(environment.close)
    elif config.environment_options:
      raise ValueError(
        f"environment_options is {dict(config.environment_options)}, but there is no environment "
        "that they could change. Name one, or leave them out."
      )
    self._data = self._open(environment)
    signal.check()
    agent_config, self._derived = offline_data.with_value_range(
      config.config, config.values_from_data, self._data.episodes
    )
    self._strategy = strategies.make_strategy(config.strategy)
    self._learning_on = strategies.description(self._strategy, agent_config.batch_size)
    self._record = config.record(agent_config, self._data.identity())
    self._directory.check(self._record)
    cleanup.callback(self._directory.claim().release)

    self._checkpointer = Checkpointer(self._directory.checkpoints, keep=config.checkpoints_to_keep)
    self._checkpoint = self._checkpointer.latest()
    run_checkpoint.check(self._checkpoint, self._record)
    self._counter = counting.Counter(prefix="learner")
    self._agent = self._make_agent(agent_config)
    self._state = run_checkpoint.restore(
      self._checkpointer,
      self._checkpoint,
      self._agent,
      offline_training.OfflineState,
      self._counter,
    )
    self._finished = self._state.steps >= config.steps
    signal.check()

    self._directory.open(self._record)
    self._log = run_loggers.RunLog(
      self._directory.logs,
      resume_step=self._state.steps,
      evaluate_again=self._finished,
      files=run_loggers.OFFLINE_FILES,
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
    self._progress = Progress(max(config.steps, self._state.steps), initial=self._state.steps)
    cleanup.callback(self._progress.close)
    self._callbacks = callbacks.CallbackList(config.callbacks)
    self._watch = divergence.DivergenceWatch(agent_config)
    self._evaluations: Optional[offline_evaluations.OfflineEvaluations] = None
    if environment is not None:
      self._evaluator = evaluating.Evaluator(
        source,
        environment,
        self._agent.make_evaluation_actor,
        seed=config.seed,
        progress=self._progress,
        check_stop=signal.check,
      )
      self._evaluations = offline_evaluations.OfflineEvaluations(
        self._evaluator,
        config.policies,
        agent=self._agent,
        state=self._state,
        best=best_checkpoints.BestCheckpoints(self._directory.best, resume_step=self._state.steps),
        log=self._log,
        progress=self._progress,
        callbacks=self._callbacks,
      )

  def _open(
    self, environment: Optional[environment_wrappers.CanonicalEnvironment]
  ) -> offline_data.OfflineData:
    config, dataset = self._config, self._config.dataset
    if isinstance(dataset, str):
      dataset = opening.open_dataset(dataset, config.dataset_format)
    return offline_data.prepare(
      dataset,
      environment,
      sequence_length=config.config.sequence_length,
      normalise=config.normalise_observations,
    )

  def _make_agent(self, agent_config: Any) -> offline.OfflineAgent:
    done = checkpointing.read_state(self._checkpoint)["step"] if self._checkpoint else 0
    batches = windows.make_windows(
      self._data.episodes,
      sequence_length=agent_config.sequence_length,
      batch_size=agent_config.batch_size,
      burn_in_length=getattr(agent_config, "burn_in_length", 0),
      seed=self._config.seed,
      start_step=done,
    )
    return offline.OfflineAgent(
      self._config.builder_class(agent_config),
      self._data.spec,
      batches,
      observation_statistics=self._data.statistics,
      counter=self._counter,
      strategy=self._strategy,
      seed=self._config.seed,
    )

  def to_the_end(self) -> OfflineResult:
    """Learns, evaluates and makes the artefacts."""
    self._introduce()
    try:
      with run_checkpoint.failures_told(
        lambda: f"learner step {self._state.steps:,}", lambda: self._checkpoint, self._progress
      ):
        if not self._finished:
          self._learn()
        self._progress.close()
        final, best = self._evaluate_at_the_end()
        summary = self._finish(final, best)
    except StopRequested as stop:
      self._save()
      return OfflineResult({}, self._state.steps, stop, {}, self._checkpoint)
    return OfflineResult(final, self._state.steps, None, summary, self._checkpoint, best)

  def _introduce(self) -> None:
    """Says what was found, what was derived from it, and what will be evaluated."""
    config, note = self._config, self._progress.note
    note(str(self._data.summary))
    note(self._learning_on)
    for line in self._data.episodes.notes:
      note(f"{self._data.episodes.path}: {line}.")
    if self._derived:
      chosen = ", ".join(f"{name} = {value:g}" for name, value in self._derived.items())
      note(f"{chosen}, from the data's discounted returns; --config.vmin and --config.vmax set it.")
    if config.environment is None:
      bounds = self._data.actions.environment_spec
      note(
        "There is no environment: nothing is evaluated, and actions are taken to lie between "
        f"{bounds.minimum.tolist()} and {bounds.maximum.tolist()}, as the data's do."
      )
    else:
      kinds = ", ".join(str(choice) for choice in config.policies)
      while_training = "at the end only"
      if config.eval_every:
        while_training = (
          f"every {config.eval_every:,} steps over {config.eval_episodes_training} episodes, "
          f"at the end over {config.eval_episodes}"
        )
      note(f"Evaluating {while_training}: {kinds}.")
    if self._finished:
      note(
        f"{self._directory.path} has done its {self._state.steps:,} steps, so it is only evaluated "
        "again. Ask for more steps than that to train on."
      )
    elif self._checkpoint:
      note(f"Resuming from {self._checkpoint}.")

  def _learn(self) -> None:
    offline_training.OfflineTrainer(
      self._agent,
      self._counter,
      state=self._state,
      schedule=self._config.schedule(),
      log=self._log,
      progress=self._progress,
      watch=self._watch,
      check_stop=self._signal.check,
      evaluate=self._evaluate_while_training,
      save=self._save,
    ).run()
    self._save()

  def _evaluate_while_training(self) -> float:
    assert self._evaluations is not None  # Else the schedule has no evaluation.
    return self._evaluations.while_training(self._config.eval_episodes_training)

  def _evaluate_at_the_end(
    self,
  ) -> tuple[offline_evaluations.ByMode, dict[str, BestEvaluation]]:
    if self._evaluations is None:
      return {}, {}
    assert self._checkpoint is not None  # Written when training ended.
    return self._evaluations.at_the_end(
      self._config.eval_episodes, self._checkpointer, self._checkpoint
    )

  def _finish(
    self,
    final: Mapping[str, evaluation.EvaluationResult],
    best: Mapping[str, BestEvaluation],
  ) -> dict[str, Any]:
    """Makes the artefacts and returns what result.json holds."""
    config, directory = self._config, self._directory
    agent_title = config.title or self._record["agent"]
    place = f" on {self._record['environment']}" if config.environment is not None else ""
    name = os.path.basename(os.path.normpath(self._data.episodes.path))
    title = f"{agent_title}{place} from {name}, seed {config.seed}"
    unexported = artefacts.export_policy(
      exported_policies.ExportedNetworks(
        self._agent.builder.make_policy(self._agent.networks), self._data.spec, self._data.actions
      ),
      directory.policy,
      metadata={**self._record, "step": self._state.steps},
    )
    if unexported:
      self._progress.note(unexported)
    snapshots.save_snapshots(
      self._agent.builder.modules_to_snapshot(self._agent.networks, self._data.spec),
      directory.snapshots,
    )
    self._draw(title)
    if config.gif and self._evaluations is not None:
      choice = config.policies[0]
      self._evaluator.film(choice, final[choice.kind.mode], directory.episode)
    seconds = self._agent.learning_seconds
    summary = {
      "title": title,
      **{name: self._record[name] for name in ("agent", "environment", "seed")},
      "data": self._data.as_dict(),
      "evaluations": {mode: result.as_dict() for mode, result in final.items()},
      "best": {mode: result.as_dict() for mode, result in best.items()},
      "learner_steps": self._state.steps,
      "wall_seconds": self._state.wall_seconds,
      "learning_steps_per_second": self._state.steps / seconds if seconds else 0.0,
      "artefacts": artefacts.existing(directory, self._checkpoint or ""),
    }
    write_json(directory.result, summary)
    return summary

  def _draw(self, title: str) -> None:
    if self._evaluations is None:
      return
    low, high = self._data.interval
    try:
      plotting.plot_learning_curve(
        self._directory.logs,
        self._directory.learning_curve,
        title=title,
        steps_label="Learner steps",
        reference=plotting.Reference(
          "the data's mean return", self._data.summary.mean_return, low, high
        ),
      )
    except ImportError as error:
      self._progress.note(f"No learning curve: {error}")

  def _save(self) -> None:
    self._checkpoint = run_checkpoint.save(
      self._checkpointer, self._agent, self._state, self._counter, self._record
    )
    self._log.flush()
    self._callbacks.on_checkpoint(self._state.steps, self._checkpoint)
