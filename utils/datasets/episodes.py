"""What every dataset of episodes looks like, whatever file it lies in."""

import abc
from collections.abc import Iterator, Sequence
import dataclasses
import enum
import os
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
import tree


class DatasetFormat(enum.Enum):
  """How a dataset is stored."""

  # Flat arrays in one NumPy archive.
  NPZ = "npz"
  # Flat arrays in one HDF5 file, as D4RL has them.
  HDF5 = "hdf5"
  # A Minari dataset's folder.
  MINARI = "minari"
  # A TensorFlow Datasets folder whose episodes hold `steps`.
  RLDS = "rlds"


class DatasetError(ValueError):
  """A dataset is malformed or does not fit; the message names the file, the key and the index."""


@dataclasses.dataclass(frozen=True, eq=False)
class Episode:
  """One episode of L transitions.

  Attributes:
    observation: nested arrays [L + 1, ...]; the last one is what the last action led to. After a
      termination it may be a repeat of the one before, since nothing is ever read from it.
    action: [L, *A].
    reward: float32 [L]; entry t follows action t.
    discount: float32 [L], the environment's: 0 at a termination, 1 at a truncation.
    extras: further arrays [L, ...] by name, such as `log_prob`; may be empty.
  """

  observation: Any
  action: np.ndarray
  reward: np.ndarray
  discount: np.ndarray
  extras: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

  @property
  def num_steps(self) -> int:
    """L, the number of transitions."""
    return len(self.reward)

  @property
  def total_return(self) -> float:
    """The undiscounted sum of rewards."""
    return float(np.sum(self.reward, dtype=np.float64))

  @property
  def terminated(self) -> bool:
    """Whether the episode ended by termination (discount 0) rather than by truncation."""
    return bool(self.discount[-1] == 0)

  @property
  def nbytes(self) -> int:
    """Bytes of all arrays."""
    leaves = (self.observation, self.action, self.reward, self.discount, self.extras)
    return sum(leaf.nbytes for leaf in tree.flatten(leaves))


class EpisodeDataset(abc.ABC):
  """Episodes on disk, of which lengths, returns and endings are known without reading all of them.

  Attributes:
    path: where the dataset lies, for messages.
    format: how it is stored.
    lengths: int64 [E], the transitions of each episode; each at least 1.
    returns: float64 [E], the undiscounted sums of rewards.
    terminated: bool [E], whether each episode ended by termination rather than by truncation.
    nbytes: bytes that all episodes take in memory, an estimate.
    in_memory: whether the arrays are held in memory, so that `read` costs next to nothing.
    notes: one line for each conversion that was made.
    environment_name: as `environments.make_environment` takes it, or None if the file has none.
  """

  def __init__(
    self,
    *,
    path: str,
    format: DatasetFormat,
    lengths: npt.ArrayLike,
    returns: npt.ArrayLike,
    terminated: npt.ArrayLike,
    nbytes: int,
    in_memory: bool,
    notes: Sequence[str] = (),
    environment_name: Optional[str] = None,
  ):
    """Keeps what is known of the dataset; for subclasses.

    Raises:
      DatasetError: if there is no episode.
    """
    self.path = path
    self.format = format
    self.lengths = np.asarray(lengths, np.int64)
    self.returns = np.asarray(returns, np.float64)
    self.terminated = np.asarray(terminated, bool)
    self.nbytes = int(nbytes)
    self.in_memory = in_memory
    self.notes = list(notes)
    self.environment_name = environment_name
    if not len(self.lengths):
      dropped = f" ({'; '.join(self.notes)})" if self.notes else ""
      raise DatasetError(f"{path}: there is no episode with a transition to learn from{dropped}.")

  def __len__(self) -> int:
    return len(self.lengths)

  def __iter__(self) -> Iterator[Episode]:
    return (self.read(index) for index in range(len(self)))

  @property
  def num_steps(self) -> int:
    """Transitions of all episodes."""
    return int(self.lengths.sum())

  @abc.abstractmethod
  def read(self, index: int) -> Episode:
    """Returns an episode.

    Args:
      index: from 0 to `len(self) - 1`.

    Raises:
      IndexError: if there is no such episode.
      DatasetError: if what the file holds is malformed.
    """

  def check_index(self, index: int) -> None:
    """Raises IndexError unless `index` is one of an episode."""
    if not 0 <= index < len(self):
      raise IndexError(f"{self.path} has the episodes 0 to {len(self) - 1}; there is no {index}.")


class InMemoryDataset(EpisodeDataset):
  """Episodes that are held in memory."""

  def __init__(
    self,
    episodes: Sequence[Episode],
    *,
    path: str,
    format: DatasetFormat,
    notes: Sequence[str] = (),
    environment_name: Optional[str] = None,
  ):
    """Keeps the episodes, without a copy.

    Args:
      episodes: of at least one transition each.
      path: where they are from, for messages.
      format: how they are stored there.
      notes: see `EpisodeDataset`.
      environment_name: see `EpisodeDataset`.
    """
    super().__init__(
      path=os.fspath(path),
      format=format,
      lengths=[episode.num_steps for episode in episodes],
      returns=[episode.total_return for episode in episodes],
      terminated=[episode.terminated for episode in episodes],
      nbytes=sum(episode.nbytes for episode in episodes),
      in_memory=True,
      notes=notes,
      environment_name=environment_name,
    )
    self._episodes = list(episodes)

  def read(self, index: int) -> Episode:
    self.check_index(index)
    return self._episodes[index]
