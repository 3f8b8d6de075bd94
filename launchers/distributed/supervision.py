"""Wraps the work of a Launchpad node: says how it is, and starts a killed process again."""

import ctypes
import dataclasses
import os
import signal
import sys
import time
import traceback
from types import FrameType
from typing import Any, Callable, Optional

import cloudpickle
import launchpad as lp
import psutil

from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed.board import NodeState
from temper.launchers.distributed.launch_config import OnDeath

_POLL_SECONDS = 0.1
# A node that dies this often in a row so soon after its start would do so for ever.
_QUICK_DEATHS = 5
_QUICK_SECONDS = 10.0
_TERMINATION_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Launcher:
  """The process that launched the program.

  Attributes:
    pid: its number.
    created: when it began, seconds since the epoch, since numbers are used again.
  """

  pid: int
  created: float

  @classmethod
  def this_process(cls) -> "Launcher":
    """Returns the calling process."""
    return cls(os.getpid(), psutil.Process().create_time())

  @property
  def alive(self) -> bool:
    """Whether it still runs."""
    try:
      process = psutil.Process(self.pid)
      return process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
      return False


@dataclasses.dataclass(frozen=True)
class Supervision:
  """What a supervisor must know.

  Attributes:
    name: of the node.
    board: folder of the board.
    log: file that the node's process writes its output to; None for a thread.
    on_death: what happens when the process is killed.
    launcher: nothing outlives this process.
  """

  name: str
  board: str
  log: Optional[str]
  on_death: OnDeath
  launcher: Launcher


class Supervised:
  """A node's function which, called, keeps the node's work going.

  In a process of its own it forks the process that works, before TensorFlow has been used: to start
  it again costs no imports. The function is unpickled there alone.
  """

  def __init__(self, function: Callable[[], Any], supervision: Supervision):
    """Wraps a function.

    Args:
      function: the node's work.
      supervision: how to look after it.
    """
    self._function: Optional[Callable[[], Any]] = function
    self._supervision = supervision
    self._payload = b""

  def __getstate__(self) -> dict[str, Any]:
    payload = self._payload or cloudpickle.dumps(self._function)
    return {"_function": None, "_supervision": self._supervision, "_payload": payload}

  def __call__(self) -> None:
    """Works until the work is done; exits with 1 if it failed and the run cannot go on."""
    if self._supervision.log is None:
      self._work_in_thread()
    else:
      _Supervisor(self._supervision, self._payload).run()

  def _work_in_thread(self) -> None:
    post = lambda state, reason="": board_lib.Board(self._supervision.board).post_node(
      board_lib.Node(self._supervision.name, state, os.getpid(), os.getpid(), reason=reason)
    )
    assert self._function is not None
    post(NodeState.RUNNING)
    try:
      self._function()
    except BaseException as error:
      post(NodeState.FAILED, _worded(error))
      raise
    post(NodeState.ENDED)


class _Supervisor:
  """Forks the process that works, and waits for its end."""

  def __init__(self, supervision: Supervision, payload: bytes):
    self._supervision = supervision
    self._payload = payload
    self._board = board_lib.Board(supervision.board)
    self._terminated = False
    self._pid = 0
    self._restarts = 0
    self._reason = ""

  def run(self) -> None:
    """Keeps the node going; returns when it has done its work or the run goes on without it."""
    # Ctrl-C reaches all processes of the terminal; what it means is for the launcher to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nodes_handler = signal.signal(signal.SIGTERM, self._terminate)
    # Before the fork, thus once.
    import temper.launchers.distributed.actor_node
    import temper.launchers.distributed.evaluator_node
    import temper.launchers.distributed.learner_node  # noqa: F401

    quick_deaths = 0
    while True:
      begun = time.monotonic()
      self._pid = os.fork()
      if self._pid == 0:
        self._work(nodes_handler)
      self._post(NodeState.RUNNING)
      status = self._wait()
      if os.WIFEXITED(status):
        self._end(os.WEXITSTATUS(status))
        return
      if self._terminated:
        return
      self._reason = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
      quick_deaths = quick_deaths + 1 if time.monotonic() - begun < _QUICK_SECONDS else 0
      on_death = self._supervision.on_death
      if on_death is OnDeath.CONTINUE:
        self._post(NodeState.LOST)
        return
      if on_death is OnDeath.END or quick_deaths >= _QUICK_DEATHS:
        if on_death is OnDeath.RESTART:
          self._reason += f", {quick_deaths} times within {_QUICK_SECONDS:g} s of its start"
        self._post(NodeState.FAILED)
        sys.exit(1)
      self._restarts += 1

  def _end(self, code: int) -> None:
    if code == 0 or self._terminated:
      self._post(NodeState.ENDED)
      return
    said = self._board.nodes().get(self._supervision.name)
    self._reason = said.reason if said and said.state is NodeState.FAILED else f"exit code {code}"
    self._post(NodeState.FAILED)
    sys.exit(1)

  def _wait(self) -> int:
    """Waits for the end of the process that works; returns its status, see `os.waitpid`."""
    deadline: Optional[float] = None
    while True:
      pid, status = os.waitpid(self._pid, os.WNOHANG)
      if pid:
        return status
      if not self._supervision.launcher.alive:
        os.kill(self._pid, signal.SIGKILL)
        os._exit(1)
      if self._terminated:
        now = time.monotonic()
        if deadline is None:
          deadline = now + _TERMINATION_SECONDS
          os.kill(self._pid, signal.SIGTERM)
        elif now > deadline:
          os.kill(self._pid, signal.SIGKILL)
      time.sleep(_POLL_SECONDS)

  def _terminate(self, unused_signum: int, unused_frame: Optional[FrameType]) -> None:
    self._terminated = True

  def _post(self, state: NodeState) -> None:
    self._board.post_node(
      board_lib.Node(
        self._supervision.name, state, self._pid, os.getpid(), self._restarts, self._reason
      )
    )

  def _work(self, terminate: Any) -> None:
    """Does the node's work in the forked process, and never returns."""
    code = 1
    try:
      _die_with_parent()
      signal.signal(signal.SIGTERM, terminate)
      _write_output_to(self._supervision.log)
      cloudpickle.loads(self._payload)()
      code = 0
    except BaseException as error:
      traceback.print_exc()
      self._reason, self._pid = _worded(error), os.getpid()
      self._post(NodeState.FAILED)
    finally:
      sys.stdout.flush()
      sys.stderr.flush()
      # The interpreter's own end would wait for threads of gRPC, and run the supervisor's handlers.
      os._exit(code)


def _die_with_parent() -> None:
  parent = os.getppid()
  ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent:  # It died before the system knew what to do then.
    os._exit(1)


def _write_output_to(path: Optional[str]) -> None:
  assert path is not None
  log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
  sys.stdout.flush()
  sys.stderr.flush()
  os.dup2(log, 1)
  os.dup2(log, 2)
  os.close(log)


def _worded(error: BaseException) -> str:
  return f"{type(error).__name__}: {error}"


class _Node:
  """A node whose work is supervised where there is somebody to do it."""

  supervision: Optional[Supervision] = None

  @property
  def function(self) -> Callable[[], Any]:
    """The work, as Launchpad asks for it at the launch."""
    function = super().function  # type: ignore[misc]
    return Supervised(function, self.supervision) if self.supervision else function


class CourierNode(_Node, lp.CourierNode):
  """Launchpad's, supervised."""


class ReverbNode(_Node, lp.ReverbNode):
  """Launchpad's, supervised."""
