"""What a preset is."""

from collections.abc import Mapping
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Preset:
  """Named settings that differ from the defaults.

  Attributes:
    name: what `--preset` calls it.
    config: values for fields of the agent's config.
    runner: values for flags of the train launcher, such as `steps` or `eval_every`.
    offline: the same for the train-offline launcher, whose steps are the learner's.
  """

  name: str
  config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  runner: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  offline: Mapping[str, Any] = dataclasses.field(default_factory=dict)


NONE = Preset("none")
