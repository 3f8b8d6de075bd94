"""An agent that acts and learns in one process, made from any agent's builder."""

from collections.abc import Mapping, Sequence
import os
import time
from typing import Any, Optional

from absl import logging
from acme import adders
from acme import core
from acme import specs
from acme import types
from acme.utils import counting
from acme.utils import loggers
import dm_env
import numpy as np
import reverb
import tensorflow as tf

from temper.agents import builder as builder_lib
from temper.agents import learner as learner_lib
from temper.agents import policies
from temper.utils import checkpointing
from temper.utils import replay_row_store
from temper.utils import replay_server
from temper.utils import replay_tables
from temper.utils import replay_watch

_REPLAY_FOLDER = "replay"


class LocalAgent(core.Actor, core.VariableSource):
  """Acts, stores experience in this process's Reverb server, and learns from it at an exact rate.

  It is an actor for `acme.EnvironmentLoop`. Whatever the configured rate, batch size and sequence
  length, neither side waits for the other: the table itself never blocks, and a learner step is
  only taken when replay holds something. Close the agent (or use it as a context manager) to write
  the last steps and stop the server.
  """

  def __init__(
    self,
    builder: builder_lib.AgentBuilder,
    environment_spec: specs.EnvironmentSpec,
    *,
    networks: Any = None,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    seed: int = 0,
    behaviour_policy: policies.PolicyChoice = policies.RAW,
    replay_checkpoint: Optional[str] = None,
    replay_scratch: Optional[str] = None,
    **learner_options: Any,
  ):
    """Initialises the agent.

    Args:
      builder: makes the parts.
      environment_spec: of a canonical environment; see `temper.utils.environments`.
      networks: the agent's networks; None makes the builder's default ones, under the strategy.
      counter: counts learner steps.
      logger: gets the learner's metrics.
      strategy: distribution strategy of the learner.
      seed: seed of initial weights, actions and the learner's draws.
      behaviour_policy: how the agent itself takes actions; RAW or BOLTZMANN.
      replay_checkpoint: checkpoint folder into which `save_replay` wrote, to start with that
        experience.
      replay_scratch: folder that replay writes into while it is saved, emptied now and removed by
        `close`; best on the disk of the checkpoints. None takes a temporary one.
      **learner_options: passed on to the builder's `make_learner`.

    Raises:
      ValueError: if the environment's specs are not canonical, the strategy cannot share a batch
        equally, or the behaviour policy does not explore.
      CheckpointError: if the replay in `replay_checkpoint` is damaged; names the folder.
    """
    builder_lib.check_environment_spec(environment_spec)
    if behaviour_policy.kind is policies.PolicyKind.MEAN:
      raise ValueError(
        "behaviour_policy is mean; it would not explore, and its actions have no density. Take raw "
        "or boltzmann."
      )
    self._builder = builder
    self._environment_spec = environment_spec
    self._behaviour_policy = behaviour_policy
    self._schedule = builder.make_update_schedule()
    init_seed, actor_seed, learner_seed = (
      int(s) for s in np.random.SeedSequence(seed).generate_state(3)
    )
    if networks is None:
      with (strategy or tf.distribute.get_strategy()).scope():
        networks = builder.make_networks(environment_spec, seed=init_seed)
    self._networks = networks

    tables = builder.make_replay_tables(environment_spec, in_process=True)
    self._replay_bytes = {
      t.name: replay_tables.estimate_bytes(t.info.signature, t.info.max_size) for t in tables
    }
    self._replay = _start_replay(tables, replay_checkpoint, replay_scratch)
    try:
      self._row_store = self._make_row_store(tables, replay_checkpoint, strategy)
      self._make_parts(
        actor_seed, counter, logger, strategy=strategy, seed=learner_seed, **learner_options
      )
    except BaseException:
      # Nobody could close an agent that was never made.
      self._replay.stop()
      raise
    self._num_updates: int = self._learner.num_steps
    # Steps and updates since replay was empty: the schedule's terms.
    self._scheduled_steps = 0
    self._scheduled_updates = 0
    self._learning_seconds = 0.0
    self._replay_ready = False
    self._closed = False

  def _make_row_store(
    self,
    tables: Sequence[reverb.Table],
    checkpoint: Optional[str],
    strategy: Optional[tf.distribute.Strategy],
  ) -> Optional[replay_row_store.RowStore]:
    """Makes what is sampled from in place of the server, if the builder has such a thing."""
    if strategy is not None and strategy.num_replicas_in_sync > 1:
      return None  # Replicas need a dataset that can be shared out.
    store = self._builder.make_row_store(self._environment_spec)
    if store is None or (checkpoint and not store.restore(checkpoint)):
      return None
    (table,) = tables
    self._replay_bytes[f"the copy of {table.name} in memory"] = self._replay_bytes[table.name]
    return store

  def _make_parts(
    self,
    actor_seed: int,
    counter: Optional[counting.Counter],
    logger: Optional[loggers.Logger],
    **learner_options: Any,
  ) -> None:
    """Makes what writes to replay and what reads from it."""
    builder = self._builder
    # The learner, which knows priorities, comes after the adder.
    self._adder = builder.make_adder(
      self._replay.client, priority=lambda: self._learner.max_priority, row_store=self._row_store
    )
    self._actor = self._make_actor(
      self._behaviour_policy,
      self._adder,
      seed=actor_seed,
      policy_version=lambda: self._num_updates,
    )
    dataset: Any
    if self._row_store is not None:
      dataset = self._row_store.draws(builder.config.batch_size, actor_seed)
    else:
      dataset = builder.make_dataset(self._replay.client, in_process=True)
    self._learner = builder.make_learner(
      self._networks,
      dataset,
      counter,
      logger,
      environment_spec=self._environment_spec,
      replay_client=self._replay.client,
      **learner_options,
    )
    self._watch = replay_watch.ServerWatch(self._replay.client, on_lost=self._learner.cancel)

  def _make_actor(
    self, choice: policies.PolicyChoice, adder: Optional[adders.Adder] = None, **options: Any
  ) -> core.Actor:
    builder, networks = self._builder, self._networks
    return builder.make_actor(
      builder.make_policy(networks),
      adder,
      choice=choice,
      critic_network=builder.make_critic(networks),
      action_spec=self._environment_spec.actions,
      **options,
    )

  @property
  def behaviour_policy(self) -> policies.PolicyChoice:
    """How the agent itself takes actions."""
    return self._behaviour_policy

  @property
  def builder(self) -> builder_lib.AgentBuilder:
    """The builder of the parts."""
    return self._builder

  @property
  def networks(self) -> Any:
    """The online networks, which the learner updates and the actor uses."""
    return self._networks

  @property
  def learner(self) -> learner_lib.Learner:
    """The learner."""
    return self._learner

  @property
  def replay_tables(self) -> Sequence[reverb.Table]:
    """The replay tables as they were declared; `replay_sizes` says what is in them."""
    return self._replay.tables

  def replay_sizes(self) -> dict[str, int]:
    """Returns the number of items in replay by table."""
    return self._replay.sizes()

  @property
  def replay_bytes(self) -> dict[str, int]:
    """Estimated bytes of each replay table once it is full; a bound, since Reverb compresses."""
    return dict(self._replay_bytes)

  @property
  def learning_seconds(self) -> float:
    """Wall time in learner steps, seconds; the rest of a loop is acting and the environment."""
    return self._learning_seconds

  def select_action(self, observation: types.NestedArray) -> types.NestedArray:
    """Returns an action for one observation."""
    return self._actor.select_action(observation)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Stores the first observation of an episode."""
    self._check_open()
    self._actor.observe_first(timestep)

  def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    """Stores an action and what it led to."""
    self._check_open()
    self._actor.observe(action, next_timestep)
    self._scheduled_steps += 1

  def update(self, wait: bool = False) -> None:
    """Does the learner steps that are due.

    Raises:
      NonFiniteError: if learning has diverged.
      DataExhaustedError: if replay cannot be sampled, since its server is gone.
    """
    del wait  # Variables are shared.
    self._check_open()
    due = self._schedule.updates_due(self._scheduled_steps) - self._scheduled_updates
    at_once = self._learner.updates_per_step
    if due < at_once or not self._can_sample():
      return
    start = time.monotonic()
    for _ in range(due // at_once):
      self._learner.step()
      self._num_updates += at_once
      self._scheduled_updates += at_once
    self._learning_seconds += time.monotonic() - start

  def _check_open(self) -> None:
    if self._closed:
      raise RuntimeError(
        "This agent is closed: it can still select actions, but not store experience or learn."
      )

  def _can_sample(self) -> bool:
    # A long sequence may not be complete when the first update is due; the updates are then made up
    # for later.
    if not self._replay_ready:
      # Asked of the server: restoring replaces its tables, and the objects that it was made from
      # stay empty.
      info = self._replay.client.server_info(timeout=10)
      self._replay_ready = all(table.current_size > 0 for table in info.values())
    return self._replay_ready

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the learner's variables by network name."""
    return self._learner.get_variables(names)

  def make_evaluation_actor(self, choice: policies.PolicyChoice, seed: int) -> core.Actor:
    """Makes an actor with the networks as they are at each moment, which stores nothing."""
    return self._make_actor(choice, seed=seed)

  def metrics(self) -> dict[str, float]:
    """Returns the newest learner step's metrics and the steps a second; empty before the first."""
    metrics = self._learner.metrics
    if metrics and self._learning_seconds:
      metrics["learner_steps_per_second"] = self._scheduled_updates / self._learning_seconds
    return metrics

  def checkpointables(self) -> dict[str, Any]:
    """Returns the TensorFlow objects that a checkpoint must hold, by name."""
    return self._learner.checkpointables()

  def state(self) -> dict[str, Any]:
    """Returns what else a checkpoint must hold, as JSON can represent it."""
    return {
      "actor": self._actor.state(),
      "learner": self._learner.state(),
      "scheduled_steps": self._scheduled_steps,
      "scheduled_updates": self._scheduled_updates,
      "batches_drawn": self._row_store.num_batches if self._row_store else 0,
    }

  def load_state(self, state: Mapping[str, Any], *, replay_restored: bool = True) -> None:
    """Takes up where `state` was taken.

    Without the replay of then the schedule starts again, and fills replay first.
    """
    self._actor.load_state(state["actor"])
    self._num_updates = self._learner.num_steps
    if replay_restored:
      self._learner.load_state(state.get("learner", {}))
      self._scheduled_steps = int(state["scheduled_steps"])
      self._scheduled_updates = int(state["scheduled_updates"])
      if self._row_store is not None:
        self._row_store.num_batches = int(state.get("batches_drawn", 0))

  def save_replay(self, directory: str) -> None:
    """Writes all experience into a checkpoint folder, the newest steps included."""
    self.flush()
    self._replay.save(os.path.join(directory, _REPLAY_FOLDER))
    if self._row_store is not None:
      self._row_store.save(directory)

  def flush(self, timeout_ms: int = 5_000) -> None:
    """Writes the steps that are not in replay yet.

    Raises:
      reverb.ReverbError: if replay does not confirm within the time, milliseconds.
    """
    self._adder.flush(timeout_ms)

  def close(self) -> None:
    """Writes the last steps and stops the replay server, within ten seconds.

    Closing twice does nothing.
    """
    if self._closed:
      return
    self._closed = True
    try:
      self.flush()
    except (reverb.ReverbError, RuntimeError) as error:
      logging.warning("Replay did not confirm the newest steps before it was closed: %s", error)
    self._watch.stop()
    self._replay.stop()

  def __enter__(self) -> "LocalAgent":
    return self

  def __exit__(self, *unused_error: Any) -> None:
    self.close()


def _start_replay(
  tables: Sequence[reverb.Table], checkpoint: Optional[str], scratch: Optional[str]
) -> replay_server.InProcessServer:
  """Starts the server; a damaged replay is refused with what can be done about its checkpoint."""
  restore_from = os.path.join(checkpoint, _REPLAY_FOLDER) if checkpoint else None
  try:
    return replay_server.start_server(tables, restore_from, scratch=scratch)
  except checkpointing.CheckpointError as error:
    raise checkpointing.CheckpointError(
      f"{error}{checkpointing.way_out(checkpoint or '')}"
    ) from error
