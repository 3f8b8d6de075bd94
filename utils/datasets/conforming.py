"""Gives episodes of an environment's own numbers the form that agents expect."""

from collections.abc import Mapping
from typing import Any, Union

from acme import specs as acme_specs
from dm_env import specs
import numpy as np
import tree

from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets.episodes import DatasetError
from temper.utils.environment_actions import ActionMapping
from temper.utils.environment_observations import ObservationMapping
from temper.utils.environment_wrappers import CanonicalEnvironment

# How far outside its bounds an action may lie to be there by rounding alone, as a share of the
# largest of the bounds' magnitudes and their distance.
_ROUNDING = 1e-5


def conform(
  dataset: episodes.EpisodeDataset,
  environment: Union[CanonicalEnvironment, acme_specs.EnvironmentSpec],
) -> episodes.EpisodeDataset:
  """Checks a dataset against an environment and makes it canonical.

  Observations become what `ObservationMapping` makes of the environment's own, actions float32
  within [-1, 1] by its `ActionMapping`. Actions outside the bounds by no more than rounding are
  clipped.

  Args:
    dataset: episodes of the environment's own observations and actions.
    environment: of the canonical form, as from `environments.make_environment`; or the spec of an
      environment that is not.

  Returns:
    The dataset in canonical form, in memory if `dataset` is, which checks it all at once;
    otherwise each episode is checked when it is read, the first now.

  Raises:
    DatasetError: if an episode does not match the spec, or an action lies outside its bounds; the
      message names the file, the episode, the array and the index.
    ValueError: if the spec is not supported.
  """
  form = _Form(dataset, environment)
  if not dataset.in_memory:
    return _ConformedDataset(dataset, form)
  conformed = [form.convert(index, dataset.read(index)) for index in range(len(dataset))]
  return episodes.InMemoryDataset(
    conformed,
    path=dataset.path,
    format=dataset.format,
    notes=form.notes,
    environment_name=dataset.environment_name,
  )


class _ConformedDataset(episodes.EpisodeDataset):
  """Converts each episode of another dataset when it is read."""

  def __init__(self, dataset: episodes.EpisodeDataset, form: "_Form"):
    self._dataset = dataset
    self._form = form
    first = form.convert(0, dataset.read(0))
    super().__init__(
      path=dataset.path,
      format=dataset.format,
      lengths=dataset.lengths,
      returns=dataset.returns,
      terminated=dataset.terminated,
      nbytes=int(first.nbytes / first.num_steps * dataset.num_steps),
      in_memory=False,
      environment_name=dataset.environment_name,
    )
    # One list, since more may be noted as episodes are read.
    self.notes = form.notes

  def read(self, index: int) -> episodes.Episode:
    return self._form.convert(index, self._dataset.read(index))


class _Form:
  """The environment's spec and what it makes of a dataset's episodes."""

  def __init__(
    self,
    dataset: episodes.EpisodeDataset,
    environment: Union[CanonicalEnvironment, acme_specs.EnvironmentSpec],
  ):
    self._path = dataset.path
    self.notes = list(dataset.notes)
    if isinstance(environment, CanonicalEnvironment):
      self._actions = environment.action_mapping
      mapping = environment.observation_mapping
    else:
      self._actions = ActionMapping(environment.actions)
      mapping = ObservationMapping(environment.observations)
    self._observation_spec = mapping.environment_spec
    self._canonical_spec = mapping.full_spec
    self._shown = mapping.select
    one = np.ones(self._actions.canonical_spec.shape, np.float32)
    self._low = np.asarray(self._actions.to_environment(-one), np.float64)
    self._high = np.asarray(self._actions.to_environment(one), np.float64)
    largest = np.maximum(np.abs(self._low), np.abs(self._high))
    self._slack = _ROUNDING * np.maximum(largest, self._high - self._low)

  def convert(self, index: int, episode: episodes.Episode) -> episodes.Episode:
    """Returns the canonical episode, or raises DatasetError."""
    where = f"episode {index}"
    observation = self._observations(
      checking.Place(self._path, "observation", episode=where),
      self._observation_spec,
      self._canonical_spec,
      episode.observation,
    )
    return episodes.Episode(
      observation=self._shown(observation),
      action=self._convert_actions(
        checking.Place(self._path, "action", episode=where), episode.action
      ),
      reward=episode.reward,
      discount=episode.discount,
      extras=episode.extras,
    )

  def _convert_actions(self, place: checking.Place, action: np.ndarray) -> np.ndarray:
    """Returns canonical actions [L, *A]."""
    shape = self._actions.canonical_spec.shape
    if action.shape[1:] != shape:
      raise DatasetError(
        f"{place} has {list(action.shape[1:])} numbers a step; the environment takes {list(shape)}."
      )
    values = action.astype(np.float64)
    beyond = np.maximum(self._low - values, values - self._high)
    outside = beyond > self._slack
    if outside.any():
      worst = np.argwhere(outside)[0]
      low, high = self._low[tuple(worst[1:])], self._high[tuple(worst[1:])]
      raise DatasetError(
        f"{place.at(worst)} is {action[tuple(worst)]}, outside the environment's bounds "
        f"[{low:g}, {high:g}] ({int(outside.sum())} of {outside.size} in this episode). The "
        "dataset must hold the environment's own actions, not scaled ones."
      )
    if (beyond > 0).any():
      checking.note(self.notes, "actions beyond the bounds by rounding were clipped")
    return np.asarray(self._actions.to_canonical(action))

  def _observations(self, place: checking.Place, spec: Any, canonical: Any, value: Any) -> Any:
    """Returns canonical observations [L + 1, ...] of the spec's structure."""
    if isinstance(spec, Mapping):
      if not isinstance(value, Mapping) or set(value) != set(spec):
        raise DatasetError(
          f"{place} is {_describe(value)}; the environment's is {_describe(spec)}."
        )
      return {
        key: self._observations(place.part(key), spec[key], canonical[key], value[key])
        for key in spec
      }
    if isinstance(spec, (tuple, list)):
      if not isinstance(value, (tuple, list)) or len(value) != len(spec):
        raise DatasetError(
          f"{place} is {_describe(value)}; the environment's is {_describe(spec)}."
        )
      items = [
        self._observations(place.part(checking.tuple_key(i)), spec[i], canonical[i], value[i])
        for i in range(len(spec))
      ]
      return tree.map_structure_up_to(spec, lambda _, item: item, spec, type(spec)(items))
    if not isinstance(value, np.ndarray):
      raise DatasetError(f"{place} is {_describe(value)}; the environment's is {_describe(spec)}.")
    return _convert_leaf(place, spec, canonical, value)


def _convert_leaf(
  place: checking.Place, spec: specs.Array, canonical: specs.Array, value: np.ndarray
) -> np.ndarray:
  """Returns the canonical array of a leaf, or raises DatasetError."""
  if value.shape[1:] != tuple(spec.shape):
    raise DatasetError(
      f"{place} has the shape {list(value.shape[1:])} a step; the environment's is "
      f"{list(spec.shape)}."
    )
  if isinstance(spec, specs.DiscreteArray):
    wrong = (value < 0) | (value >= spec.num_values) | (value != np.floor(value))
    if wrong.any():
      index = np.argwhere(wrong)[0]
      raise DatasetError(
        f"{place.at(index)} is {value[tuple(index)]}; the environment's spec allows 0 to "
        f"{spec.num_values - 1}."
      )
    return np.eye(spec.num_values, dtype=np.float32)[value.astype(np.int64)]
  if canonical.dtype == np.uint8 and value.dtype != np.uint8:
    raise DatasetError(
      f"{place} has dtype {value.dtype}; the environment's pictures are uint8, from 0 to 255."
    )
  return checking.finite_float32(place, value) if canonical.dtype != np.uint8 else value


def _describe(structure: Any) -> str:
  """Returns what a nest of arrays or specs is, in words."""
  if isinstance(structure, Mapping):
    return f"a dict of {sorted(structure)}"
  if isinstance(structure, (tuple, list)):
    return f"a sequence of {len(structure)}"
  return f"one array of shape {list(getattr(structure, 'shape', ()))}"
