"""Notices when a learner's own metrics say that its numbers do not fit the data."""

from collections.abc import Mapping
import dataclasses
from typing import Any, Callable

# Shares, of a log period's mean, beyond which a number of the config is likely to be wrong.
_OUTSIDE_SUPPORT = 0.1
_SATURATED = 0.5
_FEW_POSITIVE = 0.02


@dataclasses.dataclass(frozen=True)
class _Rule:
  """When to say what about one metric.

  Attributes:
    metric: its name in the learner's metrics.
    alarming: whether a value is out of bounds.
    words: the note, with `share` and the fields of the agent's config in braces.
  """

  metric: str
  alarming: Callable[[float], bool]
  words: str


_RULES = (
  _Rule(
    "target_outside_support_share",
    lambda share: share > _OUTSIDE_SUPPORT,
    "{share:.0%} of the critic's targets lie outside of what it can represent, [{vmin:g}, "
    "{vmax:g}], and were cut off there. Widen vmin and vmax, or lower reward_scale "
    "({reward_scale:g}).",
  ),
  _Rule(
    "weight_saturated_share",
    lambda share: share > _SATURATED,
    "{share:.0%} of the actions have the largest weight, ratio_upper_bound = "
    "{ratio_upper_bound:g}, so that good and better ones count alike. Raise beta ({beta:g}), or "
    "lower reward_scale ({reward_scale:g}).",
  ),
  _Rule(
    "positive_advantage_share",
    lambda share: share < _FEW_POSITIVE,
    "Only {share:.1%} of the data's actions seem better than the policy's own, so that little of "
    "the data is learnt from. The critic may overestimate actions that the data lacks: check vmin "
    "and vmax ([{vmin:g}, {vmax:g}]), or raise beta ({beta:g}).",
  ),
  _Rule(
    "positive_advantage_share",
    lambda share: share > 1 - _FEW_POSITIVE,
    "{share:.1%} of the data's actions seem better than the policy's own: the policy has not come "
    "near the data, or the critic does not tell actions apart. Check vmin and vmax ([{vmin:g}, "
    "{vmax:g}]), or raise reward_scale ({reward_scale:g}).",
  ),
)


class DivergenceWatch:
  """Looks at each log period's metrics, and notes what is out of bounds the first time it is."""

  def __init__(self, config: Any):
    """Initialises the watch.

    Args:
      config: the agent's config, a dataclass. Rules about fields that it lacks do not hold for the
        agent.
    """
    self._values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    self._rules = list(_RULES)

  def notes(self, step: int, metrics: Mapping[str, float]) -> list[str]:
    """Returns one line for each thing that is out of bounds and was not before.

    Args:
      step: learner steps done, to name in the lines.
      metrics: the learner's metrics, means over a log period.
    """
    broken = [
      rule for rule in self._rules if rule.metric in metrics and rule.alarming(metrics[rule.metric])
    ]
    lines = []
    for rule in broken:
      self._rules.remove(rule)
      try:
        words = rule.words.format(share=metrics[rule.metric], **self._values)
      except KeyError:
        continue
      lines.append(f"step {step:,}: {words}")
    return lines
