"""One distributed run from the launch to the last artefact, as a function."""

import contextlib
import dataclasses
import os
import shutil
import time
from typing import Any, Optional

from absl import flags
from acme import specs
import launchpad as lp

from temper.launchers import command_line
from temper.launchers import evaluating
from temper.launchers import experiment
from temper.launchers import run_checkpoint
from temper.launchers import training
from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed import launching
from temper.launchers.distributed import processes
from temper.launchers.distributed import program as program_lib
from temper.launchers.distributed import status_text
from temper.launchers.distributed import supervision
from temper.launchers.distributed.board import Ending
from temper.launchers.distributed.board import NodeState
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import LaunchKind
from temper.launchers.distributed.settings import RunSettings
from temper.launchers.experiment_config import ExperimentConfig
from temper.launchers.outcomes import Result
from temper.launchers.outcomes import SettingsError
from temper.launchers.outcomes import TrainingFailed
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import pickling
from temper.utils import replay_server
from temper.utils import strategies
from temper.utils.checkpointing import Checkpointer
from temper.utils.checkpointing import read_state
from temper.utils.progress import Progress

_POLL_SECONDS = 0.2
# A stop saves first; whatever has not ended by then is killed.
_STOP_SECONDS = 20.0
_CAUSE_SECONDS = 1.0


def run_distributed(
  config: ExperimentConfig, launch: LaunchConfig, stop: Optional[StopSignal] = None
) -> Result:
  """Trains an agent by a Launchpad program on this machine, or resumes such a run.

  The folder is as that of `experiment.run_experiment`, which makes the artefacts once all steps are
  done. Ctrl-C and SIGTERM end the run with a checkpoint; whatever ends it, no process is left.

  Args:
    config: what to run.
    launch: the nodes; LOCAL_MT or LOCAL_MP.
    stop: an entered signal of the caller, which may have come already; None takes one of its own.

  Returns:
    The evaluations and counts.

  Raises:
    SettingsError: if agent, environment or directory do not allow it, or a part of the
      configuration cannot be sent to another process; nothing is changed on disk.
    StopRequested: if the user stops it before training begins.
    CheckpointError: if the newest checkpoint is damaged.
    TrainingFailed: if a node failed, or was killed and the run cannot go on; names it, its log and
      the last checkpoint.
  """
  with contextlib.ExitStack() as cleanup:
    stop = cleanup.enter_context(StopSignal()) if stop is None else stop
    try:
      if launch.kind is LaunchKind.VERTEX_AI:
        raise ValueError("kind is vertex_ai; a run on this machine is local_mt or local_mp.")
      settings = make_settings(config, launch)
      claim = settings.directory.claim()
    except ValueError as error:
      raise SettingsError(str(error)) from error
    # In the middle, so that the artefacts, whose maker claims the folder too, come after.
    with contextlib.ExitStack() as claimed:
      claimed.callback(claim.release)
      trained, result = _run_nodes(settings, stop)
    return result or experiment.run_experiment(settings.config, stop, just_trained=trained)
  raise AssertionError  # An ExitStack may swallow exceptions, for all a type checker knows.


def make_settings(config: ExperimentConfig, launch: LaunchConfig) -> RunSettings:
  """Makes what the nodes are given.

  Args:
    config: what to run.
    launch: the nodes.

  Raises:
    ValueError: if it cannot be run: environment, folder, devices, or what cannot be sent to a
      process.
  """
  notes = {**config.notes, "distributed": True, "launch": dataclasses.asdict(launch)}
  config = dataclasses.replace(config, notes=notes)
  source = evaluating.EnvironmentSource(config.environment, config.environment_options)
  with contextlib.closing(source.make(config.seed)) as environment:
    spec = specs.make_environment_spec(environment)
  settings = RunSettings(config, launch, spec, config.record())
  settings.directory.check(settings.record)
  if launch.kind is not LaunchKind.VERTEX_AI:  # Its machines may have other devices.
    strategies.check(config.strategy, config.builder.config.batch_size)
  if launch.kind is not LaunchKind.LOCAL_MT:
    for name in (field.name for field in dataclasses.fields(config)):
      pickling.check(f"the experiment's {name}", getattr(config, name))
  return settings


def _run_nodes(settings: RunSettings, stop: StopSignal) -> tuple[bool, Optional[Result]]:
  """Runs the program; returns whether it did, and what it came to unless all steps are done."""
  config, directory = settings.config, settings.directory
  checkpointer = Checkpointer(directory.checkpoints)
  checkpoint = checkpointer.latest()
  run_checkpoint.check(checkpoint, settings.record)
  state = training.RunState()
  if checkpoint is not None:
    state = training.RunState(**read_state(checkpoint)["state"]["run"])
    if training.finished(state, config.steps, config.early_stop):
      return False, None
    items = sum(replay_server.saved_items(os.path.join(checkpoint, "replay")).values())
  stop.check()
  try:
    directory.open(settings.record)
  except ValueError as error:
    raise SettingsError(str(error)) from error
  progress = Progress(max(config.steps, state.steps), initial=state.steps)
  try:
    if checkpoint is not None:
      progress.note(f"Resuming from {checkpoint}; replay holds {items:,} in all tables.")
    else:
      shutil.rmtree(settings.node_logs, ignore_errors=True)
    os.makedirs(settings.node_logs, exist_ok=True)
    outcome = _Launched(settings, stop, progress).to_the_end()
  finally:
    progress.close()
    board_lib.Board(settings.board).remove()
    shutil.rmtree(directory.replay_scratch, ignore_errors=True)
  newest = checkpointer.latest()
  if isinstance(outcome, StopRequested):
    return True, Result({}, _steps_of(newest), outcome, {}, newest)
  if outcome.ending is Ending.FAILED:
    raise TrainingFailed(
      f"{outcome.reason}\nLogs of the nodes: {settings.node_logs}\n"
      f"Last good checkpoint: {newest or 'none yet'}"
    )
  return True, None


def _steps_of(checkpoint: Optional[str]) -> int:
  return int(read_state(checkpoint)["step"]) if checkpoint else 0


class _Launched:
  """A program while it runs, from the launching process."""

  def __init__(self, settings: RunSettings, stop: StopSignal, progress: Progress):
    """Makes the program; nothing runs yet."""
    self._settings = settings
    self._stop = stop
    self._progress = progress
    self._board = board_lib.Board(settings.board)
    self._program = program_lib.make_program(settings, supervision.Launcher.this_process())
    self._names = [node.supervision.name for node in self._program.get_all_nodes()]
    self._notes_shown = 0
    self._tree = processes.ProcessTree()

  def to_the_end(self) -> Any:
    """Launches, shows how it goes, and ends all nodes.

    Returns:
      The outcome, or the `StopRequested` of the user.
    """
    launch = self._settings.launch
    self._board.clear()
    self._progress.note(
      f"Launching {launch.kind.value}: {', '.join(self._names)}; their logs are in "
      f"{self._settings.node_logs}."
      if launch.in_processes
      else f"Launching {launch.kind.value}: {', '.join(self._names)}."
    )
    self._progress.note(
      f"Acting while training: {self._settings.config.behaviour_policy}; in evaluations: "
      f"{self._settings.config.eval_policy}. {command_line.threads_text()}"
    )
    manager = None
    try:
      manager = self._launch()
      return self._watch()
    finally:
      # A second Ctrl-C comes here too, as KeyboardInterrupt.
      if launch.in_processes:
        self._tree.end()
      elif manager is not None:
        launching.end_threads(manager)

  def _launch(self) -> Any:
    if not flags.FLAGS.is_parsed():
      flags.FLAGS(["temper"])
    # Launchpad would kill this process too, when nodes take longer; here it has more to do.
    flags.FLAGS["lp_termination_notice_secs"].value = -1
    in_processes = self._settings.launch.in_processes
    with launching.handlers_kept():
      if not in_processes:
        return lp.launch(self._program, lp.LaunchType.LOCAL_MULTI_THREADING)
      log = os.path.join(self._settings.node_logs, "launch.log")
      with self._tree.recording(), launching.output_to(log):
        manager = lp.launch(
          self._program,
          lp.LaunchType.LOCAL_MULTI_PROCESSING,
          terminal="current_terminal",
          local_resources=program_lib.local_resources(self._settings),
        )
    processes.forget(manager)
    return manager

  def _watch(self) -> Any:
    stopped: Optional[StopRequested] = None
    deadline = failed_at = 0.0
    while True:
      time.sleep(_POLL_SECONDS)
      nodes = self._board.nodes()
      self._show(nodes)
      outcome = self._board.outcome()
      failure = self._failure(nodes) if outcome is None else ""
      if stopped is None:
        try:
          self._stop.check()
        except StopRequested as request:
          stopped, deadline = request, time.monotonic() + _STOP_SECONDS
          self._progress.note(f"{request}; the nodes save and end.")
          self._board.ask_to_stop()
      if outcome is not None:
        self._show(nodes)
        return outcome if outcome.ending is not Ending.STOPPED else stopped
      if stopped is not None and (failure or time.monotonic() > deadline or not self._begun()):
        if failure or time.monotonic() > deadline:
          self._progress.note(
            failure or f"The nodes have not ended in {_STOP_SECONDS:g} s; killed."
          )
        return stopped
      if failure:
        failed_at = failed_at or time.monotonic()
        # What is seen first may follow from what is seen next.
        if time.monotonic() - failed_at > _CAUSE_SECONDS:
          return board_lib.Outcome(Ending.FAILED, 0, failure)

  def _begun(self) -> bool:
    """Whether there is anything to save."""
    status = self._board.status()
    return status is not None and status["steps"] > 0

  def _failure(self, nodes: dict[str, board_lib.Node]) -> str:
    """Returns which node has failed, and of what; empty if none has."""
    failed = {name: node for name, node in nodes.items() if node.state is NodeState.FAILED}
    if failed:
      # One that was killed, or replay, is the cause of what others may have said before it.
      cause = min(failed, key=lambda name: ("killed" not in failed[name].reason, name != "replay"))
      return f"{cause} failed: {failed[cause].reason.rstrip('.')}."
    if not self._settings.launch.in_processes:
      return ""
    gone = self._tree.gone()
    for name in self._names:
      ended = name in nodes and nodes[name].state in (NodeState.ENDED, NodeState.LOST)
      if name in gone and not ended:
        # It may have said so after the board was read.
        now = self._board.nodes().get(name)
        if now is None or now.state is NodeState.RUNNING:
          return (
            f"{name} failed: its process, or what watches over it, was killed or did not start."
          )
    return ""

  def _show(self, nodes: dict[str, board_lib.Node]) -> None:
    status = self._board.status()
    if status is None:
      return
    for note in status["notes"][self._notes_shown :]:
      self._progress.note(note)
    self._notes_shown = len(status["notes"])
    self._progress.describe(status_text.status_text(status, list(nodes.values())))
    self._progress.advance(status["steps"])
