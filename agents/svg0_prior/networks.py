"""Networks of SVG0: the structure that holds them, and sensible ones to start from."""

from collections.abc import Sequence
import dataclasses
import functools
from typing import Any, Callable, Optional

from acme import specs
from acme import types
from acme.tf import utils as tf2_utils
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents.svg0_prior import checking
from temper.utils import mlp
from temper.utils import sampled_values
from temper.utils import svg0_utils
from temper.utils import torsos

tfd = tfp.distributions

_SCALE_OF_ZERO = float(np.log(2.0))  # softplus(0)


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


class GaussianHead(snt.Module):
  """Independent normal distribution over an action of any shape.

  Its mean is in (-1, 1), its scale is learned.
  """

  def __init__(
    self,
    action_shape: Sequence[int],
    *,
    seed: int,
    init_scale: float,
    min_scale: float,
    name: str = "gaussian_head",
  ):
    """Initialises the head.

    Args:
      action_shape: shape of one action.
      seed: seed of the initial weights.
      init_scale: standard deviation at the start, to which `min_scale` is added.
      min_scale: smallest standard deviation.
      name: module name.
    """
    super().__init__(name=name)
    self._action_shape = tuple(action_shape)
    size = int(np.prod(self._action_shape, dtype=int))
    # Means and scales are one layer: a product less, where products are small.
    self._mean_and_scale = snt.Linear(2 * size, w_init=mlp.near_zero(seed), name="mean_and_scale")
    self._init_scale = init_scale
    self._min_scale = min_scale

  def __call__(self, inputs: tf.Tensor) -> tfp.distributions.Distribution:
    """Maps `[B, D]` to a distribution of batch shape `[B]` and the action's event shape."""
    shape = tf.concat([tf.shape(inputs)[:1], self._action_shape], axis=0)
    mean, spread = (tf.reshape(x, shape) for x in tf.split(self._mean_and_scale(inputs), 2, axis=1))
    mean = tf.tanh(mean)
    spread = tf.nn.softplus(spread) * (self._init_scale / _SCALE_OF_ZERO)
    mean, spread = (
      tf.ensure_shape(x, [inputs.shape[0], *self._action_shape]) for x in (mean, spread)
    )
    return tfd.Independent(tfd.Normal(mean, spread + self._min_scale), len(self._action_shape))


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
    self._head = GaussianHead(
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
    self._minimum, self._maximum = (
      _scalar_if_equal(action_spec.minimum),
      _scalar_if_equal(action_spec.maximum),
    )
    self._body = mlp.LayerNormMLP(layer_sizes, seed=body_seed, activate_final=True)
    self._head = snt.Linear(1, w_init=mlp.near_zero(head_seed))

  def __call__(self, observation: types.NestedTensor, action: tf.Tensor) -> tf.Tensor:
    """Maps batches of observations and of actions to `[B, 1]`."""
    action = snt.flatten(_clip(action, self._minimum, self._maximum))
    return self._head(self._body([self._torso(observation), action]))

  def given(self, observation: types.NestedTensor) -> sampled_values.ValuesOfActions:
    """Encodes N observations once; returns what maps actions `[K, N, *A]` to values `[K, N]`."""
    body = self._body.given(self._torso(observation), self._action_size)

    def values(actions: tf.Tensor) -> tf.Tensor:
      clipped = _clip(actions, self._minimum, self._maximum)
      shape = tf.shape(actions)[:2]
      flat = tf.reshape(clipped, [shape[0], shape[1], self._action_size])
      return tf.reshape(self._head(body(flat)), shape)

    return values


def _scalar_if_equal(bound: np.ndarray) -> np.ndarray:
  """Returns one number for equal bounds, since comparing with a vector takes far longer."""
  bound = np.asarray(bound, np.float32)
  return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound


@tf.custom_gradient
def _clip(
  action: tf.Tensor, minimum: np.ndarray, maximum: np.ndarray
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[Optional[tf.Tensor], ...]]]:
  """Clips to the bounds; the gradient passes where nothing was clipped."""
  clipped = tf.maximum(tf.minimum(action, maximum), minimum)
  return clipped, lambda upstream: (
    upstream * tf.cast(tf.equal(action, clipped), action.dtype),
    None,
    None,
  )


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
  checking.check_action_spec(action_spec)
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
  checking.check_action_spec(action_spec)
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
