"""The agents that the launchers can run, by name. A new agent is one more entry."""

import dataclasses
import difflib
import importlib
from typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class AgentEntry:
  """Where an agent's two classes are. Nothing is imported before one of them is asked for.

  Attributes:
    module: the agent's package.
    config: name of its config dataclass, whose defaults must make an agent.
    builder: name of its builder, which takes a config.
    title: how texts and pictures call it.
  """

  module: str
  config: str
  builder: str
  title: str

  @property
  def config_class(self) -> type[Any]:
    """The config dataclass."""
    return getattr(importlib.import_module(self.module), self.config)

  @property
  def builder_class(self) -> Callable[[Any], Any]:
    """The builder class."""
    return getattr(importlib.import_module(self.module), self.builder)


AGENTS = {
  "svg0": AgentEntry("temper.agents.svg0_prior", "SVG0Config", "SVG0Builder", "SVG0"),
  "crr": AgentEntry("temper.agents.crr", "CRRConfig", "CRRBuilder", "CRR"),
  "sac": AgentEntry("temper.agents.sac", "SACConfig", "SACBuilder", "SAC"),
}


def find(name: str) -> AgentEntry:
  """Returns the entry of an agent.

  Raises:
    ValueError: if there is none of that name; lists those there are.
  """
  if name not in AGENTS:
    close = difflib.get_close_matches(name, AGENTS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"agent {name!r} does not exist.{hint} Choose one of {sorted(AGENTS)}.")
  return AGENTS[name]
