"""The compiled steps of a learner: fetch a batch and update on every replica, once or often."""

from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf
from tensorflow.python.eager import cancellation
import tree

from temper.agents import learner_data

Metrics = Mapping[str, tf.Tensor]


class Update(NamedTuple):
  """What one replica's update returns.

  Attributes:
    metrics: scalars by name.
    priorities: `[B]`, new priorities of the batch's items in replay; None leaves them.
  """

  metrics: Metrics
  priorities: Optional[tf.Tensor] = None


class StepResult(NamedTuple):
  """What a call returns.

  Attributes:
    metrics: numbers by name, means over the replicas and the call's updates.
    batch: by path, those tensors of the last batch that can hold NaN or infinity.
    replay: keys in replay of all items, uint64 `[K B]`, and their new priorities, `[K B]`; None if
      replay is not prioritised.
  """

  metrics: dict[str, float]
  batch: Mapping[str, Any]
  replay: Optional[tuple[tf.Tensor, tf.Tensor]]


ReplicaUpdate = Callable[[Any, int], Update]


class CompiledSteps:
  """Calls an update on every replica, compiled once for each phase.

  Updates whose graphs differ by turns (a policy that is only trained every second time) have as
  many phases: each is compiled by itself, which costs less in every step than a condition in one
  graph.
  """

  def __init__(
    self,
    update: ReplicaUpdate,
    dataset: learner_data.Dataset,
    strategy: tf.distribute.Strategy,
    *,
    num_phases: int = 1,
    updates_per_call: int = 1,
  ):
    """Wires the steps; nothing is traced yet.

    Args:
      update: maps one replica's batch and the phase to its `Update`, in the replica's context.
      dataset: see `learner_data.make_iterator`.
      strategy: the strategy whose replicas share each batch.
      num_phases: P; update number k has phase k modulo P.
      updates_per_call: K, each with a batch of its own; 1, or a multiple of P.

    Raises:
      ValueError: if a call's updates do not fit the phases, or the dataset does not fit the
        strategy.
    """
    if updates_per_call != 1 and updates_per_call % num_phases:
      raise ValueError(
        f"{updates_per_call} updates a call, but they differ in turns of {num_phases}; a call must "
        f"be one update or a multiple of {num_phases}."
      )
    self._update = update
    self._strategy = strategy
    self._num_phases = num_phases
    self._updates_per_call = updates_per_call
    self._iterator, self._fetch_in_graph = learner_data.make_iterator(dataset, strategy)
    if updates_per_call > 1 and not self._fetch_in_graph:
      raise ValueError(
        f"{updates_per_call} updates a call need a tf.data.Dataset or an iterator over one; "
        f"{type(dataset).__name__} cannot be advanced inside of a graph."
      )
    # Both by the phase that a call begins with.
    self._metric_names: dict[int, tuple[str, ...]] = {}
    self._functions: dict[int, Callable[..., Any]] = {}
    # TensorFlow has no public way to interrupt an iterator that waits, and Reverb's waits for ever
    # for a lost server.
    self._cancellation = cancellation.CancellationManager()

  def __call__(self, num_updates: int) -> StepResult:
    """Does one call's updates.

    Args:
      num_updates: updates done before; decides the phase.

    Raises:
      StopIteration, OutOfRangeError, CancelledError: if there is no further batch, or `cancel` was
        called.
    """
    phase = num_updates % self._num_phases
    if phase not in self._functions:
      self._functions[phase] = self._compile(phase)
    if self._fetch_in_graph:
      outputs = self._functions[phase]()
    else:
      outputs = self._functions[phase](
        tree.map_structure(tf.convert_to_tensor, next(self._iterator))
      )
    values, batch, replay = outputs
    metrics = dict(zip(self._metric_names[phase], values.numpy().tolist()))
    return StepResult(metrics, batch, replay)

  def cancel(self) -> None:
    """Makes a call that waits for its batch, and all later ones, end with CancelledError."""
    self._cancellation.start_cancel()

  def _compile(self, phase: int) -> Callable[..., Any]:
    # Nothing here needs AutoGraph, and its conversion of every function called took most of the
    # first step.
    if not self._fetch_in_graph:
      one = lambda sample: self._packed(phase, self._on_all_replicas(sample, phase))
      return tf.function(one, autograph=False)
    traced = tf.function(lambda: self._fetch_and_update(phase), autograph=False)
    return self._cancellation.get_cancelable_function(traced.get_concrete_function())

  def _fetch_and_update(self, phase: int) -> tuple[Any, Any, Any]:
    in_turn = min(self._updates_per_call, self._num_phases)
    turns = self._updates_per_call // in_turn
    # The first turn is outside of the loop, since its results tell what the loop has to keep.
    values, batch, replay = self._turn(phase, in_turn)
    if turns == 1:
      return values, batch, replay
    arrays = [
      tf.TensorArray(x.dtype, size=turns, element_shape=x.shape).write(0, x)
      for x in (values, *(replay or ()))
    ]

    def body(turn: tf.Tensor, _: Any, arrays: Sequence[tf.TensorArray]) -> Any:
      values, batch, replay = self._turn(phase, in_turn)
      written = [a.write(turn, x) for a, x in zip(arrays, (values, *(replay or ())))]
      return turn + 1, batch, written

    # The updates change variables, which the loop knows nothing of: one has to end before the next.
    _, batch, arrays = tf.while_loop(
      lambda turn, *_: turn < turns, body, (tf.constant(1), batch, arrays), parallel_iterations=1
    )
    stacked = [array.stack() for array in arrays]
    joined = tuple(tf.reshape(x, [-1]) for x in stacked[1:])
    return tf.reduce_mean(stacked[0], axis=0), batch, joined or None

  def _turn(self, phase: int, num_updates: int) -> tuple[Any, Any, Any]:
    """Updates so many times, each in the next phase."""
    return self._packed(
      phase,
      *(self._on_all_replicas(next(self._iterator), phase + i) for i in range(num_updates)),
    )

  def _packed(self, phase: int, *results: "_Result") -> tuple[Any, Any, Any]:
    """Joins the results of updates that follow one another into few tensors."""
    by_name: dict[str, list[tf.Tensor]] = {}
    for result in results:
      for name, value in result.metrics.items():
        by_name.setdefault(name, []).append(value)
    self._metric_names[phase] = tuple(by_name)
    # A loss that only some phases have is averaged over those. The mean of one would be two
    # operations for nothing, for each metric.
    mean = lambda values: values[0] if len(values) == 1 else tf.add_n(values) / len(values)
    values = tf.stack([mean(values) for values in by_name.values()])
    replay = None
    if results[0].replay is not None:
      replay = tuple(tf.concat(parts, axis=0) for parts in zip(*(r.replay for r in results)))
    return values, results[-1].batch, replay

  def _on_all_replicas(self, sample: Any, phase: int) -> "_Result":
    update = self._strategy.run(self._on_replica, args=(sample, phase % self._num_phases))
    local = self._strategy.experimental_local_results
    # Metrics are equal on all replicas. What a batch can be wrong in is returned too, to look at
    # when something is; the rest of it would only cost time.
    metrics = {name: local(value)[0] for name, value in update.metrics.items()}
    batch = learner_data.floating_tensors(sample, self._strategy)
    if update.priorities is None:
      return _Result(metrics, batch)
    keys, priorities = (tf.concat(local(x), axis=0) for x in (sample.info.key, update.priorities))
    return _Result(metrics, batch, (keys, priorities))

  def _on_replica(self, sample: Any, phase: int) -> Update:
    update = self._update(sample, phase)
    metrics = {name: tf.cast(value, tf.float32) for name, value in update.metrics.items()}
    if self._strategy.num_replicas_in_sync > 1:
      metrics = tf.distribute.get_replica_context().all_reduce("mean", metrics)
    return Update(metrics, update.priorities)


class _Result(NamedTuple):
  """One update's results, joined over the replicas."""

  metrics: Metrics
  batch: Mapping[str, Any]
  replay: Optional[tuple[tf.Tensor, tf.Tensor]] = None
