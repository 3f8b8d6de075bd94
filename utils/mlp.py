"""Multilayer perceptrons with a normalised first layer, the torso of Acme's continuous-control agents.

`acme.tf.networks` has layers of these names, but its initialisers are shared objects without a seed, so two networks
built from them start with equal weights; and Sonnet's layer normalisation makes about twice the passes over a
large batch that are needed. The functions computed are the same.
"""

from typing import Callable, Optional, Sequence

from acme import types
from acme.tf import utils as tf2_utils
import numpy as np
import sonnet as snt
import tensorflow as tf

from temper.utils import checks


class LayerNorm(snt.Module):
  """Layer normalisation over the last axis with learned scale and offset (Ba 2016, https://arxiv.org/abs/1607.06450)."""

  def __init__(self, size: int, epsilon: float = 1e-5, name: Optional[str] = None):
    """Initialises scale to one and offset to zero, both `[size]`; `epsilon` is added to the variance."""
    super().__init__(name=name)
    self._epsilon = epsilon
    self.scale = tf.Variable(tf.ones([size]), name="scale")
    self.offset = tf.Variable(tf.zeros([size]), name="offset")

  def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
    """Normalises `[..., size]`."""
    centred = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + self._epsilon) * self.scale + self.offset


class LayerNormMLP(snt.Module):
  """Linear, layer normalisation, tanh, then linear layers with an activation; as `acme.tf.networks.LayerNormMLP`."""

  def __init__(
      self,
      layer_sizes: Sequence[int],
      *,
      seed: int,
      activation: Callable[[tf.Tensor], tf.Tensor] = tf.nn.elu,
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
    self._first = snt.Linear(layer_sizes[0], w_init=fan_out_uniform(seeds[0]))
    self._norm = LayerNorm(layer_sizes[0])
    self._rest = [
        snt.Linear(size, w_init=fan_out_uniform(layer_seed))
        for size, layer_seed in zip(layer_sizes[1:], seeds[1:])
    ]
    self._activation = activation
    self._activate_final = activate_final

  def __call__(self, inputs: types.NestedTensor) -> tf.Tensor:
    """Maps a nest of `[B, ...]`, flattened and concatenated, to `[B, layer_sizes[-1]]`."""
    hidden = tf.tanh(self._norm(self._first(tf2_utils.batch_concat(inputs))))
    for i, layer in enumerate(self._rest):
      hidden = layer(hidden)
      if self._activate_final or i + 1 < len(self._rest):
        hidden = self._activation(hidden)
    return hidden


def fan_out_uniform(seed: int) -> tf.keras.initializers.Initializer:
  """Uniform initial weights with variance 0.333 / fan-out, which Acme's continuous agents use."""
  # Keras' initialisers are stateless given a seed: the same seed gives the same weights at every call, which Sonnet's do not.
  return tf.keras.initializers.VarianceScaling(0.333, mode="fan_out", distribution="uniform", seed=int(seed))


def near_zero(seed: int) -> tf.keras.initializers.Initializer:
  """Initial weights with variance 1e-4 / fan-in, for last layers."""
  return tf.keras.initializers.VarianceScaling(1e-4, seed=int(seed))
