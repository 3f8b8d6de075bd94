"""The line that says how a distributed run goes."""

from collections.abc import Mapping, Sequence
from typing import Any

from temper.launchers.distributed import board as board_lib

_MOST_RATES = 4


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
  age = f"{program['variable_age_steps']:.0f} steps, {program['variable_age_seconds']:.1f} s"
  parts.append(f"age {age}")
  states = _states_by_kind(nodes)
  if any(status["actor_rates"]) and "actor" in states:
    states["actor"] += f" ({_rates(status['actor_rates'])} steps/s)"
  parts.append(" ".join(f"{kind} {text}" for kind, text in states.items()))
  return " · ".join(part for part in parts if part)


def _rates(rates: Sequence[float]) -> str:
  """Returns each actor's rate, or of many the least and the largest."""
  if len(rates) > _MOST_RATES:
    return f"{min(rates):.0f} to {max(rates):.0f}"
  return ", ".join(f"{rate:.0f}" for rate in rates)


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
