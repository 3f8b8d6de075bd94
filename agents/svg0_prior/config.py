"""The numbers of an SVG0 agent, checked when they are set."""

import dataclasses
from typing import Optional

from acme.adders import reverb as reverb_adders
import sonnet as snt

from temper.utils import checks
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import sampled_values
from temper.utils import svg0_utils
from temper.utils import temperature_config


@dataclasses.dataclass(frozen=True)
class SVG0Config:
  """Options of SVG0 with an optional behaviour prior.

  The fields down to `entropy_regularizer_cost` and their defaults are Acme's. A wrong value raises
  a ValueError that names the field, the value and what is allowed.

  Attributes:
    discount: agent's discount, in [0, 1]; multiplies the environment's.
    batch_size: sequences a learner step, over all replicas.
    prefetch_size: batches that are sampled ahead of the learner. The one-process agent uses at most
      one.
    target_update_period: learner steps between copies of the online to the target networks.
    policy_optimizer, critic_optimizer, prior_optimizer: Sonnet optimizers; None makes Adam with the
      rates below.
    min_replay_size: environment steps in replay before the first update.
    max_replay_size: sequences that replay holds at the most.
    samples_per_insert: sequences sampled per environment step that is added; None leaves the rate
      free (in one process: one update per environment step).
    sequence_length: T, the pairs that are trained on; T + 1 steps are stored.
    sigma: accepted for Acme's sake and unused, as there.
    replay_table_name: name of the replay table.
    distillation_cost: c_KL, weight of the KL from the policy to the prior; unused without a prior.
    entropy_regularizer_cost: c_H, weight of the policy's entropy; unused with a temperature.
    num_action_samples: S, action samples per state.
    lambda_: Retrace's lambda, in [0, 1].
    entropy_estimator: how the entropy is differentiated; see `EntropyEstimator`.
    soft_value_target: whether c_H times the entropy is part of the value target too
      (maximum-entropy returns).
    reward_scale: factor of the rewards inside the learner; returns that are reported stay unscaled.
    policy_learning_rate, critic_learning_rate, prior_learning_rate: Adam's step sizes.
    max_gradient_norm: each network's gradient is clipped to this global norm; None leaves it.
    variable_update_seconds: seconds between fetches of variables, when the actor lives apart from
      the learner.
    variable_update_period: actor steps between them instead; None counts seconds.
    use_prior: whether the default networks have a behaviour prior.
    policy_layer_sizes, critic_layer_sizes, prior_layer_sizes: hidden layers of the default
      networks.
    policy_keys: entries of a dict observation that the default policy and critic see; None: all.
    prior_keys: entries that the default prior sees, given with `use_prior` alone; None: all.
    init_scale, min_scale: initial and smallest standard deviation of the default policy, in
      canonical actions, to which the smallest one is added.
    sample_block_rows: rows of one evaluation of sampled actions; see `temper.utils.sampled_values`.
    temperature: what c_H is and how it moves, in place of `entropy_regularizer_cost`; the text of a
      kind, such as "three_stage", takes that kind's defaults. One that moves needs an
      `entropy_estimator` through which the weight has an effect, "pathwise" or "analytic".
    prioritised_replay: samples sequences by their TD errors; None samples all alike.
  """

  discount: float = 0.99
  batch_size: int = 256
  prefetch_size: int = 4
  target_update_period: int = 100
  policy_optimizer: Optional[snt.Optimizer] = None
  critic_optimizer: Optional[snt.Optimizer] = None
  prior_optimizer: Optional[snt.Optimizer] = None
  min_replay_size: int = 1000
  max_replay_size: int = 1_000_000
  samples_per_insert: Optional[float] = 32.0
  sequence_length: int = 10
  sigma: float = 0.3
  replay_table_name: str = reverb_adders.DEFAULT_PRIORITY_TABLE
  distillation_cost: Optional[float] = 1e-3
  entropy_regularizer_cost: Optional[float] = 1e-3
  num_action_samples: int = 10
  lambda_: float = 1.0
  entropy_estimator: svg0_utils.EntropyEstimator = svg0_utils.EntropyEstimator.SCORE
  soft_value_target: bool = False
  reward_scale: float = 1.0
  policy_learning_rate: float = 1e-4
  critic_learning_rate: float = 1e-4
  prior_learning_rate: float = 1e-4
  max_gradient_norm: Optional[float] = None
  variable_update_seconds: float = 1.0
  variable_update_period: Optional[int] = None
  use_prior: bool = False
  policy_layer_sizes: tuple[int, ...] = (256, 256, 256)
  critic_layer_sizes: tuple[int, ...] = (512, 512, 256)
  prior_layer_sizes: tuple[int, ...] = (200, 100)
  policy_keys: Optional[tuple[str, ...]] = None
  prior_keys: Optional[tuple[str, ...]] = None
  init_scale: float = 0.7
  min_scale: float = 0.3
  sample_block_rows: int = sampled_values.DEFAULT_BLOCK_ROWS
  temperature: Optional[temperature_config.TemperatureConfig] = None
  prioritised_replay: Optional[prioritised_lib.PrioritisedReplay] = None

  def __post_init__(self) -> None:
    for name in (
      "batch_size",
      "target_update_period",
      "min_replay_size",
      "max_replay_size",
      "sequence_length",
      "num_action_samples",
      "sample_block_rows",
    ):
      checks.integer(name, getattr(self, name), minimum=1)
    checks.integer("variable_update_period", self.variable_update_period, minimum=1, optional=True)
    checks.integer("prefetch_size", self.prefetch_size, minimum=0)
    for name in ("discount", "lambda_"):
      checks.number(name, getattr(self, name), minimum=0, maximum=1)
    for name in ("distillation_cost", "entropy_regularizer_cost"):
      checks.number(name, getattr(self, name), minimum=0, optional=True)
    for name in (
      "policy_learning_rate",
      "critic_learning_rate",
      "prior_learning_rate",
      "min_scale",
    ):
      checks.number(name, getattr(self, name), minimum=0)
    for name in ("reward_scale", "init_scale"):
      checks.number(name, getattr(self, name), above=0)
    for name in ("samples_per_insert", "max_gradient_norm"):
      checks.number(name, getattr(self, name), above=0, optional=True)
    checks.number("variable_update_seconds", self.variable_update_seconds, above=0)
    for name in ("policy_layer_sizes", "critic_layer_sizes", "prior_layer_sizes"):
      checks.layer_sizes(name, getattr(self, name))
    checks.text("replay_table_name", self.replay_table_name)
    if self.prior_keys is not None and not self.use_prior:
      raise ValueError(
        f"prior_keys is {self.prior_keys!r}, but use_prior is False: no prior would see them. Set "
        "use_prior, or leave prior_keys None."
      )
    estimator = checks.member(
      "entropy_estimator", self.entropy_estimator, svg0_utils.EntropyEstimator
    )
    # A frozen dataclass allows no other way.
    object.__setattr__(self, "entropy_estimator", estimator)
    if self.temperature is not None:
      temperature = temperature_config.as_config(self.temperature)
      object.__setattr__(self, "temperature", temperature)
      fixed = temperature.kind is temperature_config.TemperatureKind.FIXED
      if estimator is svg0_utils.EntropyEstimator.SCORE and not fixed:
        raise ValueError(
          f"temperature is of kind {temperature.kind.value!r}, but entropy_estimator is 'score', "
          "whose expected gradient is zero: no alpha would move the entropy. Set "
          "entropy_estimator to 'pathwise' or 'analytic', or temperature to None."
        )
    if self.min_replay_size > self.max_replay_size * self.sequence_length:
      raise ValueError(
        f"min_replay_size is {self.min_replay_size} environment steps, but max_replay_size = "
        f"{self.max_replay_size} sequences of {self.sequence_length} steps hold at most "
        f"{self.max_replay_size * self.sequence_length}: learning would never start. Lower "
        "min_replay_size or raise max_replay_size."
      )
