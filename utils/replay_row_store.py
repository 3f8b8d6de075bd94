"""A copy of replay's newest transitions in this process's memory, to sample uniformly from."""

import os

import numpy as np
import reverb
import tensorflow as tf

from temper.utils import replay_rows

_FILE = "rows.npz"
_FIRST_CAPACITY = 4_096


class RowStore:
  """The rows of a table of transitions, oldest replaced first, as the table itself does.

  One process that both adds and samples need not ask its server for what it has just sent there:
  Reverb takes some six microseconds a transition, a gather from memory a fraction of one. What is
  drawn depends on the seed and on how many batches were drawn, so a run can be repeated exactly,
  which it cannot be while threads sample ahead.
  """

  def __init__(self, rows: replay_rows.TransitionRows, max_size: int):
    """Makes an empty store; memory is taken as rows come.

    Args:
      rows: layout of the table's items, all in the row.
      max_size: rows at the most.

    Raises:
      ValueError: if some of an item is not in its row, as large observations are not.
    """
    row, *large = rows.signature
    if large:
      raise ValueError(
        f"{len(large)} observations have columns of their own; only rows are copied. Let replay "
        "itself be sampled."
      )
    self._rows = rows
    self._max_size = max_size
    self._position = 0
    self._num_rows = 0
    self._capacity = min(max_size, _FIRST_CAPACITY)
    self._values = tf.Variable(
      tf.zeros([self._capacity, *row.shape], tf.uint8),
      shape=[None, *row.shape],
      trainable=False,
      name="rows",
    )
    self._size = tf.Variable(0, dtype=tf.int32, trainable=False, name="num_rows")
    self._num_batches = tf.Variable(0, dtype=tf.int32, trainable=False, name="num_batches")

  def __len__(self) -> int:
    """The number of rows."""
    return self._num_rows

  @property
  def num_batches(self) -> int:
    """Batches drawn so far, which decides what is drawn next."""
    return int(self._num_batches.numpy())

  @num_batches.setter
  def num_batches(self, value: int) -> None:
    self._num_batches.assign(value)

  def append(self, row: np.ndarray) -> None:
    """Keeps a copy of a row, uint8 `[row bytes]`, in the place of the oldest when it is full."""
    if self._num_rows == self._capacity < self._max_size:
      # Doubled, so that each row is moved once on average.
      spare = min(self._capacity, self._max_size - self._capacity)
      self._values.assign(tf.concat([self._values, tf.zeros([spare, *row.shape], tf.uint8)], 0))
      self._capacity += spare
      self._position = self._num_rows
    # Converted here, which takes a tenth of the time that the operation itself takes for it.
    position, update = tf.constant([self._position]), tf.constant(row[None])
    tf.raw_ops.ResourceScatterUpdate(resource=self._values.handle, indices=position, updates=update)
    self._position = (self._position + 1) % self._max_size
    if self._num_rows < self._max_size:
      self._num_rows += 1
      # The variable's own method takes several times as long.
      size = tf.constant(self._num_rows, tf.int32)
      tf.raw_ops.AssignVariableOp(resource=self._size.handle, value=size)

  def draws(self, batch_size: int, seed: int) -> "Draws":
    """Returns an iterator of batches, each drawn when it is asked for, all rows alike.

    Args:
      batch_size: transitions a batch, drawn with replacement.
      seed: seed of the draws.
    """
    return Draws(self, batch_size, seed)

  def draw(self, batch_size: int, seed: int) -> reverb.ReplaySample:
    """Draws a batch; see `draws`."""
    size, number = self._size.read_value(), self._num_batches.read_value()
    self._num_batches.assign(number + 1)
    indices = tf.random.stateless_uniform(
      [batch_size], tf.stack([seed, number]), maxval=size, dtype=tf.int32
    )
    # Not tf.gather, which would copy all rows first.
    drawn = tf.raw_ops.ResourceGather(resource=self._values.handle, indices=indices, dtype=tf.uint8)
    data = self._rows.unpack([tf.ensure_shape(drawn, [batch_size, *self._values.shape[1:]])])
    same = lambda value, dtype: tf.fill([batch_size], tf.cast(value, dtype))
    info = reverb.SampleInfo(
      key=tf.cast(indices, tf.uint64),
      probability=same(1.0 / tf.cast(size, tf.float64), tf.float64),
      table_size=same(size, tf.int64),
      priority=same(1.0, tf.float64),
      times_sampled=same(1, tf.int32),
    )
    return reverb.ReplaySample(info=info, data=data)

  def save(self, directory: str) -> None:
    """Writes all rows into a folder."""
    np.savez(
      os.path.join(directory, _FILE),
      rows=self._values[: len(self)].numpy(),
      position=self._position,
    )

  def restore(self, directory: str) -> bool:
    """Reads what `save` wrote in place of all rows; returns whether there was anything.

    Raises:
      ValueError: if the rows are of another layout, or more than fit.
    """
    path = os.path.join(directory, _FILE)
    if not os.path.exists(path):
      return False
    with np.load(path) as file:
      rows, position = file["rows"], int(file["position"])
    if rows.shape[1:] != self._values.shape[1:] or len(rows) > self._max_size:
      raise ValueError(
        f"{path} holds rows of shape {list(rows.shape)}; at most {self._max_size} of "
        f"{list(self._values.shape[1:])} bytes are expected."
      )
    self._capacity = max(len(rows), min(self._max_size, _FIRST_CAPACITY))
    spare = np.zeros([self._capacity - len(rows), *rows.shape[1:]], np.uint8)
    self._values.assign(np.concatenate([rows, spare]))
    self._num_rows = len(rows)
    self._size.assign(self._num_rows)
    self._position = position
    return True


class Draws:
  """An iterator of batches from a store, `reverb.ReplaySample` of `acme.types.Transition`.

  Leaves are `[batch_size, ...]`. There must be a row when a batch is asked for.

  Attributes:
    advances_in_graph: that each `next` inside of a `tf.function` is one more draw of each call.
  """

  advances_in_graph = True

  def __init__(self, store: RowStore, batch_size: int, seed: int):
    """Draws from a store; see `RowStore.draws`."""
    self._store = store
    self._batch_size = batch_size
    self._seed = int(seed) % 2**31

  def __iter__(self) -> "Draws":
    return self

  def __next__(self) -> reverb.ReplaySample:
    return self._store.draw(self._batch_size, self._seed)
