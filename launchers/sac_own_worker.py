"""Does SAC's work as Temper does it, so many units at a time: our side of benchmark_sac.

python -m temper.launchers.sac_own_worker '{"side": "temper", "work": "updates", ...}'
"""

import atexit
from collections.abc import Sequence
import io
import sys
import tempfile
from typing import Any

from temper.launchers import sac_peer_worker as shared
from temper.launchers.sac_peer_worker import DoUnit

OURS = "temper"


def make_updates(work: str) -> DoUnit:
  """Returns a function that does a unit of updates on random transitions that are in memory.

  Args:
    work: UPDATES or VALUE_NETWORK.
  """
  from acme import specs
  from acme.utils import loggers
  import numpy as np

  from temper.agents import sac

  variants = {
    shared.UPDATES: sac.SACVariant.TWIN_TARGET,
    shared.VALUE_NETWORK: sac.SACVariant.VALUE_NETWORK,
  }
  builder = sac.SACBuilder(
    sac.SACConfig(
      variant=variants[work],
      # The peers' updates of a call are one compiled loop too, or as many as were asked for.
      updates_per_call=10,
      batch_size=shared.BATCH_SIZE,
      policy_layer_sizes=shared.LAYER_SIZES,
      critic_layer_sizes=shared.LAYER_SIZES,
    )
  )
  environment_spec = specs.EnvironmentSpec(
    observations=specs.Array((shared.OBSERVATION_SIZE,), np.float32),
    actions=specs.BoundedArray((shared.ACTION_SIZE,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )
  learner = builder.make_learner(
    builder.make_networks(environment_spec),
    _random_batches(),
    logger=loggers.NoOpLogger(),
    environment_spec=environment_spec,
  )
  done = learner.num_steps

  def do_unit() -> None:
    nonlocal done
    done += shared.UNITS[shared.UPDATES]
    while learner.num_steps < done:
      learner.step()

  return do_unit


def make_loop() -> DoUnit:
  """Returns a function that trains for a unit of steps, as `temper train` does."""
  from acme import specs

  from temper.agents import local
  from temper.agents import sac
  from temper.launchers import training
  from temper.utils import environments
  from temper.utils import progress
  from temper.utils import run_loggers

  environment = environments.make_environment(f"gym:{shared.ENVIRONMENT}", seed=0)
  builder = sac.SACBuilder(
    sac.SACConfig(
      batch_size=shared.BATCH_SIZE,
      policy_layer_sizes=shared.LAYER_SIZES,
      critic_layer_sizes=shared.LAYER_SIZES,
      warm_up_steps=shared.UNIFORM_STEPS,
      min_replay_size=shared.UNIFORM_STEPS,
      max_replay_size=shared.TRANSITIONS,
    )
  )
  agent = local.LocalAgent(builder, specs.make_environment_spec(environment))
  logs = tempfile.TemporaryDirectory()
  log = run_loggers.RunLog(logs.name, resume_step=0)
  for close in (logs.cleanup, log.close, agent.close):  # The last one is the first to be closed.
    atexit.register(close)
  state = training.RunState()
  nothing = lambda: None

  def do_unit() -> None:
    training.Trainer(
      agent,
      environment,
      state=state,
      schedule=training.Schedule(
        total=state.steps + shared.UNITS[shared.LOOP],
        log_every=200,
        evaluate_every=0,
        checkpoint_every=0,
      ),
      log=log,
      progress=progress.Progress(shared.UNITS[shared.LOOP], stream=io.StringIO()),
      check_stop=nothing,
      evaluate=nothing,
      save=nothing,
    ).run()

  while state.steps < shared.UNIFORM_STEPS:
    do_unit()
  return do_unit


def _random_batches() -> Any:
  """Returns an endless dataset of batches, drawn uniformly from transitions in memory."""
  from acme import types
  import numpy as np
  import tensorflow as tf

  random, count = np.random.default_rng(0), shared.TRANSITIONS
  normal = lambda *shape: tf.constant(random.standard_normal((count, *shape), np.float32))
  transitions = types.Transition(
    observation=normal(shared.OBSERVATION_SIZE),
    action=tf.tanh(normal(shared.ACTION_SIZE)),
    reward=normal(),
    discount=tf.ones(count),
    next_observation=normal(shared.OBSERVATION_SIZE),
  )

  def draw(seed: tf.Tensor) -> types.Transition:
    seeds = tf.stack([seed, tf.zeros_like(seed)])
    rows = tf.random.stateless_uniform([shared.BATCH_SIZE], seeds, maxval=count, dtype=tf.int32)
    return tf.nest.map_structure(lambda column: tf.gather(column, rows), transitions)

  draw = tf.autograph.experimental.do_not_convert(draw)
  return tf.data.Dataset.random(seed=0).map(draw).prefetch(1)


def main(argv: Sequence[str]) -> None:
  """Reads the job and serves it."""
  job = shared.Job.from_text(argv[1])
  answers = shared.take_output()
  shared.restrict(job)

  from temper.launchers import command_line
  from temper.utils import startup

  startup.quiet()
  command_line.set_threads(job.threads)
  do_unit = make_loop() if job.work == shared.LOOP else make_updates(job.work)
  versions = {"temper-rl": startup.version(), **startup.stack_versions()}
  shared.serve(do_unit, versions, sys.stdin, answers)


if __name__ == "__main__":
  main(sys.argv)
