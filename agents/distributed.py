"""A Launchpad program from any agent's builder: replay, counter, learner, actors, evaluator."""

import os
from typing import Any, Callable, Optional

from absl import logging
import acme
from acme import core
from acme import specs
from acme.tf import savers
from acme.utils import counting
from acme.utils import loggers
from acme.utils import lp_utils
import dm_env
import launchpad as lp
import reverb

from temper.agents import builder as builder_lib
from temper.agents import learner_worker
from temper.agents import variable_sources
from temper.agents import vector_loop
from temper.utils import checks
from temper.utils import replay_client

EnvironmentFactory = Callable[[bool], dm_env.Environment]


class _Node(lp.CourierNode):
  """A node whose failure ends the program; Launchpad alone sees that of threads only."""

  def run(self) -> None:
    """Runs as Launchpad's, and asks for the program's end if that raises."""
    try:
      super().run()
    except Exception:
      if self._launch_context.launch_type is not lp.LaunchType.LOCAL_MULTI_THREADING:
        logging.exception("A node has failed, so the program ends.")
        lp.stop()
      raise


class DistributedAgent:
  """Describes the nodes of a distributed agent; `build` makes the Launchpad program of them."""

  def __init__(
    self,
    builder: builder_lib.AgentBuilder,
    environment_factory: EnvironmentFactory,
    network_factory: Callable[[specs.EnvironmentSpec], Any],
    *,
    num_actors: int = 1,
    num_caches: int = 0,
    envs_per_actor: int = 1,
    environment_spec: Optional[specs.EnvironmentSpec] = None,
    max_actor_steps: Optional[int] = None,
    log_every: float = 10.0,
    directory: Optional[str] = None,
    seed: int = 0,
  ):
    """Initialises the description; nothing runs yet.

    Args:
      builder: makes the parts.
      environment_factory: makes an environment; its argument says whether it is for evaluation.
      network_factory: makes the agent's networks, with variables, from the environment's specs.
      num_actors: actor nodes, at least 1.
      num_caches: nodes between learner and actors that cache variables.
      envs_per_actor: environments in which each actor acts at once, by one call of its policy.
      environment_spec: specs; None makes an environment to ask it.
      max_actor_steps: the program ends after so many environment steps of all actors; None never.
      log_every: seconds between log lines.
      directory: where the learner and the counter keep checkpoints; None keeps none.
      seed: seed of the learner's draws; the actors' are derived from it.

    Raises:
      ValueError: if a number is out of its range or the specs are not canonical.
    """
    if num_actors < 1:
      raise ValueError(f"num_actors is {num_actors}; at least one actor must add experience.")
    if num_caches < 0:
      raise ValueError(f"num_caches is {num_caches}; it must be 0 or more.")
    checks.integer("envs_per_actor", envs_per_actor, minimum=1)
    if environment_spec is None:
      environment_spec = specs.make_environment_spec(environment_factory(False))
    builder_lib.check_environment_spec(environment_spec)
    self._builder = builder
    self._environment_factory = environment_factory
    self._network_factory = network_factory
    self._num_actors = num_actors
    self._num_caches = num_caches
    self._envs_per_actor = envs_per_actor
    self._environment_spec = environment_spec
    self._max_actor_steps = max_actor_steps
    self._log_every = log_every
    self._directory = directory
    self._seed = seed

  def replay(self) -> list[reverb.Table]:
    """Makes the replay tables."""
    return self._builder.make_replay_tables(self._environment_spec)

  def counter(self) -> Any:
    """Makes the counter that all nodes share; it is saved when there is a directory."""
    counter = counting.Counter()
    if self._directory is None:
      return counter
    return savers.CheckpointingRunner(
      counter,
      directory=self._directory,
      subdirectory="counter",
      time_delta_minutes=1,
      add_uid=False,
    )

  def coordinator(self, counter: counting.Counter) -> lp_utils.StepsLimiter:
    """Makes the node that ends the program at the step limit."""
    return lp_utils.StepsLimiter(counter, self._max_actor_steps)

  def learner(
    self, replay: reverb.Client, counter: counting.Counter
  ) -> learner_worker.LearnerWorker:
    """Makes the learner; it keeps checkpoints when there is a directory."""
    directory = os.path.join(self._directory, "learner") if self._directory else None
    learner = self._builder.make_learner(
      self._network_factory(self._environment_spec),
      self._builder.make_dataset(replay),
      counting.Counter(counter, "learner"),
      self._logger("learner"),
      checkpoint=directory is not None,
      environment_spec=self._environment_spec,
      replay_client=replay,
      directory=directory,
      seed=self._seed,
    )
    return learner_worker.LearnerWorker(learner)

  def actor(
    self,
    replay: reverb.Client,
    variable_source: core.VariableSource,
    counter: counting.Counter,
    actor_id: int = 0,
  ) -> vector_loop.VectorLoop:
    """Makes an actor and its environments; it logs how old its variables are, too."""
    policy = self._builder.make_policy(self._network_factory(self._environment_spec))
    client = replay_client.adapt_client(replay)
    actor = self._builder.make_vector_actor(
      policy,
      [self._builder.make_adder(client) for _ in range(self._envs_per_actor)],
      variable_source,
      action_spec=self._environment_spec.actions,
      warm_up=self._builder.make_share_of_warm_up(self._environment_spec.actions, self._num_actors),
      # Actors that draw alike would explore alike.
      seed=self._seed + 7919 * (actor_id + 1),
    )
    return vector_loop.VectorLoop(
      [self._environment_factory(False) for _ in range(self._envs_per_actor)],
      actor,
      counting.Counter(counter, "actor"),
      self._logger("actor"),
    )

  def evaluator(
    self, variable_source: core.VariableSource, counter: counting.Counter
  ) -> acme.EnvironmentLoop:
    """Makes the node that evaluates the deterministic policy without adding to replay."""
    policy = self._builder.make_policy(self._network_factory(self._environment_spec))
    actor = self._builder.make_actor(policy, None, variable_source, deterministic_policy=True)
    environment = self._environment_factory(True)
    return acme.EnvironmentLoop(
      environment, actor, counting.Counter(counter, "evaluator"), self._logger("evaluator")
    )

  def build(self, name: str = "agent") -> lp.Program:
    """Makes the program; launch it with `launchpad.launch`."""
    program = lp.Program(name=name)
    with program.group("replay"):
      replay = program.add_node(lp.ReverbNode(self.replay))
    with program.group("counter"):
      counter = program.add_node(_Node(self.counter))
    if self._max_actor_steps:
      with program.group("coordinator"):
        program.add_node(_Node(self.coordinator, counter))
    with program.group("learner"):
      learner = program.add_node(_Node(self.learner, replay, counter))
    with program.group("evaluator"):
      program.add_node(_Node(self.evaluator, learner, counter))
    sources = [learner]
    if self._num_caches:
      with program.group("cacher"):
        make_cache = lambda: _Node(variable_sources.VariableCache, learner)
        sources = [program.add_node(make_cache()) for _ in range(self._num_caches)]
    with program.group("actor"):
      for actor_id in range(self._num_actors):
        source = sources[actor_id % len(sources)]
        program.add_node(_Node(self.actor, replay, source, counter, actor_id))
    return program

  def _logger(self, label: str) -> loggers.Logger:
    # Acme's default CSV files would go below the home directory.
    return loggers.make_default_logger(
      label, save_data=False, time_delta=self._log_every, steps_key=f"{label}_steps"
    )
