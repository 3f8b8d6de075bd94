"""Minari datasets: a folder whose `data` holds `metadata.json` and the episodes.

Arrays beside the usual ones are kept in each episode's `infos/extras`. A dataset's environment is
that of its Gymnasium spec, or what the metadata call `environment_name`.
"""

from collections.abc import Iterator, Mapping
import itertools
import os
from typing import Any, Optional
import warnings

from dm_env import specs
import numpy as np

from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets import packages
from temper.utils.datasets.episodes import DatasetError

_ENVIRONMENT_NAME = "environment_name"
_EXTRAS = "extras"
_GYM = "gym:"


class MinariEpisodes(episodes.EpisodeDataset):
  """The episodes of a Minari dataset, read one by one."""

  def __init__(self, path: str):
    """Reads the metadata, and the rewards and flags of every episode.

    Args:
      path: the dataset's folder, or the `data` inside.

    Raises:
      DatasetError: if the dataset is malformed.
      ImportError: if Minari is not installed.
    """
    minari = packages.load("minari", "Minari datasets")
    inner = os.path.join(path, "data")
    # Minari checks little of what it reads: a damaged file raises errors of many kinds.
    try:
      dataset = minari.MinariDataset(inner if os.path.isdir(inner) else path)
      metadata = dataset.storage.metadata
    except Exception as error:
      raise DatasetError(
        f"{path}: Minari cannot open it: {type(error).__name__}: {error}"
      ) from error
    self._path = path
    self._storage = dataset.storage
    notes: list[str] = []
    lengths, returns, terminated = [], [], []
    self._ids = []
    dropped = []
    for episode_id in range(dataset.total_episodes):
      rewards, ended = self._scan(episode_id, notes)
      if not len(rewards):
        dropped.append(episode_id)
        continue
      self._ids.append(episode_id)
      lengths.append(len(rewards))
      returns.append(np.sum(rewards, dtype=np.float64))
      terminated.append(ended)
    if dropped:
      checking.note(
        notes, f"{len(dropped)} episodes without a step are left out, the first {dropped[0]}"
      )
    name = metadata.get(_ENVIRONMENT_NAME)
    if name is None and dataset.env_spec is not None:
      name = _GYM + dataset.env_spec.id
    super().__init__(
      path=path,
      format=episodes.DatasetFormat.MINARI,
      lengths=lengths,
      returns=returns,
      terminated=terminated,
      nbytes=0,
      in_memory=False,
      notes=notes,
      environment_name=name,
    )
    first = self.read(0)
    self.nbytes = int(first.nbytes / first.num_steps * self.num_steps)

  def read(self, index: int) -> episodes.Episode:
    self.check_index(index)
    episode_id = self._ids[index]
    stored = self._load(episode_id)
    reward, terminated = self._rewards_and_end(episode_id, stored, self.notes)
    length = len(reward)
    discount = np.ones((length,), np.float32)
    discount[-1] = 0.0 if terminated else 1.0
    extras = (stored["infos"] or {}).get(_EXTRAS, {})
    return episodes.Episode(
      observation=self._numbers(episode_id, "observations", stored["observations"], length + 1),
      action=self._numbers(episode_id, "actions", stored["actions"], length),
      reward=reward,
      discount=discount,
      extras=self._numbers(episode_id, f"infos/{_EXTRAS}", extras, length),
    )

  def _scan(self, episode_id: int, notes: list[str]) -> tuple[np.ndarray, bool]:
    """Returns an episode's rewards, and whether it terminated."""
    if self._storage.FORMAT != "hdf5":
      return self._rewards_and_end(episode_id, self._load(episode_id), notes)
    # By h5py, since Minari reads the observations too whatever is asked for.
    h5py = packages.load("h5py", "Minari datasets")
    try:
      with h5py.File(self._storage.data_path / "main_data.hdf5", "r") as file:
        group = file[f"episode_{episode_id}"]
        stored = {key: group[key][:] for key in ("rewards", "terminations", "truncations")}
    except (OSError, KeyError, TypeError) as error:
      raise self._unreadable(episode_id, error) from error
    return self._rewards_and_end(episode_id, stored, notes)

  def _load(self, episode_id: int) -> dict[str, Any]:
    """Returns what Minari reads of an episode."""
    try:
      return next(iter(self._storage.get_episodes([episode_id])))
    # See the constructor.
    except Exception as error:
      raise self._unreadable(episode_id, error) from error

  def _unreadable(self, episode_id: int, error: Exception) -> DatasetError:
    return DatasetError(
      f"{self._path}: episode {episode_id} cannot be read: {type(error).__name__}: {error}"
    )

  def _place(self, episode_id: int, key: str) -> checking.Place:
    return checking.Place(self._path, key, episode=f"episode {episode_id}")

  def _rewards_and_end(
    self, episode_id: int, stored: Mapping[str, Any], notes: list[str]
  ) -> tuple[np.ndarray, bool]:
    """Returns the checked rewards [L] of an episode, and whether it terminated."""
    place = self._place(episode_id, "rewards")
    rewards = checking.scalars(place, stored["rewards"], notes)
    ends = {}
    for key in ("terminations", "truncations"):
      place = self._place(episode_id, key)
      ends[key] = checking.flags(place, stored[key], notes)
      checking.check_rows(place, ends[key], len(rewards), "as many as 'rewards'")
      early = np.flatnonzero(ends[key][:-1])
      if len(early):
        raise DatasetError(
          f"{place.at([early[0]])} is True, but the episode goes on to step {len(rewards) - 1}."
        )
    if not len(rewards):
      return rewards, False
    terminated, truncated = bool(ends["terminations"][-1]), bool(ends["truncations"][-1])
    if terminated and truncated:
      checking.note(notes, "episodes that both terminate and are truncated: read as terminations")
    if not terminated and not truncated:
      checking.note(notes, "episodes that end with neither flag: read as truncations")
    return rewards, terminated

  def _numbers(self, episode_id: int, key: str, structure: Any, rows: int) -> Any:
    """Returns the checked arrays of a nest, with `rows` rows each."""
    reason = f"{'one more than' if key == 'observations' else 'as many as'} 'rewards'"

    def convert(place: checking.Place, array: Any) -> np.ndarray:
      checking.check_rows(place, array, rows, reason)
      return checking.numbers(place, array, self.notes)

    return checking.map_named(convert, structure, self._place(episode_id, key))


def write_minari(
  path: str,
  written: Iterator[episodes.Episode],
  *,
  dataset_id: str,
  action_spec: Optional[specs.Array],
  environment_name: Optional[str],
) -> None:
  """Writes episodes, one after the other, to a new folder.

  Args:
    path: the folder; nothing appears elsewhere.
    written: the episodes.
    dataset_id: what Minari calls the dataset: the name of the folder that it will lie in.
    action_spec: bounds for the action space; None leaves it unbounded.
    environment_name: see `EpisodeDataset`.

  Raises:
    ImportError: if Minari is not installed.
  """
  minari = packages.load("minari", "Minari datasets")
  storages = packages.load("minari.dataset.minari_storage", "Minari datasets")
  first = next(written)
  os.makedirs(path)
  with warnings.catch_warnings():
    # Gymnasium warns of bounds that float32 rounds.
    warnings.simplefilter("ignore")
    storage = storages.MinariStorage.new(
      os.path.join(path, "data"),
      observation_space=_to_space(first.observation),
      action_space=_box(first.action, action_spec),
      env_spec=_gymnasium_spec(environment_name),
    )
  metadata = {"dataset_id": dataset_id, "minari_version": minari.__version__}
  if environment_name is not None:
    metadata[_ENVIRONMENT_NAME] = environment_name
  storage.update_metadata(metadata)
  storage.update_episodes(
    _to_buffer(minari, episode) for episode in itertools.chain([first], written)
  )


def _to_buffer(minari: Any, episode: episodes.Episode) -> Any:
  """Returns an episode as Minari takes it."""
  ended = np.zeros((episode.num_steps,), bool)
  ended[-1] = True
  return minari.data_collector.EpisodeBuffer(
    observations=episode.observation,
    actions=episode.action,
    rewards=episode.reward,
    terminations=ended & episode.terminated,
    truncations=ended & (not episode.terminated),
    infos={_EXTRAS: dict(episode.extras)} if episode.extras else None,
  )


def _to_space(structure: Any) -> Any:
  """Returns the Gymnasium space of nested observations [L + 1, ...]; without bounds."""
  spaces = packages.load("gymnasium.spaces", "Minari datasets")
  if isinstance(structure, Mapping):
    return spaces.Dict({key: _to_space(item) for key, item in structure.items()})
  if isinstance(structure, tuple):
    return spaces.Tuple([_to_space(item) for item in structure])
  return _box(structure, None)


def _box(array: np.ndarray, spec: Optional[specs.Array]) -> Any:
  """Returns the space of rows [N, ...], with the bounds of a spec."""
  spaces = packages.load("gymnasium.spaces", "Minari datasets")
  shape, dtype = array.shape[1:], array.dtype
  low: float = -np.inf
  high: float = np.inf
  if dtype.kind == "b":
    low, high = 0, 1
  elif dtype.kind in "iu":
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
  return spaces.Box(
    np.broadcast_to(getattr(spec, "minimum", low), shape).astype(dtype),
    np.broadcast_to(getattr(spec, "maximum", high), shape).astype(dtype),
    shape,
    dtype,
  )


def _gymnasium_spec(environment_name: Optional[str]) -> Any:
  """Returns the registered spec of a `gym:` environment, or None."""
  if environment_name is None or not environment_name.startswith(_GYM):
    return None
  gymnasium = packages.load("gymnasium", "Minari datasets")
  return gymnasium.registry.get(environment_name[len(_GYM) :])


def check_exact(path: str, episode: episodes.Episode) -> None:
  """Raises DatasetError if an array is uint8, which Minari would keep as JPEG, with loss."""

  def check(place: checking.Place, array: np.ndarray) -> None:
    if array.dtype == np.uint8:
      raise DatasetError(
        f"{place} is uint8, which Minari stores as JPEG, not exactly. Write pixels as "
        f"{episodes.DatasetFormat.HDF5.value!r} or {episodes.DatasetFormat.RLDS.value!r}."
      )

  for field in ("observation", "action", "extras"):
    checking.map_named(check, getattr(episode, field), checking.Place(path, field))
