"""What every learner does: fetch a batch, update under a strategy, count, log, check and save."""

import abc
from collections.abc import Mapping, Sequence
import enum
import time
from typing import Any, Callable, Optional

import acme
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
from tensorflow.python.eager import cancellation
import tree

from temper.agents import learner_data
from temper.utils import checkpointing
from temper.utils import checks
from temper.utils import optimizers as optimizer_utils
from temper.utils import variables as variable_utils

Metrics = dict[str, tf.Tensor]

_SECONDS_BETWEEN_CHECKPOINTS = 600.0


class TargetUpdate(enum.Enum):
  """When, in a step that copies the online to the target networks, the copy is made.

  A step copies when the number of steps done before it is a multiple of the period, so that the
  very first one does.

  BEFORE_GRADIENTS: before the losses are computed, which then see equal online and target networks.
    It does not wait for the step's batch: one that never comes may leave the targets copied, as a
    repeated step would.
  AFTER_GRADIENTS: after the optimizers have moved the online networks.
  """

  BEFORE_GRADIENTS = "before_gradients"
  AFTER_GRADIENTS = "after_gradients"


class NonFiniteError(RuntimeError):
  """A loss, a gradient or a batch holds NaN or infinity, and learning cannot go on.

  Nothing was saved since.
  """


class DataExhaustedError(RuntimeError):
  """The dataset ended, or replay had nothing to sample for longer than its timeout."""


class Learner(acme.Learner, abc.ABC):
  """Base of all learners.

  A subclass makes its networks' variables known here and implements `_update`, which sees one
  replica's batch. Under a `tf.distribute` strategy with several replicas each gets its share of the
  batch, gradients are averaged over the replicas, and all copies of a variable stay equal. Every
  draw of `_update` comes from the seed that it is given, which depends on the learner's seed, the
  step and the replica alone: a restored learner goes on as if never interrupted.
  """

  def __init__(
    self,
    *,
    dataset: learner_data.Dataset,
    networks: Mapping[str, snt.Module],
    target_networks: Mapping[str, snt.Module],
    optimizers: Mapping[str, snt.Optimizer],
    target_update_period: int,
    target_update: TargetUpdate = TargetUpdate.BEFORE_GRADIENTS,
    max_gradient_norm: Optional[float] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    seed: int = 0,
    directory: Optional[str] = None,
  ):
    """Initialises the learner.

    Args:
      dataset: samples to learn from: a `tf.data.Dataset` of whole batches, which is spread over the
        replicas, or an iterator. Several replicas need a dataset, or an iterator that their
        strategy made.
      networks: online networks by name, their variables created under the strategy's scope.
      target_networks: target networks; each name is one of `networks`.
      optimizers: one for each online network that is trained, by its name.
      target_update_period: learner steps between copies of the online to the target networks.
      target_update: when in a step they are copied.
      max_gradient_norm: clips each network's gradient to this global norm; None leaves it.
      strategy: distribution strategy; None means the current one.
      counter: counts learner steps and wall time, seconds.
      logger: gets the metrics of every step.
      seed: seed of all draws of the learner.
      directory: where to keep checkpoints of the learner alone, every ten minutes; None keeps none.

    Raises:
      ValueError: if a number is out of its range, the dataset does not fit the strategy, or target
        and online variables do not pair.
    """
    checks.integer("target_update_period", target_update_period, minimum=1)
    checks.number("max_gradient_norm", max_gradient_norm, above=0, optional=True)
    self._strategy = strategy or tf.distribute.get_strategy()
    self._networks = dict(networks)
    self._target_networks = dict(target_networks)
    self._optimizers = dict(optimizers)
    self._online_variables = [v for name in target_networks for v in networks[name].variables]
    self._target_variables = [
      v for name in target_networks for v in target_networks[name].variables
    ]
    variable_utils.check_pairs(self._online_variables, self._target_variables)
    self._target_update_period = target_update_period
    self._target_update = checks.member("target_update", target_update, TargetUpdate)
    self._max_gradient_norm = max_gradient_norm
    self._seed = int(seed) % (2**31)
    with self._strategy.scope():
      self._num_steps = tf.Variable(0, dtype=tf.int32, trainable=False, name="num_steps")
      for name, optimizer in self._optimizers.items():
        optimizer_utils.initialise_slots(optimizer, networks[name].trainable_variables)
    variable_utils.check_made_under(self._strategy, self.checkpointables())
    self._iterator, fetch_in_graph = learner_data.make_iterator(dataset, self._strategy)
    # Nothing here needs AutoGraph, and its conversion of every function called took most of the
    # first step.
    self._step_function = tf.function(
      self._fetch_and_update if fetch_in_graph else self._update_all, autograph=False
    )
    self._fetch_in_graph = fetch_in_graph
    # Apart from the step: a copy is rare, and its mere presence in the graph costs every step time.
    self._copy_to_targets = tf.function(
      self._copy_on_all_replicas, autograph=False
    ).get_concrete_function()
    # TensorFlow has no public way to interrupt an iterator that waits, and Reverb's waits for ever
    # for a lost server.
    self._cancellation = cancellation.CancellationManager()
    self._cancellable_step: Optional[Callable[[], tuple[tf.Tensor, tf.Tensor]]] = None
    self._metric_names: tuple[str, ...] = ()

    self._counter = counter or counting.Counter()
    self._logger = logger or loggers.make_default_logger("learner", save_data=False)
    self._timestamp: Optional[float] = None
    self._checkpointer = checkpointing.Checkpointer(directory) if directory else None
    self._last_save = time.monotonic()
    self._restore_newest()

  # What a subclass implements and uses.

  @abc.abstractmethod
  def _update(self, sample: reverb.ReplaySample, seed: tf.Tensor) -> Metrics:
    """Updates the networks from one replica's batch.

    Runs in the context of a replica, inside a `tf.function`. It calls `_apply_gradients` for each
    network that it trains; the target networks are not its to copy.

    Args:
      sample: batch-major sample, the replica's share of the batch.
      seed: int32 `[2]`, for stateless draws; of this step and replica.

    Returns:
      Scalars by name; those whose name ends in `loss` must be finite.
    """

  def _apply_gradients(self, name: str, gradients: Sequence[Optional[tf.Tensor]]) -> tf.Tensor:
    """Averages gradients over the replicas, clips them, and applies the network's optimizer.

    Args:
      name: the network, as in `networks` and `optimizers`.
      gradients: one for each of its trainable variables, each replica's own.

    Returns:
      Scalar global norm before clipping.

    Raises:
      ValueError: if every gradient is None.
    """
    variables = self._networks[name].trainable_variables
    present = [g for g in gradients if g is not None]
    if not present:
      raise ValueError(
        f"The loss of the {name} depends on none of its {len(variables)} trainable variables. "
        "Is the network trainable, and do its outputs reach the loss? A policy gets no gradient "
        "from a critic that ignores the action, nor from samples that are not reparameterised."
      )
    if self._strategy.num_replicas_in_sync > 1:
      reduced = iter(tf.distribute.get_replica_context().all_reduce("mean", present))
      gradients = [None if g is None else next(reduced) for g in gradients]
    norm = tf.linalg.global_norm([g for g in gradients if g is not None])
    if self._max_gradient_norm is not None:
      gradients = tf.clip_by_global_norm(gradients, self._max_gradient_norm, use_norm=norm)[0]
    # An optimizer counts its steps, which must wait for a gradient, thus for a batch, too.
    with tf.control_dependencies([norm]):
      self._optimizers[name].apply(gradients, variables)
    return norm

  # The step.

  def _replica_step(self, sample: reverb.ReplaySample) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    num_steps = self._num_steps.read_value()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    # A prime stride keeps the replicas' streams of draws apart.
    seed = tf.stack([self._seed + 1_000_003 * replica, num_steps])
    metrics = self._update(sample, seed)
    with tf.control_dependencies(tree.flatten(sample)):  # No batch, no step.
      variable_utils.assign(self._num_steps, num_steps + 1)
    metrics = {name: tf.cast(value, tf.float32) for name, value in metrics.items()}
    if self._strategy.num_replicas_in_sync > 1:
      metrics = context.all_reduce("mean", metrics)
    self._metric_names = tuple(metrics)
    return tf.stack(list(metrics.values()))

  def _update_all(self, sample: Any) -> tuple[tf.Tensor, dict[str, Any]]:
    metrics = self._strategy.run(self._replica_step, args=(sample,))
    # Equal on all replicas. What a batch can be wrong in is returned too, to look at when something
    # is; the rest of it would only cost time.
    tensors = learner_data.floating_tensors(sample, self._strategy)
    return self._strategy.experimental_local_results(metrics)[0], tensors

  def _fetch_and_update(self) -> tuple[tf.Tensor, dict[str, Any]]:
    return self._update_all(next(self._iterator))

  def _copy_on_all_replicas(self) -> None:
    self._strategy.run(variable_utils.copy, args=(self._online_variables, self._target_variables))

  def step(self) -> None:
    """Does one learner step.

    Raises:
      NonFiniteError: if a loss or a gradient is not finite; names the tensors, those of the batch
        included.
      DataExhaustedError: if there is no further batch.
    """
    # Read anew each time, since a checkpoint may have been restored from outside. It costs
    # microseconds.
    copies = self._target_variables and self.num_steps % self._target_update_period == 0
    if copies and self._target_update is TargetUpdate.BEFORE_GRADIENTS:
      self._copy_to_targets()
    values, batch = self._next_update()
    metrics = dict(zip(self._metric_names, values.numpy().tolist()))
    self._check_finite(metrics, batch)
    if copies and self._target_update is TargetUpdate.AFTER_GRADIENTS:
      self._copy_to_targets()
    timestamp = time.monotonic()
    # The first step traces the graph and waits for replay: it says nothing of the rate.
    elapsed = timestamp - self._timestamp if self._timestamp else 0.0
    self._timestamp = timestamp
    metrics.update(self._counter.increment(steps=1, walltime=elapsed))
    self._metrics = metrics
    self._logger.write(metrics)
    if (
      self._checkpointer is not None and timestamp - self._last_save > _SECONDS_BETWEEN_CHECKPOINTS
    ):
      self.save_checkpoint()

  def _next_update(self) -> tuple[tf.Tensor, dict[str, Any]]:
    """Fetches a batch and learns from it; returns the metrics' values, and the batch's numbers."""
    try:
      if self._fetch_in_graph:
        if self._cancellable_step is None:
          concrete = self._step_function.get_concrete_function()
          self._cancellable_step = self._cancellation.get_cancelable_function(concrete)
        return self._cancellable_step()
      return self._step_function(tree.map_structure(tf.convert_to_tensor, next(self._iterator)))
    except (StopIteration, tf.errors.OutOfRangeError, tf.errors.CancelledError) as error:
      raise DataExhaustedError(
        f"There is no batch for learner step {self.num_steps + 1}: the dataset has ended, or "
        "replay could not be sampled from within its timeout (is its server alive, and does "
        "anything still add to it?)."
      ) from error

  def cancel(self) -> None:
    """Makes a step that waits for its batch, and all later ones, raise DataExhaustedError.

    It is for another thread to call.
    """
    self._cancellation.start_cancel()

  def _check_finite(self, metrics: Mapping[str, float], batch: Mapping[str, Any]) -> None:
    bad = [
      n for n, v in metrics.items() if n.endswith(("loss", "gradient_norm")) and not np.isfinite(v)
    ]
    if not bad:
      return
    names = learner_data.names_of_non_finite(batch, self._strategy)
    cause, mend = (
      "Every tensor of the batch was finite.",
      "a lower learning rate or max_gradient_norm",
    )
    if names:
      cause = f"In the batch, {', '.join(names)} held NaN or infinity."
      mend = "the environment or the data mended that the batch came from"
    raise NonFiniteError(
      f"Learner step {self.num_steps}: {', '.join(f'{n} = {metrics[n]}' for n in bad)}. {cause} "
      f"The networks are no longer usable; go on from the last checkpoint, with {mend}."
    )

  # What others see.

  @property
  def num_steps(self) -> int:
    """Learner steps done, those before a restored checkpoint included."""
    return int(self._num_steps.value().numpy())

  @property
  def metrics(self) -> dict[str, float]:
    """Metrics and counts of the newest step; empty before the first."""
    return dict(getattr(self, "_metrics", {}))

  @property
  def strategy(self) -> tf.distribute.Strategy:
    """The strategy that the learner runs under."""
    return self._strategy

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks, as arrays.

    Raises:
      KeyError: if there is no network of a name; lists those that there are.
    """
    unknown = [name for name in names if name not in self._served]
    if unknown:
      raise KeyError(
        f"There are no variables named {unknown}; this learner serves {sorted(self._served)}."
      )
    return [[v.read_value().numpy() for v in self._served[name]] for name in names]

  @property
  def _served(self) -> dict[str, Sequence[tf.Variable]]:
    served = {name: network.variables for name, network in self._networks.items()}
    return {**served, "num_steps": (self._num_steps,)}

  def checkpointables(self) -> dict[str, Any]:
    """Returns everything that decides what the learner does next, as TensorFlow objects by name."""
    objects: dict[str, Any] = {"num_steps": self._num_steps}
    objects.update(self._networks)
    objects.update({f"target_{name}": network for name, network in self._target_networks.items()})
    objects.update({f"{name}_optimizer": optimizer for name, optimizer in self._optimizers.items()})
    return objects

  def save_checkpoint(self) -> Optional[str]:
    """Writes a checkpoint now if the learner has a directory; returns its path."""
    if self._checkpointer is None:
      return None
    self._last_save = time.monotonic()
    state = {"counter": self._counter.save()}
    return self._checkpointer.save(self.num_steps, self.checkpointables(), state)

  def _restore_newest(self) -> None:
    if self._checkpointer is None:
      return
    path = self._checkpointer.latest()
    if path is not None:
      state = self._checkpointer.restore(path, self.checkpointables())
      self._counter.restore(state["counter"])
