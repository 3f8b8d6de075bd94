"""What builders of agents share that learn from sequences of steps in Reverb."""

import abc
from collections.abc import Callable
from typing import Any, Optional

from acme import adders
from acme import specs
import reverb
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import builder as builder_lib
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import replay_datasets
from temper.utils import replay_rates
from temper.utils import replay_row_store
from temper.utils import replay_sequence_adder
from temper.utils import replay_tables


class SequenceBuilder(builder_lib.AgentBuilder[builder_lib.Config, builder_lib.Networks]):
  """Builder of an agent whose replay holds sequences that go on over episode ends.

  Its configuration has the fields `batch_size`, `prefetch_size`, `min_replay_size`,
  `max_replay_size`, `samples_per_insert`, `replay_table_name`, `variable_update_seconds`
  and `variable_update_period`.
  """

  @property
  @abc.abstractmethod
  def steps_per_sequence(self) -> int:
    """Steps of a stored sequence."""

  @property
  @abc.abstractmethod
  def period(self) -> int:
    """Steps between the starts of two stored sequences."""

  @property
  def prioritised_replay(self) -> Optional[prioritised_lib.PrioritisedReplay]:
    """How replay is prioritised; None, as here: not at all."""
    return None

  def make_update_schedule(self) -> replay_rates.UpdateSchedule:
    """Makes the rule of learner steps; as in Acme, it waits for a whole batch of steps at least."""
    config: Any = self._config
    return replay_rates.UpdateSchedule(
      config.samples_per_insert, config.batch_size, max(config.batch_size, config.min_replay_size)
    )

  def make_replay_tables(
    self, environment_spec: specs.EnvironmentSpec, *, in_process: bool = False
  ) -> list[reverb.Table]:
    """Makes the table of sequences."""
    return self._make_tables(
      environment_spec, self.steps_per_sequence, self.period, in_process=in_process
    )

  def _make_tables(
    self,
    environment_spec: specs.EnvironmentSpec,
    steps_per_sequence: int,
    period: int,
    *,
    in_process: bool,
  ) -> list[reverb.Table]:
    builder_lib.check_environment_spec(environment_spec)
    config: Any = self._config
    limiter = replay_rates.rate_limiter(
      config.samples_per_insert,
      config.min_replay_size,
      config.batch_size,
      period=period,
      in_process=in_process,
    )
    prioritised = self.prioritised_replay
    return [
      replay_tables.sequence_table(
        config.replay_table_name,
        environment_spec,
        actor_lib.extras_spec(self.extras),
        steps_per_sequence,
        config.max_replay_size,
        limiter,
        prioritised.priority_exponent if prioritised else None,
      )
    ]

  def make_dataset(
    self, replay_client: reverb.Client, *, in_process: bool = False
  ) -> tf.data.Dataset:
    """Makes the dataset of batches of sequences."""
    config: Any = self._config
    return replay_datasets.make_dataset(
      replay_client.server_address,
      config.replay_table_name,
      config.batch_size,
      *replay_datasets.depth(config.prefetch_size, in_process=in_process),
    )

  def make_adder(
    self,
    replay_client: reverb.Client,
    *,
    priority: Optional[Callable[[], float]] = None,
    row_store: Optional[replay_row_store.RowStore] = None,
  ) -> adders.Adder:
    """Makes the adder of sequences, one every `period` steps, over episode ends."""
    del row_store  # Sequences have none.
    config: Any = self._config
    return replay_sequence_adder.SequenceAdder(
      replay_client,
      self.steps_per_sequence,
      self.period,
      config.replay_table_name,
      priority if self.prioritised_replay else None,
    )
