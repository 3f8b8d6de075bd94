"""What builders of agents share that learn from sequences of steps in Reverb."""

import abc
from typing import Any, Optional

from acme import adders
from acme import core
from acme import specs
from acme import types
from acme.tf import variable_utils
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import actor as actor_lib
from temper.agents import builder as builder_lib
from temper.agents import policies
from temper.utils import replay


class SequenceBuilder(builder_lib.AgentBuilder[builder_lib.Config, builder_lib.Networks]):
  """Builder of an agent whose replay holds sequences that go on over episode ends.

  Its configuration has the fields `batch_size`, `prefetch_size`, `min_replay_size`,
  `max_replay_size`, `samples_per_insert`, `replay_table_name` and `variable_update_period`.
  """

  @property
  @abc.abstractmethod
  def steps_per_sequence(self) -> int:
    """Steps of a stored sequence."""

  @property
  @abc.abstractmethod
  def period(self) -> int:
    """Steps between the starts of two stored sequences."""

  def make_update_schedule(self) -> replay.UpdateSchedule:
    """Makes the rule of learner steps; as in Acme, it waits for a whole batch of steps at least."""
    config: Any = self._config
    return replay.UpdateSchedule(
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
    if in_process:
      limiter = reverb.rate_limiters.MinSize(1)
    else:
      limiter = replay.rate_limiter(
        config.samples_per_insert, config.min_replay_size, config.batch_size, period
      )
    return [
      replay.sequence_table(
        config.replay_table_name,
        environment_spec,
        actor_lib.extras_spec(self.extras),
        steps_per_sequence,
        config.max_replay_size,
        limiter,
      )
    ]

  def make_dataset(
    self, replay_client: reverb.Client, *, in_process: bool = False
  ) -> tf.data.Dataset:
    """Makes the dataset of batches of sequences."""
    config: Any = self._config
    return replay.make_dataset(
      replay_client.server_address,
      config.replay_table_name,
      config.batch_size,
      min(config.prefetch_size, 1) if in_process else config.prefetch_size,
      replay.IN_PROCESS_TIMEOUT_MS if in_process else -1,
    )

  def make_adder(self, replay_client: reverb.Client) -> adders.Adder:
    """Makes the adder of sequences, one every `period` steps, over episode ends."""
    config: Any = self._config
    return replay.SequenceAdder(
      replay_client, self.steps_per_sequence, self.period, config.replay_table_name
    )

  def make_actor(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_source: Optional[core.VariableSource] = None,
    deterministic_policy: bool = False,
    *,
    choice: Optional[policies.PolicyChoice] = None,
    critic_network: Optional[snt.Module] = None,
    action_spec: Optional[types.NestedSpec] = None,
    **kwargs: Any,
  ) -> actor_lib.Actor:
    """Makes an actor; one with a source of variables starts from those and knows their version."""
    choice = policies.choice_of(deterministic_policy, choice)
    policy = choice.make(policy_network, critic_network, action_spec)
    client = None
    if variable_source is not None:
      version = tf.Variable(0, dtype=tf.int32, trainable=False)
      variables = choice.variables(policy_network, critic_network)
      config: Any = self._config
      client = variable_utils.VariableClient(
        client=variable_source,
        variables={**variables, "num_steps": [version]},
        update_period=config.variable_update_period,
      )
      client.update_and_wait()
      kwargs.setdefault("policy_version", lambda: int(version.numpy()))
    return actor_lib.Actor(policy, adder, client, extras=self.extras, **kwargs)
