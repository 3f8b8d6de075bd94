"""Datasets of batches that are sampled from a replay table."""

import reverb
import tensorflow as tf

from temper.utils import replay_rows

# How long a sampler waits for its table before it gives up, in milliseconds: in one process the
# table is known to hold something, so this is only met when the server is gone.
IN_PROCESS_TIMEOUT_MS = 30_000


def depth(prefetch_size: int, *, in_process: bool) -> tuple[int, int]:
  """Returns how many batches to sample ahead, and how long to wait for the table, milliseconds.

  One process samples at most one ahead, so that its data is fresh, and gives up on a lost server.
  """
  return (min(prefetch_size, 1), IN_PROCESS_TIMEOUT_MS) if in_process else (prefetch_size, -1)


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


def make_transition_dataset(
  replay_client: reverb.Client,
  table: str,
  batch_size: int,
  prefetch_size: int,
  timeout_ms: int = -1,
) -> tf.data.Dataset:
  """Makes a dataset of batches of transitions.

  Args:
    replay_client: client of the Reverb server.
    table: name of the table, which `temper.utils.replay_tables.transition_table` made.
    batch_size: transitions a batch.
    prefetch_size: batches sampled ahead; 0 for none.
    timeout_ms: as for `make_dataset`.

  Returns:
    Dataset of `reverb.ReplaySample` whose `data` is an `acme.types.Transition`, leaves
    `[batch_size, ...]`.

  Raises:
    ValueError: if the table does not hold transitions.
  """
  rows = replay_rows.TransitionRows.of_table(replay_client, table)
  # Unpacked before they are prefetched, in the thread that samples.
  packed = make_dataset(replay_client.server_address, table, batch_size, 0, timeout_ms)
  dataset = packed.map(lambda sample: sample._replace(data=rows.unpack(sample.data)))
  return dataset.prefetch(prefetch_size) if prefetch_size else dataset
