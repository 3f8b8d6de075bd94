"""The control suite's cheetah: 17 observations, six torques, episodes of 1,000 steps."""

from temper.launchers.presets.preset import Preset

ENVIRONMENTS = ("dm_control:cheetah:run",)

PRESETS = {
  "sac": Preset(
    name="cheetah_run",
    config={
      "variant": "twin_target",
      "batch_size": 256,
      "policy_layer_sizes": (256, 256),
      "critic_layer_sizes": (256, 256),
      "policy_learning_rate": 1e-3,
      "critic_learning_rate": 1e-3,
    },
    runner={"steps": 100_000, "eval_every": 10_000},
  ),
}
