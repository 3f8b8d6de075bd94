"""An agent that only learns, from a dataset, made from any agent's builder."""

from collections.abc import Mapping, Sequence
import time
from typing import Any, Optional

from acme import core
from acme import specs
from acme.utils import counting
from acme.utils import loggers
import numpy as np
import tensorflow as tf

from temper.agents import builder as builder_lib
from temper.agents import learner as learner_lib
from temper.agents import policies
from temper.utils import torsos


class OfflineAgent(core.VariableSource):
  """Learns from a dataset of sequences in this process, and makes actors to evaluate.

  It takes from the builder what has to do with networks and learning; replay, adder and the rate
  of updates, which an agent that acts needs, are left aside.
  """

  def __init__(
    self,
    builder: builder_lib.AgentBuilder,
    environment_spec: specs.EnvironmentSpec,
    dataset: tf.data.Dataset,
    *,
    networks: Any = None,
    observation_statistics: Optional[torsos.ObservationStatistics] = None,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    seed: int = 0,
    **learner_options: Any,
  ):
    """Initialises the agent.

    Args:
      builder: makes the parts.
      environment_spec: canonical specs, such as those of `temper.utils.environments`.
      dataset: batches of sequences, such as `temper.utils.datasets.windows.make_windows` gives. An
        agent that is to be restored needs one that begins where the checkpoint was made.
      networks: the agent's networks; None makes the builder's default ones, under the strategy.
      observation_statistics: by which the builder's default networks normalise observations.
      counter: counts learner steps.
      logger: gets the learner's metrics.
      strategy: distribution strategy of the learner.
      seed: seed of initial weights and the learner's draws.
      **learner_options: passed on to the builder's `make_learner`.

    Raises:
      ValueError: if the specs are not canonical, the dataset does not fit the learner, the strategy
        cannot share a batch equally, or statistics come with networks that are made already.
    """
    builder_lib.check_environment_spec(environment_spec)
    if networks is not None and observation_statistics is not None:
      raise ValueError(
        "Both networks and observation_statistics are given; networks that are made already keep "
        "the statistics that they were made with. Leave one of them out."
      )
    self._builder = builder
    self._action_spec = environment_spec.actions
    init_seed, learner_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2))
    if networks is None:
      options: dict[str, Any] = {}
      if observation_statistics is not None:
        # Only then: not every builder's networks can normalise.
        options["observation_statistics"] = observation_statistics
      with (strategy or tf.distribute.get_strategy()).scope():
        networks = builder.make_networks(environment_spec, seed=init_seed, **options)
    self._networks = networks
    self._learner = builder.make_learner(
      networks,
      dataset,
      counter,
      logger or loggers.NoOpLogger(),
      environment_spec=environment_spec,
      strategy=strategy,
      seed=learner_seed,
      **learner_options,
    )
    self._learning_seconds = 0.0

  @property
  def builder(self) -> builder_lib.AgentBuilder:
    """The builder of the parts."""
    return self._builder

  @property
  def networks(self) -> Any:
    """The online networks, which the learner updates and evaluation actors use."""
    return self._networks

  @property
  def learner(self) -> learner_lib.Learner:
    """The learner."""
    return self._learner

  @property
  def learning_seconds(self) -> float:
    """Wall time in learner steps, seconds, those before a restored checkpoint included."""
    return self._learning_seconds

  def step(self) -> None:
    """Does one learner step.

    Raises:
      NonFiniteError: if learning has diverged.
      DataExhaustedError: if the dataset has ended.
    """
    start = time.monotonic()
    self._learner.step()
    self._learning_seconds += time.monotonic() - start

  def metrics(self) -> dict[str, float]:
    """Returns the newest learner step's metrics and counts; empty before the first."""
    return self._learner.metrics

  def make_evaluation_actor(self, choice: policies.PolicyChoice, seed: int) -> core.Actor:
    """Makes an actor with the networks as they are at each moment, which stores nothing."""
    builder, networks = self._builder, self._networks
    return builder.make_actor(
      builder.make_policy(networks),
      choice=choice,
      critic_network=builder.make_critic(networks),
      action_spec=self._action_spec,
      seed=seed,
    )

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the learner's variables by network name."""
    return self._learner.get_variables(names)

  def checkpointables(self) -> dict[str, Any]:
    """Returns the TensorFlow objects that a checkpoint must hold, by name."""
    return self._learner.checkpointables()

  def state(self) -> dict[str, Any]:
    """Returns what else a checkpoint must hold, as JSON can represent it."""
    return {"learning_seconds": self._learning_seconds}

  def load_state(self, state: Mapping[str, Any]) -> None:
    """Takes up where `state` was taken."""
    self._learning_seconds = float(state["learning_seconds"])
