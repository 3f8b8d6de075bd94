"""The seeds and the networks that nodes of a distributed run have in common."""

from typing import Any

import numpy as np

from temper.launchers.distributed.settings import RunSettings


def seeds(settings: RunSettings) -> tuple[int, int, int]:
  """Returns the seeds of initial weights, actors and learner: those of a run of one process."""
  init, actor, learner = np.random.SeedSequence(settings.config.seed).generate_state(3)
  return int(init), int(actor), int(learner)


def make_networks(settings: RunSettings) -> Any:
  """Makes the agent's networks, with the weights that a run of one process begins with."""
  config = settings.config
  if config.networks_factory is not None:
    return config.networks_factory(settings.environment_spec)
  return config.builder.make_networks(settings.environment_spec, seed=seeds(settings)[0])
