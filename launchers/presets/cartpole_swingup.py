"""The control suite's cartpole swing-up: five observations, one force, episodes of 1,000 steps."""

from temper.launchers.presets.preset import Preset

ENVIRONMENTS = ("dm_control:cartpole:swingup", "dm_control:cartpole:swingup_sparse")

PRESETS = {
  "svg0": Preset(
    name="cartpole_swingup",
    config={
      "use_prior": True,
      "policy_layer_sizes": (128, 128),
      "critic_layer_sizes": (256, 256),
      "prior_layer_sizes": (64, 64),
      "batch_size": 64,
      "sequence_length": 8,
      "num_action_samples": 5,
      "entropy_estimator": "analytic",
      "policy_learning_rate": 1e-3,
      "critic_learning_rate": 1e-3,
      "prior_learning_rate": 1e-3,
      "target_update_period": 50,
      "samples_per_insert": 16.0,
      # Rewards in [0, 1] add up to 100 at γ = 0.99; a tenth keeps values near ten.
      "reward_scale": 0.1,
      "min_replay_size": 1_000,
    },
    runner={"steps": 100_000, "eval_every": 10_000},
  ),
  "sac": Preset(
    name="cartpole_swingup",
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
