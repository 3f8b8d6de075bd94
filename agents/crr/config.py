"""The numbers of a CRR agent, checked when they are set."""

import dataclasses
from typing import Optional

from acme.adders import reverb as reverb_adders

from temper.agents.crr import losses
from temper.agents.crr import networks
from temper.utils import checks
from temper.utils import heads
from temper.utils import temperature_config


@dataclasses.dataclass(frozen=True)
class CRRConfig:
  """Options of critic-regularised regression.

  Names and defaults of what `RCRRLearner` takes are Acme's. A wrong value raises a ValueError that
  names the field, the value and what is allowed.

  Attributes:
    discount: agent's discount, in [0, 1]; multiplies the environment's.
    batch_size: sequences a learner step, over all replicas.
    sequence_length: T, steps of a sequence; its T - 1 pairs are trained on.
    burn_in_length: steps before them that only warm up the recurrent states.
    target_update_period: learner steps between copies of the online to the target networks.
    num_action_samples_td_learning: action samples per state for the critic's target.
    num_action_samples_policy_weight: action samples per state for the advantage's baseline.
    baseline_reduce_function: how those become one value.
    policy_improvement_modes: what an advantage makes of a weight; see `PolicyImprovementMode`.
    ratio_upper_bound: largest weight of mode "exp".
    beta: temperature of mode "exp", in units of value.
    max_gradient_norm: each network's gradient is clipped to this global norm; None leaves it.
    normalise_by_valid: divides losses by the number of pairs that are not masked instead of by
      batch_size times T.
    reward_scale: factor of the rewards inside the learner; returns that are reported stay unscaled.
    policy_learning_rate, critic_learning_rate: Adam's step sizes.
    learning_rate_decay_period: updates over which both fall linearly to a tenth; None leaves them.
    policy_layer_sizes, critic_layer_sizes: hidden layers of the default networks.
    lstm_size: size of the default networks' recurrent cores; None makes them feed-forward.
    policy_head: family of the default policy's distributions.
    num_mixture_components: components, if that is a mixture.
    init_scale, min_scale: initial and smallest standard deviation of the default policy, in
      canonical actions, to which the smallest one is added.
    vmin, vmax: ends of the critic's distribution over discounted returns, after `reward_scale`.
    num_atoms: its number of atoms.
    temperature: weight of the policy's entropy in its loss and how it moves; the text of a kind,
      such as "three_stage", takes that kind's defaults. None, as in the paper: no such term.
    prefetch_size: batches that are sampled ahead of the learner.
    min_replay_size: environment steps in replay before the first update; online only, as all that
      follow.
    max_replay_size: sequences that replay holds at the most.
    samples_per_insert: sequences sampled per environment step that is added; None leaves the rate
      free (in one process: one update per environment step).
    replay_table_name: name of the replay table.
    variable_update_seconds: seconds between fetches of variables, when the actor lives apart from
      the learner.
    variable_update_period: actor steps between them instead; None counts seconds.
  """

  discount: float = 0.99
  batch_size: int = 256
  sequence_length: int = 20
  burn_in_length: int = 0
  target_update_period: int = 100
  num_action_samples_td_learning: int = 1
  num_action_samples_policy_weight: int = 4
  baseline_reduce_function: losses.BaselineReduce = losses.BaselineReduce.MEAN
  policy_improvement_modes: losses.PolicyImprovementMode = losses.PolicyImprovementMode.EXP
  ratio_upper_bound: float = 20.0
  beta: float = 1.0
  max_gradient_norm: Optional[float] = 40.0
  normalise_by_valid: bool = False
  reward_scale: float = 1.0
  policy_learning_rate: float = 1e-4
  critic_learning_rate: float = 1e-4
  learning_rate_decay_period: Optional[int] = None
  policy_layer_sizes: tuple[int, ...] = (256, 256)
  critic_layer_sizes: tuple[int, ...] = (256, 256)
  lstm_size: Optional[int] = 256
  policy_head: networks.PolicyHead = networks.PolicyHead.GAUSSIAN
  num_mixture_components: int = 5
  init_scale: float = 0.7
  min_scale: float = 1e-2
  vmin: float = -150.0
  vmax: float = 150.0
  num_atoms: int = 51
  temperature: Optional[temperature_config.TemperatureConfig] = None
  prefetch_size: int = 4
  min_replay_size: int = 1000
  max_replay_size: int = 100_000
  samples_per_insert: Optional[float] = 32.0
  replay_table_name: str = reverb_adders.DEFAULT_PRIORITY_TABLE
  variable_update_seconds: float = 1.0
  variable_update_period: Optional[int] = None

  def __post_init__(self) -> None:
    checks.integer("sequence_length", self.sequence_length, minimum=2)
    for name in (
      "batch_size",
      "target_update_period",
      "num_action_samples_td_learning",
      "num_action_samples_policy_weight",
      "num_mixture_components",
      "min_replay_size",
      "max_replay_size",
    ):
      checks.integer(name, getattr(self, name), minimum=1)
    for name in ("variable_update_period", "learning_rate_decay_period"):
      checks.integer(name, getattr(self, name), minimum=1, optional=True)
    for name in ("prefetch_size", "burn_in_length"):
      checks.integer(name, getattr(self, name), minimum=0)
    if self.lstm_size is not None:
      checks.integer("lstm_size", self.lstm_size, minimum=1)
    elif self.burn_in_length:
      raise ValueError(
        f"burn_in_length is {self.burn_in_length}, but lstm_size is None: feed-forward networks "
        "have no state to warm up. Set burn_in_length to 0, or lstm_size to the size of a core."
      )
    checks.number("discount", self.discount, minimum=0, maximum=1)
    for name in ("policy_learning_rate", "critic_learning_rate", "min_scale"):
      checks.number(name, getattr(self, name), minimum=0)
    for name in ("reward_scale", "init_scale", "beta", "ratio_upper_bound"):
      checks.number(name, getattr(self, name), above=0)
    for name in ("samples_per_insert", "max_gradient_norm"):
      checks.number(name, getattr(self, name), above=0, optional=True)
    checks.number("variable_update_seconds", self.variable_update_seconds, above=0)
    for name in ("policy_layer_sizes", "critic_layer_sizes"):
      checks.layer_sizes(name, getattr(self, name))
    checks.text("replay_table_name", self.replay_table_name)
    heads.check_support(self.vmin, self.vmax, self.num_atoms)
    for name, enumeration in (
      ("baseline_reduce_function", losses.BaselineReduce),
      ("policy_improvement_modes", losses.PolicyImprovementMode),
      ("policy_head", networks.PolicyHead),
    ):
      member = checks.member(name, getattr(self, name), enumeration)
      # A frozen dataclass allows no other way.
      object.__setattr__(self, name, member)
    if self.temperature is not None:
      object.__setattr__(self, "temperature", temperature_config.as_config(self.temperature))
    if self.min_replay_size > self.max_replay_size * (self.sequence_length - 1):
      raise ValueError(
        f"min_replay_size is {self.min_replay_size} environment steps, but max_replay_size = "
        f"{self.max_replay_size} sequences of {self.sequence_length - 1} pairs hold at most "
        f"{self.max_replay_size * (self.sequence_length - 1)}: learning would never start. Lower "
        "min_replay_size or raise max_replay_size."
      )
