"""What a replica computes can be compiled by XLA, as it has to be for a TPU, and comes to the same.

XLA refuses what it has no kernel for, such as an operation on data, files or text, and shapes that
are not known beforehand. The compiler for processors stands in for that of TPUs.
"""

import crr_cases
import numpy as np
import pytest
import reverb
import sac_cases
import svg0_cases
import tensorflow as tf

from temper.agents import sac
from temper.agents.svg0_prior import networks as svg0_networks
from temper.utils import optimizers
from temper.utils import prioritised_replay
from temper.utils.temperature_config import TemperatureConfig


class _NoReplay:
  """A client that nothing is asked of."""

  server_address = "nowhere"


def _svg0():
  networks = svg0_cases.make_networks(svg0_networks.make_network_with_prior)
  sample = svg0_cases.make_sample()
  dataset = svg0_cases.make_dataset(1)
  make = lambda: optimizers.Adam(1e-3)
  learner = svg0_cases.make_learner(networks, dataset, optimizer=make, max_gradient_norm=1.0)
  return learner, sample, lambda: svg0_cases.values(networks)


def _crr():
  networks = crr_cases.make_networks(scale=3.0)
  step = crr_cases.make_step(valid=True)
  make = lambda: optimizers.Adam(1e-3)
  learner = crr_cases.make_learner(
    networks, crr_cases.as_dataset(step), make_optimizer=make, max_gradient_norm=0.5
  )
  return learner, reverb.ReplaySample(info=(), data=step), lambda: crr_cases.values(networks)


def _sac(variant, temperature):
  config = sac_cases.make_config(
    variant,
    temperature=TemperatureConfig(kind=temperature),
    prioritised_replay=prioritised_replay.PrioritisedReplay(),
  )
  networks = sac.SACBuilder(config).make_networks(sac_cases.SPEC)
  # XLA has a generator of random numbers of its own.
  networks.policy_network = sac_cases.FixedNoisePolicy(lambda x: x, (8,), (2,), seed=3)
  networks.init(sac_cases.SPEC)
  learner = sac_cases.make_learner(
    config, sac_cases.make_dataset(1), networks=networks, replay_client=_NoReplay()
  )
  return learner, sac_cases.make_sample(), lambda: sac_cases.values(learner)


_CASES = {
  "svg0": _svg0,
  "crr": _crr,
  "sac_value_network": lambda: _sac("value_network", "gradient"),
  "sac_twin_target": lambda: _sac("twin_target", "three_stage"),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_replicas_step_compiles_and_comes_to_the_same(name):
  ends = []
  for compiled in (False, True):
    learner, sample, values = _CASES[name]()
    start = values()
    step = tf.function(
      lambda sample, learner=learner: learner._replica_step(sample, 0),
      jit_compile=compiled,
      autograph=False,
    )
    update = step(tf.nest.map_structure(tf.convert_to_tensor, sample))
    ends.append((values(), update.metrics))
    assert learner.num_steps == 1
    assert any(not np.array_equal(ends[-1][0][key], start[key]) for key in start)
  (plain, metrics), (fused, fused_metrics) = ends
  for key, value in metrics.items():
    np.testing.assert_allclose(fused_metrics[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
  for key, value in plain.items():
    np.testing.assert_allclose(fused[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
