"""A run or an exported policy, whichever lies at a path, as something that can act."""

from collections.abc import Mapping
import dataclasses
import os
from typing import Any, Callable, Optional, Union

from acme import specs
from acme import types
import numpy as np
import tree

from temper.agents import exported_policies
from temper.agents import policies
from temper.launchers import agent_table
from temper.launchers import run_loading
from temper.launchers.evaluating import EnvironmentSource
from temper.utils import batched_evaluation
from temper.utils import exporting
from temper.utils.exporting import InputKind
from temper.utils.exporting import metadata as exporting_metadata
from temper.utils.policy_kinds import PolicyKind


@dataclasses.dataclass(frozen=True)
class SavedPolicy:
  """An exported policy on disk, see `temper.utils.exporting`.

  Attributes:
    path: its folder.
    record: what its metadata holds.
    title: the agent's name for texts.
    source: makes the environment; None if it is not known.
  """

  path: str
  record: Mapping[str, Any]
  title: str
  source: Optional[EnvironmentSource]

  @property
  def seed(self) -> int:
    """The seed of the run that it comes from."""
    return int(self.record.get("seed") or 0)

  @property
  def step(self) -> None:
    """No number of steps: what was exported does not know it."""

  @property
  def folder(self) -> str:
    """Where what is made of it belongs. Exporting anew replaces it, and what was made of it."""
    return self.path

  def load(self, environment_spec: specs.EnvironmentSpec) -> "LoadedPolicy":
    """Loads it for an environment.

    Raises:
      ValueError: if it is damaged, or was made for other observations or actions.
      ImportError: if what runs its format is not installed.
    """
    names = exporting.leaf_names("observation", environment_spec.observations)
    leaves = tree.flatten(environment_spec.observations)
    found = {name: _form(leaf.shape, leaf.dtype) for name, leaf in zip(names, leaves)}
    needed = {
      name: _form(entry["shape"], entry["dtype"])
      for name, entry in self.record["observation"].items()
    }
    shape = self.record["canonical_action"]["shape"]
    if found != needed or list(environment_spec.actions.shape) != shape:
      raise ValueError(
        f"{self.path} takes {_listed(needed)} and acts in {shape}; the environment has "
        f"{_listed(found)} and {list(environment_spec.actions.shape)}. Give the environment that "
        "the policy was trained in."
      )
    return LoadedPolicy(self.path, exporting.LoadedPolicy(self.path), names)


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
  """An exported policy in memory.

  Attributes:
    path: its folder.
    policy: its functions.
    names: of its observation inputs, in the order of an observation's leaves.
  """

  path: str
  policy: exporting.LoadedPolicy
  names: list[str]

  def make_batch_actor(
    self, choice: policies.PolicyChoice, batch_size: int, *, seed: int = 0
  ) -> batched_evaluation.BatchActor:
    """Returns what acts in the way that is chosen.

    Raises:
      ValueError: if it was not exported to act so.
    """
    name = exported_policies.NAMES[choice.kind]
    if name not in self.policy.functions:
      raise ValueError(
        f"{self.path} holds the functions {sorted(self.policy.functions)}, and {name!r} is needed "
        f"to act as {choice.kind.value!r}. Export it too, or give the run."
      )
    facts = self.policy.metadata["functions"][name]
    if choice.kind is PolicyKind.BOLTZMANN:
      fixed = policies.PolicyChoice(choice.kind, facts["beta"], facts["num_action_samples"])
      if fixed != choice:
        raise ValueError(
          f"{self.path} was exported to act as {fixed}, which cannot be changed; {choice} is asked "
          "for. Ask for the same, or give the run."
        )
    return _ExportedActor(self.policy, name, self.names, batch_size, seed)


Saved = Union[run_loading.SavedRun, SavedPolicy]


def is_exported_policy(path: str) -> bool:
  """Returns whether a folder looks like an exported policy, of whatever format."""
  has = lambda name: os.path.exists(os.path.join(path, name))
  return has(exporting.METADATA_FILE) and not has("config.json")


def open_saved(
  path: str,
  checkpoint: Optional[str] = None,
  *,
  kind: PolicyKind = PolicyKind.MEAN,
  environment: Union[str, Callable[..., Any], None] = None,
  environment_options: Optional[Mapping[str, Any]] = None,
) -> Saved:
  """Opens a run or an exported policy.

  Args:
    path: its folder.
    checkpoint: of a run; see `run_loading.open_run`, as for what follows.
    kind: how actions will be taken.
    environment: name or maker of another environment than its own.
    environment_options: options that replace those of its own.

  Raises:
    ValueError: if neither is there, or a checkpoint is asked for of a policy; see `open_run`.
    CheckpointError: see there.
  """
  if not os.path.exists(path):
    raise ValueError(f"{path} does not exist. Give the folder of a run or of an exported policy.")
  if is_exported_policy(path):
    if checkpoint is not None:
      raise ValueError(
        f"{path} is an exported policy and has no checkpoints; leave out checkpoint = "
        f"{checkpoint}, or give the run."
      )
    return _open_policy(path, environment, environment_options)
  return run_loading.open_run(
    path,
    checkpoint,
    kind=kind,
    environment=environment,
    environment_options=environment_options,
  )


def _open_policy(
  path: str,
  environment: Union[str, Callable[..., Any], None],
  environment_options: Optional[Mapping[str, Any]],
) -> SavedPolicy:
  record = exporting_metadata.read(path)
  missing = sorted({"observation", "canonical_action", "functions"} - set(record))
  if missing:
    raise ValueError(f"{path} is no exported policy of this version: its metadata lacks {missing}.")
  name = record.get("agent")
  return SavedPolicy(
    path=path,
    record=record,
    title=agent_table.AGENTS[name].title if name in agent_table.AGENTS else str(name),
    source=run_loading.environment_source(record, environment, environment_options),
  )


class _ExportedActor:
  """Acts in several environments by an exported function, whatever its format."""

  def __init__(
    self,
    policy: exporting.LoadedPolicy,
    name: str,
    observation_names: list[str],
    batch_size: int,
    seed: int,
  ):
    self._function = policy.functions[name]
    self._inputs = policy.metadata["functions"][name]["inputs"]
    self._observation_names = observation_names
    self._batch_size = batch_size
    self._seed = seed
    self._initial = policy.initial_state(name, batch_size)
    self.restart()

  def restart(self) -> None:
    self._random = np.random.default_rng(self._seed)
    self._state = {key: value.copy() for key, value in self._initial.items()}

  def begin(self, row: int) -> None:
    for name, initial in self._initial.items():
      self._state[name][row] = initial[row]

  def select_actions(self, observations: types.NestedArray) -> np.ndarray:
    inputs = {
      **dict(zip(self._observation_names, tree.flatten(observations))),
      **self._state,
      **self._draw(),
    }
    outputs = self._function(**inputs)
    self._state = {name: np.array(outputs[f"next_{name}"]) for name in self._state}
    return outputs["canonical_action"]

  def _draw(self) -> dict[str, np.ndarray]:
    """Returns the inputs that decide what is random."""
    drawn: dict[str, np.ndarray] = {}
    for name, given in self._inputs.items():
      shape = [self._batch_size, *given["shape"][1:]]
      if given["kind"] == InputKind.SEED.value:
        drawn[name] = np.asarray(self._random.integers(2**31), np.int32)
      elif given["kind"] == InputKind.STANDARD_NORMAL.value:
        drawn[name] = self._random.standard_normal(shape, np.float32)
      elif given["kind"] == InputKind.UNIFORM.value:
        drawn[name] = self._random.random(shape, np.float32)
    return drawn


def _form(shape: Any, dtype: Any) -> tuple[list[int], str]:
  return list(shape), np.dtype(dtype).name


def _listed(forms: Mapping[str, tuple[list[int], str]]) -> str:
  return ", ".join(f"{name} {dtype} {shape}" for name, (shape, dtype) in forms.items())
