"""What an offline run is to be: agent, dataset, environment to evaluate in, and place."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, Callable, Optional, Union

from temper.agents import policies
from temper.launchers import training
from temper.launchers.callbacks import RunCallbacks
from temper.launchers.run_directory import plain
from temper.utils import checks
from temper.utils import startup
from temper.utils.datasets import episodes
from temper.utils.strategy_kinds import StrategyKind


@dataclasses.dataclass(frozen=True)
class OfflineExperimentConfig:
  """What to learn from, with what, and how often to look at it. Periods are in learner steps.

  Attributes:
    builder_class: makes the builder of the agent's parts from its config, as `CRRBuilder` does.
    config: the agent's config, with the fields `sequence_length` and `batch_size`.
    dataset: path of a dataset, see `temper.utils.datasets.opening`; or one that is open. It holds
      the environment's own observations and actions.
    environment: where to evaluate: a name such as "gym:Pendulum-v1", or a callable that makes a
      `dm_env` or Gymnasium environment, with `seed=...` if it takes one. None evaluates nothing and
      takes the specs of observations and actions from the data.
    steps: learner steps of the whole run, those before a resume included.
    directory: folder of the run; nothing is written elsewhere. A run in it is resumed.
    seed: an integer in [0, 2**31): networks, order of the data, the learner's draws, actions.
    environment_options: `max_episode_steps` and the like, see `temper.utils.environments`.
    dataset_format: how the dataset is stored; None finds out.
    values_from_data: fields of the agent's config that are set from the data's returns, `vmin` and
      `vmax` or one of them, if the config has such.
    normalise_observations: whether the networks normalise observations by the data's mean and
      standard deviation.
    agent_name, environment_name: for texts and config.json; None takes the builder's class and the
      environment's name.
    title: the agent's name in the picture and the table; None takes `agent_name`.
    notes: further JSON-able facts for config.json.
    strategy: the devices that share the learner's batches. A resume may name others.
    eval_policies: how actions are taken in evaluations, at most one policy of a kind; each is
      evaluated on its own. None: `default_policies` of the agent's config.
    eval_every: steps between evaluations while training; 0 is never.
    eval_episodes: episodes of each evaluation at the end.
    eval_episodes_training: episodes of each one while training.
    log_every: steps between rows of the learner's log.
    checkpoint_every: steps between checkpoints, 0 is never; the end of a run, and a stop, always
      write one.
    checkpoint_minutes: minutes between checkpoints, beside those; 0 is never.
    checkpoints_to_keep: how many of the newest checkpoints stay, beside the best.
    gif: whether to film an episode at the end.
    callbacks: told of evaluations and checkpoints.
    wandb_project: project of Weights & Biases to log to as well; None does not.
  """

  builder_class: Callable[[Any], Any]
  config: Any
  dataset: Union[str, episodes.EpisodeDataset]
  environment: Union[str, Callable[..., Any], None]
  steps: int
  directory: str
  seed: int = 0
  environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  dataset_format: Union[episodes.DatasetFormat, str, None] = None
  values_from_data: tuple[str, ...] = ("vmin", "vmax")
  normalise_observations: bool = False
  agent_name: Optional[str] = None
  environment_name: Optional[str] = None
  title: Optional[str] = None
  notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  strategy: StrategyKind = StrategyKind.AUTO
  eval_policies: Optional[tuple[policies.PolicyChoice, ...]] = None
  eval_every: int = 1_000
  eval_episodes: int = 20
  eval_episodes_training: int = 5
  log_every: int = 100
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
    kinds = [choice.kind for choice in self.policies]
    if not kinds or len(set(kinds)) < len(kinds):
      raise ValueError(
        f"eval_policies is {[kind.value for kind in kinds]}; it must hold one policy at least, and "
        "each kind once at most."
      )
    unknown = sorted(set(self.values_from_data) - {"vmin", "vmax"})
    if unknown:
      raise ValueError(f"values_from_data has {unknown}; only 'vmin' and 'vmax' are known.")
    self.schedule()  # Refuses periods that make no sense.

  @property
  def policies(self) -> tuple[policies.PolicyChoice, ...]:
    """How actions are taken in evaluations."""
    return default_policies(self.config) if self.eval_policies is None else self.eval_policies

  def schedule(self) -> training.Schedule:
    """Returns when the loop does what."""
    return training.Schedule(
      total=self.steps,
      log_every=self.log_every,
      evaluate_every=self.eval_every if self.environment is not None else 0,
      checkpoint_every=self.checkpoint_every,
      checkpoint_minutes=self.checkpoint_minutes,
    )

  def record(self, agent_config: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what config.json holds.

    Args:
      agent_config: the agent's config as it is run.
      data: what the dataset holds, which tells it from others.
    """
    name = self.environment if isinstance(self.environment, str) else None
    if self.environment is None:
      name = "none"
    callable_name = getattr(self.environment, "__name__", type(self.environment).__name__)
    run: list[str] = [
      *("steps", "policies", "eval_every", "eval_episodes", "eval_episodes_training"),
      *("log_every", "checkpoint_every", "checkpoint_minutes", "checkpoints_to_keep"),
      *("gif", "values_from_data", "strategy"),
    ]
    record = {
      "agent": self.agent_name or getattr(self.builder_class, "__name__", "agent"),
      "environment": self.environment_name or name or callable_name,
      "environment_options": dict(self.environment_options),
      "seed": self.seed,
      "dataset": dict(data),
      "config": agent_config,
      "run": {name: getattr(self, name) for name in run},
      "versions": {"temper-rl": startup.version(), **startup.stack_versions()},
      **self.notes,
    }
    return plain(record)


def default_policies(
  config: Any, *, beta: Optional[float] = None, num_action_samples: int = 16
) -> tuple[policies.PolicyChoice, ...]:
  """Returns the policy's mean, a sample of it, and the sample that the critic weighs.

  Args:
    config: the agent's config.
    beta: temperature of the last; None takes the config's own `beta`, which weighs the data's
      actions in learning, or 1 if it has none.
    num_action_samples: samples among which the last chooses.
  """
  beta = getattr(config, "beta", 1.0) if beta is None else beta
  weighted = policies.PolicyChoice(policies.PolicyKind.BOLTZMANN, beta, num_action_samples)
  return policies.MEAN, policies.RAW, weighted
