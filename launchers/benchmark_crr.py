"""The two sides of CRR's benchmarks, ours and the installed dm-acme's, on equal data and sizes."""

import copy
import dataclasses
from typing import Any, Callable, Optional

from acme import specs
from acme.adders.reverb import base as adder_base
from acme.agents.tf.crr import recurrent_learning as acme_crr
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
from acme.utils import loggers
import numpy as np
import sonnet as snt
import tensorflow as tf

from temper.agents import crr
from temper.agents import learner_data
from temper.launchers import benchmark_case


@dataclasses.dataclass(frozen=True)
class LearnerSize:
  """Sizes of one learner benchmark; every network is LayerNormMLP, LSTM and its head."""

  batch_size: int = 32
  sequence_length: int = 20
  observation_size: int = 24
  action_size: int = 6
  layer_sizes: tuple[int, ...] = (256, 256)
  lstm_size: int = 256
  vmin: float = -150.0
  vmax: float = 150.0
  num_atoms: int = 51


_SHORT = LearnerSize(batch_size=256, sequence_length=10)
# A quarter of the sequences: what differs is their length, not the arithmetic.
_LONG = LearnerSize(batch_size=8, sequence_length=80)


def make_learner_step(
  side: str, size: LearnerSize, dataset: Optional[learner_data.Dataset] = None
) -> Callable[[], None]:
  """Makes a learner of one side; returns its step function.

  Args:
    side: `OURS` or `THEIRS`.
    size: sizes of networks and batch.
    dataset: what it learns from; None: one random batch over and over.
  """
  spec = environment_spec(size)
  if side == benchmark_case.OURS:
    networks = crr.make_networks(
      spec,
      policy_layer_sizes=size.layer_sizes,
      critic_layer_sizes=size.layer_sizes,
      lstm_size=size.lstm_size,
      vmin=size.vmin,
      vmax=size.vmax,
      num_atoms=size.num_atoms,
    )
    online = (networks.policy_network, networks.critic_network)
    make: Any = crr.RCRRLearner
  else:
    online = make_acme_networks(size)
    make = acme_crr.RCRRLearner
  targets = copy.deepcopy(online)
  if dataset is None:
    dataset = _dataset(size)
  return make(*online, *targets, dataset, logger=loggers.NoOpLogger()).step


def make_acme_networks(size: LearnerSize) -> tuple[snt.RNNCore, snt.RNNCore]:
  """Makes policy and critic of dm-acme's layers, with their variables."""
  body = lambda: acme_networks.LayerNormMLP(size.layer_sizes, activate_final=True)
  policy = snt.DeepRNN(
    [
      body(),
      snt.LSTM(size.lstm_size),
      acme_networks.MultivariateNormalDiagHead(size.action_size, tanh_mean=True),
    ]
  )
  critic = acme_networks.CriticDeepRNN(
    [
      acme_networks.CriticMultiplexer(critic_network=body()),
      snt.LSTM(size.lstm_size),
      acme_networks.DiscreteValuedHead(size.vmin, size.vmax, size.num_atoms),
    ]
  )
  spec = environment_spec(size)
  tf2_utils.create_variables(policy, [spec.observations])
  tf2_utils.create_variables(critic, [spec.observations, spec.actions])
  return policy, critic


def environment_spec(size: LearnerSize) -> specs.EnvironmentSpec:
  """Returns the specs of vectors of the given sizes."""
  return specs.EnvironmentSpec(
    observations=specs.Array((size.observation_size,), np.float32),
    actions=specs.BoundedArray((size.action_size,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


def _dataset(size: LearnerSize) -> tf.data.Dataset:
  """An endless dataset of one random batch, without an episode's end inside, which only we mask."""
  random = np.random.RandomState(0)
  shape = (size.batch_size, size.sequence_length)
  normal = lambda *last: random.normal(size=(*shape, *last)).astype(np.float32)
  start = np.zeros(shape, bool)
  start[:, 0] = True
  steps = adder_base.Step(
    observation=normal(size.observation_size),
    action=np.clip(normal(size.action_size), -1, 1),
    reward=normal(),
    discount=np.ones(shape, np.float32),
    start_of_episode=start,
    extras=(),
  )
  return tf.data.Dataset.from_tensors(steps).repeat()


CASES = {
  "crr_learner": benchmark_case.Case(
    "recurrent CRR step, LayerNormMLP(256, 256) + LSTM(256), 51 atoms, batch 32, length 20",
    2.0,
    lambda side: make_learner_step(side, LearnerSize()),
    calls=2,
  ),
  "crr_learner_short": benchmark_case.Case(
    "the same, batch 256, length 10", 1.7, lambda side: make_learner_step(side, _SHORT)
  ),
  "crr_first_step": benchmark_case.Case(
    "first step of crr_learner, tracing included",
    8.0,
    lambda side: make_learner_step(side, LearnerSize()),
    first_step=True,
  ),
  "crr_first_step_long": benchmark_case.Case(
    "first step, batch 8, length 80, beside our own of crr_first_step",
    1 / 1.5,
    lambda side: make_learner_step(side, _LONG),
    first_step=True,
    beside="crr_first_step",
  ),
}
