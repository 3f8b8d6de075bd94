"""Settings that train well, by agent and environment family: one module a family."""

from collections.abc import Iterable
import difflib

from temper.launchers.presets import cartpole_swingup
from temper.launchers.presets import cheetah_run
from temper.launchers.presets import default
from temper.launchers.presets import pendulum
from temper.launchers.presets import pendulum_document
from temper.launchers.presets.preset import NONE
from temper.launchers.presets.preset import Preset

_FAMILIES = (pendulum, cartpole_swingup, cheetah_run)
# Presets that no environment chooses by itself.
_BY_NAME_ONLY = (pendulum_document,)


def names(agent: str) -> list[str]:
  """Returns the presets that an agent has, `default` first."""
  return list(_by_name(agent))


def listed(agents: Iterable[str]) -> str:
  """Returns the names of the agents' presets, for a help text."""
  return "; ".join(f"{agent}: {', '.join(names(agent))}" for agent in agents if names(agent))


def find(agent: str, environment: str, name: str = "auto") -> Preset:
  """Returns the preset of an agent for an environment.

  Args:
    agent: name of the agent, such as "svg0".
    environment: name of the environment, such as "gym:Pendulum-v1".
    name: "auto" takes the environment's own family, else `default`; "none" changes nothing, so
      that the agent's own defaults hold; any other name takes that preset whatever the environment.

  Raises:
    ValueError: if the agent has no preset of that name; lists those it has.
  """
  available = _by_name(agent)
  if name == "none":
    return NONE
  if name == "auto":
    for family in _FAMILIES:
      if environment in family.ENVIRONMENTS and agent in family.PRESETS:
        return family.PRESETS[agent]
    return available.get("default", NONE)
  if name not in available:
    known = ["auto", "none", *available]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(
      f"preset {name!r} does not exist for agent {agent!r}.{hint} Choose one of {known}."
    )
  return available[name]


def _by_name(agent: str) -> dict[str, Preset]:
  modules = (default, *_FAMILIES, *_BY_NAME_ONLY)
  presets = (module.PRESETS[agent] for module in modules if agent in module.PRESETS)
  return {preset.name: preset for preset in presets}
