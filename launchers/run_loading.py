"""The one way in which what a run has learnt is loaded, to act: config, networks, environment."""

from collections.abc import Mapping
import contextlib
import dataclasses
import os
from typing import Any, Callable, NamedTuple, Optional, Union

from acme import specs
import numpy as np
import tree

from temper.agents import batch_actor
from temper.agents import policies
from temper.launchers import recorded_config
from temper.launchers import run_reading
from temper.launchers.evaluating import EnvironmentSource
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils import torsos
from temper.utils.datasets import inferred_spec
from temper.utils.datasets import opening
from temper.utils.environment_actions import ActionMapping
from temper.utils.environment_observations import ObservationMapping
from temper.utils.policy_kinds import PolicyKind

# What config.json names the environment of a run that had none.
_NO_ENVIRONMENT = "none"


class Interface(NamedTuple):
  """What an agent and an environment must agree on.

  Attributes:
    environment_spec: canonical specs, which the networks are made for.
    action_mapping: maps canonical actions to the environment's own.
  """

  environment_spec: specs.EnvironmentSpec
  action_mapping: ActionMapping


@dataclasses.dataclass(frozen=True)
class LoadedAgent:
  """Networks with what they have learnt.

  Attributes:
    builder: the agent's builder.
    networks: the online networks, restored.
    environment_spec: what they were made for.
  """

  builder: Any
  networks: Any
  environment_spec: specs.EnvironmentSpec

  def make_policy(self, choice: policies.PolicyChoice) -> policies.ActingPolicy:
    """Returns what acts in the way that is chosen, for `temper.agents.actor.Actor` or others."""
    return choice.make(
      self.builder.make_policy(self.networks),
      self.builder.make_critic(self.networks),
      self.environment_spec.actions,
    )

  def make_batch_actor(
    self, choice: policies.PolicyChoice, batch_size: int, *, seed: int = 0
  ) -> batch_actor.BatchActor:
    """Returns what acts in that way in several environments at once, or in one."""
    return batch_actor.BatchActor(self.make_policy(choice), batch_size, seed=seed)


@dataclasses.dataclass(frozen=True)
class SavedRun:
  """A run on disk, of `train` or `train-offline`. Nothing of its networks is made yet.

  Attributes:
    directory: its folder.
    record: what its config.json holds.
    builder: the agent's builder, with the config of the run.
    title: the agent's name for texts.
    checkpoint: folder of the chosen checkpoint.
    step: steps that the run had done there, environment steps or offline learner steps.
    source: makes the environment; None if the run had none, and none is given.
    networks_factory: see `open_run`.
  """

  directory: RunDirectory
  record: Mapping[str, Any]
  builder: Any
  title: str
  checkpoint: str
  step: int
  source: Optional[EnvironmentSource]
  networks_factory: Optional[Callable[[specs.EnvironmentSpec], Any]] = None

  @property
  def seed(self) -> int:
    """The seed of the run."""
    return int(self.record.get("seed") or 0)

  @property
  def folder(self) -> str:
    """Where what is made of it belongs."""
    return self.directory.path

  def make_interface(self) -> Interface:
    """Returns specs and action mapping: the environment's, or those that the run took of its data.

    Raises:
      ValueError: if the environment cannot be made, or there is none and the data is gone.
      ImportError: if a package of the environment or of the data's format is not installed.
    """
    if self.source is not None:
      with contextlib.closing(self.source.make(self.seed)) as environment:
        return Interface(specs.make_environment_spec(environment), environment.action_mapping)
    path = self.record.get("dataset_path")
    if path is None or not os.path.exists(path):
      raise ValueError(
        f"{self.directory.path} was trained without an environment, on the data of {path}, which "
        "is not there: what is observed and how actions are bounded is not known. Give --env."
      )
    found = inferred_spec.infer_spec(opening.open_dataset(path))
    mapping = ActionMapping(found.actions)
    observations = ObservationMapping(found.observations).spec
    return Interface(
      found._replace(observations=observations, actions=mapping.canonical_spec), mapping
    )

  def load(self, environment_spec: Optional[specs.EnvironmentSpec] = None) -> LoadedAgent:
    """Makes the networks and restores them from the checkpoint; optimizers and replay are left.

    Args:
      environment_spec: canonical specs; None takes those of `make_interface`.

    Raises:
      CheckpointError: if the checkpoint is damaged, or does not fit the environment.
      ValueError: see `make_interface`.
      ImportError: see `make_interface`.
    """
    spec = self.make_interface().environment_spec if environment_spec is None else environment_spec
    networks = self._make_networks(spec)
    checkpointing.restore_part(self.checkpoint, network_parts(networks))
    return LoadedAgent(self.builder, networks, spec)

  def _make_networks(self, spec: specs.EnvironmentSpec) -> Any:
    if self.networks_factory is not None:
      return self.networks_factory(spec)
    options: dict[str, Any] = {}
    if (self.record.get("dataset") or {}).get("normalise_observations"):
      # They are in the checkpoint; only their shapes are needed.
      fill = lambda value: tree.map_structure(
        lambda leaf: np.full(leaf.shape, value, np.float32), spec.observations
      )
      options["observation_statistics"] = torsos.ObservationStatistics(fill(0.0), fill(1.0))
    return self.builder.make_networks(spec, seed=self.seed, **options)


def open_run(
  directory: str,
  checkpoint: Union[str, int, None] = None,
  *,
  kind: PolicyKind = PolicyKind.MEAN,
  environment: Union[str, Callable[..., Any], None] = None,
  environment_options: Optional[Mapping[str, Any]] = None,
  networks_factory: Optional[Callable[[specs.EnvironmentSpec], Any]] = None,
) -> SavedRun:
  """Opens a run, also one that goes on in another process; changes nothing on disk.

  Args:
    directory: folder of the run, or of one of its checkpoints.
    checkpoint: "latest" or None; "best", by the evaluations while training; a number of steps; or
      the folder of a checkpoint.
    kind: how actions will be taken. Each way to act has a best checkpoint of its own.
    environment: name or maker of another environment than the run's.
    environment_options: options that replace those of the run, see `temper.utils.environments`.
    networks_factory: what made the run's networks, if that were not its agent's default ones.

  Raises:
    ValueError: if the folder holds no run, or no such checkpoint, or the run is of a version whose
      config this one does not know.
    CheckpointError: if the checkpoint cannot be read.
  """
  directory, checkpoint = run_reading.with_run_of(directory, checkpoint)
  run_directory = RunDirectory(directory)
  record = run_reading.read_record(run_directory)
  entry = run_reading.agent_entry(record, directory)
  builder = entry.builder_class(recorded_config.from_record(entry.config_class, record["config"]))
  path = run_reading.find_checkpoint(run_directory, checkpoint, kind)
  return SavedRun(
    directory=run_directory,
    record=record,
    builder=builder,
    title=entry.title,
    checkpoint=path,
    step=checkpointing.read_state(path)["step"],
    source=environment_source(record, environment, environment_options),
    networks_factory=networks_factory,
  )


def environment_source(
  record: Mapping[str, Any],
  environment: Union[str, Callable[..., Any], None] = None,
  options: Optional[Mapping[str, Any]] = None,
) -> Optional[EnvironmentSource]:
  """Returns what makes the environment that a record names, or another one.

  Args:
    record: of a run or an exported policy, with `environment` and `environment_options`.
    environment: name or maker of another one.
    options: options that replace those of the record.

  Returns:
    None if the record has no environment and none is given.
  """
  named = str(record.get("environment", _NO_ENVIRONMENT))
  if environment is None and named == _NO_ENVIRONMENT:
    return None
  return EnvironmentSource(
    named if environment is None else environment,
    {**(record.get("environment_options") or {}), **(options or {})},
  )


def network_parts(networks: Any) -> dict[str, Any]:
  """Returns the networks by the names under which learners save them."""
  suffix = "_network"
  return {
    name[: -len(suffix)]: network
    for name, network in vars(networks).items()
    if name.endswith(suffix) and network is not None
  }
