"""Two replicas that learn from a Reverb server: as one device does from the same samples.

Reverb's dataset has a kernel for processors only, while replicas may be elsewhere: it is read
outside of them, and its batches are shared out.
"""

import numpy as np
import pytest
import reverb
import sac_cases
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents import sac
from temper.agents import svg0_prior
from temper.agents.svg0_prior import networks as svg0_networks
from temper.utils import environments
from temper.utils import fakes
from temper.utils import optimizers
from temper.utils import replay_client
from temper.utils import strategies

_STEPS = 4
_BATCH_SIZE = 4


def _several():
  """Returns a strategy over two GPUs where there are some, else over two processors."""
  device_type = "GPU" if len(tf.config.list_physical_devices("GPU")) > 1 else "CPU"
  return snt.distribute.Replicator([f"{device_type}:0", f"{device_type}:1"])


def _fill(builder, spec, client, extras, steps):
  """Writes experience of a fixed seed by the agent's own adder."""
  environment = environments.wrap(
    fakes.FakeEnvironment(spec.observations, spec.actions, episode_length=7, seed=1)
  )
  random = np.random.default_rng(0)
  adder = builder.make_adder(client)
  timestep = environment.reset()
  adder.add_first(timestep)
  for _ in range(steps):
    if timestep.last():
      timestep = environment.reset()
      adder.add_first(timestep)
    action = random.uniform(-1, 1, spec.actions.shape).astype(np.float32)
    timestep = environment.step(action)
    adder.add(action, timestep, extras(random))
  adder.flush()


def _dataset(builder, spec, extras, steps):
  """Returns the builder's dataset, read in the order of writing, and the server that feeds it."""
  (table,) = builder.make_replay_tables(spec, in_process=True)
  # Each item is sampled once, the oldest first, so that two servers give the same batches.
  ordered = reverb.Table(
    table.name,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=1_000,
    max_times_sampled=1,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=table.info.signature,
  )
  server = reverb.Server([ordered], port=None)
  client = replay_client.Client(f"localhost:{server.port}")
  _fill(builder, spec, client, extras, steps)
  return builder.make_dataset(client, in_process=True), server


def _svg0(strategy):
  config = svg0_prior.SVG0Config(batch_size=_BATCH_SIZE, sequence_length=svg0_cases.NUM_PAIRS)
  builder = svg0_prior.SVG0Builder(config)
  spec = sac_cases.SPEC._replace(observations=svg0_cases.OBSERVATIONS, actions=svg0_cases.ACTIONS)
  extras = lambda random: {
    "log_prob": np.float32(random.normal() - 2.3),
    "policy_version": np.int32(0),
  }
  dataset, server = _dataset(builder, spec, extras, 2 * svg0_cases.NUM_PAIRS * _BATCH_SIZE * _STEPS)
  with strategy.scope():
    networks = svg0_cases.make_networks(svg0_networks.make_network_with_prior)
  learner = svg0_cases.make_learner(
    networks, dataset, optimizer=lambda: optimizers.Adam(1e-2), strategy=strategy
  )
  return learner, lambda: svg0_cases.values(networks), server


def _sac(strategy):
  config = sac_cases.make_config("twin_target", batch_size=_BATCH_SIZE)
  builder = sac.SACBuilder(config)
  extras = lambda random: {"policy_version": np.int32(0)}
  dataset, server = _dataset(builder, sac_cases.SPEC, extras, 2 * _BATCH_SIZE * _STEPS)
  with strategy.scope():
    networks = builder.make_networks(sac_cases.SPEC)
    # Replicas draw differently, as they must; here they are not to.
    networks.policy_network = sac_cases.FixedNoisePolicy(lambda x: x, (8,), (2,), seed=3)
    networks.init(sac_cases.SPEC)
  learner = sac_cases.make_learner(config, dataset, networks=networks, strategy=strategy)
  return learner, lambda: sac_cases.values(learner), server


@pytest.mark.parametrize("make", [_svg0, _sac])
def test_replicas_learn_from_replay_as_one_device_does(make):
  ends = []
  for strategy in (strategies.make_strategy("one_device"), _several()):
    learner, values, server = make(strategy)
    start = values()
    for _ in range(_STEPS):
      learner.step()
    ends.append(values())
    assert any(not np.array_equal(ends[-1][name], start[name]) for name in start)
    assert learner.strategy is strategy
    server.stop()
  one, two = ends
  for name, value in one.items():
    np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_each_item_of_a_batch_reaches_one_replica():
  strategy = _several()
  learner, _, server = _sac(strategy)
  fetch = tf.function(lambda: next(learner._steps._iterator), autograph=False)
  for _ in range(2):
    shares = strategy.experimental_local_results(fetch().info.key)
    assert [share.shape[0] for share in shares] == [_BATCH_SIZE // 2] * 2
    assert len(set(np.concatenate(shares).tolist())) == _BATCH_SIZE
  server.stop()
