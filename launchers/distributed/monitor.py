"""The node that counts steps, hands out work, writes the run's logs and says when it ends."""

from collections.abc import Mapping
import dataclasses
import threading
import time
from typing import Any, Optional

from absl import logging
import launchpad as lp
import reverb

from temper.launchers import training
from temper.launchers import wandb_log
from temper.launchers.callbacks import CallbackList
from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed import program_rows
from temper.launchers.distributed import step_leases
from temper.launchers.distributed.settings import RunSettings
from temper.utils import evaluation
from temper.utils import run_loggers
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import read_state

_TICK_SECONDS = 0.2
_REPLAY_PERIOD_SECONDS = 2.0
_REPLAY_TIMEOUT_SECONDS = 8
# How long actors may take to report what they did before a checkpoint is made without it, and at
# the end of a run.
_QUIET_SECONDS = 1.0
_FAREWELL_SECONDS = 5.0


class Monitor:
  """Courier server of the other nodes; all public methods but `run` are for them to call.

  Environment steps are handed to the actors in leases, so that a run has exactly as many as were
  asked for, whoever does them. It alone writes the CSV files: a row is whole and written once.
  """

  def __init__(self, settings: RunSettings, replay: reverb.Client):
    """Takes the run up at its newest checkpoint, and opens the logs.

    Args:
      settings: the run.
      replay: client of replay.
    """
    config = settings.config
    self._settings = settings
    self._schedule = config.schedule()
    self._board = board_lib.Board(settings.board)
    self._replay = replay
    self._lock = threading.RLock()
    path = Checkpointer(settings.directory.checkpoints).latest()
    saved = read_state(path)["state"]["run"] if path else {}
    self._state = training.RunState(**saved)
    self._checkpoint = path
    # None of the evaluations that were due is made up for.
    self._log = run_loggers.RunLog(
      settings.directory.logs,
      resume_step=self._state.steps,
      files={**run_loggers.ONLINE_FILES, "program": program_rows.FIELDS},
    )
    if config.wandb_project is not None:
      self._log.add_sink(
        wandb_log.WandbLog(
          config.wandb_project,
          settings.directory.logs,
          name=settings.name,
          record=settings.record,
        )
      )
    self._callbacks = CallbackList(config.callbacks)
    self._leases = step_leases.StepLeases(settings.launch.envs_per_actor)
    self._rows = program_rows.ProgramRows(
      self._log, self._callbacks, self._leases, self._board, config, self._state.steps
    )
    self._learner_steps, self._learner_done, self._metrics = 0, False, {}  # type: ignore[var-annotated]
    self._notes: list[str] = []
    self._said: dict[str, tuple[Any, ...]] = {}
    self._saved_at = self._state.steps
    self._save_mark = time.monotonic()
    self._paused = False
    self._ending: Optional[board_lib.Ending] = None
    self._reason = ""
    self._evaluating = False
    self._clock = training.WallClock()

  # For the actors.

  def actor_started(self, actor_id: int) -> dict[str, int]:
    """Takes an actor in, anew if it was started again; returns the steps that the run has."""
    with self._lock:
      self._leases.take_in(actor_id)
      return {"steps": self._state.steps}

  def actor_report(self, actor_id: int, report: step_leases.Report) -> dict[str, Any]:
    """Counts what an actor did and leases it steps.

    Args:
      actor_id: the actor.
      report: what it did.

    Returns:
      `lease`, the steps that it may do before it reports again, 0 if it has to ask again; and
      `end`, whether it has to end.
    """
    with self._lock:
      self._leases.hear(actor_id, report)
      before = self._state.steps
      self._state.steps += report.steps
      self._state.acting_seconds += report.seconds / self._settings.launch.num_actors
      for episode in report.episodes:
        self._state.wall_seconds += self._clock.seconds()
        self._rows.write_episode(self._state, episode, before + episode.at)
      self._rows.write_due(self._state.steps, self._learner_steps, self._metrics)
      if training.finished(self._state, self._schedule.total, self._settings.config.early_stop):
        self._end(board_lib.Ending.DONE)
      if self._ending is not None:
        return {"lease": 0, "end": True}
      left = 0 if self._paused else self._schedule.total - self._state.steps
      return {"lease": self._leases.lease(actor_id, left), "end": False}

  def actor_ended(self, actor_id: int) -> None:
    """Hears that an actor has written all that it did, and ends."""
    with self._lock:
      self._leases.give_up(actor_id)

  # For the learner.

  def learner_started(self, num_steps: int, learning_on: str) -> None:
    """Takes the learner in, anew if it was started again.

    Args:
      num_steps: steps that it has done.
      learning_on: on which devices, in words.
    """
    with self._lock:
      self._note(learning_on)
      # It may have been killed in the middle of a checkpoint.
      self._learner_steps, self._paused = num_steps, False
      self._rows.learner_started(num_steps)

  def learner_report(
    self, num_steps: int, seconds: float, metrics: Mapping[str, float]
  ) -> dict[str, bool]:
    """Hears what the learner did; returns whether it has to `save`, and whether to `end`.

    Args:
      num_steps: its steps.
      seconds: time in them since its last report.
      metrics: those of its newest step.
    """
    with self._lock:
      self._learner_steps = num_steps
      self._state.learning_seconds += seconds
      self._metrics = dict(metrics)
      end = self._ending is not None and self._leases.all_done
      return {"save": end or self._checkpoint_is_due(), "end": end}

  def pause(self) -> dict[str, Any]:
    """Keeps the actors from further steps until `saved`; returns the run's counts.

    Those that replay keeps waiting are not waited for: they add nothing meanwhile.
    """
    with self._lock:
      self._paused = True
    deadline = time.monotonic() + _QUIET_SECONDS
    while time.monotonic() < deadline:
      with self._lock:
        if not self._leases.any_leased:
          break
      time.sleep(0.01)
    with self._lock:
      self._state.wall_seconds += self._clock.seconds()
      return dataclasses.asdict(self._state)

  def saved(self, path: str, steps: int) -> None:
    """Hears of a checkpoint, and lets the actors go on.

    Args:
      path: of the checkpoint.
      steps: of the run, as `pause` told them.
    """
    with self._lock:
      self._checkpoint, self._saved_at, self._paused = path, steps, False
      self._save_mark = time.monotonic()
      self._log.flush()
      self._callbacks.on_checkpoint(steps, path)

  def learner_ended(self) -> None:
    """Hears that the learner has saved and ends."""
    with self._lock:
      self._learner_done = True

  # For the evaluators.

  def evaluation_due(self) -> dict[str, Any]:
    """Returns whether an evaluator has to play an evaluation now: `due`, the `steps`, and `end`."""
    with self._lock:
      steps, every = self._state.steps, self._schedule.evaluate_every
      due = False
      if every and not self._evaluating and self._ending is None:
        evaluated = self._state.evaluated_at
        due = evaluated < 0 or steps // every > evaluated // every
        self._evaluating = due
        if due:
          self._state.evaluated_at = steps
      return {"due": due, "steps": steps, "end": self._ending is not None}

  def evaluator_started(self) -> None:
    """Takes an evaluator in; one that was killed leaves its evaluation undone."""
    with self._lock:
      self._evaluating = False

  def evaluated(self, steps: int, result: evaluation.EvaluationResult) -> None:
    """Hears the result of an evaluation.

    Args:
      steps: of the run when it began.
      result: what it came to.
    """
    with self._lock:
      self._evaluating = False
      self._state.wall_seconds += self._clock.seconds()
      self._log.write_evaluation(steps, result, self._state.wall_seconds)
      self._callbacks.on_evaluation(steps, result)
      self._note(
        f"step {steps:,}: mean return {result.mean:.1f} [{result.low:.1f}, {result.high:.1f}] over "
        f"{len(result.returns)} episodes, {result.mode}"
      )

  # The node itself.

  def run(self) -> None:
    """Keeps the board up to date until the run has ended, and posts what it came to."""
    asked = 0.0
    farewell: Optional[float] = None
    program_stops = lp.stop_event()
    while not self._learner_done:
      if program_stops.wait(_TICK_SECONDS):
        self._log.close()
        return  # Another node has failed.
      now = time.monotonic()
      if now - asked >= _REPLAY_PERIOD_SECONDS:
        self._ask_replay()
        asked = now
      with self._lock:
        self._hear_of_nodes()
        if self._board.stop_asked:
          self._end(board_lib.Ending.STOPPED)
        if self._ending is not None:
          farewell = farewell or now + _FAREWELL_SECONDS
          if now > farewell:
            # An actor that replay keeps waiting, or whose environment hangs, loses its steps.
            self._leases.give_all_up()
        self._board.post_status(self._status())
    with self._lock:
      self._state.wall_seconds += self._clock.seconds()
      self._board.post_status(self._status())
      self._log.close()
      assert self._ending is not None
      self._board.post_outcome(board_lib.Outcome(self._ending, self._state.steps, self._reason))

  def _end(self, ending: board_lib.Ending) -> None:
    if self._ending is None:
      logging.info("The run ends: %s.", ending.value)
      self._ending = ending

  def _checkpoint_is_due(self) -> bool:
    every, minutes = self._schedule.checkpoint_every, self._schedule.checkpoint_minutes
    steps = self._state.steps
    if self._paused or steps == self._saved_at:
      return False
    late = minutes > 0 and time.monotonic() - self._save_mark >= 60 * minutes
    return late or (every > 0 and steps // every > self._saved_at // every)

  def _hear_of_nodes(self) -> None:
    """Turns what the board says of the nodes into notes, and takes back what the dead had."""
    for name, node in self._board.nodes().items():
      heard = (node.state, node.restarts)
      if self._said.get(name) == heard:
        continue
      before, self._said[name] = self._said.get(name), heard
      index = int(name.rpartition("_")[2]) if name.startswith("actor_") else None
      if node.restarts and (before is None or before[1] < node.restarts):
        self._note(f"{name} was {node.reason} and is started again (restart {node.restarts}).")
      elif node.state is board_lib.NodeState.LOST:
        self._note(f"{name} was {node.reason}; the run goes on without it.")
        if index is not None:
          self._leases.give_up(index)
          known = self._leases.num_known
          if self._leases.all_done and known == self._settings.launch.num_actors:
            self._reason = "no actor is left"
            self._end(board_lib.Ending.FAILED)

  def _ask_replay(self) -> None:
    try:
      tables = self._replay.server_info(timeout=_REPLAY_TIMEOUT_SECONDS)
    except (reverb.ReverbError, RuntimeError) as error:
      # The launcher sees a server that is gone; one that is busy answers later.
      logging.warning("Replay does not answer: %s", error)
      return
    sampled = inserted = 0
    for table in tables.values():
      limiter = table.rate_limiter_info
      sampled += limiter.sample_stats.completed
      # Those that only fill replay at first are no part of the rate that the limiter keeps.
      inserted += max(0, limiter.insert_stats.completed - limiter.min_size_to_sample)
    with self._lock:
      self._rows.hear_of_replay(
        items=sum(table.current_size for table in tables.values()),
        samples_per_insert=sampled / inserted if inserted else 0.0,
      )

  def _note(self, text: str) -> None:
    logging.info("%s", text)
    self._notes.append(text)

  def _status(self) -> dict[str, Any]:
    state, early_stop = self._state, self._settings.config.early_stop
    return {
      "steps": state.steps,
      "episode_return": state.last_returns[-1] if state.last_returns else None,
      "goal": early_stop.state(state.last_returns) if early_stop else None,
      "losses": {k: v for k, v in self._metrics.items() if k.endswith("_loss") or k == "alpha"},
      "rates": self._rows.rates,
      "actor_rates": self._leases.rates,
      "program": self._rows.program(self._learner_steps),
      "checkpoint": self._checkpoint,
      "notes": self._notes,
      "ending": self._ending.value if self._ending else None,
    }
