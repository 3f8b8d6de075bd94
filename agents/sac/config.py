"""The numbers of a SAC agent, checked when they are set."""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Any, Optional

from acme.adders import reverb as reverb_adders
import sonnet as snt

from temper.utils import checks
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import temperature_config
from temper.utils.temperature_config import TemperatureConfig
from temper.utils.temperature_config import TemperatureLoss


class SACVariant(enum.Enum):
  """Which form of the algorithm.

  VALUE_NETWORK: a state-value network with a target supplies the bootstrap value (Haarnoja 2018a,
    https://arxiv.org/abs/1801.01290), here with a learnt temperature.
  TWIN_TARGET: the targets of the twin critics do (Haarnoja 2018b,
    https://arxiv.org/abs/1812.05905).
  """

  VALUE_NETWORK = "value_network"
  TWIN_TARGET = "twin_target"


class EncoderSharing(enum.Enum):
  """Which networks share the encoder of the observations, where that has weights (images).

  SEPARATE: none.
  CRITICS: the two critics.
  ALL: the policy uses the critics' too, whose losses alone train it (Yarats 2019,
    https://arxiv.org/abs/1910.01741).
  """

  SEPARATE = "separate"
  CRITICS = "critics"
  ALL = "all"


# What a field means that is left None. The two sets are those of the variants' authors.
_DEFAULTS: Mapping[SACVariant, Mapping[str, Any]] = {
  SACVariant.VALUE_NETWORK: {
    "batch_size": 256,
    "policy_learning_rate": 3e-4,
    "critic_learning_rate": 3e-4,
    "policy_update_period": 2,
    "warm_up_steps": 10_000,
    "min_replay_size": 10_000,
    "max_replay_size": 100_000,
    "temperature": TemperatureConfig(
      initial_alpha=1.0, learning_rate=3e-4, loss=TemperatureLoss.ALPHA
    ),
    "squash_mean": True,
    "output_limit": 3e-3,
    "density_offset": 1e-7,
  },
  SACVariant.TWIN_TARGET: {
    "batch_size": 256,
    "policy_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "policy_update_period": 1,
    "warm_up_steps": 1_000,
    "min_replay_size": 1_000,
    "max_replay_size": 1_000_000,
    "temperature": TemperatureConfig(
      initial_alpha=0.2, learning_rate=1e-3, loss=TemperatureLoss.LOG_ALPHA
    ),
    "squash_mean": False,
    "output_limit": None,
    "density_offset": 0.0,
  },
}


@dataclasses.dataclass(frozen=True)
class SACConfig:
  """Options of SAC.

  A wrong value raises a ValueError that names the field, the value and what is allowed. Fields that
  are None take the value that `resolved` shows, which depends on the variant.

  Attributes:
    variant: which form of the algorithm; see `SACVariant`.
    temperature: weight of the policy's entropy and what moves it; the text of a kind, such as
      "fixed", takes that kind's defaults. None: Adam on the variant's own loss.
    discount: agent's discount, in [0, 1]; multiplies the environment's.
    batch_size: transitions an update, over all replicas.
    prefetch_size: batches that are sampled ahead of the learner. The one-process agent uses at most
      one.
    policy_learning_rate: Adam's step size of the policy.
    critic_learning_rate: Adam's step size of the critics, and of the value network.
    policy_optimizer, critic_optimizer, value_optimizer: Sonnet optimizers; None makes Adam with the
      rates above.
    learning_rate_decay_period: updates over which all learning rates fall linearly to a tenth; None
      keeps them.
    max_critic_gradient_norm: the critics' gradient is clipped to this global norm; None leaves it.
    target_update_rate: tau, share of the online networks in each update of the targets, in (0, 1].
    policy_update_period: updates between two of the policy. With the value-network variant the
      target moves then, too; with the other one the temperature does.
    updates_per_call: updates of one learner step, which is one call of a compiled function; 1 or a
      multiple of `policy_update_period`.
    n_step: rewards of a transition before it is bootstrapped from.
    reward_scale: factor of the rewards inside the learner; returns that are reported stay unscaled.
    bootstrap_on_truncation: whether an episode that was cut off by a time limit goes on in the
      value; False takes its end for a termination, as a well-known tutorial does.
    warm_up_steps: first steps of an actor, whose actions are uniform within the bounds.
    min_replay_size: environment steps in replay before the first update.
    max_replay_size: transitions that replay holds at the most.
    samples_per_insert: transitions sampled per environment step that is added; None: as many as an
      update takes, which is one update per environment step.
    sample_in_memory: whether the one-process agent samples from a copy of replay in its memory,
      which takes a fraction of the time and depends on the seed alone. Prioritised replay, and
      large observations such as images, are sampled from replay itself in any case.
    prioritised_replay: samples by TD error (Schaul 2015); None samples uniformly.
    replay_table_name: name of the replay table.
    variable_update_seconds: seconds between fetches of variables, when the actor lives apart from
      the learner.
    variable_update_period: actor steps between them instead; None counts seconds.
    policy_layer_sizes, critic_layer_sizes: hidden layers of the default networks; the value network
      has the critics'.
    encoder_sharing: which networks share an encoder; see `EncoderSharing`.
    squash_mean: whether the mean and the log-scale of the policy pass through a tanh before they
      are used, the latter mapped to its bounds; otherwise the log-scale is clipped to them.
    min_log_scale, max_log_scale: bounds of the log standard deviation before squashing.
    output_limit: bound of the last layers' initial weights; None takes 1 / sqrt(inputs).
    density_offset: added to 1 - a² in the policy's density; see `SquashedGaussian`.
  """

  variant: SACVariant = SACVariant.TWIN_TARGET
  temperature: Optional[TemperatureConfig] = None
  discount: float = 0.99
  batch_size: Optional[int] = None
  prefetch_size: int = 4
  policy_learning_rate: Optional[float] = None
  critic_learning_rate: Optional[float] = None
  policy_optimizer: Optional[snt.Optimizer] = None
  critic_optimizer: Optional[snt.Optimizer] = None
  value_optimizer: Optional[snt.Optimizer] = None
  learning_rate_decay_period: Optional[int] = None
  max_critic_gradient_norm: Optional[float] = None
  target_update_rate: float = 0.005
  policy_update_period: Optional[int] = None
  updates_per_call: int = 1
  n_step: int = 1
  reward_scale: float = 1.0
  bootstrap_on_truncation: bool = True
  warm_up_steps: Optional[int] = None
  min_replay_size: Optional[int] = None
  max_replay_size: Optional[int] = None
  samples_per_insert: Optional[float] = None
  sample_in_memory: bool = True
  prioritised_replay: Optional[prioritised_lib.PrioritisedReplay] = None
  replay_table_name: str = reverb_adders.DEFAULT_PRIORITY_TABLE
  variable_update_seconds: float = 1.0
  variable_update_period: Optional[int] = None
  policy_layer_sizes: tuple[int, ...] = (256, 256)
  critic_layer_sizes: tuple[int, ...] = (256, 256)
  encoder_sharing: EncoderSharing = EncoderSharing.CRITICS
  squash_mean: Optional[bool] = None
  min_log_scale: float = -20.0
  max_log_scale: float = 2.0
  output_limit: Optional[float] = None
  density_offset: Optional[float] = None

  def __post_init__(self) -> None:
    # A frozen dataclass allows no other way.
    put = lambda name, value: object.__setattr__(self, name, value)
    put("variant", checks.member("variant", self.variant, SACVariant))
    put("encoder_sharing", checks.member("encoder_sharing", self.encoder_sharing, EncoderSharing))
    if self.temperature is not None:
      put("temperature", temperature_config.as_config(self.temperature))
    for name in (
      "batch_size",
      "learning_rate_decay_period",
      "variable_update_period",
      "policy_update_period",
      "min_replay_size",
      "max_replay_size",
    ):
      checks.integer(name, getattr(self, name), minimum=1, optional=True)
    for name in ("updates_per_call", "n_step"):
      checks.integer(name, getattr(self, name), minimum=1)
    checks.integer("prefetch_size", self.prefetch_size, minimum=0)
    checks.integer("warm_up_steps", self.warm_up_steps, minimum=0, optional=True)
    checks.number("discount", self.discount, minimum=0, maximum=1)
    checks.number("target_update_rate", self.target_update_rate, above=0, maximum=1)
    checks.number("reward_scale", self.reward_scale, above=0)
    for name in ("policy_learning_rate", "critic_learning_rate", "density_offset"):
      checks.number(name, getattr(self, name), minimum=0, optional=True)
    for name in ("max_critic_gradient_norm", "samples_per_insert", "output_limit"):
      checks.number(name, getattr(self, name), above=0, optional=True)
    checks.number("variable_update_seconds", self.variable_update_seconds, above=0)
    for name in ("policy_layer_sizes", "critic_layer_sizes"):
      checks.layer_sizes(name, getattr(self, name))
    for name, allowed in (
      ("bootstrap_on_truncation", (True, False)),
      ("sample_in_memory", (True, False)),
      ("squash_mean", (True, False, None)),
    ):
      # Text such as "False" would be taken for True.
      if not any(getattr(self, name) is value for value in allowed):
        raise ValueError(f"{name} is {getattr(self, name)!r}; it must be True or False.")
    checks.text("replay_table_name", self.replay_table_name)
    checks.number("min_log_scale", self.min_log_scale)
    checks.number("max_log_scale", self.max_log_scale, above=self.min_log_scale)
    self._check_combinations()

  def _check_combinations(self) -> None:
    config = self.resolved()
    assert config.policy_update_period and config.min_replay_size and config.max_replay_size
    if config.updates_per_call != 1 and config.updates_per_call % config.policy_update_period:
      raise ValueError(
        f"updates_per_call is {config.updates_per_call}, but the policy is updated every "
        f"{config.policy_update_period} updates; it must be 1 or a multiple of "
        f"policy_update_period = {config.policy_update_period}."
      )
    if config.min_replay_size > config.max_replay_size:
      raise ValueError(
        f"min_replay_size is {config.min_replay_size}, but replay holds at most max_replay_size = "
        f"{config.max_replay_size}: learning would never start. Lower min_replay_size or raise "
        "max_replay_size."
      )
    if self.value_optimizer is not None and self.variant is not SACVariant.VALUE_NETWORK:
      raise ValueError(
        "value_optimizer is given, but variant is twin_target, which has no value network. Leave "
        'it None, or set variant="value_network".'
      )

  def resolved(self) -> "SACConfig":
    """Returns the configuration with the variant's values in the place of None."""
    defaults = _DEFAULTS[self.variant]
    missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
    if self.samples_per_insert is None:
      missing["samples_per_insert"] = float(missing.get("batch_size") or self.batch_size or 1)
    # Not dataclasses.replace, which would check, thus resolve, again.
    resolved = object.__new__(SACConfig)
    for field in dataclasses.fields(self):
      value = missing.get(field.name, getattr(self, field.name))
      object.__setattr__(resolved, field.name, value)
    return resolved
