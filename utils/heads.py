"""Last layers: features to distributions over actions and over values."""

from collections.abc import Sequence
from typing import Any

from acme.tf import networks as acme_networks
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import checks
from temper.utils import mlp

tfd = tfp.distributions

_SCALE_OF_ZERO = float(np.log(2.0))  # softplus(0)


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
    mean, spread = _reshaped_halves(self._mean_and_scale(inputs), self._action_shape)
    scale = _positive(spread, self._init_scale, self._min_scale)
    return tfd.Independent(tfd.Normal(tf.tanh(mean), scale), len(self._action_shape))


class MixtureHead(snt.Module):
  """Mixture of independent normal distributions over an action of any shape.

  As in the experiments of Wang 2020 (https://arxiv.org/abs/2006.15134): data of several behaviours
  has several modes. The components' means are in (-1, 1) and differ from the start.
  """

  def __init__(
    self,
    action_shape: Sequence[int],
    *,
    num_components: int,
    seed: int,
    init_scale: float,
    min_scale: float,
    name: str = "mixture_head",
  ):
    """Initialises the head.

    Args:
      action_shape: shape of one action.
      num_components: K, normal distributions of the mixture.
      seed: seed of the initial weights.
      init_scale: standard deviation of each component at the start, to which `min_scale` is added.
      min_scale: smallest standard deviation.
      name: module name.
    """
    super().__init__(name=name)
    checks.integer("num_components", num_components, minimum=1)
    self._component_shape = (num_components, *action_shape)
    size = int(np.prod(self._component_shape, dtype=int))
    layer_seed, logit_seed, mean_seed = np.random.SeedSequence(seed).generate_state(3)
    self._logits = snt.Linear(num_components, w_init=mlp.near_zero(logit_seed), name="logits")
    self._mean_and_scale = snt.Linear(
      2 * size,
      w_init=mlp.near_zero(layer_seed),
      # Equal components would get equal gradients, and stay one.
      b_init=_SpreadMeans(size, int(mean_seed)),
      name="mean_and_scale",
    )
    self._init_scale = init_scale
    self._min_scale = min_scale

  def __call__(self, inputs: tf.Tensor) -> tfp.distributions.Distribution:
    """Maps `[B, D]` to a distribution of batch shape `[B]` and the action's event shape."""
    mean, spread = _reshaped_halves(self._mean_and_scale(inputs), self._component_shape)
    scale = _positive(spread, self._init_scale, self._min_scale)
    components = tfd.Independent(tfd.Normal(tf.tanh(mean), scale), len(self._component_shape) - 1)
    return tfd.MixtureSameFamily(tfd.Categorical(logits=self._logits(inputs)), components)


class ValueDistributionHead(snt.Module):
  """Distribution of a return over equally spaced atoms (Bellemare 2017, C51).

  https://arxiv.org/abs/1707.06887
  """

  def __init__(
    self, vmin: float, vmax: float, num_atoms: int, *, seed: int, name: str = "value_head"
  ):
    """Initialises the head.

    Args:
      vmin: lowest return that can be represented, in the learner's scaled reward units.
      vmax: highest one.
      num_atoms: K, how many atoms from `vmin` to `vmax`.
      seed: seed of the initial weights.
      name: module name.

    Raises:
      ValueError: if `vmin` is not below `vmax`, or there are fewer than two atoms.
    """
    super().__init__(name=name)
    check_support(vmin, vmax, num_atoms)
    self._atoms = np.linspace(vmin, vmax, num_atoms, dtype=np.float32)
    self._logits = snt.Linear(num_atoms, w_init=mlp.near_zero(seed), name="logits")

  @property
  def atoms(self) -> np.ndarray:
    """The support, float32 `[K]`, ascending."""
    return self._atoms

  def logits(self, inputs: tf.Tensor) -> tf.Tensor:
    """Maps `[B, D]` to unnormalised log-probabilities of the atoms, `[B, K]`."""
    return self._logits(inputs)

  def __call__(self, inputs: tf.Tensor) -> acme_networks.DiscreteValuedDistribution:
    """Maps `[B, D]` to a distribution of batch shape `[B]`."""
    return acme_networks.DiscreteValuedDistribution(
      values=tf.constant(self._atoms), logits=self.logits(inputs)
    )


def check_support(vmin: Any, vmax: Any, num_atoms: Any) -> None:
  """Raises ValueError unless the numbers describe the atoms of a distribution of returns."""
  checks.number("vmin", vmin)
  checks.number("vmax", vmax)
  checks.integer("num_atoms", num_atoms, minimum=2)
  if vmin >= vmax:
    raise ValueError(
      f"vmin is {vmin} and vmax is {vmax}; vmin must be below vmax. They bound the discounted "
      "return after reward_scale: for rewards in [a, b], a / (1 - discount) and b / (1 - discount)."
    )


class _SpreadMeans(snt.initializers.Initializer):
  """Biases that spread means over (-1, 1) before their tanh, and leave the scales at zero."""

  def __init__(self, size: int, seed: int):
    self._size = size
    self._seed = seed

  def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    means = np.random.default_rng(self._seed).uniform(-1.0, 1.0, self._size)
    return tf.constant(np.concatenate([means, np.zeros(self._size)]), dtype, list(shape))


def _reshaped_halves(outputs: tf.Tensor, shape: Sequence[int]) -> Sequence[tf.Tensor]:
  """Splits `[B, 2 N]` in two and gives each half its shape, `[B, *shape]`."""
  full = tf.concat([tf.shape(outputs)[:1], shape], axis=0)
  return [
    tf.ensure_shape(tf.reshape(half, full), [outputs.shape[0], *shape])
    for half in tf.split(outputs, 2, axis=1)
  ]


def _positive(spread: tf.Tensor, init_scale: float, min_scale: float) -> tf.Tensor:
  """Maps a real number to a standard deviation, 0 to `init_scale + min_scale`."""
  return tf.nn.softplus(spread) * (init_scale / _SCALE_OF_ZERO) + min_scale
