"""Gymnasium's Pendulum: three observations, one torque, episodes of 200 steps."""

from temper.launchers.presets.preset import Preset

ENVIRONMENTS = ("gym:Pendulum-v1",)

PRESETS = {
  "svg0": Preset(
    name="pendulum",
    config={
      "use_prior": True,
      "policy_layer_sizes": (128, 128),
      "critic_layer_sizes": (256, 256),
      "prior_layer_sizes": (64, 64),
      "batch_size": 64,
      "sequence_length": 8,
      "num_action_samples": 5,
      "entropy_estimator": "analytic",
      # Staying near the prior, which lags behind, keeps the policy from running into a corner of
      # the action range before the critic knows anything: with 1e-3 some seeds stay there.
      "distillation_cost": 0.3,
      "policy_learning_rate": 1e-3,
      "critic_learning_rate": 1e-3,
      "prior_learning_rate": 1e-3,
      "target_update_period": 50,
      # One update every four steps: 64 sequences of the batch over four steps.
      "samples_per_insert": 16.0,
      # Rewards reach −16 a step; an eighth keeps values near one-digit numbers at γ = 0.99.
      "reward_scale": 0.125,
      "min_replay_size": 500,
    },
    runner={"steps": 20_000, "eval_every": 2_000},
  ),
  "crr": Preset(
    name="pendulum",
    config={
      # The velocity is observed, so that nothing needs to be remembered.
      "lstm_size": None,
      "policy_layer_sizes": (128, 128),
      "critic_layer_sizes": (128, 128),
      "batch_size": 64,
      "sequence_length": 10,
      "policy_learning_rate": 1e-3,
      "critic_learning_rate": 1e-3,
      # Values of 100 steps ahead must come through within a run this short.
      "target_update_period": 25,
    },
    offline={"steps": 4_000, "eval_every": 500},
  ),
  "sac": Preset(
    name="pendulum",
    config={
      "variant": "twin_target",
      "batch_size": 256,
      "policy_layer_sizes": (256, 256),
      "critic_layer_sizes": (256, 256),
      "policy_learning_rate": 2e-3,
      "critic_learning_rate": 2e-3,
      "warm_up_steps": 1_000,
      # The last steps are small ones: at full size some seeds end a few points lower.
      "learning_rate_decay_period": 20_000,
    },
    runner={"steps": 20_000, "eval_every": 2_000},
  ),
}
