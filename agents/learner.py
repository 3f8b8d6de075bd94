"""What every learner does: fetch a batch, update under a strategy, count, log, check and save."""

import abc
from collections.abc import Mapping, Sequence
import time
from typing import Any, Optional, Union

import acme
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import learner_data
from temper.agents import learner_steps
from temper.agents import target_copies
from temper.utils import checkpointing
from temper.utils import checks
from temper.utils import optimizers as optimizer_utils
from temper.utils import prioritised_replay
from temper.utils import variable_client
from temper.utils import variables as variable_utils

_SECONDS_BETWEEN_CHECKPOINTS = 600.0


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
    target_update_period: Optional[int],
    target_update: target_copies.TargetUpdate = target_copies.TargetUpdate.BEFORE_GRADIENTS,
    max_gradient_norm: Union[None, float, Mapping[str, float]] = None,
    modules: Optional[Mapping[str, snt.Module]] = None,
    num_phases: int = 1,
    updates_per_step: int = 1,
    strategy: Optional[tf.distribute.Strategy] = None,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    seed: int = 0,
    directory: Optional[str] = None,
    priority_writer: Optional[prioritised_replay.PriorityWriter] = None,
  ):
    """Initialises the learner.

    Args:
      dataset: samples to learn from: a `tf.data.Dataset` of whole batches, which is spread over the
        replicas, or an iterator. Several replicas need a dataset, or an iterator that their
        strategy made.
      networks: online networks by name, their variables created under the strategy's scope.
      target_networks: target networks; each name is one of `networks`.
      optimizers: one for each online network that is trained, by its name.
      target_update_period: updates between copies of the online to the target networks; None: never
        here, since `_update` itself moves the targets.
      target_update: when in a step they are copied.
      max_gradient_norm: clips each network's gradient to this global norm, or the gradients of the
        networks named to their own; None leaves them.
      modules: what else learns or is served, such as a temperature, by name.
      num_phases: in how many turns `_update` differs: update number k has phase k modulo this.
      updates_per_step: updates of one `step`, each with the next batch, in one call of a compiled
        function; 1, or a multiple of `num_phases`.
      strategy: distribution strategy; None means the current one.
      counter: counts learner steps and wall time, seconds.
      logger: gets the metrics of every step.
      seed: seed of all draws of the learner.
      directory: where to keep checkpoints of the learner alone, every ten minutes; None keeps none.
      priority_writer: writes the new priorities of the items learnt from, where replay is
        prioritised.

    Raises:
      ValueError: if a number is out of its range, the dataset does not fit the strategy, or target
        and online variables do not pair.
    """
    checks.integer("updates_per_step", updates_per_step, minimum=1)
    checks.integer("target_update_period", target_update_period, minimum=1, optional=True)
    if target_update_period and target_update_period % updates_per_step:
      raise ValueError(
        f"target_update_period is {target_update_period} and updates_per_step {updates_per_step}; "
        "the period must be a multiple, since targets are copied between steps."
      )
    if not isinstance(max_gradient_norm, Mapping):
      checks.number("max_gradient_norm", max_gradient_norm, above=0, optional=True)
      max_gradient_norm = dict.fromkeys(networks, max_gradient_norm) if max_gradient_norm else {}
    self._strategy = strategy or tf.distribute.get_strategy()
    self._networks = dict(networks)
    self._target_networks = dict(target_networks)
    self._optimizers = dict(optimizers)
    self._target_copies = target_copies.TargetCopies(
      networks, target_networks, target_update_period, target_update, self._strategy
    )
    self._max_gradient_norms = dict(max_gradient_norm)
    self._modules = dict(modules or {})
    self._updates_per_step = updates_per_step
    self._priority_writer = priority_writer
    self._seed = int(seed) % (2**31)
    with self._strategy.scope():
      self._num_steps = tf.Variable(0, dtype=tf.int32, trainable=False, name="num_steps")
      for name, optimizer in self._optimizers.items():
        optimizer_utils.initialise_slots(optimizer, networks[name].trainable_variables)
    variable_utils.check_made_under(self._strategy, self.checkpointables())
    self._steps = learner_steps.CompiledSteps(
      self._replica_step,
      dataset,
      self._strategy,
      num_phases=num_phases,
      updates_per_call=updates_per_step,
    )
    self._counter = counter or counting.Counter()
    self._logger = logger or loggers.make_default_logger("learner", save_data=False)
    self._timestamp: Optional[float] = None
    self._metrics: dict[str, float] = {}
    self._checkpointer = checkpointing.Checkpointer(directory) if directory else None
    self._last_save = time.monotonic()
    self._restore_newest()

  # What a subclass implements and uses.

  @abc.abstractmethod
  def _update(
    self, sample: reverb.ReplaySample, seed: tf.Tensor, phase: int
  ) -> learner_steps.Update:
    """Updates the networks from one replica's batch.

    Runs in the context of a replica, inside a `tf.function`. It calls `_apply_gradients` for each
    network that it trains; the target networks are not its to copy.

    Args:
      sample: batch-major sample, the replica's share of the batch.
      seed: int32 `[2]`, for stateless draws; of this update and replica.
      phase: number of this update modulo the number of phases.

    Returns:
      Scalars by name, of which those whose name ends in `loss` must be finite, and the items' new
      priorities in replay if it is prioritised.
    """

  def _on_step(self, metrics: Mapping[str, float]) -> None:
    """Sees the metrics of each step; for what is to be said once. Does nothing here."""
    del metrics

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
    if name in self._max_gradient_norms:
      limit = self._max_gradient_norms[name]
      gradients = tf.clip_by_global_norm(gradients, limit, use_norm=norm)[0]
    # An optimizer counts its steps, which must wait for a gradient, thus for a batch, too.
    with tf.control_dependencies([norm]):
      self._optimizers[name].apply(gradients, variables)
    return norm

  # The step.

  def _replica_step(self, sample: reverb.ReplaySample, phase: int) -> learner_steps.Update:
    context = tf.distribute.get_replica_context()
    num_steps = self._num_steps.read_value()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    # A prime stride keeps the replicas' streams of draws apart.
    seed = tf.stack([self._seed + 1_000_003 * replica, num_steps])
    update = self._update(sample, seed, phase)
    with tf.control_dependencies(tree.flatten(sample)):  # No batch, no step.
      variable_utils.assign(self._num_steps, num_steps + 1)
    return update

  def step(self) -> None:
    """Does one learner step: one update, or `updates_per_step` of them.

    Raises:
      NonFiniteError: if a loss or a gradient is not finite; names the tensors, those of the batch
        included.
      DataExhaustedError: if there is no further batch.
    """
    # Read anew each time, since a checkpoint may have been restored from outside. It costs
    # microseconds.
    num_steps = self.num_steps
    self._target_copies.before(num_steps)
    metrics, batch = self._next_update(num_steps)
    self._check_finite(metrics, batch)
    self._target_copies.after(num_steps)
    self._on_step(metrics)
    timestamp = time.monotonic()
    # The first step traces the graph and waits for replay: it says nothing of the rate.
    elapsed = timestamp - self._timestamp if self._timestamp else 0.0
    self._timestamp = timestamp
    metrics.update(self._counter.increment(steps=self._updates_per_step, walltime=elapsed))
    # What only some updates tell, such as a delayed policy's loss, stays until it is told anew.
    self._metrics.update(metrics)
    self._logger.write(self.metrics)
    if (
      self._checkpointer is not None and timestamp - self._last_save > _SECONDS_BETWEEN_CHECKPOINTS
    ):
      self.save_checkpoint()

  def _next_update(self, num_steps: int) -> tuple[dict[str, float], Mapping[str, Any]]:
    """Fetches a batch and learns from it; returns the metrics, and the batch's numbers."""
    try:
      result = self._steps(num_steps)
    except (StopIteration, tf.errors.OutOfRangeError, tf.errors.CancelledError) as error:
      raise DataExhaustedError(
        f"There is no batch for learner step {self.num_steps + 1}: the dataset has ended, or "
        "replay could not be sampled from within its timeout (is its server alive, and does "
        "anything still add to it?)."
      ) from error
    if result.replay is not None and self._priority_writer is not None:
      self._priority_writer.write(*(x.numpy() for x in result.replay))
    return result.metrics, result.batch

  def cancel(self) -> None:
    """Makes a step that waits for its batch, and all later ones, raise DataExhaustedError.

    It is for another thread to call.
    """
    self._steps.cancel()

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
    if self._updates_per_step > 1:
      cause = "Every tensor of its last batch was finite; the ones before were not kept."
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
  def max_priority(self) -> float:
    """The largest priority in replay so far, which new items get; 1 if it is not prioritised."""
    return self._priority_writer.max_priority if self._priority_writer else 1.0

  @property
  def updates_per_step(self) -> int:
    """Updates of one `step`, which counts as so many."""
    return self._updates_per_step

  @property
  def metrics(self) -> dict[str, float]:
    """Metrics and counts of the newest step; empty before the first."""
    return dict(self._metrics)

  @property
  def strategy(self) -> tf.distribute.Strategy:
    """The strategy that the learner runs under."""
    return self._strategy

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks, as arrays.

    "num_steps" are the learner steps, and "served_at" is the time, float64 seconds since the epoch.

    Raises:
      KeyError: if there is no network of a name; lists those that there are.
    """
    # Taken before the variables are read, so that none is taken for newer than it is.
    times = {variable_client.SERVED_AT: [np.asarray(time.time(), np.float64)]}
    served = self._served
    known = sorted({*served, *times})
    unknown = [name for name in names if name not in known]
    if unknown:
      raise KeyError(f"There are no variables named {unknown}; this learner serves {known}.")
    return [
      times[name] if name in times else [v.read_value().numpy() for v in served[name]]
      for name in names
    ]

  @property
  def _served(self) -> dict[str, Sequence[tf.Variable]]:
    modules = {**self._networks, **self._modules}
    served = {name: module.variables for name, module in modules.items()}
    return {**served, "num_steps": (self._num_steps,)}

  def checkpointables(self) -> dict[str, Any]:
    """Returns everything that decides what the learner does next, as TensorFlow objects by name."""
    objects: dict[str, Any] = {"num_steps": self._num_steps}
    objects.update(self._networks)
    objects.update(self._modules)
    objects.update({f"target_{name}": network for name, network in self._target_networks.items()})
    objects.update({f"{name}_optimizer": optimizer for name, optimizer in self._optimizers.items()})
    return objects

  def state(self) -> dict[str, Any]:
    """Returns what else decides what the learner does next, as JSON can represent it."""
    return {"max_priority": self.max_priority}

  def load_state(self, state: Mapping[str, Any]) -> None:
    """Takes up where `state` was taken; what one of an older version lacks begins anew."""
    if self._priority_writer is not None:
      self._priority_writer.max_priority = float(state.get("max_priority", 1.0))

  def save_checkpoint(self) -> Optional[str]:
    """Writes a checkpoint now if the learner has a directory; returns its path."""
    if self._checkpointer is None:
      return None
    self._last_save = time.monotonic()
    state = {"counter": self._counter.save(), "learner": self.state()}
    return self._checkpointer.save(self.num_steps, self.checkpointables(), state)

  def _restore_newest(self) -> None:
    if self._checkpointer is None:
      return
    path = self._checkpointer.latest()
    if path is not None:
      state = self._checkpointer.restore(path, self.checkpointables())
      self._counter.restore(state["counter"])
      self.load_state(state.get("learner", {}))
