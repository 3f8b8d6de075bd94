"""Networks of SAC: the structure that holds them, and sensible ones to start from."""

from collections.abc import Callable, Sequence
import copy
import dataclasses
from typing import Optional

from acme import specs
from acme import types
from acme.tf import utils as tf2_utils
import numpy as np
import sonnet as snt
import tensorflow as tf

from temper.agents.sac import checking
from temper.agents.sac import config as config_lib
from temper.utils import network_checks
from temper.utils import relu_mlp
from temper.utils import squashed_gaussian
from temper.utils import torsos

Torso = Callable[[types.NestedTensor], tf.Tensor]


@dataclasses.dataclass
class SACNetworks:
  """The networks of a SAC agent.

  Attributes:
    policy_network: batch of observations to a distribution over canonical actions, whose samples
      are reparameterised.
    critic_network: batches of observations and of actions to two values, a tuple of `[B]`.
    value_network: batch of observations to values `[B]`; the value-network variant alone has it.
  """

  policy_network: snt.Module
  critic_network: snt.Module
  value_network: Optional[snt.Module] = None

  def init(self, environment_spec: specs.EnvironmentSpec) -> None:
    """Creates the variables of all networks, and checks what the networks return.

    Args:
      environment_spec: specs of observations and actions.

    Raises:
      TypeError: if a network is no Sonnet module.
      ValueError: if an output is not of the kind, shape or dtype that is needed; names the network,
        what came and what is needed.
    """
    observations, actions = environment_spec.observations, environment_spec.actions
    for name, network in vars(self).items():
      if network is not None and not isinstance(network, snt.Module):
        raise TypeError(f"{name} is a {type(network).__name__}; a snt.Module is needed.")
    tf2_utils.create_variables(self.policy_network, [observations])
    tf2_utils.create_variables(self.critic_network, [observations, actions])
    if self.value_network is not None:
      tf2_utils.create_variables(self.value_network, [observations])
    checking.check_outputs(
      environment_spec, self.policy_network, self.critic_network, self.value_network
    )

  def make_policy(self) -> snt.Module:
    """Returns the network that acts."""
    return self.policy_network


class PolicyNetwork(snt.Module):
  """Encoder, rectified layers, and a normal distribution squashed by tanh."""

  def __init__(
    self,
    torso: Torso,
    layer_sizes: Sequence[int],
    action_shape: Sequence[int],
    *,
    seed: int,
    squash_mean: bool = False,
    min_log_scale: float = -20.0,
    max_log_scale: float = 2.0,
    output_limit: Optional[float] = None,
    density_offset: float = 0.0,
    name: str = "policy",
  ):
    """Initialises the network.

    Args:
      torso: maps a batch of observations to `[B, D]`.
      layer_sizes: hidden layers.
      action_shape: shape of one action.
      seed: seed of the initial weights.
      squash_mean: see `SACConfig`, as for what follows.
      min_log_scale: lower bound of the log standard deviation.
      max_log_scale: upper bound.
      output_limit: bound of the last layer's initial weights.
      density_offset: see `SquashedGaussian`.
      name: module name.
    """
    super().__init__(name=name)
    self._torso = torso
    self._action_shape = tuple(action_shape)
    self._size = int(np.prod(self._action_shape, dtype=int))
    # Means and log-scales are one layer: a product less, where products are small.
    self._body = relu_mlp.ReluMLP(layer_sizes, 2 * self._size, seed=seed, output_limit=output_limit)
    self._squash_mean = squash_mean
    self._bounds = (min_log_scale, max_log_scale)
    self._density_offset = density_offset

  def __call__(self, observation: types.NestedTensor) -> squashed_gaussian.SquashedGaussian:
    """Maps a batch of observations to a distribution over actions."""
    mean, log_scale = tf.split(self._body(self._torso(observation)), 2, axis=1)
    low, high = self._bounds
    if self._squash_mean:
      mean = tf.tanh(mean)
      log_scale = low + 0.5 * (high - low) * (tf.tanh(log_scale) + 1.0)
    else:
      log_scale = tf.clip_by_value(log_scale, low, high)
    return squashed_gaussian.SquashedGaussian(
      self._shaped(mean),
      self._shaped(log_scale),
      event_rank=len(self._action_shape),
      offset=self._density_offset,
    )

  def _shaped(self, x: tf.Tensor) -> tf.Tensor:
    if self._action_shape == (self._size,):
      return x
    shaped = tf.reshape(x, tf.concat([tf.shape(x)[:1], self._action_shape], axis=0))
    return tf.ensure_shape(shaped, [x.shape[0], *self._action_shape])


class TwinCritic(snt.Module):
  """Two values of an observation and an action, by two sets of layers (Fujimoto 2018, TD3).

  https://arxiv.org/abs/1802.09477, section 4.2. The sets are separate matrices: as one stack their
  products take longer on a CPU.
  """

  def __init__(
    self,
    torsos_of_critics: Sequence[Torso],
    layer_sizes: Sequence[int],
    *,
    seed: int,
    output_limit: Optional[float] = None,
    name: str = "critic",
  ):
    """Initialises the network.

    Args:
      torsos_of_critics: maps a batch of observations to `[B, D]`: one that both share, or two.
      layer_sizes: hidden layers of each.
      seed: seed of the initial weights.
      output_limit: bound of the last layers' initial weights.
      name: module name.
    """
    super().__init__(name=name)
    self._torsos = list(torsos_of_critics)
    self._bodies = [
      relu_mlp.ReluMLP(layer_sizes, 1, seed=s, output_limit=output_limit)
      for s in np.random.SeedSequence(seed).generate_state(2)
    ]

  def __call__(
    self, observation: types.NestedTensor, action: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps batches of observations and of actions to two values, `[B]` each."""
    action = snt.flatten(action) if action.shape.rank > 1 else action[:, None]
    encoded = [torso(observation) for torso in self._torsos]
    inputs = [tf.concat([features, action], axis=1) for features in encoded]
    first, second = (
      tf.squeeze(body(inputs[i % len(inputs)]), axis=1) for i, body in enumerate(self._bodies)
    )
    return first, second

  @property
  def torso(self) -> Torso:
    """The encoder, the first one if there are two."""
    return self._torsos[0]


class ValueNetwork(snt.Module):
  """Soft value of an observation."""

  def __init__(
    self,
    torso: Torso,
    layer_sizes: Sequence[int],
    *,
    seed: int,
    output_limit: Optional[float] = None,
    name: str = "value",
  ):
    """Initialises the network; the arguments are those of `TwinCritic`."""
    super().__init__(name=name)
    self._torso = torso
    self._body = relu_mlp.ReluMLP(layer_sizes, 1, seed=seed, output_limit=output_limit)

  def __call__(self, observation: types.NestedTensor) -> tf.Tensor:
    """Maps a batch of observations to values `[B]`."""
    return tf.squeeze(self._body(self._torso(observation)), axis=1)


class MinimumCritic(snt.Module):
  """The smaller value of twin critics, as who chooses actions by value sees it."""

  def __init__(self, critic_network: snt.Module, name: str = "minimum_critic"):
    """Wraps twin critics, whose variables it has."""
    super().__init__(name=name)
    self._critic = critic_network

  def __call__(self, observation: types.NestedTensor, action: tf.Tensor) -> tf.Tensor:
    """Maps batches of observations and of actions to values `[B]`."""
    return tf.minimum(*self._critic(observation, action))


@snt.allow_empty_variables
class _FrozenTorso(snt.Module):
  """An encoder that somebody else trains."""

  def __init__(self, torso: Torso):
    super().__init__(name="frozen_torso")
    self._torso = torso

  def __call__(self, observation: types.NestedTensor) -> tf.Tensor:
    return tf.stop_gradient(self._torso(observation))


def make_networks(
  environment_spec: specs.EnvironmentSpec, config: config_lib.SACConfig, *, seed: int = 0
) -> SACNetworks:
  """Makes the default networks, with their variables.

  Args:
    environment_spec: observations, which may be nested and hold images, and one bounded continuous
      action of any shape.
    config: layers, encoders and bounds.
    seed: seed of the initial weights.

  Raises:
    ValueError: if the action is not bounded and continuous.
  """
  config = config.resolved()
  network_checks.check_action_spec(environment_spec.actions)
  seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(7)]
  make_torso = lambda s: torsos.make_observation_torso(environment_spec.observations, seed=s)
  sharing = config.encoder_sharing
  of_critics = [make_torso(seeds[0])]
  if sharing is config_lib.EncoderSharing.SEPARATE:
    of_critics.append(make_torso(seeds[1]))
  critic = TwinCritic(
    of_critics, config.critic_layer_sizes, seed=seeds[2], output_limit=config.output_limit
  )
  policy_torso: Torso = make_torso(seeds[3])
  if sharing is config_lib.EncoderSharing.ALL:
    policy_torso = _FrozenTorso(critic.torso)
  policy = PolicyNetwork(
    policy_torso,
    config.policy_layer_sizes,
    environment_spec.actions.shape,
    seed=seeds[4],
    squash_mean=bool(config.squash_mean),
    min_log_scale=config.min_log_scale,
    max_log_scale=config.max_log_scale,
    output_limit=config.output_limit,
    density_offset=config.density_offset or 0.0,
  )
  value = None
  if config.variant is config_lib.SACVariant.VALUE_NETWORK:
    value = ValueNetwork(
      make_torso(seeds[5]),
      config.critic_layer_sizes,
      seed=seeds[6],
      output_limit=config.output_limit,
    )
  networks = SACNetworks(policy, critic, value)
  networks.init(environment_spec)
  return networks


def target_of(network: snt.Module) -> snt.Module:
  """Returns a copy of a network, with its own variables of equal values."""
  return copy.deepcopy(network)


def check_variant(networks: SACNetworks, variant: config_lib.SACVariant) -> None:
  """Raises ValueError unless there is a value network exactly when the variant has one."""
  needed = variant is config_lib.SACVariant.VALUE_NETWORK
  if needed != (networks.value_network is not None):
    raise ValueError(
      f"value_network is {'missing' if needed else 'given'}, but variant is {variant.value}: "
      f"{'give one' if needed else 'leave it None'}, or choose the other variant."
    )
