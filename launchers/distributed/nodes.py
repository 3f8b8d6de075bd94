"""What the nodes of a distributed run do: replay, learner, actors, evaluators."""

from collections.abc import Sequence
import os
import shutil
import threading
import time
from typing import Any, Optional

from absl import logging
import acme
from acme import core
from acme.tf import variable_utils
from acme.utils import counting
from acme.utils import loggers
import dm_env
import launchpad as lp
import numpy as np
import reverb

from temper.agents import actor as actor_lib
from temper.agents import learner as learner_lib
from temper.agents import variable_sources
from temper.launchers import best_checkpoints
from temper.launchers import evaluating
from temper.launchers import run_checkpoint
from temper.launchers import run_loading
from temper.launchers import training
from temper.launchers.distributed.settings import RunSettings
from temper.utils import environment_wrappers
from temper.utils import replay_client
from temper.utils import replay_server
from temper.utils import replay_watch
from temper.utils.checkpointing import Checkpointer
from temper.utils.progress import Progress

_REPORT_SECONDS = 0.2
_ASK_SECONDS = 0.05
# How long a learner at the end may wait for a batch that no actor will complete.
_LAST_STEP_SECONDS = 1.0
_FLUSH_MS = 3_000


def make_tables(settings: RunSettings) -> list[reverb.Table]:
  """Makes the tables of the replay node."""
  return settings.config.builder.make_replay_tables(settings.environment_spec)


def make_replay_checkpointer(settings: RunSettings) -> reverb.checkpointers.CheckpointerBase:
  """Makes what saves replay, and what it is filled from at the start: the newest checkpoint."""
  scratch = settings.directory.replay_scratch
  shutil.rmtree(scratch, ignore_errors=True)
  os.makedirs(scratch)
  newest = Checkpointer(settings.directory.checkpoints).latest()
  restore_from = os.path.join(newest, "replay") if newest else None
  return reverb.checkpointers.DefaultCheckpointer(scratch, "", restore_from)


def _seeds(settings: RunSettings) -> tuple[int, int, int]:
  """Returns the seeds of initial weights, actors and learner: those of a run of one process."""
  init, actor, learner = np.random.SeedSequence(settings.config.seed).generate_state(3)
  return int(init), int(actor), int(learner)


def _make_networks(settings: RunSettings) -> Any:
  config = settings.config
  if config.networks_factory is not None:
    return config.networks_factory(settings.environment_spec)
  return config.builder.make_networks(settings.environment_spec, seed=_seeds(settings)[0])


class LearnerNode(core.VariableSource):
  """Learns from replay, serves variables, and writes the run's checkpoints."""

  def __init__(self, settings: RunSettings, replay: reverb.Client, monitor: Any):
    """Makes the learner, or restores it from the newest checkpoint.

    Args:
      settings: the run.
      replay: client of replay.
      monitor: client of the monitor.
    """
    self._settings = settings
    self._replay = replay
    self._monitor = monitor
    builder = settings.config.builder
    self._counter = counting.Counter(prefix="learner")
    self._learner: learner_lib.Learner = builder.make_learner(
      _make_networks(settings),
      builder.make_dataset(replay_client.adapt_client(replay)),
      self._counter,
      loggers.NoOpLogger(),
      environment_spec=settings.environment_spec,
      replay_client=replay,
      seed=_seeds(settings)[2],
    )
    directory = settings.directory.checkpoints
    self._checkpointer = Checkpointer(directory, keep=settings.config.checkpoints_to_keep)
    path = self._checkpointer.latest()
    agent = _CheckpointedAgent(self._learner, 0)
    run_checkpoint.restore(self._checkpointer, path, agent, training.RunState, self._counter)
    logging.info("The learner begins at its step %d, from %s.", self._learner.num_steps, path)
    self._busy_seconds = 0.0
    self._save, self._end = threading.Event(), threading.Event()
    self._program_stops = threading.Event()
    self._failure: Optional[Exception] = None
    self._over = False

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks."""
    return self._learner.get_variables(names)

  def run(self) -> None:
    """Learns until the monitor says that the run ends, and saves then.

    Raises:
      NonFiniteError: if learning has diverged.
      DataExhaustedError: if replay is gone.
    """
    self._program_stops = lp.stop_event()
    self._monitor.learner_started(self._learner.num_steps)
    watch = replay_watch.ServerWatch(self._replay, on_lost=self._learner.cancel)
    reporter = threading.Thread(target=self._report, name="reporter", daemon=True)
    reporter.start()
    try:
      while not self._end.is_set():
        if self._save.is_set():
          self._save_run()
        elif self._can_sample():
          self._step()
        else:
          self._end.wait(_ASK_SECONDS)
        if self._failure is not None:
          raise self._failure
      if self._program_stops.is_set():
        return  # Another node has failed: there is nobody to save with.
      self._save_run()
    finally:
      self._over = True
      watch.stop()
    self._monitor.learner_ended()

  def _step(self) -> None:
    begun = time.monotonic()
    try:
      self._learner.step()
    except learner_lib.DataExhaustedError:
      if not self._end.is_set():
        raise
    self._busy_seconds += time.monotonic() - begun

  def _can_sample(self) -> bool:
    # The first step would wait in TensorFlow, where nothing could be saved meanwhile.
    if self._learner.metrics:
      return True
    info = self._replay.server_info(timeout=30)
    return all(
      table.current_size >= table.rate_limiter_info.min_size_to_sample for table in info.values()
    )

  def _report(self) -> None:
    """Tells the monitor what is done, and hears what it wants; a thread, since a step may wait."""
    ended_at = 0.0
    while not self._over:
      if self._program_stops.is_set():
        self._end.set()
        self._learner.cancel()
        return
      busy, self._busy_seconds = self._busy_seconds, 0.0
      try:
        wish = self._monitor.learner_report(self._learner.num_steps, busy, self._learner.metrics)
      except Exception as error:  # The monitor is gone.
        self._failure = error
        return
      if wish["save"]:
        self._save.set()
      if wish["end"]:
        self._end.set()
        ended_at = ended_at or time.monotonic()
        if time.monotonic() - ended_at > _LAST_STEP_SECONDS:
          self._learner.cancel()
      time.sleep(_REPORT_SECONDS)

  def _save_run(self) -> None:
    state = training.RunState(**self._monitor.pause())
    newest = self._checkpointer.latest()
    path = run_checkpoint.save(
      self._checkpointer,
      _CheckpointedAgent(self._learner, state.steps),
      state,
      self._counter,
      self._settings.record,
      lambda folder: replay_server.save_tables(self._replay, os.path.join(folder, "replay")),
    )
    logging.info("Saved %s; before it there was %s.", path, newest)
    self._save.clear()
    self._monitor.saved(path, state.steps)


class _CheckpointedAgent:
  """What a checkpoint holds of the agent: what that of one process holds."""

  def __init__(self, learner: learner_lib.Learner, actions: int):
    self._learner = learner
    self._actions = actions

  def checkpointables(self) -> dict[str, Any]:
    return self._learner.checkpointables()

  def state(self) -> dict[str, Any]:
    return {
      "actor": {"num_actions": self._actions},
      "learner": self._learner.state(),
      "scheduled_steps": self._actions,
      "scheduled_updates": self._learner.num_steps,
      "batches_drawn": 0,
    }

  def load_state(self, state: dict[str, Any]) -> None:
    self._learner.load_state(state.get("learner", {}))


class _EndOfRun(BaseException):
  """Leaves the environment loop in the middle of an episode; no error."""


class ActorNode(core.Actor):
  """Acts as long as the monitor leases it steps.

  It stands between Acme's loop and the actor: the loop calls `update` last in each step.
  """

  def __init__(
    self,
    settings: RunSettings,
    actor_id: int,
    replay: reverb.Client,
    source: core.VariableSource,
    monitor: Any,
  ):
    """Makes environment and actor, with the learner's variables as they are.

    Args:
      settings: the run.
      actor_id: which of the actors.
      replay: client of replay.
      source: client of the learner or a cache.
      monitor: client of the monitor.
    """
    self._actor_id, self._monitor = actor_id, monitor
    config, builder = settings.config, settings.config.builder
    steps = monitor.actor_started(actor_id)["steps"]
    # Actors that draw alike would explore alike; one that goes on must not repeat what it did.
    seed = np.random.SeedSequence([_seeds(settings)[1], actor_id, steps]).generate_state(1)[0]
    environment = evaluating.EnvironmentSource(config.environment, config.environment_options)
    self._environment = environment.make(config.seed if config.fixed_start else int(seed))
    loop_environment: dm_env.Environment = self._environment
    if config.fixed_start:
      loop_environment = environment_wrappers.FixedStart(self._environment, config.seed)
    networks = _make_networks(settings)
    self._adder = builder.make_adder(replay_client.adapt_client(replay))
    self._actor: actor_lib.Actor = builder.make_actor(
      builder.make_policy(networks),
      self._adder,
      variable_sources.PatientSource(source),
      choice=config.behaviour_policy,
      critic_network=builder.make_critic(networks),
      action_spec=settings.environment_spec.actions,
      seed=int(seed),
      warm_up=_share_of_warm_up(settings, steps),
    )
    self._loop = acme.EnvironmentLoop(
      loop_environment, self, counter=counting.Counter(), logger=loggers.NoOpLogger()
    )
    self._lease = self._unreported = 0
    self._episode_over = False
    self._mark = time.monotonic()
    self._program_stops = threading.Event()

  def run(self) -> None:
    """Plays episodes until the monitor says that the run ends."""
    self._program_stops = lp.stop_event()
    try:
      self._report()
      while True:
        result = self._loop.run_episode()
        self._report((float(result["episode_return"]), int(result["episode_length"])))
    except _EndOfRun:
      pass
    finally:
      self._environment.close()
    try:
      self._adder.flush(_FLUSH_MS)
    except (reverb.ReverbError, RuntimeError) as error:
      logging.warning("Replay did not confirm the newest steps: %s", error)
    self._monitor.actor_ended(self._actor_id)

  def select_action(self, observation: Any) -> np.ndarray:
    """Asks the actor."""
    return self._actor.select_action(observation)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Tells the actor of an episode's first step."""
    self._actor.observe_first(timestep)

  def observe(self, action: np.ndarray, next_timestep: dm_env.TimeStep) -> None:
    """Tells the actor of a step."""
    self._episode_over = next_timestep.last()
    self._actor.observe(action, next_timestep)

  def update(self, wait: bool = False) -> None:
    """Counts the step; asks for more once the lease is used up."""
    self._actor.update(wait)
    self._lease -= 1
    self._unreported += 1
    # The last step of an episode is reported with the episode, by `run`.
    if self._lease <= 0 and not self._episode_over:
      self._report()

  def _report(self, episode: Optional[tuple[float, int]] = None) -> None:
    """Reports what is done and waits for a lease."""
    seconds = time.monotonic() - self._mark
    while True:
      answer = self._monitor.actor_report(
        self._actor_id, self._unreported, seconds, self._actor.policy_version, episode
      )
      self._unreported, seconds, episode = 0, 0.0, None
      if answer["end"] or self._program_stops.is_set():
        raise _EndOfRun()
      if answer["lease"] > 0:
        break
      time.sleep(_ASK_SECONDS)
    self._lease, self._mark = answer["lease"], time.monotonic()


def _share_of_warm_up(settings: RunSettings, steps: int) -> Optional[actor_lib.WarmUp]:
  """Returns how an actor begins: all actors together as the only one of a process would."""
  warm_up = settings.config.builder.make_warm_up(settings.environment_spec.actions)
  if warm_up is None:
    return None
  left = max(0, warm_up.num_actions - steps)
  return warm_up._replace(num_actions=-(-left // settings.launch.num_actors))


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
    networks = _make_networks(settings)
    policy, critic = builder.make_policy(networks), builder.make_critic(networks)
    # All of them, since a best checkpoint is loaded whole.
    self._trackables = run_loading.network_parts(networks)
    self._variables = variable_utils.VariableClient(
      client=variable_sources.PatientSource(source),
      variables={name: network.variables for name, network in self._trackables.items()},
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
          time.sleep(_REPORT_SECONDS)
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
