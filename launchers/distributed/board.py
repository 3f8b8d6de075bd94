"""What the nodes of a local run and the process that launched them tell each other: small files.

A file is there whatever has died, and needs no connection that could block.
"""

import dataclasses
import enum
import json
import os
import shutil
from typing import Any, Optional

_OUTCOME, _STATUS, _STOP = "outcome.json", "status.json", "stop.json"
_NODES = "nodes"


class NodeState(enum.Enum):
  """How a node is."""

  RUNNING = "running"
  """Its process or thread runs, or is being started again."""
  LOST = "lost"
  """Its process was killed, and the run goes on without it."""
  ENDED = "ended"
  """It has done its work."""
  FAILED = "failed"
  """It died of an error or was killed, and the run cannot go on."""


@dataclasses.dataclass(frozen=True)
class Node:
  """What is known of a node.

  Attributes:
    name: such as "actor_0".
    state: how it is.
    pid: the process that does its work, the launching process itself for a thread.
    supervisor: the process that starts it again.
    restarts: how often it was started again.
    reason: what it died of last; empty if it never did.
  """

  name: str
  state: NodeState
  pid: int
  supervisor: int
  restarts: int = 0
  reason: str = ""


class Ending(enum.Enum):
  """How the nodes' work came to an end."""

  DONE = "done"
  """All steps are done, or the early stop is met."""
  STOPPED = "stopped"
  """The user stopped the run."""
  FAILED = "failed"
  """An error that the run itself noticed."""


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What the nodes' work came to.

  Attributes:
    ending: how it ended.
    steps: environment steps of the run.
    reason: what failed; empty if nothing did.
  """

  ending: Ending
  steps: int
  reason: str = ""


class Board:
  """The files in a folder that exists while a program runs."""

  def __init__(self, directory: str):
    """Initialises; nothing is touched.

    Args:
      directory: the folder.
    """
    self._directory = directory

  def clear(self) -> None:
    """Makes the folder anew, empty."""
    self.remove()
    os.makedirs(os.path.join(self._directory, _NODES))

  def remove(self) -> None:
    """Removes the folder."""
    shutil.rmtree(self._directory, ignore_errors=True)

  def post_node(self, node: Node) -> None:
    """Says how a node is."""
    record = {**dataclasses.asdict(node), "state": node.state.value}
    self._write(os.path.join(_NODES, f"{node.name}.json"), record)

  def nodes(self) -> dict[str, Node]:
    """Returns what is known of the nodes that have begun, by name."""
    folder = os.path.join(self._directory, _NODES)
    nodes = {}
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
      record = self._read(os.path.join(_NODES, file)) if file.endswith(".json") else None
      if record is not None:
        nodes[record["name"]] = Node(**{**record, "state": NodeState(record["state"])})
    return nodes

  def post_status(self, status: dict[str, Any]) -> None:
    """Says how the run is, in JSON's terms."""
    self._write(_STATUS, status)

  def status(self) -> Optional[dict[str, Any]]:
    """Returns how the run is, None before it was said."""
    return self._read(_STATUS)

  def post_outcome(self, outcome: Outcome) -> None:
    """Says what the work came to."""
    self._write(_OUTCOME, {**dataclasses.asdict(outcome), "ending": outcome.ending.value})

  def outcome(self) -> Optional[Outcome]:
    """Returns what the work came to, None while it goes on."""
    record = self._read(_OUTCOME)
    return Outcome(**{**record, "ending": Ending(record["ending"])}) if record else None

  def ask_to_stop(self) -> None:
    """Asks the nodes to save and end."""
    self._write(_STOP, {})

  @property
  def stop_asked(self) -> bool:
    """Whether `ask_to_stop` was called."""
    return os.path.exists(os.path.join(self._directory, _STOP))

  def _write(self, name: str, record: dict[str, Any]) -> None:
    path = os.path.join(self._directory, name)
    scratch = f"{path}.{os.getpid()}.new"
    try:
      with open(scratch, "w", encoding="utf-8") as file:
        json.dump(record, file)
      os.replace(scratch, path)
    except FileNotFoundError:
      pass  # The program has ended and its folder is gone: there is nobody to read it.

  def _read(self, name: str) -> Optional[dict[str, Any]]:
    try:
      with open(os.path.join(self._directory, name), encoding="utf-8") as file:
        return json.load(file)
    except FileNotFoundError:
      return None
