"""The default first stage of every network: nested observations to one feature vector."""

import collections.abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import environment_observations
from temper.utils import mlp

# Features that an image is reduced to. About the 50 that pixel-based continuous control uses
# (Yarats 2019, https://arxiv.org/abs/1910.01741): small enough not to drown vectors beside it.
_IMAGE_FEATURES = 64
_CHANNELS = (32, 64, 64)


class ObservationStatistics(NamedTuple):
  """Mean and standard deviation of each number of an observation.

  Attributes:
    mean: nest of arrays, each of its observation's shape, in its units.
    std: the same, each above 0.
  """

  mean: Any
  std: Any


@snt.allow_empty_variables
class ObservationTorso(snt.Module):
  """Turns a nest of batched observations into one float32 vector `[B, D]`.

  Leaves are taken in the order of `tree.flatten` (dict keys sorted), whatever the order in which
  the dict was made. A vector, matrix or scalar leaf is flattened, cast and, given statistics,
  normalised; an image leaf (uint8 of rank 3, `[H, W, C]`) passes through an `ImageTorso` of its
  own. Statistics are variables that are not trained: checkpoints and exported policies hold them.

  Attributes:
    size: D, the number of features.
  """

  def __init__(
    self,
    observation_spec: Any,
    keys: Optional[Sequence[str]] = None,
    *,
    seed: int,
    statistics: Optional[ObservationStatistics] = None,
    name: str = "observation_torso",
  ):
    """Initialises the torso; see `make_observation_torso` for the arguments and errors."""
    super().__init__(name=name)
    self._keys = None if keys is None else _check_keys(observation_spec, keys)
    self._spec = self._select(observation_spec)
    leaves = tree.flatten_with_path(self._spec)
    seeds = np.random.SeedSequence(seed).generate_state(max(1, len(leaves)))
    # An empty leaf, such as an environment's absent sensor, has no features and no variables.
    self._images = [
      ImageTorso(spec.shape, seed=int(leaf_seed))
      if _is_image(spec) and math.prod(spec.shape)
      else None
      for (_, spec), leaf_seed in zip(leaves, seeds)
    ]
    self._names = [environment_observations.path_name(path) for path, _ in leaves]
    self._shapes = [tuple(spec.shape) for _, spec in leaves]
    self.size = sum(
      _IMAGE_FEATURES if image else math.prod(shape)
      for image, shape in zip(self._images, self._shapes)
    )
    if self.size == 0:
      raise ValueError(f"the observations {self._spec!r} hold no number, so there is no feature.")
    self._means: list[Optional[tf.Variable]] = [None] * len(leaves)
    self._stds: list[Optional[tf.Variable]] = [None] * len(leaves)
    if statistics is not None:
      self._make_statistics(statistics)

  def __call__(self, observation: Any) -> tf.Tensor:
    """Maps observations to features.

    Args:
      observation: nest of tensors `[B, *shape]` that matches the spec; B may be unknown. Entries of
        a dict that `keys` leaves out may be missing.

    Returns:
      float32 `[B, D]`.

    Raises:
      ValueError: if the nest or a shape does not match the spec.
    """
    leaves = tree.flatten(self._select(observation))
    if len(leaves) != len(self._shapes):
      raise ValueError(
        f"the observation has {len(leaves)} arrays, its spec {len(self._shapes)}: {self._names}."
      )
    features: list[tf.Tensor] = []
    each = zip(leaves, self._names, self._shapes, self._images, self._means, self._stds)
    for leaf, name, shape, image, mean, std in each:
      leaf = tf.convert_to_tensor(leaf)
      if not tf.TensorShape([None, *shape]).is_compatible_with(leaf.shape):
        raise ValueError(
          f"{name} has shape {leaf.shape}; expected one batch axis before {list(shape)}."
        )
      if image:
        features.append(image(leaf))
      elif math.prod(shape):
        flat = tf.reshape(tf.cast(leaf, tf.float32), [-1, math.prod(shape)])
        features.append(flat if mean is None else (flat - mean) / std)
    return features[0] if len(features) == 1 else tf.concat(features, axis=-1)

  def _make_statistics(self, statistics: ObservationStatistics) -> None:
    """Keeps mean and deviation of each leaf that is not an image."""
    means, stds = (tree.flatten(self._select(nest)) for nest in statistics)
    if not len(means) == len(stds) == len(self._shapes):
      raise ValueError(
        f"the statistics have {len(means)} means and {len(stds)} deviations for the "
        f"{len(self._shapes)} arrays of an observation: {self._names}."
      )
    for i, (name, shape) in enumerate(zip(self._names, self._shapes)):
      if self._images[i] is not None:
        continue
      mean, std = (np.asarray(x, np.float32).reshape(-1) for x in (means[i], stds[i]))
      if mean.size != math.prod(shape) or std.size != mean.size:
        raise ValueError(
          f"the statistics of {name} have {mean.size} numbers; its shape is {shape}."
        )
      if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
        raise ValueError(
          f"the statistics of {name} must be finite, with deviations above 0; got mean {mean} and "
          f"deviation {std}."
        )
      self._means[i] = tf.Variable(mean, trainable=False, name="mean")
      self._stds[i] = tf.Variable(std, trainable=False, name="std")

  def _select(self, nest: Any) -> Any:
    """Returns the chosen entries of a dict, or the whole nest."""
    return nest if self._keys is None else {key: nest[key] for key in self._keys}


class ImageTorso(snt.Module):
  """A small convolutional network: three convolutions, then a layer-normalised tanh bottleneck.

  The strides follow the image's size, so that images from 8x8 up keep at least 4x4 positions and
  84x84 ones come down to 6x6. The bottleneck keeps features in (-1, 1), the scale of vectors beside
  them.
  """

  def __init__(self, shape: Sequence[int], *, seed: int, name: str = "image_torso"):
    """Initialises the layers.

    Args:
      shape: `[H, W, C]` of the images.
      seed: seed of the initial weights.
      name: module name.
    """
    super().__init__(name=name)
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(len(_CHANNELS) + 1)]
    self._convolutions = []
    for channels, stride, layer_seed in zip(_CHANNELS, _strides(min(shape[:2])), seeds):
      self._convolutions.append(
        snt.Conv2D(
          channels,
          kernel_shape=max(3, 2 * stride),
          stride=stride,
          padding="SAME",
          # Variance 2 / fan-in keeps the scale of activations through rectifiers.
          w_init=tf.keras.initializers.VarianceScaling(2.0, seed=layer_seed),
        )
      )
    self._bottleneck = mlp.NormalisedLinear(_IMAGE_FEATURES, seed=seeds[-1])

  def __call__(self, images: tf.Tensor) -> tf.Tensor:
    """Maps uint8 images `[B, H, W, C]` to float32 features `[B, 64]` in (-1, 1)."""
    hidden = tf.cast(images, tf.float32) / 255.0
    for convolution in self._convolutions:
      hidden = tf.nn.relu(convolution(hidden))
    return tf.tanh(self._bottleneck(snt.flatten(hidden)))


def make_observation_torso(
  observation_spec: Any,
  keys: Optional[Sequence[str]] = None,
  *,
  seed: int,
  statistics: Optional[ObservationStatistics] = None,
) -> ObservationTorso:
  """Makes the default torso for a nest of observations.

  Args:
    observation_spec: nest of `dm_env.specs.Array`, without a batch axis.
    keys: names of the entries of a dict observation to use, in any order; None uses everything.
    seed: seed of the initial weights, if there are images: equal seeds give equal weights.
    statistics: of the whole observation, by which numbers are normalised; images are not.

  Returns:
    A module from a nest of `[B, ...]` to float32 `[B, D]`, with `size` = D.

  Raises:
    ValueError: if `keys` names an entry that does not exist, is empty, or is given for
      observations that are not a dict; if nothing is left to observe; or if the statistics do not
      fit the observations.
  """
  return ObservationTorso(observation_spec, keys, seed=seed, statistics=statistics)


def _check_keys(observation_spec: Any, keys: Sequence[str]) -> tuple[str, ...]:
  """Returns `keys` as a tuple, or raises ValueError."""
  if not isinstance(observation_spec, collections.abc.Mapping):
    raise ValueError(
      f"keys={keys!r} selects entries of a dict, but the observation is {observation_spec!r}; "
      "use keys=None."
    )
  available = sorted(map(str, observation_spec))
  if isinstance(keys, str) or not keys:
    raise ValueError(f"keys is {keys!r}; it must be a sequence of at least one of {available}.")
  for key in keys:
    if key not in observation_spec:
      raise ValueError(f"keys names {key!r}, but the observation only has {available}.")
  return tuple(keys)


def _is_image(spec: Any) -> bool:
  """Returns whether a spec describes an image: uint8 `[H, W, C]`."""
  return np.dtype(spec.dtype) == np.uint8 and len(spec.shape) == 3


def _strides(size: int) -> tuple[int, int, int]:
  """Returns the strides of the three convolutions for images whose shorter side is `size`."""
  first = 4 if size >= 64 else 2 if size >= 16 else 1
  side = math.ceil(size / first)
  second = 2 if side >= 8 else 1
  side = math.ceil(side / second)
  return first, second, 2 if side >= 8 else 1
