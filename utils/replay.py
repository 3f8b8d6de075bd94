"""Reverb: tables that never block one process, an adder that writes its tail, a shallow dataset."""

from collections.abc import Mapping
import fractions
import operator
import os
from typing import Optional

from absl import logging
from acme import specs
from acme import types
from acme.adders import reverb as reverb_adders
from acme.adders.reverb import base as adder_base
import dm_env
import numpy as np
import reverb
import tensorflow as tf
import tree

from temper.utils import replay_watch

# How long an adder waits for confirmations before it asks whether the server is alive, in
# milliseconds.
_CONFIRM_TIMEOUT_MS = 8_000

# How long a sampler waits for its table before it gives up, in milliseconds: in one process the
# table is known to hold something, so this is only met when the server is gone.
IN_PROCESS_TIMEOUT_MS = 30_000


class Client(reverb.Client):
  """A client that ignores an argument of dm-acme's adders which Reverb no longer has."""

  def trajectory_writer(
    self,
    num_keep_alive_refs: int,
    *,
    validate_items: bool = True,
    get_signature_timeout_ms: Optional[int] = None,
  ) -> reverb.TrajectoryWriter:
    """As `reverb.Client.trajectory_writer`; `get_signature_timeout_ms` has no effect."""
    del get_signature_timeout_ms
    return super().trajectory_writer(num_keep_alive_refs, validate_items=validate_items)


def adapt_client(client: reverb.Client) -> Client:
  """Returns a client of the same server that dm-acme's adders can use."""
  return client if isinstance(client, Client) else Client(client.server_address)


class SequenceAdder(reverb_adders.SequenceAdder):
  """Adds sequences that go on over episode ends, and can write what is left at the end of a run.

  Acme's adder loses the steps after the last full period. `flush` writes them as one more sequence
  that overlaps the one before, so that every sequence has the full length and no step is lost once
  there are enough for one sequence.
  """

  def __init__(self, client: reverb.Client, sequence_length: int, period: int, table: str):
    """Initialises the adder.

    Args:
      client: client of the server that holds the table.
      sequence_length: steps of a sequence, its last (bootstrap) step included; at least 2.
      period: steps between the starts of two sequences.
      table: name of the table.
    """
    super().__init__(
      client=adapt_client(client),
      sequence_length=sequence_length,
      period=period,
      # A constant priority: the number is read by prioritised tables only.
      priority_fns={table: None},
      end_of_episode_behavior=reverb_adders.EndBehavior.CONTINUE,
    )
    self._table = table
    self._steps_since_item = 0
    self._steps = 0
    # Whether the newest row of the writer still waits for the action that follows its observation.
    self._row_is_open = False
    self._no_action: types.NestedArray = None
    self._gave_up = False

  def __del__(self) -> None:
    # Acme's adder waits ten seconds more, for what the server did not confirm when it was asked.
    if not self._gave_up:
      super().__del__()

  def add_first(self, timestep: dm_env.TimeStep) -> None:
    """Records the first observation of an episode.

    An episode that was left half-way counts as truncated.

    Raises:
      ValueError: if the very first episode is begun twice without an action.
    """
    if self._row_is_open:
      if self._no_action is None:
        raise ValueError(
          "The first episode was begun twice without an action between. Make a new adder (or "
          "agent) instead."
        )
      self._writer.append(self._no_action)
      self._write_last()
    super().add_first(timestep)
    self._row_is_open = True

  def add(
    self, action: types.NestedArray, next_timestep: dm_env.TimeStep, extras: types.NestedArray = ()
  ) -> None:
    """Records an action and the time step that follows it.

    Raises:
      ReplayLostError: if the server is gone, after at most 20 s.
    """
    if self._no_action is None:
      row = dict(action=action, reward=next_timestep.reward, discount=next_timestep.discount)
      self._no_action = tree.map_structure(
        np.zeros_like, {**row, "extras": extras} if extras else row
      )
    self._steps += 1
    self._steps_since_item += 1
    super().add(action, next_timestep, extras)

  def _write_last(self) -> None:
    # The closing entry of an episode, which has an observation but no action, is a step of the
    # sequence too.
    self._steps += 1
    self._steps_since_item += 1
    self._row_is_open = False
    super()._write_last()

  def _maybe_create_item(
    self, sequence_length: int, *, end_of_episode: bool = False, force: bool = False
  ) -> None:
    del force  # Acme's other ways to end an episode use it.
    steps = self._steps
    if steps == sequence_length or (
      steps > sequence_length and (steps - sequence_length) % self._period == 0
    ):
      self._create_item(end_of_episode)
      self._wait_for_server()

  def _create_item(self, end_of_episode: bool) -> None:
    """Makes an item of the newest complete rows.

    Unless an episode has just ended, one more row is open.
    """
    rows = (
      slice(-self._sequence_length, None)
      if end_of_episode
      else slice(-self._sequence_length - 1, -1)
    )
    columns = tree.map_structure(operator.itemgetter(rows), self._writer.history)
    self._writer.create_item(self._table, 1.0, adder_base.Trajectory(**columns))
    self._steps_since_item = 0

  def _wait_for_server(self) -> None:
    """Waits until few items are unconfirmed: as long as that takes, while the server lives."""
    while True:
      try:
        self._writer.flush(self._max_in_flight_items, timeout_ms=_CONFIRM_TIMEOUT_MS)
        return
      except reverb.DeadlineExceededError:
        # The rate limiter may keep a writer waiting; a server that is gone may not.
        self._gave_up = True
        replay_watch.check_server(self._client)
        self._gave_up = False

  def flush(self, timeout_ms: int = 5_000) -> None:
    """Writes the steps that no sequence holds yet, and waits until the server has confirmed all.

    Args:
      timeout_ms: bound of the wait, milliseconds.

    Raises:
      reverb.DeadlineExceededError: if the server does not confirm in time; the steps stay queued.
    """
    if not self._steps:
      return
    if self._steps_since_item and self._steps >= self._sequence_length:
      self._create_item(end_of_episode=not self._row_is_open)
    self._gave_up = True
    self._writer.flush(block_until_num_items=0, timeout_ms=timeout_ms)
    self._gave_up = False


class UpdateSchedule:
  """Says how many learner steps are due, exactly, for environment steps that were added.

  With `steps` environment steps of which the first `min_size` only fill replay, `floor((steps -
  min_size) * samples_per_insert / batch_size) + 1` learner steps are due. The quotient is a
  fraction, so no ratio drifts or is rounded to a whole number of steps.
  """

  def __init__(self, samples_per_insert: Optional[float], batch_size: int, min_size: int):
    """Initialises the schedule.

    Args:
      samples_per_insert: samples per environment step; None means one learner step each environment
        step.
      batch_size: samples of a learner step.
      min_size: environment steps before the first learner step.
    """
    ratio = (
      fractions.Fraction(batch_size)
      if samples_per_insert is None
      else fractions.Fraction(repr(samples_per_insert))
    )
    self._updates_per_step = ratio / batch_size
    self._min_size = min_size

  @property
  def min_size(self) -> int:
    """Environment steps before the first learner step."""
    return self._min_size

  def updates_due(self, steps: int) -> int:
    """Returns the learner steps that are due in total after `steps` environment steps."""
    if steps < self._min_size:
      return 0
    return int((steps - self._min_size) * self._updates_per_step) + 1


def rate_limiter(
  samples_per_insert: Optional[float], min_size: int, batch_size: int, period: int
) -> reverb.rate_limiters.RateLimiter:
  """Makes the limiter of a table whose writer and reader are different processes.

  Args:
    samples_per_insert: samples per environment step; None for no limit but the minimum.
    min_size: environment steps before the first sample.
    batch_size: samples that the reader takes at once.
    period: environment steps per inserted item.

  Returns:
    A limiter that counts items, as the table does.
  """
  min_items = max(1, -(-min_size // period))
  if samples_per_insert is None:
    return reverb.rate_limiters.MinSize(min_items)
  per_item = samples_per_insert * period
  # A whole batch and a whole item must fit on either side, else reader and writer wait for each
  # other.
  error_buffer = 2.0 * max(batch_size, per_item, 1.0)
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=per_item, min_size_to_sample=min_items, error_buffer=error_buffer
  )


def sequence_table(
  name: str,
  environment_spec: specs.EnvironmentSpec,
  extras_spec: Mapping[str, specs.Array],
  sequence_length: int,
  max_size: int,
  limiter: reverb.rate_limiters.RateLimiter,
) -> reverb.Table:
  """Makes a uniform first-in-first-out table of sequences, and logs how much memory it can take.

  Args:
    name: name of the table.
    environment_spec: what the adder will add.
    extras_spec: extras of each step by name.
    sequence_length: steps of an item.
    max_size: items at the most.
    limiter: rate limiter.

  Returns:
    The table; nothing is allocated before items arrive.
  """
  signature = reverb_adders.SequenceAdder.signature(
    environment_spec, extras_spec=dict(extras_spec), sequence_length=sequence_length
  )
  report_memory(name, signature, max_size)
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=max_size,
    rate_limiter=limiter,
    signature=signature,
  )


def estimate_bytes(signature: types.NestedSpec, max_size: int) -> int:
  """Returns the bytes of `max_size` uncompressed items of a signature.

  Reverb compresses, so this is a bound.
  """
  item = sum(int(np.prod(leaf.shape)) * leaf.dtype.size for leaf in tree.flatten(signature))
  return item * max_size


def report_memory(name: str, signature: types.NestedSpec, max_size: int) -> int:
  """Logs and returns the bytes of a full table, by estimate.

  It is a warning when they exceed the machine's memory.
  """
  size = estimate_bytes(signature, max_size)
  text = (
    f"Replay table {name!r}: up to {max_size:,} items, "
    f"{size / 2**30:.2f} GiB uncompressed when full"
  )
  total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  if size > total:
    logging.warning(
      "%s, but this machine has %.1f GiB. Lower max_replay_size to at most %s.",
      text,
      total / 2**30,
      f"{max_size * total // (2 * size):,}",
    )
  else:
    logging.info("%s.", text)
  return size


def make_dataset(
  server_address: str,
  table: str,
  batch_size: int,
  prefetch_size: int,
  timeout_ms: int = -1,
) -> tf.data.Dataset:
  """Makes a dataset of batches sampled from a table.

  One worker samples at most a batch ahead, so with a small `prefetch_size` the data is fresh.

  Args:
    server_address: address of the Reverb server, `host:port`.
    table: name of the table, which must have a signature.
    batch_size: samples a batch.
    prefetch_size: batches sampled ahead; 0 for none.
    timeout_ms: the dataset ends when the table could not be sampled for so long; -1 waits for ever.

  Returns:
    Dataset of `reverb.ReplaySample`, leaves `[batch_size, ...]`.
  """
  dataset = reverb.TrajectoryDataset.from_table_signature(
    server_address=server_address,
    table=table,
    max_in_flight_samples_per_worker=batch_size,
    num_workers_per_iterator=1,
    rate_limiter_timeout_ms=timeout_ms,
    get_signature_timeout_secs=60,
  )
  dataset = dataset.batch(batch_size, drop_remainder=True)
  options = tf.data.Options()
  # An iterator that is dropped can wait long for the thread that tunes its parallelism.
  options.autotune.enabled = False
  dataset = dataset.with_options(options)
  return dataset.prefetch(prefetch_size) if prefetch_size else dataset
