"""The node that learns, serves the variables, and writes the checkpoints."""

from collections.abc import Sequence
import os
import threading
import time
from typing import Any, Optional

from absl import logging
from acme import core
from acme.utils import counting
from acme.utils import loggers
import launchpad as lp
import numpy as np
import reverb

from temper.agents import learner as learner_lib
from temper.launchers import run_checkpoint
from temper.launchers import training
from temper.launchers.distributed import node_networks
from temper.launchers.distributed.settings import RunSettings
from temper.utils import replay_client
from temper.utils import replay_server
from temper.utils import replay_watch
from temper.utils import strategies
from temper.utils.checkpointing import Checkpointer

_REPORT_SECONDS = 0.2
_ASK_SECONDS = 0.05
# How long a learner at the end may wait for a batch that no actor will complete.
_LAST_STEP_SECONDS = 1.0


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
    strategy = strategies.make_strategy(settings.config.strategy)
    self._learning_on = strategies.description(strategy, builder.config.batch_size)
    with strategy.scope():
      networks = node_networks.make_networks(settings)
    self._counter = counting.Counter(prefix="learner")
    self._learner: learner_lib.Learner = builder.make_learner(
      networks,
      builder.make_dataset(replay_client.adapt_client(replay)),
      self._counter,
      loggers.NoOpLogger(),
      environment_spec=settings.environment_spec,
      replay_client=replay,
      strategy=strategy,
      seed=node_networks.seeds(settings)[2],
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
    self._monitor.learner_started(self._learner.num_steps, self._learning_on)
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
