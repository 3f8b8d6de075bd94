"""SAC as a tutorial on Gymnasium's Pendulum sets it, with a state-value network.

Together with `--fixed_start --early_stop_return=-150` this is its whole experiment.
"""

from temper.launchers.presets.preset import Preset

PRESETS = {
  # The agent's own defaults are the document's.
  "sac": Preset(
    name="pendulum_document",
    config={"variant": "value_network"},
    runner={"steps": 20_000, "eval_every": 2_000},
  ),
}
