"""The numbers of a temperature, checked when they are set; without TensorFlow."""

from collections.abc import Callable, Sequence
import dataclasses
import enum
import math
from typing import Any, ClassVar, Optional, Union

from temper.utils import checks


class TemperatureKind(enum.Enum):
  """What moves alpha, the weight of the policy's entropy.

  FIXED: nothing.
  GRADIENT: Adam on log alpha (Haarnoja 2018, https://arxiv.org/abs/1812.05905, section 5).
  TWO_STAGE: ALF's entropy target, first generation: alpha rests until the entropy falls below the
    target, and is then adjusted.
  THREE_STAGE: the second one: before that, alpha falls slowly until the entropy has left its start.
  SCHEDULED: the third one: like the second, with a target that may depend on the step; equal
    means of the entropy count as rising instead of falling.
  """

  FIXED = "fixed"
  GRADIENT = "gradient"
  TWO_STAGE = "two_stage"
  THREE_STAGE = "three_stage"
  SCHEDULED = "scheduled"


class TemperatureLoss(enum.Enum):
  """What multiplies the excess of the entropy in the loss of log alpha.

  ALPHA: alpha, as the paper has it.
  LOG_ALPHA: log alpha, so that the gradient does not shrink with alpha.
  """

  ALPHA = "alpha"
  LOG_ALPHA = "log_alpha"


@dataclasses.dataclass(frozen=True)
class TargetSchedule:
  """A target entropy over steps: linear between its points, constant before and after them.

  Attributes:
    steps: ascending steps, at least one.
    targets: target entropy at each, nats.
  """

  text_form: ClassVar[str] = "ascending step:target pairs such as '0:2.0,1000:-1.0'"

  steps: tuple[int, ...]
  targets: tuple[float, ...]

  def __post_init__(self) -> None:
    object.__setattr__(self, "steps", tuple(self.steps))
    object.__setattr__(self, "targets", tuple(self.targets))
    if not self.steps or len(self.steps) != len(self.targets):
      raise ValueError(
        f"A schedule with the steps {self.steps} and the targets {self.targets} has no use; give "
        "at least one step, and one target for each."
      )
    for step, target in zip(self.steps, self.targets):
      checks.integer("a step of target_schedule", step, minimum=0)
      checks.number("a target of target_schedule", target)
    if any(later <= step for step, later in zip(self.steps, self.steps[1:])):
      raise ValueError(f"The steps of target_schedule are {self.steps}; they must ascend.")

  @classmethod
  def from_pairs(cls, pairs: Sequence[tuple[int, float]]) -> "TargetSchedule":
    """Makes a schedule of (step, target) pairs; raises ValueError if they are none."""
    try:
      steps, targets = zip(*((step, target) for step, target in pairs))
    except (TypeError, ValueError):
      raise ValueError(
        f"target_schedule is {pairs!r}; it must hold (step, target) pairs, such as "
        "((0, 2.0), (1000, -1.0))."
      ) from None
    return cls(steps, targets)

  @classmethod
  def from_text(cls, text: str) -> "TargetSchedule":
    """Reads `0:2.0,1000:-1.0`; raises ValueError if the text is no such list."""
    pairs = [entry.partition(":") for entry in text.strip("()[]").split(",") if entry.strip()]
    try:
      return cls.from_pairs([(int(float(step)), float(target)) for step, _, target in pairs])
    except (ValueError, OverflowError) as error:
      raise ValueError(
        f"{text!r} is no schedule of target entropies such as '0:2.0,1000:-1.0': {error}"
      ) from error

  def to_text(self) -> str:
    """Returns what `from_text` reads."""
    return ",".join(f"{step}:{target}" for step, target in zip(self.steps, self.targets))


_BOUNDED = frozenset({"initial_alpha", "target_entropy", "min_alpha", "max_alpha"})
_TWO_STAGE = _BOUNDED | {"slow_update_rate", "fast_update_rate"}
_THREE_STAGE = _TWO_STAGE | {
  "very_slow_update_rate",
  "average_window",
  "max_entropy",
  "skip_free_stage",
}
# The fields that each kind reads.
_FIELDS: dict[TemperatureKind, frozenset[str]] = {
  TemperatureKind.FIXED: frozenset({"initial_alpha"}),
  TemperatureKind.GRADIENT: _BOUNDED | {"learning_rate", "loss"},
  TemperatureKind.TWO_STAGE: _TWO_STAGE,
  TemperatureKind.THREE_STAGE: _THREE_STAGE,
  TemperatureKind.SCHEDULED: _THREE_STAGE | {"target_schedule"},
}
_INITIAL_ALPHA = {
  TemperatureKind.FIXED: 0.2,
  TemperatureKind.GRADIENT: 1.0,
  TemperatureKind.TWO_STAGE: 0.01,
  TemperatureKind.THREE_STAGE: 0.1,
  TemperatureKind.SCHEDULED: 0.1,
}
# ALF knows no upper bound. Its rules reach e^25 within forty calls when the entropy stands still.
_STAGED_BOUNDS = (1e-4, 1e12)
_GRADIENT_BOUNDS = (1e-8, 1e4)
# What ALF's documentation makes of a min_alpha of 0 or less.
_LOG_OF_NO_MINIMUM = -100.0


@dataclasses.dataclass(frozen=True)
class TemperatureConfig:
  """Options of a temperature.

  A wrong value, or one for a field that the kind does not read, raises a ValueError that names the
  field, the value and what is allowed. Entropies are in nats, of canonical actions where the agent
  maps them.

  Attributes:
    kind: what moves alpha; see `TemperatureKind`. The text of a member is taken for it.
    initial_alpha: alpha before the first update. None: fixed 0.2, gradient 1, two-stage 0.01,
      three-stage and scheduled 0.1.
    learning_rate: Adam's step size (gradient).
    loss: form of the loss (gradient); see `TemperatureLoss`.
    target_entropy: entropy to hold. None: minus the number of action dimensions (gradient), or
      `temper.utils.entropy_target.default_target` (staged).
    target_schedule: target entropy over time instead (scheduled): a `TargetSchedule`, (step,
      target) pairs, or a function from the int64 number of calls of `update` before this one to a
      scalar, which is itself called while a graph is made. In text `0:2.0,1000:-1.0`.
    min_alpha: alpha never falls below; 0 or less stands for e^-100. None: 1e-8 (gradient), 1e-4
      (staged).
    max_alpha: alpha never rises above. None: 1e4 (gradient), 1e12 (staged).
    slow_update_rate: smallest rate of log alpha while it is adjusted (staged).
    fast_update_rate: its first rate, and the one after a fall far below the target (staged).
    very_slow_update_rate: rate before the free stage (three-stage, scheduled).
    average_window: updates over which entropies are averaged (three-stage, scheduled).
    max_entropy: entropy at which the free stage begins; None estimates it in the first
      `average_window` updates (three-stage, scheduled).
    skip_free_stage: whether to adjust from the start (three-stage, scheduled).
  """

  text_form: ClassVar[str] = "one of " + ", ".join(kind.value for kind in TemperatureKind)

  kind: TemperatureKind = TemperatureKind.GRADIENT
  initial_alpha: Optional[float] = None
  learning_rate: float = 3e-4
  loss: TemperatureLoss = TemperatureLoss.LOG_ALPHA
  target_entropy: Optional[float] = None
  target_schedule: Union[TargetSchedule, Callable[[Any], Any], None] = None
  min_alpha: Optional[float] = None
  max_alpha: Optional[float] = None
  slow_update_rate: float = 0.01
  fast_update_rate: float = math.log(2)
  very_slow_update_rate: float = 0.001
  average_window: int = 2
  max_entropy: Optional[float] = None
  skip_free_stage: bool = False

  def __post_init__(self) -> None:
    # A frozen dataclass allows no other way.
    object.__setattr__(self, "kind", checks.member("kind", self.kind, TemperatureKind))
    object.__setattr__(self, "loss", checks.member("loss", self.loss, TemperatureLoss))
    schedule = self.target_schedule
    if isinstance(schedule, str):
      object.__setattr__(self, "target_schedule", TargetSchedule.from_text(schedule))
    elif schedule is not None and not isinstance(schedule, TargetSchedule):
      if not callable(schedule):
        object.__setattr__(self, "target_schedule", TargetSchedule.from_pairs(schedule))
    self._check_numbers()
    self._check_relevance()
    self._check_alphas()
    self._check_targets()

  def _check_numbers(self) -> None:
    for name in ("target_entropy", "max_entropy", "min_alpha"):
      checks.number(name, getattr(self, name), optional=True)
    checks.number("max_alpha", self.max_alpha, above=0, optional=True)
    for name in ("learning_rate", "slow_update_rate", "very_slow_update_rate"):
      checks.number(name, getattr(self, name), minimum=0)
    checks.number("fast_update_rate", self.fast_update_rate, minimum=self.slow_update_rate)
    checks.integer("average_window", self.average_window, minimum=1)
    if not isinstance(self.skip_free_stage, bool):
      raise ValueError(f"skip_free_stage is {self.skip_free_stage!r}; it must be True or False.")

  def _check_relevance(self) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if field.name in _FIELDS[self.kind] | {"kind"} or value == field.default:
        continue
      readers = ", ".join(repr(k.value) for k, fields in _FIELDS.items() if field.name in fields)
      raise ValueError(
        f"{field.name} is {value!r}, but a temperature of kind {self.kind.value!r} does not read "
        f"it. Leave it out, or choose one of the kinds {readers}."
      )

  def _check_alphas(self) -> None:
    if self.kind is TemperatureKind.FIXED:
      checks.number("initial_alpha", self.initial_alpha, minimum=0, optional=True)
      return
    checks.number("initial_alpha", self.initial_alpha, above=0, optional=True)
    low, high = self.log_alpha_bounds
    if low >= high:
      raise ValueError(
        f"min_alpha is {math.exp(low):g} and max_alpha {math.exp(high):g}; the first must be the "
        "smaller."
      )
    if not low <= math.log(self.alpha_at_start) <= high:
      raise ValueError(
        f"initial_alpha is {self.alpha_at_start}; it must be between min_alpha = "
        f"{math.exp(low):g} and max_alpha = {math.exp(high):g}."
      )

  def _check_targets(self) -> None:
    if self.target_schedule is not None and self.target_entropy is not None:
      raise ValueError(
        f"target_entropy is {self.target_entropy} and target_schedule {self.target_schedule}; give "
        "one of them."
      )
    if self.skip_free_stage and self.max_entropy is not None:
      raise ValueError(
        f"max_entropy is {self.max_entropy}, but skip_free_stage leaves out the stages that read "
        "it. Leave max_entropy None."
      )

  @property
  def alpha_at_start(self) -> float:
    """`initial_alpha`, or the kind's default."""
    return _INITIAL_ALPHA[self.kind] if self.initial_alpha is None else self.initial_alpha

  @property
  def log_alpha_bounds(self) -> tuple[float, float]:
    """Lower and upper bound of log alpha; a fixed one has none."""
    if self.kind is TemperatureKind.FIXED:
      return -math.inf, math.inf
    gradient = self.kind is TemperatureKind.GRADIENT
    default_min, default_max = _GRADIENT_BOUNDS if gradient else _STAGED_BOUNDS
    low = default_min if self.min_alpha is None else self.min_alpha
    high = default_max if self.max_alpha is None else self.max_alpha
    return math.log(low) if low > 0 else _LOG_OF_NO_MINIMUM, math.log(high)

  @classmethod
  def from_text(cls, text: str) -> "TemperatureConfig":
    """Returns the defaults of the kind that the text names; raises ValueError if there is none."""
    return cls(kind=checks.member("temperature", text.strip().lower(), TemperatureKind))

  def to_text(self) -> str:
    """Returns the kind's name, whatever the other fields."""
    return self.kind.value


def as_config(value: Union[TemperatureConfig, TemperatureKind, str]) -> TemperatureConfig:
  """Returns a config as it is, and of a kind or its text the config with the kind's defaults."""
  if isinstance(value, TemperatureConfig):
    return value
  return TemperatureConfig(kind=checks.member("temperature", value, TemperatureKind))
