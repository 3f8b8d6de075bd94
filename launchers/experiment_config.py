"""What a run is to be: agent, environment, place, and how often it is looked at."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, Callable, Optional, Union

from acme import specs

from temper.agents import policies
from temper.launchers import training
from temper.launchers.callbacks import RunCallbacks
from temper.launchers.early_stop import EarlyStop
from temper.launchers.run_directory import plain
from temper.utils import checks
from temper.utils import startup
from temper.utils.strategy_kinds import StrategyKind


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
  """What to run, where and how often to look at it. Periods are in environment steps, 0 is never.

  Attributes:
    builder: makes the agent's parts, as `SVG0Builder(SVG0Config())` does.
    environment: a name such as "gym:Pendulum-v1", or a callable that makes a `dm_env` or Gymnasium
      environment, with `seed=...` if it takes one.
    steps: environment steps of the whole run, those before a resume included.
    directory: folder of the run; nothing is written elsewhere. A run in it is resumed.
    seed: an integer in [0, 2**31): networks, actions, replay and start states.
    networks_factory: makes the agent's networks from the environment spec, inside of the strategy's
      scope; None takes its defaults.
    environment_options: `max_episode_steps` and the like, see `temper.utils.environments`.
    agent_name, environment_name: for texts and config.json; None takes the builder's class and the
      environment's name.
    title: the agent's name in the picture and the table; None takes `agent_name`.
    notes: further JSON-able facts for config.json.
    fixed_start: whether each training episode begins as the first one of the seed does, so that the
      agent learns from one start state. Evaluations keep varied starts.
    early_stop: ends training before its steps are done; None never does.
    strategy: the devices that share the learner's batches. A resume may name others.
    behaviour_policy: how the agent acts while it trains, RAW or BOLTZMANN.
    eval_policy: how it acts in evaluations while training. At the end MEAN and RAW are evaluated,
      and this one if it is neither.
    eval_episodes: episodes of each of the evaluations at the end.
    eval_every: steps between evaluations while training.
    eval_episodes_training: episodes of one of those.
    log_every: steps between rows of the learner's and the speed log.
    checkpoint_every: steps between checkpoints; the end of a run, and a stop, always write one.
    checkpoint_minutes: minutes between checkpoints, beside those; 0 is never.
    checkpoints_to_keep: how many of the newest checkpoints stay, beside the one that did best in
      the evaluations while training.
    gif: whether to film an episode at the end.
    callbacks: told of episodes, evaluations and checkpoints.
    wandb_project: project of Weights & Biases to log to as well; None does not.
  """

  builder: Any
  environment: Union[str, Callable[..., Any]]
  steps: int
  directory: str
  seed: int = 0
  networks_factory: Optional[Callable[[specs.EnvironmentSpec], Any]] = None
  environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  agent_name: Optional[str] = None
  environment_name: Optional[str] = None
  title: Optional[str] = None
  notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fixed_start: bool = False
  early_stop: Optional[EarlyStop] = None
  strategy: StrategyKind = StrategyKind.AUTO
  behaviour_policy: policies.PolicyChoice = policies.RAW
  eval_policy: policies.PolicyChoice = policies.MEAN
  eval_episodes: int = 20
  eval_every: int = 2_000
  eval_episodes_training: int = 5
  log_every: int = 200
  checkpoint_every: int = 5_000
  checkpoint_minutes: float = 0.0
  checkpoints_to_keep: int = 2
  gif: bool = True
  callbacks: Sequence[RunCallbacks] = ()
  wandb_project: Optional[str] = None

  def __post_init__(self) -> None:
    for name in ("eval_episodes", "eval_episodes_training", "checkpoints_to_keep"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
    if not 0 <= self.seed < 2**31:
      raise ValueError(f"seed is {self.seed}; it must be an integer from 0 to {2**31 - 1}.")
    # A frozen dataclass allows no other way.
    object.__setattr__(self, "strategy", checks.member("strategy", self.strategy, StrategyKind))
    if not self.directory:
      raise ValueError("directory is empty; a run needs a folder of its own.")
    self.schedule()  # Refuses periods that make no sense.

  def schedule(self) -> training.Schedule:
    """Returns when the loop does what."""
    return training.Schedule(
      total=self.steps,
      log_every=self.log_every,
      evaluate_every=self.eval_every,
      checkpoint_every=self.checkpoint_every,
      checkpoint_minutes=self.checkpoint_minutes,
    )

  def record(self) -> dict[str, Any]:
    """Returns what config.json holds."""
    name = self.environment if isinstance(self.environment, str) else None
    callable_name = getattr(self.environment, "__name__", type(self.environment).__name__)
    record = {
      "agent": self.agent_name or type(self.builder).__name__,
      "environment": self.environment_name or name or callable_name,
      "environment_options": dict(self.environment_options),
      "seed": self.seed,
      "fixed_start": self.fixed_start,
      "config": getattr(self.builder, "config", None),
      "run": {
        field.name: getattr(self, field.name)
        for field in dataclasses.fields(self)
        if field.type
        in (int, bool, float, policies.PolicyChoice, StrategyKind, Optional[EarlyStop])
        and field.name not in ("seed", "fixed_start")
      },
      "versions": {"temper-rl": startup.version(), **startup.stack_versions()},
      **self.notes,
    }
    return plain(record)
