"""Serves or uses replay and variables, so much at a time: part of benchmark_distributed.

python -m temper.launchers.scaling_server_worker WORK PORT SIZE

SIZE is bytes of an item, or parameters of the variables. How a worker is told what to do: see
`temper.launchers.sac_peer_worker.serve`; a server only has to be there.
"""

from collections.abc import Sequence
import sys
import time
from typing import Any, Callable

from temper.launchers import sac_peer_worker as shared

REPLAY, WRITER, READER = "replay", "writer", "reader"
VARIABLES, FETCHER = "variables", "fetcher"

# As SVG0 stores them: T + 1 = 11 steps an item.
ITEM_STEPS = 11
BATCH_SIZE = 32
# Items, batches or requests of a unit.
UNITS = {WRITER: 32, READER: 1, FETCHER: 1}

_TABLE = "table"
_MAX_ITEMS = 1_000
_UNCONFIRMED = 8
# Arrays that the variables consist of, as those of a small network.
_NUM_ARRAYS = 10


def step_shape(item_bytes: int) -> tuple[int]:
  """Returns the shape of one step's float32, at least one number, for items of about that size."""
  return (max(1, item_bytes // (4 * ITEM_STEPS)),)


def make_unit(work: str, port: int, size: int) -> Callable[[], object]:
  """Makes a server or what uses it; returns what does a unit of its work.

  Args:
    work: one of the names above.
    port: of the server.
    size: bytes of an item, or parameters of the variables.
  """
  makers = {
    REPLAY: _make_replay,
    WRITER: _make_writer,
    READER: _make_reader,
    VARIABLES: _make_variables,
    FETCHER: _make_fetcher,
  }
  return makers[work](port, size)


def _make_replay(port: int, item_bytes: int) -> Callable[[], object]:
  import reverb
  import tensorflow as tf

  table = reverb.Table(
    name=_TABLE,
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=_MAX_ITEMS,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=tf.TensorSpec((ITEM_STEPS, *step_shape(item_bytes)), tf.float32),
  )
  server = reverb.Server([table], port=port)
  return lambda: server


def _make_writer(port: int, item_bytes: int) -> Callable[[], object]:
  import numpy as np
  import reverb

  # Random, so that nothing can be compressed; each item holds steps of its own.
  step = np.random.default_rng(0).standard_normal(step_shape(item_bytes), np.float32)
  writer = reverb.Client(f"localhost:{port}").trajectory_writer(ITEM_STEPS)

  def do_unit() -> None:
    for _ in range(UNITS[WRITER]):
      for _ in range(ITEM_STEPS):
        writer.append(step)
      writer.create_item(_TABLE, 1.0, writer.history[-ITEM_STEPS:])
      writer.flush(_UNCONFIRMED)
    writer.flush()

  return do_unit


def _make_reader(port: int, item_bytes: int) -> Callable[[], object]:
  del item_bytes  # The table knows.
  import reverb

  dataset = reverb.TrajectoryDataset.from_table_signature(
    f"localhost:{port}", _TABLE, max_in_flight_samples_per_worker=2 * BATCH_SIZE
  )
  iterator = iter(dataset.batch(BATCH_SIZE).prefetch(1))
  return lambda: next(iterator)


def _make_variables(port: int, parameters: int) -> Callable[[], object]:
  import courier
  import numpy as np

  arrays = [np.zeros(parameters // _NUM_ARRAYS, np.float32) for _ in range(_NUM_ARRAYS)]
  server = courier.Server("variables", port=port)
  server.Bind("get_variables", lambda names: [arrays for _ in names])
  server.Start()
  return lambda: server


def _make_fetcher(port: int, parameters: int) -> Callable[[], object]:
  del parameters  # The server knows.
  import courier

  client = courier.Client(f"localhost:{port}")

  def do_unit() -> Any:
    return client.get_variables(["policy"])

  return do_unit


def main(argv: Sequence[str]) -> None:
  """Makes the worker and serves it."""
  work, port, size = argv[1:]
  answers = shared.take_output()

  from temper.utils import startup

  startup.quiet()
  do_unit = make_unit(work, int(port), int(size))
  shared.serve(do_unit, {"temper-rl": startup.version()}, sys.stdin, answers)
  if work in (REPLAY, VARIABLES):
    # Those that use it may still be closing.
    time.sleep(0.5)


if __name__ == "__main__":
  main(sys.argv)
