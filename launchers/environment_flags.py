"""Flags that say what is made of an environment, for every program that makes one."""

from collections.abc import Mapping
from typing import Any

from temper.launchers.command_line import Flag

FLAGS = (
  Flag(
    "max_episode_steps",
    "integer",
    None,
    1,
    "Truncates episodes, for environments that never end.",
  ),
  Flag(
    "infinite_action_scale",
    "float",
    None,
    None,
    "Range to use of action dimensions without bounds.",
  ),
  Flag(
    "observation_indices",
    "string",
    None,
    None,
    "Which numbers of a vector of observations the agent is shown, such as 0,1; default all.",
  ),
)


def environment_options(values: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the options for `temper.utils.environments` that flags have set.

  Args:
    values: the flags' values by name.

  Raises:
    ValueError: if a value cannot be read.
  """
  options = {flag.name: values[flag.name] for flag in FLAGS if values[flag.name] is not None}
  if "observation_indices" in options:
    text = options["observation_indices"]
    try:
      options["observation_indices"] = tuple(int(part) for part in text.strip("()[]").split(","))
    except ValueError:
      raise ValueError(
        f"observation_indices is {text!r}; it must be whole numbers with commas, such as 0,1."
      ) from None
  return options
