"""Flags of the learner, for every program that trains."""

from temper.launchers.command_line import Flag
from temper.utils.strategy_kinds import StrategyKind

FLAGS = (
  Flag(
    "strategy",
    [kind.value for kind in StrategyKind],
    StrategyKind.AUTO.value,
    None,
    "Devices that share the learner's batches: auto (all GPUs if there are several, else one "
    "device), one_device, mirrored, or tpu.",
  ),
)
