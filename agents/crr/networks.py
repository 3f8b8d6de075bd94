"""Networks of CRR: what holds them, and recurrent and feed-forward ones to start from."""

from collections.abc import Callable, Sequence
import dataclasses
import enum
from typing import Any, Optional

from acme import specs
from acme import types
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from temper.agents.crr import checking
from temper.utils import action_clipping
from temper.utils import heads
from temper.utils import mlp
from temper.utils import network_checks
from temper.utils import recurrent
from temper.utils import torsos


class PolicyHead(enum.Enum):
  """Family of the default policy's distributions.

  GAUSSIAN: one normal distribution per action.
  MIXTURE: several, for data of several behaviours.
  """

  GAUSSIAN = "gaussian"
  MIXTURE = "mixture"


@dataclasses.dataclass
class CRRNetworks:
  """The networks of a CRR agent.

  Attributes:
    policy_network: maps observations and a state to a distribution over actions and the next state.
    critic_network: maps observations, actions and a state to a distribution over returns with
      `logits` and `values`, and the next state.
  """

  policy_network: snt.RNNCore
  critic_network: snt.RNNCore

  def init(self, environment_spec: specs.EnvironmentSpec) -> None:
    """Creates the variables of all networks, and checks what the networks return.

    Args:
      environment_spec: specs of observations and actions.

    Raises:
      TypeError: if a network is no `snt.RNNCore`.
      ValueError: if an output lacks something or is not of the shape that is needed; names the
        network, what came and what is needed.
    """
    checking.check_cores(
      {"policy_network": self.policy_network, "critic_network": self.critic_network}
    )
    observations, actions = environment_spec.observations, environment_spec.actions
    tf2_utils.create_variables(self.policy_network, [observations])
    tf2_utils.create_variables(self.critic_network, [observations, actions])
    checking.check_outputs(environment_spec, self.policy_network, self.critic_network)

  def make_policy(self) -> snt.RNNCore:
    """Returns the network that acts."""
    return self.policy_network


class RecurrentPolicy(snt.RNNCore):
  """Observation torso, normalised multilayer perceptron, recurrent core, distribution over actions.

  The learner unrolls the core alone over time and applies `encode` and `head` once to all steps.
  """

  def __init__(
    self,
    torso: Any,
    layer_sizes: Sequence[int],
    core: snt.RNNCore,
    head: snt.Module,
    *,
    seed: int,
    name: str = "policy",
  ):
    """Initialises the network.

    Args:
      torso: maps a batch of observations to `[B, D]`.
      layer_sizes: hidden layers before the core.
      core: recurrent core, `recurrent.Stateless` for a feed-forward policy.
      head: maps the core's output to a distribution.
      seed: seed of the hidden layers' initial weights.
      name: module name.
    """
    super().__init__(name=name)
    self._torso = torso
    self._body = mlp.LayerNormMLP(layer_sizes, seed=seed, activate_final=True)
    self.core = core
    self.head = head

  def encode(self, observation: types.NestedTensor) -> tf.Tensor:
    """Maps a batch of observations to the core's inputs, `[B, D]`."""
    return self._body(self._torso(observation))

  def __call__(
    self, observation: types.NestedTensor, prev_state: types.NestedTensor
  ) -> tuple[tfp.distributions.Distribution, types.NestedTensor]:
    """Maps a batch of observations and the state to a distribution and the next state."""
    output, state = self.core(self.encode(observation), prev_state)
    return self.head(output), state

  def initial_state(self, batch_size: int, **kwargs: Any) -> types.NestedTensor:
    """Returns the state in which an episode begins."""
    return self.core.initial_state(batch_size, **kwargs)


class RecurrentCritic(snt.RNNCore):
  """Distribution over returns of observation, action and what was before.

  Actions are clipped to their bounds first. As in `RecurrentPolicy`, only the core needs a loop
  over time.
  """

  def __init__(
    self,
    torso: Any,
    layer_sizes: Sequence[int],
    action_spec: specs.BoundedArray,
    core: snt.RNNCore,
    head: heads.ValueDistributionHead,
    *,
    seed: int,
    name: str = "critic",
  ):
    """Initialises the network.

    Args:
      torso: maps a batch of observations to `[B, D]`.
      layer_sizes: hidden layers before the core.
      action_spec: the bounded action.
      core: recurrent core, `recurrent.Stateless` for a feed-forward critic.
      head: maps the core's output to a distribution over returns.
      seed: seed of the hidden layers' initial weights.
      name: module name.
    """
    super().__init__(name=name)
    self._torso = torso
    self._clip = action_clipping.ActionClipper(action_spec)
    self._action_size = int(np.prod(action_spec.shape, dtype=int))
    self._body = mlp.LayerNormMLP(layer_sizes, seed=seed, activate_final=True)
    self.core = core
    self.head = head

  def encode(self, observation: types.NestedTensor, action: tf.Tensor) -> tf.Tensor:
    """Maps batches of observations and of actions to the core's inputs, `[B, D]`."""
    flat = tf.reshape(self._clip(action), [-1, self._action_size])
    return self._body([self._torso(observation), flat])

  def __call__(
    self, observation: types.NestedTensor, action: tf.Tensor, prev_state: types.NestedTensor
  ) -> tuple[acme_networks.DiscreteValuedDistribution, types.NestedTensor]:
    """Maps batches of observations and actions and the state to returns and the next state."""
    output, state = self.core(self.encode(observation, action), prev_state)
    return self.head(output), state

  def given(
    self, observation: types.NestedTensor, state: types.NestedTensor
  ) -> Callable[[tf.Tensor], tuple[acme_networks.DiscreteValuedDistribution, types.NestedTensor]]:
    """Does what depends on N observations and states alone.

    Args:
      observation: nest of `[N, ...]`.
      state: nest of `[N, ...]`, the states before these observations.

    Returns:
      A function that maps actions `[K, N, *A]` to the distribution of their returns, of batch shape
      `[K * N]`, and the next states, nest of `[K * N, ...]`.
    """
    encode = self._body.given(self._torso(observation), self._action_size)
    advance = recurrent.step_given(self.core, state)

    def evaluate(
      actions: tf.Tensor,
    ) -> tuple[acme_networks.DiscreteValuedDistribution, types.NestedTensor]:
      shape = tf.shape(actions)
      flat = tf.reshape(self._clip(actions), [shape[0], shape[1], self._action_size])
      output, next_state = advance(encode(flat))
      return self.head(output), next_state

    return evaluate

  def initial_state(self, batch_size: int, **kwargs: Any) -> types.NestedTensor:
    """Returns the state in which an episode begins."""
    return self.core.initial_state(batch_size, **kwargs)


def make_networks(
  environment_spec: specs.EnvironmentSpec,
  *,
  policy_layer_sizes: Sequence[int] = (256, 256),
  critic_layer_sizes: Sequence[int] = (256, 256),
  lstm_size: Optional[int] = 256,
  policy_head: PolicyHead = PolicyHead.GAUSSIAN,
  num_mixture_components: int = 5,
  init_scale: float = 0.7,
  min_scale: float = 1e-2,
  vmin: float = -150.0,
  vmax: float = 150.0,
  num_atoms: int = 51,
  observation_statistics: Optional[torsos.ObservationStatistics] = None,
  seed: int = 0,
) -> CRRNetworks:
  """Makes a policy and a distributional critic, with their variables.

  Args:
    environment_spec: canonical specs; the action is one bounded array.
    policy_layer_sizes, critic_layer_sizes: hidden layers before the cores.
    lstm_size: size of the recurrent cores; None makes feed-forward networks.
    policy_head: family of the policy's distributions.
    num_mixture_components: components of a mixture.
    init_scale: initial standard deviation, to which `min_scale` is added.
    min_scale: smallest standard deviation of the policy, in canonical actions.
    vmin, vmax, num_atoms: atoms of the critic's distribution over returns.
    observation_statistics: mean and standard deviation by which both networks normalise their
      observations; None leaves those as they are.
    seed: seed of the initial weights.

  Returns:
    The networks.

  Raises:
    ValueError: if the action is not bounded and continuous, or a number is out of its range.
  """
  network_checks.check_action_spec(environment_spec.actions)
  action_shape = environment_spec.actions.shape
  seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(8)]

  def torso(torso_seed: int) -> snt.Module:
    return torsos.make_observation_torso(
      environment_spec.observations, seed=torso_seed, statistics=observation_statistics
    )

  def core(core_seed: int) -> snt.RNNCore:
    if lstm_size is None:
      return recurrent.Stateless()
    return recurrent.LSTM(lstm_size, seed=core_seed)

  scales: dict[str, Any] = dict(init_scale=init_scale, min_scale=min_scale)
  head: snt.Module
  if policy_head is PolicyHead.MIXTURE:
    head = heads.MixtureHead(
      action_shape, num_components=num_mixture_components, seed=seeds[0], **scales
    )
  else:
    head = heads.GaussianHead(action_shape, seed=seeds[0], **scales)
  networks = CRRNetworks(
    policy_network=RecurrentPolicy(
      torso(seeds[1]), policy_layer_sizes, core(seeds[2]), head, seed=seeds[3]
    ),
    critic_network=RecurrentCritic(
      torso(seeds[4]),
      critic_layer_sizes,
      environment_spec.actions,
      core(seeds[5]),
      heads.ValueDistributionHead(vmin, vmax, num_atoms, seed=seeds[6]),
      seed=seeds[7],
    ),
  )
  networks.init(environment_spec)
  return networks
