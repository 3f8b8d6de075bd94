"""One run from the first step to the last artefact, as a function."""

from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any, Optional

from acme import specs
from acme.utils import counting
from acme.utils import loggers
import dm_env
import numpy as np

from temper.agents import learner as learner_lib
from temper.agents import local
from temper.launchers import artefacts
from temper.launchers import training
from temper.launchers.experiment_config import ExperimentConfig
from temper.launchers.run_directory import RunDirectory
from temper.launchers.run_directory import write_json
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import environment_wrappers
from temper.utils import environments
from temper.utils import evaluation
from temper.utils import exporting
from temper.utils import plotting
from temper.utils import recording
from temper.utils import run_loggers
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import CheckpointError
from temper.utils.checkpointing import way_out
from temper.utils.progress import Progress
from temper.utils.progress import rates_per_second

# Steps of one evaluation episode after which, and after as many more, the user is told of it.
_LONG_EPISODE = 10_000


class SettingsError(ValueError):
  """What is asked for cannot be run; the message says why and what can."""


class TrainingFailed(RuntimeError):
  """Learner, replay or environment failed; the message says what, and the last good checkpoint."""


@dataclasses.dataclass(frozen=True)
class Result:
  """What a run has come to.

  Attributes:
    evaluations: "deterministic" and "stochastic" evaluation at the end; none if it was stopped.
    steps: environment steps.
    stop: why it ended early, None if it did not.
    summary: what result.json holds; empty if it was stopped.
    checkpoint: the newest checkpoint.
  """

  evaluations: Mapping[str, evaluation.EvaluationResult]
  steps: int
  stop: Optional[StopRequested]
  summary: Mapping[str, Any]
  checkpoint: Optional[str]


def run_experiment(config: ExperimentConfig, stop: Optional[StopSignal] = None) -> Result:
  """Trains an agent, or resumes a run, and leaves its artefacts in the directory.

  Ctrl-C and SIGTERM end the run at its next step, with a checkpoint.

  Args:
    config: what to run.
    stop: an entered signal of the caller, which may have come already; None takes one of its own.

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
    result = run.to_the_end()
  return result


class _Run:
  """The parts of one run while it goes on."""

  def __init__(self, config: ExperimentConfig, signal: StopSignal, cleanup: contextlib.ExitStack):
    """Makes or restores everything; what can be refused is refused before the folder is touched."""
    self._config = config
    self._signal = signal
    self._directory = RunDirectory(config.directory)
    self._record = config.record()
    make = environments.environment_factory(config.environment, **config.environment_options)
    self._test_environment = make(config.seed)
    cleanup.callback(self._test_environment.close)
    self._spec = specs.make_environment_spec(self._test_environment)
    signal.check()
    networks = config.networks_factory(self._spec) if config.networks_factory else None
    self._directory.check(self._record)
    cleanup.callback(self._directory.claim().release)

    self._checkpointer = Checkpointer(self._directory.checkpoints, keep=config.checkpoints_to_keep)
    self._checkpoint = self._checkpointer.latest()
    self._counter = counting.Counter(prefix="learner")
    self._agent = local.LocalAgent(
      config.builder,
      self._spec,
      networks=networks,
      counter=self._counter,
      logger=loggers.NoOpLogger(),
      seed=config.seed,
      replay_checkpoint=self._checkpoint,
      replay_scratch=self._directory.replay_scratch,
    )
    cleanup.callback(self._agent.close)
    self._state = self._restore()
    self._finished = self._state.steps >= config.steps
    self._environment = make(_environment_seed(config.seed, self._state.steps))
    cleanup.callback(self._environment.close)
    signal.check()

    self._directory.open(self._record)
    self._log = run_loggers.RunLog(
      self._directory.logs, resume_step=self._state.steps, evaluate_again=self._finished
    )
    cleanup.callback(self._log.close)
    self._progress = Progress(max(config.steps, self._state.steps), initial=self._state.steps)
    cleanup.callback(self._progress.close)
    for name, size in self._agent.replay_bytes.items():
      self._progress.note(f"Replay takes up to {size / 2**20:,.0f} MiB once {name!r} is full.")
    schedule = config.builder.make_update_schedule()
    if not schedule.updates_due(config.steps):
      self._progress.note(
        f"Nothing will be learnt: the first learner step is due after {schedule.min_size:,} "
        f"environment steps, and the run has {config.steps:,}."
      )

  def to_the_end(self) -> Result:
    """Trains, evaluates and makes the artefacts."""
    if self._finished:
      self._progress.note(
        f"{self._directory.path} has done its {self._state.steps:,} steps, so it is only evaluated "
        "again. Ask for more steps than that to train on."
      )
    elif self._checkpoint:
      self._progress.note(f"Resuming from {self._checkpoint}.")
    try:
      if not self._finished:
        self._train()
      self._progress.close()
      evaluations = {
        mode: self._evaluate(mode == "deterministic", self._config.eval_episodes)
        for mode in ("deterministic", "stochastic")
      }
      return Result(
        evaluations, self._state.steps, None, self._finish(evaluations), self._checkpoint
      )
    except StopRequested as stop:
      self._save()
      return Result({}, self._state.steps, stop, {}, self._checkpoint)
    except (
      learner_lib.NonFiniteError,
      learner_lib.DataExhaustedError,
      environment_wrappers.EnvironmentFault,
      evaluation.EndlessEpisodeError,
    ) as error:
      raise TrainingFailed(
        f"Training stopped at environment step {self._state.steps:,}. {error}\n"
        f"Last good checkpoint: {self._checkpoint or 'none yet'}"
      ) from error
    except Exception:
      # Nothing is saved, since the weights may be what has gone wrong.
      self._progress.note(f"Last good checkpoint: {self._checkpoint or 'none yet'}")
      raise

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
    ).run()
    self._save()

  def _evaluate_while_training(self) -> None:
    result = self._evaluate(True, self._config.eval_episodes_training)
    self._progress.note(
      f"step {self._state.steps:,}: mean return {result.mean:.1f} [{result.low:.1f}, "
      f"{result.high:.1f}] over {len(result.returns)} episodes, {result.mode}"
    )

  def _evaluate(self, deterministic: bool, episodes: int) -> evaluation.EvaluationResult:
    actor = self._agent.make_evaluation_actor(deterministic=deterministic, seed=self._config.seed)
    steps = 0

    def on_step(timestep: dm_env.TimeStep) -> None:
      nonlocal steps
      self._signal.check()
      steps = 0 if timestep.first() else steps + 1
      if steps and steps % _LONG_EPISODE == 0:
        self._progress.note(
          f"An evaluation episode has run for {steps:,} steps; the limit is "
          f"{evaluation.MAX_EPISODE_STEPS:,}."
        )

    result = evaluation.evaluate(
      self._test_environment,
      actor,
      episodes=episodes,
      deterministic=deterministic,
      on_step=on_step,
    )
    self._log.write(
      "evaluation",
      self._state.steps,
      {
        "mode": result.mode,
        "return_mean": result.mean,
        "return_low": result.low,
        "return_high": result.high,
        "episodes": episodes,
        "wall_seconds": self._state.wall_seconds,
      },
    )
    return result

  def _finish(self, evaluations: Mapping[str, evaluation.EvaluationResult]) -> dict[str, Any]:
    """Makes the artefacts and returns what result.json holds."""
    directory, agent = self._directory, self._agent
    agent_title = self._config.title or self._record["agent"]
    title = f"{agent_title} on {self._record['environment']}, seed {self._config.seed}"
    exporting.export_policy(
      self._config.builder.make_policy(agent.networks),
      self._spec,
      directory.policy,
      to_environment=self._test_environment.action_mapping.to_environment,
      metadata=self._record,
    )
    try:
      plotting.plot_learning_curve(directory.logs, directory.learning_curve, title=title)
    except ImportError as error:
      self._progress.note(f"No learning curve: {error}")
    if self._config.gif:
      self._film(evaluations["deterministic"])
    state, learner_steps = self._state, agent.learner.num_steps
    summary = {
      "title": title,
      **{name: self._record[name] for name in ("agent", "environment", "seed")},
      "evaluations": {mode: result.as_dict() for mode, result in evaluations.items()},
      "environment_steps": state.steps,
      "episodes": state.episodes,
      "learner_steps": learner_steps,
      "wall_seconds": state.wall_seconds,
      **rates_per_second(
        environment_steps=state.steps,
        learner_steps=learner_steps,
        acting_seconds=state.acting_seconds,
        learning_seconds=state.learning_seconds,
      ),
      "artefacts": artefacts.existing(directory, self._checkpoint or ""),
    }
    write_json(directory.result, summary)
    return summary

  def _film(self, evaluated: evaluation.EvaluationResult) -> None:
    options = dict(self._config.environment_options)
    named = isinstance(self._config.environment, str)
    if named:
      # Gymnasium must know beforehand; an environment of one's own draws itself or does not.
      options["render"] = True
    make = environments.environment_factory(self._config.environment, **options)
    actor = self._agent.make_evaluation_actor(deterministic=True, seed=self._config.seed)
    with contextlib.closing(make(self._config.seed)) as environment:
      try:
        artefacts.film(environment, actor, evaluated, self._directory.episode)
      except (recording.RenderingError, ImportError) as error:
        self._progress.note(f"No GIF of an episode: {error}")

  def _save(self) -> None:
    """Writes a checkpoint of everything that a resume needs, replay included."""
    state = {
      "agent": self._agent.state(),
      "run": dataclasses.asdict(self._state),
      "counter": self._counter.save(),
    }
    self._checkpoint = self._checkpointer.save(
      self._state.steps, self._agent.checkpointables(), state, extra=self._agent.save_replay
    )
    self._log.flush()

  def _restore(self) -> training.RunState:
    if self._checkpoint is None:
      return training.RunState()
    saved = self._checkpointer.restore(self._checkpoint, self._agent.checkpointables())
    try:
      self._agent.load_state(saved["agent"])
      self._counter.restore(saved["counter"])
      return training.RunState(**saved["run"])
    except (KeyError, TypeError, ValueError) as error:
      raise CheckpointError(
        f"The state in {self._checkpoint} is damaged: {error!r}.{way_out(self._checkpoint)}"
      ) from error


def _environment_seed(seed: int, steps: int) -> int:
  """Returns the run's seed at its start; later another one, so that no start states repeat."""
  if steps == 0:
    return seed
  return int(np.random.SeedSequence([seed, steps]).generate_state(1)[0])
