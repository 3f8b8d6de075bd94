from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf
import tree

from temper.utils import torsos

_VECTOR = specs.Array((3,), np.float32)
_IMAGE = specs.Array((16, 12, 3), np.uint8)


def _batch(spec, size=2, seed=0):
  random = np.random.RandomState(seed)
  return tree.map_structure(
    lambda s: tf.constant(random.randint(0, 256, (size, *s.shape)).astype(s.dtype)), spec
  )


def test_vectors_are_concatenated_in_key_order():
  spec = {"b": specs.Array((2, 2), np.float32), "a": (specs.Array((), np.int32), _VECTOR)}
  torso = torsos.make_observation_torso(spec, seed=0)
  observation = {
    "b": tf.constant([[[1.0, 2.0], [3.0, 4.0]]]),
    "a": (tf.constant([5]), tf.constant([[6.0, 7.0, 8.0]])),
  }
  features = torso(observation)
  assert features.dtype == tf.float32
  np.testing.assert_array_equal(features, [[5, 6, 7, 8, 1, 2, 3, 4]])
  assert torso.size == 8
  assert not torso.variables
  # The order in which the dict was made does not matter.
  reordered = dict(sorted(observation.items()))
  np.testing.assert_array_equal(torso(reordered), features)


def test_a_single_array_needs_no_nest():
  torso = torsos.make_observation_torso(specs.Array((), np.float32), seed=0)
  np.testing.assert_array_equal(torso(tf.constant([1.0, 2.0])), [[1.0], [2.0]])


def test_keys_select_entries_in_sorted_order():
  spec = {"c": specs.Array((1,), np.float32), "a": specs.Array((1,), np.float32), "b": _IMAGE}
  observation = {"c": tf.constant([[3.0]]), "a": tf.constant([[1.0]])}
  torso = torsos.make_observation_torso(spec, ["c", "a"], seed=0)
  np.testing.assert_array_equal(torso(observation), [[1.0, 3.0]])
  assert not torso.variables


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 30, 3), (16, 16, 3), (64, 64, 9), (84, 84, 3)])
def test_images_of_many_sizes(shape):
  spec = specs.Array(shape, np.uint8)
  torso = torsos.make_observation_torso(spec, seed=0)
  features = torso(_batch(spec)).numpy()
  assert features.shape == (2, torso.size)
  assert np.all(np.abs(features) < 1)
  assert np.any(features[0] != features[1])
  assert features.std() > 0.1


def test_every_variable_of_an_image_is_trained():
  torso = torsos.make_observation_torso(_IMAGE, seed=0)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(torso(_batch(_IMAGE)) ** 3)
  for gradient in tape.gradient(loss, torso.trainable_variables):
    assert np.any(gradient.numpy() != 0)


def test_images_beside_vectors_under_a_function_of_unknown_batch():
  spec = {"image": _IMAGE, "state": _VECTOR}
  torso = torsos.make_observation_torso(spec, seed=0)
  signature = tree.map_structure(lambda s: tf.TensorSpec([None, *s.shape], s.dtype), spec)
  function = tf.function(torso, input_signature=[signature])
  for size in (1, 5):
    batch = _batch(spec, size)
    features = function(batch)
    assert features.shape == (size, torso.size)
    np.testing.assert_allclose(features, torso(batch), atol=1e-6)
    np.testing.assert_array_equal(features[:, -3:], batch["state"])


def test_seeds():
  def weights(seed):
    torso = torsos.make_observation_torso((_IMAGE, _IMAGE), seed=seed)
    torso(_batch((_IMAGE, _IMAGE)))
    return [v.numpy() for v in torso.trainable_variables if v.shape.rank > 1]

  first, again, other = weights(1), weights(1), weights(2)
  assert len(first) == 8
  for i, array in enumerate(first):
    np.testing.assert_array_equal(array, again[i])
    assert np.any(array != other[i])
    # No two layers of one torso share their values either, those of its two images included.
    for later in first[i + 1 :]:
      assert array.shape != later.shape or np.any(array != later)


def test_empty_arrays_are_left_out():
  spec = (_VECTOR, specs.Array((0,), np.float32), specs.Array((0, 4, 3), np.uint8))
  torso = torsos.make_observation_torso(spec, seed=0)
  assert torso(_batch(spec)).shape == (2, 3)


@pytest.mark.parametrize(
  "spec, keys, message",
  [
    ({"a": _VECTOR}, ["b"], r"keys names 'b', but the observation only has \['a'\]"),
    ({"a": _VECTOR}, [], "at least one"),
    ({"a": _VECTOR}, "a", "keys is 'a'"),
    (_VECTOR, ["a"], "selects entries of a dict"),
    (specs.Array((0,), np.float32), None, "hold no number"),
  ],
)
def test_refused_arguments(spec, keys, message):
  with pytest.raises(ValueError, match=message):
    torsos.make_observation_torso(spec, keys, seed=0)


@pytest.mark.parametrize(
  "observation, message",
  [
    (tf.zeros([3]), r"observation has shape \(3,\); expected one batch axis before \[3\]"),
    (tf.zeros([5, 2, 3]), "expected one batch axis"),
    ((tf.zeros([2, 3]), tf.zeros([2, 3])), "has 2 arrays, its spec 1"),
  ],
)
def test_refused_observations(observation, message):
  with pytest.raises(ValueError, match=message):
    torsos.make_observation_torso(_VECTOR, seed=0)(observation)
