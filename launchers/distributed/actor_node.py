"""The node that acts, in one environment or in several at once, as far as it is leased steps."""

from collections.abc import Mapping
import time
from typing import Any, Optional

from absl import logging
from acme import core
from acme.utils import counting
from acme.utils import loggers
import dm_env
import launchpad as lp
import numpy as np
import reverb

from temper.agents import variable_sources
from temper.agents import vector_loop
from temper.launchers import evaluating
from temper.launchers.distributed import node_networks
from temper.launchers.distributed import step_leases
from temper.launchers.distributed.settings import RunSettings
from temper.utils import environment_wrappers
from temper.utils import replay_client

_ASK_SECONDS = 0.05
_FLUSH_MS = 3_000


class ActorNode:
  """Acts as far as the monitor leases it steps; one call of the policy acts in all environments."""

  def __init__(
    self,
    settings: RunSettings,
    actor_id: int,
    replay: reverb.Client,
    source: core.VariableSource,
    monitor: Any,
  ):
    """Makes environments and actor, with the learner's variables as they are.

    Args:
      settings: the run.
      actor_id: which of the actors.
      replay: client of replay.
      source: client of the learner or a cache.
      monitor: client of the monitor.
    """
    self._actor_id, self._monitor = actor_id, monitor
    builder, count = settings.config.builder, settings.launch.envs_per_actor
    steps = monitor.actor_started(actor_id)["steps"]
    # Actors that draw alike would explore alike; one that goes on must not repeat what it did.
    sequence = np.random.SeedSequence([node_networks.seeds(settings)[1], actor_id, steps])
    seeds = [int(seed) for seed in sequence.generate_state(count)]
    environments = [_make_environment(settings, seed) for seed in seeds]
    networks = node_networks.make_networks(settings)
    client = replay_client.adapt_client(replay)
    self._adders = [builder.make_adder(client) for _ in range(count)]
    self._actor = builder.make_vector_actor(
      builder.make_policy(networks),
      self._adders,
      variable_sources.PatientSource(source),
      choice=settings.config.behaviour_policy,
      critic_network=builder.make_critic(networks),
      action_spec=settings.environment_spec.actions,
      seed=seeds[0],
      warm_up=builder.make_share_of_warm_up(
        settings.environment_spec.actions, settings.launch.num_actors, steps
      ),
    )
    self._environments = environments
    self._loop = vector_loop.VectorLoop(
      environments,
      self._actor,
      counting.Counter(),
      loggers.NoOpLogger(),
      observers=[self._on_episode],
    )
    self._reported = 0  # Of the loop's steps.
    self._episodes: list[step_leases.Episode] = []
    self._age = step_leases.Age()
    self._mark = time.monotonic()

  def run(self) -> None:
    """Plays episodes until the monitor says that the run ends."""
    program_stops = lp.stop_event()
    try:
      while (lease := self._next_lease()) is not None and not program_stops.is_set():
        # Finished episodes are told at once.
        while lease > 0 and not self._episodes:
          rows = min(lease, len(self._environments))
          self._loop.run_round(rows)
          lease -= rows
    finally:
      for environment in self._environments:
        environment.close()
    try:
      for adder in self._adders:
        adder.flush(_FLUSH_MS)
    except (reverb.ReverbError, RuntimeError) as error:
      logging.warning("Replay did not confirm the newest steps: %s", error)
    self._monitor.actor_ended(self._actor_id)

  def _on_episode(self, result: Mapping[str, Any]) -> None:
    episode = step_leases.Episode(
      float(result["episode_return"]),
      int(result["episode_length"]),
      self._loop.num_steps - self._reported,
    )
    self._episodes.append(episode)
    self._age = self._age.or_older(result)

  def _next_lease(self) -> Optional[int]:
    """Reports what is done and waits for a lease; None at the end of the run."""
    seconds = time.monotonic() - self._mark
    program_stops = lp.stop_event()
    while not program_stops.is_set():
      report = step_leases.Report(
        steps=self._loop.num_steps - self._reported,
        seconds=seconds,
        version=self._actor.policy_version,
        age=self._age.or_older(self._actor.metrics()),
        episodes=tuple(self._episodes),
      )
      answer = self._monitor.actor_report(self._actor_id, report)
      self._reported, seconds = self._loop.num_steps, 0.0
      self._episodes, self._age = [], step_leases.Age()
      if answer["end"]:
        return None
      if answer["lease"] > 0:
        self._mark = time.monotonic()
        return int(answer["lease"])
      time.sleep(_ASK_SECONDS)
    return None


def _make_environment(settings: RunSettings, seed: int) -> dm_env.Environment:
  config = settings.config
  source = evaluating.EnvironmentSource(config.environment, config.environment_options)
  if config.fixed_start:
    return environment_wrappers.FixedStart(source.make(config.seed), config.seed)
  return source.make(seed)
