"""How long a learner waits for its windows, and how fast they are made when that is all."""

from collections.abc import Iterator
import dataclasses
import statistics
import time
from typing import Any, Callable

import numpy as np
import reverb
import tensorflow as tf

from temper.launchers import benchmark_case
from temper.launchers import benchmark_crr
from temper.utils import datasets
from temper.utils.datasets import windows

_Step = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class WindowsSize:
  """Sizes of one benchmark of the window pipeline.

  Attributes:
    batch_size: windows a batch.
    sequence_length: rows of a window.
    observation_size: numbers of an observation.
    action_size: numbers of an action.
    num_episodes: episodes of the dataset.
    episode_steps: steps of each.
    in_memory: whether all rows are held in memory, or read in ten chunks.
  """

  batch_size: int = 32
  sequence_length: int = 20
  observation_size: int = 24
  action_size: int = 6
  num_episodes: int = 200
  episode_steps: int = 1000
  in_memory: bool = True


SIZES: dict[str, WindowsSize] = {
  "windows_long": WindowsSize(),
  "windows_short": WindowsSize(batch_size=256, sequence_length=10),
  "windows_streamed": WindowsSize(in_memory=False),
}

# The share of a learner step that may be spent waiting.
MAXIMUM_WAITING_SHARE = 0.05


@dataclasses.dataclass(frozen=True)
class Waiting:
  """What was measured.

  Attributes:
    wait_ms: median time that a step waited for its batch, milliseconds.
    step_ms: median time of a step, the wait included, milliseconds.
    share: time of all waits over that of all steps.
    batches_per_second: how many batches are made when nothing else is done.
  """

  wait_ms: float
  step_ms: float
  share: float
  batches_per_second: float


# Given the iterator over batches, makes the function that takes one batch and learns from it.
StepMaker = Callable[[WindowsSize, Iterator[reverb.ReplaySample]], _Step]


class _TimedIterator:
  """Passes on an iterator's items and keeps how long each was waited for."""

  def __init__(self, iterator: Iterator[Any]):
    self._iterator = iterator
    self.seconds: list[float] = []

  def __iter__(self) -> "_TimedIterator":
    return self

  def __next__(self) -> Any:
    start = time.perf_counter()
    item = next(self._iterator)
    self.seconds.append(time.perf_counter() - start)
    return item


def make_dataset(size: WindowsSize) -> tf.data.Dataset:
  """Makes windows of a random dataset of the given size."""
  random = np.random.default_rng(0)
  steps = size.episode_steps

  def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32)

  episodes = [
    datasets.Episode(
      observation=normal(steps + 1, size.observation_size),
      action=np.clip(normal(steps, size.action_size), -1, 1),
      reward=normal(steps),
      discount=np.ones(steps, np.float32),
    )
    for _ in range(size.num_episodes)
  ]
  dataset = datasets.InMemoryDataset(episodes, path="random", format=datasets.DatasetFormat.NPZ)
  return windows.make_windows(
    dataset,
    sequence_length=size.sequence_length,
    batch_size=size.batch_size,
    in_memory=size.in_memory,
    buffer_bytes=dataset.nbytes // 2,
  )


def make_learner_step(size: WindowsSize, iterator: Iterator[reverb.ReplaySample]) -> _Step:
  """Makes a recurrent CRR learner that learns from the iterator; returns its step function."""
  learner_size = benchmark_crr.LearnerSize(
    batch_size=size.batch_size,
    sequence_length=size.sequence_length,
    observation_size=size.observation_size,
    action_size=size.action_size,
  )
  return benchmark_crr.make_learner_step(benchmark_case.OURS, learner_size, iterator)


def measure(
  size: WindowsSize, make_step: StepMaker = make_learner_step, steps: int = 100
) -> Waiting:
  """Measures how long steps wait for windows while they learn, in this process.

  Args:
    size: sizes of dataset and batch.
    make_step: makes the learner's step from sizes and an iterator, which it must advance by `next`
      outside of graphs, as a learner does that is given an iterator.
    steps: how many steps to time, at least 1; two more come first, to trace.
  """
  dataset = make_dataset(size)
  timed = _TimedIterator(iter(dataset))
  step = make_step(size, timed)
  for _ in range(2):
    step()
  timed.seconds.clear()
  seconds = [_time(step) for _ in range(steps)]
  return Waiting(
    wait_ms=1e3 * statistics.median(timed.seconds),
    step_ms=1e3 * statistics.median(seconds),
    share=sum(timed.seconds) / sum(seconds),
    batches_per_second=_batches_per_second(dataset, 10 * steps),
  )


def row(name: str, steps: int = 100) -> str:
  """Measures a case of `SIZES` and returns it as one line of a table."""
  size = SIZES[name]
  waiting = measure(size, steps=steps)
  verdict = "met" if waiting.share < MAXIMUM_WAITING_SHARE else "MISSED"
  return (
    f"{name:16} waits {waiting.wait_ms:.3f} ms of {waiting.step_ms:.1f} ms: {waiting.share:.2%} of "
    f"the time   < {MAXIMUM_WAITING_SHARE:.0%} {verdict}   alone {waiting.batches_per_second:,.0f} "
    f"batches/s   batch {size.batch_size}, length {size.sequence_length}, "
    f"{'in memory' if size.in_memory else 'streamed'}"
  )


def _time(function: Callable[[], object]) -> float:
  start = time.perf_counter()
  function()
  return time.perf_counter() - start


def _batches_per_second(dataset: tf.data.Dataset, batches: int) -> float:
  iterator = iter(dataset)
  next(iterator)
  return batches / _time(lambda: [next(iterator) for _ in range(batches)])
