"""Datasets of episodes on disk: read, checked, summarised, written, and cut into windows."""

from temper.utils.datasets.conforming import conform
from temper.utils.datasets.episodes import DatasetError
from temper.utils.datasets.episodes import DatasetFormat
from temper.utils.datasets.episodes import Episode
from temper.utils.datasets.episodes import EpisodeDataset
from temper.utils.datasets.episodes import InMemoryDataset
from temper.utils.datasets.opening import open_dataset
from temper.utils.datasets.statistics import observation_statistics
from temper.utils.datasets.summary import DatasetSummary
from temper.utils.datasets.summary import summarise
from temper.utils.datasets.windows import make_windows
from temper.utils.datasets.writing import write_dataset

__all__ = [
  "DatasetError",
  "DatasetFormat",
  "DatasetSummary",
  "Episode",
  "EpisodeDataset",
  "InMemoryDataset",
  "conform",
  "make_windows",
  "observation_statistics",
  "open_dataset",
  "summarise",
  "write_dataset",
]
