"""The node that counts steps, hands out work, writes the run's logs and says when it ends."""

from collections.abc import Mapping, Sequence
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
from temper.launchers.distributed.settings import RunSettings
from temper.launchers.early_stop import REMEMBERED_RETURNS
from temper.utils import evaluation
from temper.utils import run_loggers
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import read_state
from temper.utils.progress import rates_per_second

_TICK_SECONDS = 0.2
_REPLAY_PERIOD_SECONDS = 2.0
_REPLAY_TIMEOUT_SECONDS = 8
# How much acting an actor does between two reports.
_LEASE_SECONDS = 0.1
_MAX_LEASE = 1_000
# How long actors may take to report what they did before a checkpoint is made without it, and at
# the end of a run.
_QUIET_SECONDS = 1.0
_FAREWELL_SECONDS = 5.0

# What `logs/program.csv` holds of the nodes, beside the step.
PROGRAM_FIELDS = (
  "actors",
  "learner_steps",
  "replay_items",
  "samples_per_insert",
  "variable_age_steps",
  "restarts",
)


@dataclasses.dataclass
class _ActorRecord:
  """What the monitor knows of one actor."""

  leased: int = 0
  version: int = 0
  rate: float = 0.0
  done: bool = False


@dataclasses.dataclass
class _Window:
  """Counts and time at the last row of the speed log."""

  steps: int
  learner_steps: int
  mark: float


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
      files={**run_loggers.ONLINE_FILES, "program": PROGRAM_FIELDS},
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
    self._actors: dict[int, _ActorRecord] = {}
    self._learner_steps, self._learner_done, self._metrics = 0, False, {}  # type: ignore[var-annotated]
    self._replay_sizes: dict[str, int] = {}
    self._samples_per_insert = 0.0
    self._notes: list[str] = []
    self._said: dict[str, tuple[Any, ...]] = {}
    self._rates: dict[str, float] = {}
    self._saved_at = self._logged_at = self._state.steps
    self._save_mark = time.monotonic()
    self._paused = False
    self._ending: Optional[board_lib.Ending] = None
    self._reason = ""
    self._evaluating = False
    self._clock = training.WallClock()
    self._window = _Window(self._state.steps, 0, time.monotonic())

  # For the actors.

  def actor_started(self, actor_id: int) -> dict[str, int]:
    """Takes an actor in, anew if it was started again; returns the steps that the run has."""
    with self._lock:
      # What a killed actor had not reported is done again.
      self._actors[actor_id] = _ActorRecord()
      return {"steps": self._state.steps}

  def actor_report(
    self,
    actor_id: int,
    steps: int,
    seconds: float,
    version: int,
    episode: Optional[tuple[float, int]] = None,
  ) -> dict[str, Any]:
    """Counts what an actor did and leases it steps.

    Args:
      actor_id: the actor.
      steps: environment steps since its last report, of those that it was leased.
      seconds: time that they took.
      version: learner step whose policy it acts by.
      episode: return and length of the episode that the last of the steps ended.

    Returns:
      `lease`, the steps that it may do before it reports again, 0 if it has to ask again; and
      `end`, whether it has to end.
    """
    with self._lock:
      actor = self._actors.setdefault(actor_id, _ActorRecord())
      actor.leased, actor.version = 0, version
      self._state.steps += steps
      self._state.acting_seconds += seconds / self._settings.launch.num_actors
      if steps and seconds:
        actor.rate = steps / seconds
      if episode is not None:
        self._write_episode(*episode)
      self._write_rows_due()
      if training.finished(self._state, self._schedule.total, self._settings.config.early_stop):
        self._end(board_lib.Ending.DONE)
      if self._ending is not None:
        return {"lease": 0, "end": True}
      if not self._paused:
        leased = sum(record.leased for record in self._actors.values())
        wanted = max(1, min(_MAX_LEASE, int(actor.rate * _LEASE_SECONDS)))
        actor.leased = max(0, min(wanted, self._schedule.total - self._state.steps - leased))
      return {"lease": actor.leased, "end": False}

  def actor_ended(self, actor_id: int) -> None:
    """Hears that an actor has written all that it did, and ends."""
    with self._lock:
      self._actors.setdefault(actor_id, _ActorRecord()).done = True

  # For the learner.

  def learner_started(self, num_steps: int) -> None:
    """Takes the learner in, anew if it was started again."""
    with self._lock:
      # It may have been killed in the middle of a checkpoint.
      self._learner_steps, self._paused = num_steps, False
      self._window.learner_steps = min(self._window.learner_steps or num_steps, num_steps)

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
      end = self._ending is not None and self._actors_are_done()
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
        if not any(actor.leased and not actor.done for actor in self._actors.values()):
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
            for actor in self._actors.values():
              actor.done = True
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

  def _actors_are_done(self) -> bool:
    return all(actor.done for actor in self._actors.values())

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
          self._actors[index] = _ActorRecord(done=True)
          if self._actors_are_done() and len(self._actors) == self._settings.launch.num_actors:
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
      self._replay_sizes = {name: table.current_size for name, table in tables.items()}
      self._samples_per_insert = sampled / inserted if inserted else 0.0

  # What is written down.

  def _write_episode(self, episode_return: float, length: int) -> None:
    state, early_stop = self._state, self._settings.config.early_stop
    state.episodes += 1
    state.begun_episodes = max(state.begun_episodes, state.episodes)
    state.wall_seconds += self._clock.seconds()
    remembered = early_stop.remembered if early_stop else REMEMBERED_RETURNS
    state.last_returns = [*state.last_returns, float(episode_return)][-remembered:]
    row = {
      "episode": state.episodes,
      "episode_return": float(episode_return),
      "episode_length": int(length),
      "wall_seconds": state.wall_seconds,
    }
    self._log.write("train", state.steps, row)
    self._callbacks.on_episode(state.steps, state.episodes, float(episode_return), int(length))

  def _write_rows_due(self) -> None:
    every = self._schedule.log_every
    if not every or self._state.steps // every == self._logged_at // every:
      return
    step = self._state.steps // every * every
    now, window = time.monotonic(), self._window
    self._window = _Window(self._state.steps, self._learner_steps, now)
    seconds = now - window.mark
    self._rates = rates_per_second(
      environment_steps=self._state.steps - window.steps,
      learner_steps=max(0, self._learner_steps - window.learner_steps),
      acting_seconds=seconds,
      learning_seconds=seconds,
      elapsed_seconds=seconds,
    )
    self._logged_at = self._state.steps
    self._log.write("speed", step, self._rates)
    if self._metrics:
      self._log.write("learner", step, self._metrics)
    self._log.write("program", step, self._program_row())

  def _program_row(self) -> dict[str, float]:
    acting = [actor for actor in self._actors.values() if not actor.done]
    ages = [self._learner_steps - actor.version for actor in acting]
    return {
      "actors": len(acting),
      "learner_steps": self._learner_steps,
      "replay_items": sum(self._replay_sizes.values()),
      "samples_per_insert": self._samples_per_insert,
      "variable_age_steps": max(0.0, sum(ages) / len(ages)) if ages else 0.0,
      "restarts": sum(node.restarts for node in self._board.nodes().values()),
    }

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
      "rates": self._rates,
      "program": self._program_row(),
      "checkpoint": self._checkpoint,
      "notes": self._notes,
      "ending": self._ending.value if self._ending else None,
    }


def status_text(status: Mapping[str, Any], nodes: Sequence[board_lib.Node]) -> str:
  """Returns the line that says how a program is.

  Args:
    status: what the monitor posted.
    nodes: the nodes that have begun.
  """
  program, rates = status["program"], status["rates"]
  parts = []
  if status["episode_return"] is not None:
    parts.append(f"return {status['episode_return']:.4g}")
  if status["goal"] is not None:
    parts.append(status["goal"])
  if rates:
    parts.append(f"{rates['environment_steps_per_second']:.0f} steps/s")
    parts.append(f"learner {rates['learning_steps_per_second']:.0f}/s")
  parts.append(f"replay {program['replay_items']:,}")
  if program["samples_per_insert"]:
    parts.append(f"samples/insert {program['samples_per_insert']:.3g}")
  parts.append(f"age {program['variable_age_steps']:.0f}")
  parts.append(" ".join(f"{kind} {text}" for kind, text in _states_by_kind(nodes).items()))
  return " · ".join(part for part in parts if part)


def _states_by_kind(nodes: Sequence[board_lib.Node]) -> dict[str, str]:
  """Returns, by kind of node, how many run of how many, and what the others are."""
  kinds: dict[str, list[board_lib.Node]] = {}
  for node in nodes:
    kinds.setdefault(node.name.rpartition("_")[0] or node.name, []).append(node)
  texts = {}
  for kind, members in kinds.items():
    running = sum(node.state is board_lib.NodeState.RUNNING for node in members)
    texts[kind] = f"{running}/{len(members)}" if len(members) > 1 else members[0].state.value
  return texts
