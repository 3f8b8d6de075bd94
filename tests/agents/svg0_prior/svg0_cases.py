"""What SVG0's tests share: batches with boundaries, fixed noise, recording optimizers."""

import collections
import copy

from acme import specs
from acme.adders import reverb as reverb_adders
from acme.agents.tf.svg0_prior import networks as acme_networks
from acme.tf import utils as tf2_utils
from learner_probes import Log
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents.svg0_prior import learning

OBSERVATIONS = {
  "arm": specs.Array((3,), np.float32, "arm"),
  "goal": specs.Array((2,), np.float32, "goal"),
}
ACTIONS = specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action")

NUM_PAIRS = 5
BATCH_SIZE = 4
NUM_SAMPLES = 6


def make_sample(seed=0, num_pairs=NUM_PAIRS, batch_size=BATCH_SIZE, log_ratio_scale=1.0):
  """Makes a batch `[B, T+1, ...]` whose second and third sequence hold an episode's end.

  Sequence 1 terminates at step 1 (its LAST step is 2, the next episode's first is 3), sequence 2 is
  truncated at step 0, sequence 3 starts with an episode, and the others lie within one.
  """
  random = np.random.RandomState(seed)
  shape = (batch_size, num_pairs + 1)

  def normal(*more):
    return random.normal(size=(*shape, *more)).astype(np.float32)

  observation = {name: normal(*spec.shape) for name, spec in OBSERVATIONS.items()}
  action = np.clip(normal(*ACTIONS.shape), -1, 1)
  reward, discount = normal(), np.ones(shape, np.float32)
  # About the density of such actions under a policy of scale one: off-policy on both sides.
  log_prob = -2.3 + log_ratio_scale * normal()
  start = np.zeros(shape, bool)
  for row, last, end_discount in ((1, 2, 0.0), (2, 1, 1.0)):
    discount[row, last - 1] = end_discount
    action[row, last], reward[row, last], discount[row, last], log_prob[row, last] = 0, 0, 0, 0
    start[row, last + 1] = True
  start[3, 0] = True
  data = reverb_adders.Step(
    observation=observation,
    action=action,
    reward=reward,
    discount=discount,
    start_of_episode=start,
    extras={"log_prob": log_prob},
  )
  return reverb.ReplaySample(info=(), data=data)


def make_dataset(num_batches=5, **options):
  """Makes a dataset of that many different batches."""
  samples = [make_sample(seed=seed, **options) for seed in range(num_batches)]
  stacked = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *samples)
  # TensorFlow 2.12 may miss the end of the thread that tunes. To free an iterator then takes up to
  # a minute.
  untuned = tf.data.Options()
  untuned.autotune.enabled = False
  return tf.data.Dataset.from_tensor_slices(stacked).with_options(untuned)


class FixedNoise:
  """A normal distribution whose n-th sample has the same noise at every step and in every row."""

  def __init__(self, distribution, noise):
    self.distribution = distribution
    self._noise = noise

  def sample(self, sample_shape=()):
    noise = self._noise[:sample_shape, None, :]
    return self.distribution.mean() + self.distribution.stddev() * noise

  def log_prob(self, action):
    return self.distribution.log_prob(action)

  def entropy(self):
    return self.distribution.entropy()

  def mean(self):
    return self.distribution.mean()

  def kl_divergence(self, other):
    return self.distribution.kl_divergence(
      other.distribution if isinstance(other, FixedNoise) else other
    )


class FixedNoisePolicy(snt.Module):
  """A policy whose samples take their noise from a table `[S, A]`."""

  def __init__(self, network, seed):
    super().__init__()
    self._network = network
    self._noise = np.random.RandomState(seed).normal(size=(64, *ACTIONS.shape)).astype(np.float32)

  def __call__(self, observation):
    return FixedNoise(self._network(observation), self._noise)


Networks = collections.namedtuple(
  "Networks", "policy critic prior target_policy target_critic target_prior"
)


def make_networks(make=acme_networks.make_network_with_prior, prior=True, seed=0):
  """Makes online and target networks that differ, with policies of fixed noise.

  The prior sees the goal alone, and all last layers get weights of a size that matters.
  """
  made = make(ACTIONS, (16, 16), (16, 16), (16,), prior_keys=["goal"])
  online = {
    "policy": FixedNoisePolicy(made["policy"], 1),
    "critic": made["critic"],
    "prior": made["prior"],
  }
  random = np.random.RandomState(seed)

  def create(network, noise_seed=None):
    inputs = [OBSERVATIONS] if network is not online["critic"] else [OBSERVATIONS, ACTIONS]
    tf2_utils.create_variables(getattr(network, "_network", network), inputs)
    return network

  for network in online.values():
    create(network)
    for variable in network.trainable_variables:
      variable.assign_add(0.3 * random.normal(size=variable.shape).astype(np.float32))
  target = {name: copy.deepcopy(network) for name, network in online.items()}
  target["policy"]._noise = FixedNoisePolicy(None, 2)._noise
  for network in target.values():
    for variable in network.variables:
      variable.assign_add(0.1 * random.normal(size=variable.shape).astype(np.float32))
  if not prior:
    online["prior"] = target["prior"] = None
  return Networks(**online, **{f"target_{name}": network for name, network in target.items()})


def copy_networks(networks):
  """Copies all networks with their weights."""
  return Networks(*(copy.deepcopy(network) for network in networks))


def make_learner(
  networks, dataset, learner_class=learning.SVG0Learner, optimizer=None, log=None, **options
):
  """Makes a learner, of this library or of like constructor, with optimizers of one kind."""
  make = optimizer or (lambda: snt.optimizers.SGD(1e-2))
  with (options.get("strategy") or tf.distribute.get_strategy()).scope():
    made = [make() for _ in range(3)]
  return learner_class(
    policy_network=networks.policy,
    critic_network=networks.critic,
    target_policy_network=networks.target_policy,
    target_critic_network=networks.target_critic,
    prior_network=networks.prior,
    target_prior_network=networks.target_prior,
    policy_optimizer=made[0],
    critic_optimizer=made[1],
    prior_optimizer=made[2],
    dataset_iterator=dataset,
    logger=log or Log(),
    checkpoint=False,
    **{"discount": 0.97, "target_update_period": 2, "num_action_samples": NUM_SAMPLES, **options},
  )


def values(networks):
  """Returns the values of all variables by a name that tells the network."""
  result = {}
  for name, network in networks._asdict().items():
    for i, variable in enumerate(network.variables if network is not None else ()):
      result[f"{name}/{i}/{variable.name}"] = variable.numpy()
  return result
