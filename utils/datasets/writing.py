"""Writes episodes to a dataset of any of the formats."""

from collections.abc import Iterable, Iterator
import contextlib
import os
import shutil
from typing import Any, Optional, Union

from dm_env import specs
import numpy as np
import tree

from temper.utils import checks
from temper.utils.datasets import checking
from temper.utils.datasets import episodes
from temper.utils.datasets import hdf5_format
from temper.utils.datasets import minari_format
from temper.utils.datasets import npz_format
from temper.utils.datasets import rlds_writing
from temper.utils.datasets.episodes import DatasetError
from temper.utils.datasets.episodes import DatasetFormat


def write_dataset(
  path: Union[str, os.PathLike],
  format: Union[DatasetFormat, str],
  written: Iterable[episodes.Episode],
  *,
  action_spec: Optional[specs.Array] = None,
  environment_name: Optional[str] = None,
) -> None:
  """Writes a new dataset; what is there afterwards is whole, or nothing.

  Actions and observations are to be the environment's own, so that others can read the dataset.

  Args:
    path: the file of a `.npz` or HDF5 dataset, the folder of another. Folders above are made. Name
      a Minari dataset's folder `<name>-v<number>` so that Minari can load it by that name from the
      folder above.
    format: how to store it.
    written: the episodes, at least one, all of the same structure, shapes and dtypes. They are
      taken one at a time, and all but `.npz` keep no more than one in memory.
    action_spec: the environment's own action spec, whose bounds Minari keeps.
    environment_name: as `environments.make_environment` takes it.

  Raises:
    DatasetError: if there is something at `path` already, or an episode is malformed, differs from
      the first, or cannot be kept exactly in this format.
    ImportError: if a package for the format is not installed.
    ValueError: if `format` is not one.
  """
  format = checks.member("format", format, DatasetFormat)
  path = os.path.abspath(os.fspath(path))
  with _new_target(path) as target:
    iterator = _checked(path, format, written)
    if format is DatasetFormat.NPZ:
      npz_format.write_npz(target, iterator, environment_name=environment_name)
    elif format is DatasetFormat.HDF5:
      hdf5_format.write_hdf5(target, iterator, environment_name=environment_name)
    elif format is DatasetFormat.RLDS:
      rlds_writing.write_rlds(target, iterator, environment_name=environment_name)
    else:
      minari_format.write_minari(
        target,
        iterator,
        dataset_id=os.path.basename(path),
        action_spec=action_spec,
        environment_name=environment_name,
      )


@contextlib.contextmanager
def _new_target(path: str) -> Iterator[str]:
  """Yields a temporary path beside `path`, which becomes `path` unless there is an error."""
  _refuse_existing(path)
  folder, name = os.path.split(path)
  os.makedirs(folder, exist_ok=True)
  temporary = os.path.join(folder, f".{name}.{os.getpid()}.partial")
  try:
    yield temporary
    _refuse_existing(path)
    os.rename(temporary, path)
  finally:
    if os.path.isdir(temporary):
      shutil.rmtree(temporary)
    elif os.path.exists(temporary):
      os.remove(temporary)


def _refuse_existing(path: str) -> None:
  if os.path.lexists(path):
    raise DatasetError(f"{path} exists already. Give another path, or remove it first.")


def _checked(
  path: str, format: DatasetFormat, written: Iterable[episodes.Episode]
) -> Iterator[episodes.Episode]:
  """Yields the episodes with their arrays checked, or raises DatasetError."""
  form = None
  for number, episode in enumerate(written):
    where = f"episode {number}"
    episode = _canonical(path, where, episode)
    if form is None:
      _check_names(path, episode)
      if format is DatasetFormat.MINARI:
        minari_format.check_exact(path, episode)
    found = _form(episode)
    form = form or found
    if found != form:
      raise DatasetError(f"{path}: {where} has the arrays {found}, but episode 0 has {form}.")
    if format is not DatasetFormat.RLDS:
      _check_discount(path, where, episode, format)
    yield episode
  if form is None:
    raise DatasetError(f"{path}: there is no episode to write.")


def _canonical(path: str, where: str, episode: episodes.Episode) -> episodes.Episode:
  """Returns the episode with floats as float32, or raises DatasetError if it is malformed."""
  length = np.size(episode.reward)
  if not length:
    raise DatasetError(f"{path}: {where} has no step.")

  def convert(place: checking.Place, array: Any) -> np.ndarray:
    rows, relation = length, "as many as rewards"
    if place.key.split("/")[0] == "observation":
      rows, relation = length + 1, "one more than rewards"
    checking.check_rows(place, array, rows, relation)
    return checking.numbers(place, array, [])

  fields = {
    field: checking.map_named(
      convert, getattr(episode, field), checking.Place(path, field, episode=where)
    )
    for field in ("observation", "action", "extras")
  }
  for field in ("reward", "discount"):
    place = checking.Place(path, field, episode=where)
    fields[field] = checking.scalars(place, getattr(episode, field), [])
    checking.check_rows(place, fields[field], length, "as many as rewards")
  return episodes.Episode(**fields)


def _form(episode: episodes.Episode) -> Any:
  """Returns the structure of the episode's arrays, with the shape of a step and the dtype."""
  return tree.map_structure(
    lambda array: f"{array.dtype} {list(array.shape[1:])}",
    {"observation": episode.observation, "action": episode.action, "extras": episode.extras},
  )


def _check_names(path: str, episode: episodes.Episode) -> None:
  """Raises DatasetError if a key of a nest cannot be a name in a file."""
  for structure in (episode.observation, episode.extras):
    try:
      checking.tuples_to_names(structure)
    except ValueError as error:
      raise DatasetError(f"{path}: {error}") from error


def _check_discount(
  path: str, where: str, episode: episodes.Episode, format: DatasetFormat
) -> None:
  """Raises DatasetError unless a flag at the end says all about the discounts."""
  usual = np.ones_like(episode.discount)
  usual[-1] = 0.0 if episode.terminated else 1.0
  wrong = np.flatnonzero(episode.discount != usual)
  if len(wrong):
    place = checking.Place(path, "discount", episode=where).at([wrong[0]])
    raise DatasetError(
      f"{place} is {episode.discount[wrong[0]]}; the format {format.value!r} keeps no discounts, "
      f"only whether an episode terminated. Write it as {DatasetFormat.RLDS.value!r}."
    )
