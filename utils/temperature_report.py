"""What a user is told of a temperature."""

from collections.abc import Mapping
import math
from typing import Union

from absl import logging

from temper.utils import temperature_config as config_lib

_MENDS = {
  "min_alpha": "The policy is more random than its target almost without weight on its entropy: "
  "raise the target entropy, or lower min_alpha.",
  "max_alpha": "The policy's entropy stays under its target whatever its weight: lower the target "
  "entropy, or raise max_alpha.",
}


class BoundReport:
  """Warns once for each bound that alpha has reached; on the host, from a step's metrics."""

  def __init__(self, config: Union[config_lib.TemperatureConfig, config_lib.TemperatureKind, str]):
    """Takes the bounds of a temperature's config."""
    low, high = config_lib.as_config(config).log_alpha_bounds
    self._log_bounds = {"min_alpha": low, "max_alpha": high}
    self._reported: set[str] = set()

  def report(self, metrics: Mapping[str, float]) -> None:
    """Logs a warning if the metrics show a bound that was not reported yet.

    Args:
      metrics: `alpha` and `alpha_at_bound` of an update as numbers; others are not looked at.
    """
    if not metrics.get("alpha_at_bound"):
      return
    # e^-100 is zero to some processors.
    log_alpha = math.log(metrics["alpha"]) if metrics["alpha"] > 0 else -math.inf
    low, high = self._log_bounds.values()
    field = "min_alpha" if log_alpha < (low + high) / 2 else "max_alpha"
    if field in self._reported:
      return
    self._reported.add(field)
    bound = math.exp(self._log_bounds[field])
    logging.warning("alpha has reached %s = %g and stays there. %s", field, bound, _MENDS[field])
