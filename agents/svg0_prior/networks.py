"""Networks of SVG0: the structure that holds them, and sensible ones to start from."""

from collections.abc import Sequence
import dataclasses
import functools
from typing import Any, Optional

from acme import specs
from acme import types
from acme.tf import utils as tf2_utils
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents.svg0_prior import checking
from temper.utils import action_clipping
from temper.utils import heads
from temper.utils import mlp
from temper.utils import network_checks
from temper.utils import sampled_values
from temper.utils import svg0_utils
from temper.utils import torsos


@dataclasses.dataclass
class SVG0Networks:
  """The networks of an SVG0 agent.

  Attributes:
    policy_network: batch of observations to a distribution over actions.
    critic_network: batches of observations and of actions to values `[B, 1]` or `[B]`.
    prior_network: like the policy, with an analytic KL divergence from it; None to learn without a
      prior.
  """

  policy_network: snt.Module
  critic_network: snt.Module
  prior_network: Optional[snt.Module] = None

  def init(
    self,
    environment_spec: specs.EnvironmentSpec,
    *,
    entropy_estimator: svg0_utils.EntropyEstimator = svg0_utils.EntropyEstimator.SCORE,
  ) -> None:
    """Creates the variables of all networks, and checks what the networks return.

    Args:
      environment_spec: specs of observations and actions.
      entropy_estimator: the learner's; the analytic one needs a policy that knows its entropy.

    Raises:
      TypeError: if a network is no Sonnet module, such as a policy loaded from a SavedModel.
      ValueError: if the prior is the policy, or a network's output lacks a method or is not of the
        shape or dtype that is needed; names the network, what came and what is needed.
    """
    policy, critic, prior = self.policy_network, self.critic_network, self.prior_network
    checking.check_modules(
      {"policy_network": policy, "critic_network": critic, "prior_network": prior}
    )
    observations = environment_spec.observations
    tf2_utils.create_variables(policy, [observations])
    tf2_utils.create_variables(critic, [observations, environment_spec.actions])
    if prior is not None:
      tf2_utils.create_variables(prior, [observations])
    analytic = entropy_estimator is svg0_utils.EntropyEstimator.ANALYTIC
    checking.check_outputs(environment_spec, policy, critic, prior, needs_entropy=analytic)

  def make_policy(self) -> snt.Module:
    """Returns the network that acts."""
    return self.policy_network

  def make_prior(self) -> Optional[snt.Module]:
    """Returns the behaviour prior, if there is one."""
    return self.prior_network


class PolicyNetwork(snt.Module):
  """Observation torso, normalised multilayer perceptron, Gaussian head."""

  def __init__(
    self,
    torso: Any,
    layer_sizes: Sequence[int],
    action_shape: Sequence[int],
    *,
    seed: int,
    init_scale: float,
    min_scale: float,
    name: str = "policy",
  ):
    """Initialises the network; `torso` maps observations to `[B, D]`, the head tells the rest."""
    super().__init__(name=name)
    body_seed, head_seed = np.random.SeedSequence(seed).generate_state(2)
    self._torso = torso
    self._body = mlp.LayerNormMLP(layer_sizes, seed=body_seed, activate_final=True)
    self._head = heads.GaussianHead(
      action_shape, seed=head_seed, init_scale=init_scale, min_scale=min_scale
    )

  def __call__(self, observation: types.NestedTensor) -> tfp.distributions.Distribution:
    """Maps a batch of observations to a distribution over actions."""
    return self._head(self._body(self._torso(observation)))


class CriticNetwork(snt.Module):
  """Value of an observation and an action, which is clipped to its bounds first."""

  def __init__(
    self,
    torso: Any,
    layer_sizes: Sequence[int],
    action_spec: specs.BoundedArray,
    *,
    seed: int,
    name: str = "critic",
  ):
    """Initialises the network; `torso` maps a batch of observations to `[B, D]`."""
    super().__init__(name=name)
    body_seed, head_seed = np.random.SeedSequence(seed).generate_state(2)
    self._torso = torso
    self._action_size = int(np.prod(action_spec.shape, dtype=int))
    self._clip = action_clipping.ActionClipper(action_spec)
    self._body = mlp.LayerNormMLP(layer_sizes, seed=body_seed, activate_final=True)
    self._head = snt.Linear(1, w_init=mlp.near_zero(head_seed))

  def __call__(self, observation: types.NestedTensor, action: tf.Tensor) -> tf.Tensor:
    """Maps batches of observations and of actions to `[B, 1]`."""
    action = snt.flatten(self._clip(action))
    return self._head(self._body([self._torso(observation), action]))

  def given(self, observation: types.NestedTensor) -> sampled_values.ValuesOfActions:
    """Encodes N observations once; returns what maps actions `[K, N, *A]` to values `[K, N]`."""
    body = self._body.given(self._torso(observation), self._action_size)

    def values(actions: tf.Tensor) -> tf.Tensor:
      clipped = self._clip(actions)
      shape = tf.shape(actions)[:2]
      flat = tf.reshape(clipped, [shape[0], shape[1], self._action_size])
      return tf.reshape(self._head(body(flat)), shape)

    return values


def make_default_networks(
  action_spec: specs.BoundedArray,
  policy_layer_sizes: Sequence[int] = (256, 256, 256),
  critic_layer_sizes: Sequence[int] = (512, 512, 256),
  *,
  policy_keys: Optional[Sequence[str]] = None,
  observation_spec: Optional[types.NestedSpec] = None,
  init_scale: float = 0.7,
  min_scale: float = 0.3,
  seed: int = 0,
) -> dict[str, snt.Module]:
  """Makes a policy and a critic.

  Args:
    action_spec: bounded continuous action, of any shape.
    policy_layer_sizes: hidden layers of the policy.
    critic_layer_sizes: hidden layers of the critic.
    policy_keys: entries of a dict observation that policy and critic see; None: all.
    observation_spec: nested observation; images in it get a convolutional torso. None: vectors
      only, flattened.
    init_scale: initial standard deviation, to which `min_scale` is added.
    min_scale: smallest standard deviation of the policy.
    seed: seed of the initial weights.

  Returns:
    Networks by the names `policy` and `critic`.

  Raises:
    ValueError: if the action is not bounded and continuous, or a key does not exist.
  """
  network_checks.check_action_spec(action_spec)
  seeds = np.random.SeedSequence(seed).generate_state(4)
  return {
    "policy": PolicyNetwork(
      _torso(observation_spec, policy_keys, seeds[0]),
      policy_layer_sizes,
      action_spec.shape,
      seed=seeds[1],
      init_scale=init_scale,
      min_scale=min_scale,
    ),
    "critic": CriticNetwork(
      _torso(observation_spec, policy_keys, seeds[2]),
      critic_layer_sizes,
      action_spec,
      seed=seeds[3],
    ),
  }


def make_network_with_prior(
  action_spec: specs.BoundedArray,
  policy_layer_sizes: Sequence[int] = (200, 100),
  critic_layer_sizes: Sequence[int] = (400, 300),
  prior_layer_sizes: Sequence[int] = (200, 100),
  policy_keys: Optional[Sequence[str]] = None,
  prior_keys: Optional[Sequence[str]] = None,
  *,
  observation_spec: Optional[types.NestedSpec] = None,
  init_scale: float = 0.7,
  min_scale: float = 0.1,
  seed: int = 0,
) -> dict[str, snt.Module]:
  """Makes a policy, a critic and a behaviour prior.

  The prior may see less than the policy (information asymmetry).

  Args:
    action_spec: bounded continuous action, of any shape.
    policy_layer_sizes: hidden layers of the policy.
    critic_layer_sizes: hidden layers of the critic.
    prior_layer_sizes: hidden layers of the prior.
    policy_keys: entries of a dict observation that policy and critic see; None: all.
    prior_keys: entries that the prior sees; None: all.
    observation_spec: nested observation; images in it get a convolutional torso. None: vectors
      only, flattened.
    init_scale: initial standard deviation, to which `min_scale` is added.
    min_scale: smallest standard deviation of policy and prior.
    seed: seed of the initial weights.

  Returns:
    Networks by the names `policy`, `critic` and `prior`.

  Raises:
    ValueError: if the action is not bounded and continuous, or a key does not exist.
  """
  network_checks.check_action_spec(action_spec)
  seeds = np.random.SeedSequence(seed).generate_state(6)
  gaussian = lambda torso, sizes, network_seed, name: PolicyNetwork(
    torso,
    sizes,
    action_spec.shape,
    seed=network_seed,
    init_scale=init_scale,
    min_scale=min_scale,
    name=name,
  )
  return {
    "policy": gaussian(
      _torso(observation_spec, policy_keys, seeds[0]), policy_layer_sizes, seeds[1], "policy"
    ),
    "critic": CriticNetwork(
      _torso(observation_spec, policy_keys, seeds[2]),
      critic_layer_sizes,
      action_spec,
      seed=seeds[3],
    ),
    "prior": gaussian(
      _torso(observation_spec, prior_keys, seeds[4]), prior_layer_sizes, seeds[5], "prior"
    ),
  }


def _torso(
  observation_spec: Optional[types.NestedSpec], keys: Optional[Sequence[str]], seed: int
) -> Any:
  if observation_spec is not None:
    return torsos.make_observation_torso(observation_spec, keys, seed=int(seed))
  return functools.partial(_flatten, keys=keys)


def _flatten(observation: types.NestedTensor, keys: Optional[Sequence[str]]) -> tf.Tensor:
  if keys is not None:
    return svg0_utils.batch_concat_selection(observation, keys)
  return tf2_utils.batch_concat(tree.map_structure(lambda x: tf.cast(x, tf.float32), observation))
