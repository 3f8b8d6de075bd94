"""For environments without a preset of their own: small networks that a laptop trains."""

from temper.launchers.presets.preset import Preset

PRESETS = {
  "svg0": Preset(
    name="default",
    config={
      "use_prior": True,
      "policy_layer_sizes": (256, 256),
      "critic_layer_sizes": (256, 256),
      "prior_layer_sizes": (64, 64),
      "batch_size": 64,
      "sequence_length": 8,
      "num_action_samples": 5,
      "entropy_estimator": "analytic",
      "policy_learning_rate": 5e-4,
      "critic_learning_rate": 5e-4,
      "prior_learning_rate": 5e-4,
      "samples_per_insert": 16.0,
    },
    runner={"steps": 100_000, "eval_every": 10_000},
  ),
  "crr": Preset(
    name="default",
    config={
      "lstm_size": None,
      "batch_size": 128,
      "sequence_length": 10,
      "policy_learning_rate": 3e-4,
      "critic_learning_rate": 3e-4,
    },
    offline={"steps": 50_000, "eval_every": 5_000, "checkpoint_every": 5_000},
  ),
  "sac": Preset(
    name="default",
    config={
      "variant": "twin_target",
      "batch_size": 256,
      "policy_layer_sizes": (256, 256),
      "critic_layer_sizes": (256, 256),
      "policy_learning_rate": 3e-4,
      "critic_learning_rate": 3e-4,
    },
    runner={"steps": 100_000, "eval_every": 10_000},
  ),
}
