"""The two sides of SVG0's benchmarks, ours and the installed dm-acme's, on equal data and sizes."""

import copy
import dataclasses
from types import ModuleType
from typing import Any, Callable, Optional

from acme import specs
from acme.adders.reverb import base as adder_base
from acme.agents.tf import svg0_prior as acme_svg0
from acme.agents.tf.svg0_prior import acting as acme_acting
from acme.utils import loggers
import numpy as np
import reverb
import tensorflow as tf
import tree

from temper.agents import svg0_prior
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.launchers.benchmark_case import Case

_MODULES = {OURS: svg0_prior, THEIRS: acme_svg0}


@dataclasses.dataclass(frozen=True)
class LearnerSize:
  """Sizes of one learner benchmark; the prior is learned with when it has layers."""

  batch_size: int = 256
  sequence_length: int = 10
  observation_size: int = 24
  action_size: int = 6
  num_action_samples: int = 10
  policy_layer_sizes: tuple[int, ...] = (256, 256, 256)
  critic_layer_sizes: tuple[int, ...] = (512, 512, 256)
  prior_layer_sizes: Optional[tuple[int, ...]] = None


def make_learner_step(side: str, size: LearnerSize) -> Callable[[], None]:
  """Makes a learner of one side on a fixed random batch; returns its step function."""
  module = _MODULES[side]
  networks = _make_networks(module, size)
  targets = copy.deepcopy(networks)
  spec = _environment_spec(size)
  networks.init(spec)
  targets.init(spec)
  priors = {}
  if size.prior_layer_sizes is not None:
    priors = dict(prior_network=networks.prior_network, target_prior_network=targets.prior_network)
  learner = module.SVG0Learner(
    policy_network=networks.policy_network,
    critic_network=networks.critic_network,
    target_policy_network=targets.policy_network,
    target_critic_network=targets.critic_network,
    discount=0.99,
    target_update_period=100,
    dataset_iterator=iter(_dataset(size)),
    num_action_samples=size.num_action_samples,
    logger=loggers.NoOpLogger(),
    checkpoint=False,
    **priors,
  )
  return learner.step


def make_actor_step(side: str, size: LearnerSize) -> Callable[[], Any]:
  """Makes an actor of one side; returns a function that selects one action with its log density."""
  networks = _make_networks(_MODULES[side], size)
  spec = _environment_spec(size)
  networks.init(spec)
  make_actor = svg0_prior.SVG0Actor if side == OURS else acme_acting.SVG0Actor
  actor = make_actor(networks.policy_network)
  observation = tree.map_structure(lambda s: np.zeros(s.shape, s.dtype), spec.observations)
  return lambda: actor.select_action(observation)


def _make_networks(module: ModuleType, size: LearnerSize) -> Any:
  action_spec = _environment_spec(size).actions
  if size.prior_layer_sizes is None:
    made = module.make_default_networks(
      action_spec, size.policy_layer_sizes, size.critic_layer_sizes
    )
  else:
    made = module.make_network_with_prior(
      action_spec,
      size.policy_layer_sizes,
      size.critic_layer_sizes,
      size.prior_layer_sizes,
      policy_keys=["state"],
      prior_keys=["state"],
    )
  return svg0_prior.SVG0Networks(made["policy"], made["critic"], made.get("prior"))


def _environment_spec(size: LearnerSize) -> specs.EnvironmentSpec:
  vector = specs.Array((size.observation_size,), np.float32)
  # The networks with a prior select entries of a dict.
  return specs.EnvironmentSpec(
    observations=vector if size.prior_layer_sizes is None else {"state": vector},
    actions=specs.BoundedArray((size.action_size,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


def _dataset(size: LearnerSize) -> tf.data.Dataset:
  """An endless dataset of one random batch, with a tenth of the steps starting an episode."""
  random = np.random.RandomState(0)
  shape = (size.batch_size, size.sequence_length + 1)
  normal = lambda *last: random.normal(size=(*shape, *last)).astype(np.float32)
  vector = normal(size.observation_size)
  data = adder_base.Step(
    observation=vector if size.prior_layer_sizes is None else {"state": vector},
    action=np.clip(normal(size.action_size), -1, 1),
    reward=normal(),
    discount=np.ones(shape, np.float32),
    start_of_episode=random.uniform(size=shape) < 0.1,
    extras={"log_prob": normal()},
  )
  info = tree.map_structure(
    lambda _: np.zeros(size.batch_size, np.float32), reverb.SampleInfo.zeros()
  )
  return tf.data.Dataset.from_tensors(reverb.ReplaySample(info=info, data=data)).repeat()


_SMALL = LearnerSize(batch_size=32, policy_layer_sizes=(64, 64), critic_layer_sizes=(64, 64))
_PRIOR = LearnerSize(prior_layer_sizes=(200, 100))
# As many rows as 256 sequences of 10: what differs is the length of the sequence, not the
# arithmetic.
_LONG = dataclasses.replace(_PRIOR, batch_size=32, sequence_length=80)

CASES = {
  "learner_default": Case(
    "learner step, default networks, batch 256, 10+1, no prior",
    1.5,
    lambda side: make_learner_step(side, LearnerSize()),
  ),
  "learner_prior": Case("the same with a prior", 1.0, lambda side: make_learner_step(side, _PRIOR)),
  "learner_small": Case(
    "learner step, 64-64 networks, batch 32",
    2.5,
    lambda side: make_learner_step(side, _SMALL),
    calls=20,
    threads=1,
  ),
  "actor": Case(
    "one action with log density, batch 1",
    25.0,
    lambda side: make_actor_step(side, LearnerSize()),
    calls=100,
    threads=1,
  ),
  "first_step": Case(
    "first learner step, tracing included, with prior, batch 256, 10+1",
    8.0,
    lambda side: make_learner_step(side, _PRIOR),
    first_step=True,
  ),
  "first_step_long": Case(
    "first learner step with prior, batch 32, 80+1, beside our own of first_step",
    1 / 1.5,
    lambda side: make_learner_step(side, _LONG),
    first_step=True,
    beside="first_step",
  ),
}
