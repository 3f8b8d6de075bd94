"""What CRR's tests share: sequences, recurrent networks of fixed noise, runs that are recorded."""

import collections
import copy
import enum

from acme import specs
from acme.adders import reverb as reverb_adders
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
from learner_probes import Log
from learner_probes import RecordingOptimizer
from learner_probes import untuned
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents.crr import learning
from temper.agents.crr import networks as networks_lib
from temper.utils import heads
from temper.utils import recurrent
from temper.utils import torsos

OBSERVATION = specs.Array((3,), np.float32, "observation")
ACTION = specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action")

LENGTH = 4
BATCH_SIZE = 3
V_MIN, V_MAX, NUM_ATOMS = -3.0, 3.0, 11


def environment_spec(observation=OBSERVATION, action=ACTION):
  """Makes the spec of an environment with such observations and actions."""
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(
    observation, action, scalar, specs.BoundedArray((), np.float32, 0, 1)
  )


Networks = collections.namedtuple("Networks", "policy critic target_policy target_critic")


# Data.


def make_step(seed=0, length=LENGTH, batch_size=BATCH_SIZE, valid=False):
  """Makes a batch `[B, T, ...]` of steps within one episode each; one of them terminates.

  Args:
    seed: of the numbers.
    length: T.
    batch_size: B.
    valid: whether the extras hold a `valid_mask`, all true.
  """
  random = np.random.RandomState(seed)
  shape = (batch_size, length)

  def normal(*more):
    return random.normal(size=(*shape, *more)).astype(np.float32)

  discount = np.ones(shape, np.float32)
  discount[0, -2] = 0.0
  return reverb_adders.Step(
    observation=normal(*OBSERVATION.shape),
    action=np.clip(0.5 * normal(*ACTION.shape), -1, 1),
    reward=normal(),
    discount=discount,
    start_of_episode=np.zeros(shape, bool),
    extras={"valid_mask": np.ones(shape, bool)} if valid else (),
  )


def as_dataset(*steps, bare=False):
  """Makes a dataset of these batches: replay samples, or bare steps as dm-acme reads them."""
  if not bare:
    steps = [reverb.ReplaySample(info=(), data=step) for step in steps]
  stacked = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *steps)
  return tf.data.Dataset.from_tensor_slices(stacked).with_options(untuned())


def cut(step, begin, end):
  """Cuts rows `begin` to `end - 1` out of all sequences."""
  return tf.nest.map_structure(lambda x: x[:, begin:end].copy(), step)


def edit(step, field, index, value):
  """Returns a copy of a batch with `field[index] = value`; extras are named by their key."""
  extra = field not in step._fields
  array = (step.extras[field] if extra else getattr(step, field)).copy()
  array[index] = value
  changed = {"extras": {**step.extras, field: array}} if extra else {field: array}
  return step._replace(**changed)


def scramble(step, rows, seed=99):
  """Replaces all that rows (a slice of time) hold, but not their starts and masks."""
  other = make_step(seed, step.reward.shape[1], step.reward.shape[0])
  for name in ("observation", "action", "reward", "discount"):
    step = edit(step, name, (slice(None), rows), getattr(other, name)[:, rows])
  return step


# Networks.


class FixedNoise:
  """A distribution whose n-th sample has the same noise in every row, whatever the seed."""

  def __init__(self, distribution, noise):
    self.distribution = distribution
    self._noise = noise

  @property
  def batch_shape(self):
    return self.distribution.batch_shape

  @property
  def event_shape(self):
    return self.distribution.event_shape

  @property
  def dtype(self):
    return self.distribution.dtype

  def sample(self, sample_shape=(), seed=None):
    del seed
    (count,) = np.atleast_1d(sample_shape)
    return self.mean() + self.distribution.stddev() * self._noise[:count, None, :]

  def log_prob(self, action):
    return self.distribution.log_prob(action)

  def mean(self):
    return self.distribution.mean()


class FixedNoiseHead(snt.Module):
  """Takes the samples of a distribution from a table `[S, A]`."""

  def __init__(self, seed):
    super().__init__()
    noise = np.random.RandomState(seed).normal(size=(16, *ACTION.shape))
    self._noise = noise.astype(np.float32)

  def __call__(self, distribution):
    return FixedNoise(distribution, self._noise)


class Scale(snt.Module):
  """Multiplies by a constant, so that gradients are large."""

  def __init__(self, factor):
    super().__init__()
    self._factor = factor

  def __call__(self, x):
    return self._factor * x


class Opaque(snt.RNNCore):
  """A core that does not tell what it is made of; the critic's takes an action too."""

  def __init__(self, core):
    super().__init__()
    self._core = core

  def __call__(self, *inputs_and_state):
    return self._core(*inputs_and_state)

  def initial_state(self, batch_size, **unused):
    return self._core.initial_state(batch_size)


class Kind(enum.Enum):
  """How networks are put together.

  OWN: this library's, which tell the learner their parts.
  DEEP_RNN: of Sonnet's and Acme's layers, as users of dm-acme write them.
  OPAQUE: the same, in a core that does not tell what it is made of.
  """

  OWN = "own"
  DEEP_RNN = "deep_rnn"
  OPAQUE = "opaque"


def _own_pair(core, scale, noise_seed, width):
  """Makes a policy and a critic of this library."""
  policy_head = heads.GaussianHead(ACTION.shape, seed=0, init_scale=0.15, min_scale=0.05)
  critic_head = heads.ValueDistributionHead(V_MIN, V_MAX, NUM_ATOMS, seed=0)
  torso = lambda: torsos.make_observation_torso(OBSERVATION, seed=0)
  policy = networks_lib.RecurrentPolicy(
    torso(), (width,), core(width), _with_noise(policy_head, noise_seed), seed=0
  )
  critic = networks_lib.RecurrentCritic(
    torso(), (width,), ACTION, core(width), snt.Sequential([Scale(scale), critic_head]), seed=0
  )
  return policy, critic


def _deep_rnn_pair(core, scale, noise_seed, width):
  """Makes a policy and a critic as dm-acme's users do."""
  cores = lambda: [] if core is stateless else [core(width)]
  torso = lambda: [snt.Linear(width), tf.math.tanh]
  policy_head = acme_networks.MultivariateNormalDiagHead(
    *ACTION.shape, init_scale=0.15, min_scale=0.05
  )
  critic_head = [Scale(scale), acme_networks.DiscreteValuedHead(V_MIN, V_MAX, NUM_ATOMS)]
  policy = snt.DeepRNN([*torso(), *cores(), _with_noise(policy_head, noise_seed)])
  critic = acme_networks.CriticDeepRNN(
    [acme_networks.CriticMultiplexer(), *torso(), *cores(), *critic_head]
  )
  return policy, critic


def _with_noise(head, seed):
  return head if seed is None else snt.Sequential([head, FixedNoiseHead(seed)])


def own_lstm(width):
  """Makes this library's LSTM."""
  return recurrent.LSTM(width, seed=0)


def stateless(width):
  """Makes the core of feed-forward networks."""
  del width
  return recurrent.Stateless()


def make_networks(kind=Kind.OWN, core=own_lstm, scale=1.0, noise=True, width=6, seed=0):
  """Makes online and target networks that differ, with weights of a size that matters.

  Args:
    kind: how they are put together.
    core: makes the recurrent core from its width.
    scale: factor of the critics' last hidden layer.
    noise: whether policies draw fixed noise, those of the target being others.
    width: of all layers.
    seed: of the weights.
  """
  random = np.random.RandomState(seed)
  made = []
  for noise_seed in (1, 2):
    make_pair = _own_pair if kind is Kind.OWN else _deep_rnn_pair
    pair = make_pair(core, scale, noise_seed if noise else None, width)
    for network, inputs in zip(pair, ([OBSERVATION], [OBSERVATION, ACTION])):
      network = Opaque(network) if kind is Kind.OPAQUE else network
      tf2_utils.create_variables(network, inputs)
      for variable in network.trainable_variables:
        # Drawn here, so that equal seeds give equal weights wherever the variables are made.
        variable.assign(0.4 * random.normal(size=variable.shape).astype(np.float32))
      made.append(network)
  return Networks(*made)


def copy_networks(networks):
  """Copies all networks with their weights."""
  return Networks(*(copy.deepcopy(network) for network in networks))


def values(networks):
  """Returns the values of all variables by a name that tells the network."""
  return {
    f"{name}/{i}/{variable.name}": variable.numpy()
    for name, network in networks._asdict().items()
    for i, variable in enumerate(network.variables)
  }


# Runs.


def make_learner(networks, dataset, learner=None, *, log=None, make_optimizer=None, **options):
  """Makes a learner of this library, or of a class of like constructor."""
  make_optimizer = make_optimizer or (lambda: snt.optimizers.SGD(1e-3))
  with (options.get("accelerator_strategy") or tf.distribute.get_strategy()).scope():
    made = [make_optimizer() for _ in range(2)]
  return (learner or learning.RCRRLearner)(
    *networks,
    dataset,
    policy_optimizer=made[0],
    critic_optimizer=made[1],
    logger=log or Log(),
    **{"discount": 0.97, "target_update_period": 2, **options},
  )


def run(networks, dataset, steps=1, learner=None, make_inner=None, **options):
  """Runs some steps; returns for each the metrics, gradients and all weights, by name."""
  made = []

  def make_optimizer():
    made.append(RecordingOptimizer((make_inner or (lambda: snt.optimizers.SGD(1e-3)))()))
    return made[-1]

  log = Log()
  instance = make_learner(
    networks, dataset, learner, log=log, make_optimizer=make_optimizer, **options
  )
  history = []
  for _ in range(steps):
    instance.step()
    history.append({**log.rows[-1], **_gradients(networks, made), **values(networks)})
  return history


class Prober:
  """Gives losses and gradients of batches, unclipped, while no weight moves.

  Batches share a learner where its options are equal.
  """

  def __init__(self, networks):
    self._networks = networks
    self._probes = {}

  def __call__(self, step, weights=None, times_length=False, **options):
    """Returns the losses and the gradients, by name.

    Args:
      step: the batch.
      weights: networks of the same kind, whose weights are to be used.
      times_length: multiplies by T, which is what losses are divided by, so that outcomes of
        sequences of unlike length compare. What is burnt in does not count.
      **options: of the learner. By default targets use two samples, so that their average takes
        part.
    """
    options = {"num_action_samples_td_learning": 2, "clipping": False, **options}
    key = repr(sorted(options.items()))
    if key not in self._probes:
      self._probes[key] = _Probe(copy_networks(self._networks), options)
    result = self._probes[key](weights or self._networks, step)
    length = step.reward.shape[1] - options.get("burn_in_length", 0)
    return {k: (length if times_length else 1) * v for k, v in result.items()}


class _Probe:
  """One learner whose weights and batch are set before each step."""

  def __init__(self, networks, options):
    self._networks, self._sample = networks, None
    self._optimizers, self._log = [], Log()
    self._learner = make_learner(
      networks,
      iter(lambda: self._sample, None),
      make_optimizer=self._make_optimizer,
      log=self._log,
      **options,
    )

  def _make_optimizer(self):
    self._optimizers.append(RecordingOptimizer(snt.optimizers.SGD(0.0)))
    return self._optimizers[-1]

  def __call__(self, weights, step):
    for mine, other in zip(self._networks, weights):
      for variable, value in zip(mine.variables, other.variables):
        variable.assign(value)
    self._sample = reverb.ReplaySample(info=(), data=step)
    self._learner.step()
    losses = {name: self._log.rows[-1][name] for name in ("critic_loss", "policy_loss")}
    return {**losses, **_gradients(self._networks, self._optimizers)}


def _gradients(networks, optimizers):
  return {
    f"gradient/{name}/{variable.name}/{i}": update.numpy()
    for name, network, optimizer in zip(("policy", "critic"), networks, optimizers)
    for i, (variable, update) in enumerate(zip(network.trainable_variables, optimizer.updates))
  }


def assert_equal(ours, theirs, rtol=1e-5, atol=2e-6):
  """Compares two mappings of numbers and arrays, absolutely to the largest entry of each."""
  assert ours.keys() == theirs.keys()
  for name, value in theirs.items():
    absolute = atol * max(1e-1, np.abs(value).max())
    np.testing.assert_allclose(ours[name], value, rtol, absolute, err_msg=name)


def differs(ours, theirs, prefix=""):
  """Whether any entry whose name starts so differs by more than rounding."""
  return any(
    np.abs(ours[name] - theirs[name]).max() > 1e-5 for name in theirs if name.startswith(prefix)
  )
