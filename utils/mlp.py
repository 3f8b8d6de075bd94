"""Multilayer perceptrons with a normalised first layer, as in Acme's continuous-control agents.

`acme.tf.networks` has a layer of this name, but its initialisers are shared objects without a seed,
so two networks built from them start with equal weights; and it passes several times more often
over a batch than the mathematics needs. The functions computed are the same.
"""

from collections.abc import Sequence
from typing import Callable, Optional

from acme import types
import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import checks


class NormalisedLinear(snt.Module):
  """A linear layer followed by layer normalisation (Ba 2016, https://arxiv.org/abs/1607.06450).

  `scale * (x - mean(x)) / std(x) + offset` with `x = inputs w + b`; mean and standard deviation are
  taken over the F features. The mean is linear, so it is subtracted from the weights, not from x.
  `given` rearranges further, for many different inputs R beside the same first ones:
    the variance of `x = p + r W` is `mean(p²) + r (2 p W^T + r W W^T) / F`: sums over R, not over
    F; dividing a row by its deviation commutes with the product, so the inputs are divided.
  What is left to do on arrays of `[K * N, F]` is one product, forwards and backwards, where there
  would be a dozen operations.
  """

  def __init__(self, size: int, *, seed: int, epsilon: float = 1e-5, name: Optional[str] = None):
    """Initialises the layer.

    Args:
      size: F, the number of features.
      seed: seed of the initial weights.
      epsilon: added to the variance.
      name: module name.
    """
    super().__init__(name=name)
    self._size = size
    self._w_init = fan_out_uniform(seed)
    self._epsilon = epsilon
    self.scale = tf.Variable(tf.ones([size]), name="scale")
    self.offset = tf.Variable(tf.zeros([size]), name="offset")

  def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
    """Maps `[B, D]` to `[B, F]`."""
    self._make_weights(inputs.shape[-1])
    # A custom gradient knows a variable of several replicas only by its value.
    weights = tf.convert_to_tensor(self.w)
    x = tf.nn.bias_add(inputs @ _centre(weights), self.b - tf.reduce_mean(self.b))
    return _normalise(x, self._epsilon) * self.scale + self.offset

  def given(self, fixed: tf.Tensor, rest_size: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Does what depends on the first inputs alone.

    Args:
      fixed: `[N, D]`, the first D inputs of the layer.
      rest_size: R, how many inputs follow.

    Returns:
      A function that maps the other inputs, `[K, N, R]`, to `[K * N, F]`.
    """
    self._make_weights(fixed.shape[-1] + rest_size)
    of_fixed, of_rest = tf.split(self.w, [fixed.shape[-1], rest_size])
    # The one that the bias is multiplied by is an input too.
    of_rows = _centre(tf.concat([of_fixed, self.b[None]], axis=0))
    of_rest = _centre(of_rest)
    rows = tf.concat([fixed, tf.ones_like(fixed[:, :1])], axis=1)
    scaled = tf.concat([of_rest, of_rows], axis=0) * self.scale

    p = rows @ of_rows
    variance_of_p = tf.reduce_mean(tf.square(p), axis=-1, keepdims=True)  # [N, 1]
    crossed = tf.matmul(p, of_rest * (2.0 / self._size), transpose_b=True)  # [N, R]
    gram = tf.matmul(of_rest, of_rest / self._size, transpose_b=True)  # [R, R]

    def finish(rest: tf.Tensor) -> tf.Tensor:
      squared = tf.reshape(tf.reshape(rest, [-1, rest_size]) @ gram, tf.shape(rest))
      variance = variance_of_p + tf.reduce_sum(rest * (squared + crossed), axis=-1, keepdims=True)
      # Rounding may leave a variance of zero slightly negative.
      inverse = tf.math.rsqrt(tf.nn.relu(tf.reshape(variance, [-1, 1])) + self._epsilon)
      repeated = tf.tile(rows[None], [tf.shape(rest)[0], 1, 1])
      inputs = tf.reshape(tf.concat([rest, repeated], axis=-1), [-1, scaled.shape[0]])
      return tf.nn.bias_add((inputs * inverse) @ scaled, self.offset)

    return finish

  @snt.once
  def _make_weights(self, input_size: int) -> None:
    self.w = tf.Variable(self._w_init([input_size, self._size], tf.float32), name="w")
    self.b = tf.Variable(tf.zeros([self._size]), name="b")


@tf.custom_gradient
def elu(features: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
  """`x` where it is positive, `exp(x) - 1` elsewhere (Clevert 2015, https://arxiv.org/abs/1511.07289).

  It is `tf.nn.elu`, whose own gradient chooses entry by entry and takes twice as long as this
  arithmetic.
  """
  activations = tf.nn.elu(features)
  return activations, lambda upstream: upstream * (tf.minimum(activations, 0.0) + 1.0)


@tf.custom_gradient
def _centre(weights: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
  """Subtracts each row's mean, which is a projection, so that the derivative does the same."""
  subtract_mean = lambda x: x - tf.reduce_mean(x, axis=1, keepdims=True)
  return subtract_mean(weights), subtract_mean


def _normalise(centred: tf.Tensor, epsilon: float) -> tf.Tensor:
  """Divides each row of a mean of zero by its deviation.

  The derivative is that of `x / sqrt(mean(x²) + epsilon)` in its shortest form: traced back through
  the square root it takes twice the operations.
  """

  @tf.custom_gradient
  def normalise(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + epsilon)
    y = x * inverse
    along = lambda upstream: y * tf.reduce_mean(upstream * y, axis=-1, keepdims=True)
    return y, lambda upstream: inverse * (upstream - along(upstream))

  return normalise(centred)


class LayerNormMLP(snt.Module):
  """A normalised linear layer, tanh, then linear layers with an activation.

  The function of `acme.tf.networks.LayerNormMLP`.
  """

  def __init__(
    self,
    layer_sizes: Sequence[int],
    *,
    seed: int,
    activation: Callable[[tf.Tensor], tf.Tensor] = elu,
    activate_final: bool = False,
    name: str = "layer_norm_mlp",
  ):
    """Initialises the layers.

    Args:
      layer_sizes: sizes of the layers, at least one.
      seed: seed of the initial weights.
      activation: follows every layer after the first.
      activate_final: whether it follows the last layer too.
      name: module name.

    Raises:
      ValueError: if there is no layer, or a size is not positive.
    """
    super().__init__(name=name)
    checks.layer_sizes("layer_sizes", layer_sizes)
    seeds = np.random.SeedSequence(seed).generate_state(len(layer_sizes))
    self._first = NormalisedLinear(layer_sizes[0], seed=seeds[0])
    self._rest = [
      snt.Linear(size, w_init=fan_out_uniform(layer_seed))
      for size, layer_seed in zip(layer_sizes[1:], seeds[1:])
    ]
    self._activation = activation
    self._activate_final = activate_final

  def __call__(self, inputs: types.NestedTensor) -> tf.Tensor:
    """Maps a nest of `[B, ...]`, flattened and concatenated, to `[B, layer_sizes[-1]]`."""
    leaves = [snt.flatten(leaf) for leaf in tree.flatten(inputs)]
    return self._after_first(self._first(leaves[0] if len(leaves) == 1 else tf.concat(leaves, 1)))

  def given(self, fixed: tf.Tensor, rest_size: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Does what depends on the first inputs alone; see `NormalisedLinear.given`."""
    first = self._first.given(fixed, rest_size)
    return lambda rest: self._after_first(first(rest))

  def _after_first(self, hidden: tf.Tensor) -> tf.Tensor:
    hidden = tf.tanh(hidden)
    for i, layer in enumerate(self._rest):
      hidden = layer(hidden)
      if self._activate_final or i + 1 < len(self._rest):
        hidden = self._activation(hidden)
    return hidden


def fan_out_uniform(seed: int) -> tf.keras.initializers.Initializer:
  """Uniform initial weights with variance 0.333 / fan-out, which Acme's continuous agents use."""
  # Keras' initialisers are stateless given a seed: the same seed gives the same weights at every
  # call, which Sonnet's do not.
  return tf.keras.initializers.VarianceScaling(
    0.333, mode="fan_out", distribution="uniform", seed=int(seed)
  )


def near_zero(seed: int) -> tf.keras.initializers.Initializer:
  """Initial weights with variance 1e-4 / fan-in, for last layers."""
  return tf.keras.initializers.VarianceScaling(1e-4, seed=int(seed))
