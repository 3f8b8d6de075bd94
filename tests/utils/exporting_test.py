"""Tests of `temper.utils.exporting`."""

import json
import os
import subprocess
import sys

from acme import specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.utils import environment_actions
from temper.utils import exporting

tfd = tfp.distributions


class LinearPolicy(snt.Module):
  """A linear Gaussian policy over all entries of an observation."""

  def __init__(self, action_size):
    super().__init__()
    self._mean = snt.Linear(action_size)
    self._scale = snt.Linear(action_size)
    # Something that tf.saved_model.save would stumble over if it walked the network.
    self.note = {1: object()}

  def __call__(self, observation):
    leaves = [
      tf.cast(tf.reshape(x, [tf.shape(x)[0], -1]), tf.float32) for x in tree.flatten(observation)
    ]
    features = tf.concat([tf.ensure_shape(x, [None, 2]) for x in leaves], axis=-1)
    return tfd.MultivariateNormalDiag(
      loc=self._mean(features), scale_diag=tf.nn.softplus(self._scale(features)) + 0.1
    )


_VECTOR = specs.Array((2,), np.float32)
_OBSERVATIONS = {
  "vector": (_VECTOR, ["observation"]),
  "dict": (
    {"position": _VECTOR, "to target": specs.Array((2, 1), np.float64)},
    ["observation_position", "observation_to_target"],
  ),
  "tuple": ((_VECTOR, {"deep": _VECTOR}), ["observation_0", "observation_1_deep"]),
}


def _environment_spec(observation_spec):
  return specs.EnvironmentSpec(
    observations=observation_spec,
    actions=specs.BoundedArray((3,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


def _batch(observation_spec, size):
  rng = np.random.default_rng(size)
  return tree.map_structure(
    lambda spec: rng.normal(size=(size, *spec.shape)).astype(spec.dtype), observation_spec
  )


@pytest.fixture(name="mapping")
def _mapping():
  own = specs.BoundedArray((3,), np.float64, [-2.0, 0.0, 5.0], [2.0, 10.0, 6.0])
  return environment_actions.ActionMapping(own)


def _export(directory, kind, mapping):
  observation_spec, names = _OBSERVATIONS[kind]
  network = LinearPolicy(3)
  network(_batch(observation_spec, 1))
  exporting.export_policy(
    network,
    _environment_spec(observation_spec),
    directory,
    to_environment=mapping.to_environment,
    metadata={"agent": "svg0"},
  )
  return network, names


@pytest.mark.parametrize("kind", _OBSERVATIONS)
def test_round_trip(tmp_path, kind, mapping):
  directory = str(tmp_path / "policy")
  network, names = _export(directory, kind, mapping)
  loaded = tf.saved_model.load(directory)
  for size in (1, 5):
    observation = _batch(_OBSERVATIONS[kind][0], size)
    inputs = {name: tf.constant(x) for name, x in zip(names, tree.flatten(observation))}
    expected = network(observation)
    for signature in ("deterministic", "serving_default"):
      outputs = loaded.signatures[signature](**inputs)
      np.testing.assert_allclose(outputs["canonical_action"], expected.mean(), atol=1e-5)
      assert outputs["action"].dtype == tf.float64
      np.testing.assert_allclose(
        outputs["action"], mapping.to_environment(expected.mean().numpy()), atol=1e-5
      )
    drawn = loaded.signatures["sample"](seed=tf.constant(7), **inputs)
    again = loaded.signatures["sample"](seed=tf.constant(7), **inputs)
    other = loaded.signatures["sample"](seed=tf.constant(8), **inputs)
    np.testing.assert_array_equal(drawn["action"], again["action"])
    assert np.any(drawn["canonical_action"].numpy() != other["canonical_action"].numpy())
    np.testing.assert_allclose(
      drawn["log_prob"], expected.log_prob(drawn["canonical_action"]), atol=1e-5
    )
    action = drawn["action"].numpy()
    assert action.shape == (size, 3)
    assert np.all(action >= [-2.0, 0.0, 5.0]) and np.all(action <= [2.0, 10.0, 6.0])


def test_samples_follow_the_distribution(tmp_path, mapping):
  directory = str(tmp_path / "policy")
  network, _ = _export(directory, "vector", mapping)
  observation = np.tile(np.array([[0.3, -0.7]], np.float32), (20_000, 1))
  drawn = tf.saved_model.load(directory).signatures["sample"](
    observation=tf.constant(observation), seed=tf.constant(0)
  )
  expected = network(observation[:1])
  np.testing.assert_allclose(
    tf.reduce_mean(drawn["canonical_action"], 0), expected.mean()[0], atol=0.05
  )
  np.testing.assert_allclose(
    tf.math.reduce_std(drawn["canonical_action"], 0), expected.stddev()[0], rtol=0.05
  )


def test_it_loads_where_only_tensorflow_is(tmp_path, mapping):
  directory = str(tmp_path / "policy")
  network, _ = _export(directory, "vector", mapping)
  program = (
    "import sys, tensorflow as tf\n"
    f"policy = tf.saved_model.load({directory!r})\n"
    "out = policy.signatures['deterministic'](observation=tf.constant([[0.5, -1.0]]))\n"
    "assert not [m for m in sys.modules if m.split('.')[0] in "
    "('temper', 'sonnet', 'acme', 'tensorflow_probability', 'reverb')]\n"
    "print(*out['canonical_action'].numpy()[0])"
  )
  printed = subprocess.run(
    [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
  ).stdout
  expected = network(np.array([[0.5, -1.0]], np.float32)).mean()[0]
  np.testing.assert_allclose([float(word) for word in printed.split()], expected, atol=1e-5)


def test_metadata_says_what_goes_in_and_out(tmp_path, mapping):
  directory = str(tmp_path / "policy")
  _export(directory, "dict", mapping)
  with open(os.path.join(directory, exporting.METADATA_FILE), encoding="utf-8") as file:
    metadata = json.load(file)
  assert metadata["agent"] == "svg0"
  assert metadata["inputs"] == {
    "observation_position": {"shape": [2], "dtype": "float32"},
    "observation_to_target": {"shape": [2, 1], "dtype": "float64"},
  }
  assert metadata["signatures"]["sample"] == ["action", "canonical_action", "log_prob"]
  assert metadata["canonical_action"]["minimum"] in (-1.0, [-1.0] * 3)


def test_exporting_again_replaces_the_folder(tmp_path, mapping):
  directory = str(tmp_path / "policy")
  _export(directory, "vector", mapping)
  network, _ = _export(directory, "vector", mapping)
  assert os.listdir(tmp_path) == ["policy"]
  outputs = tf.saved_model.load(directory).signatures["deterministic"](
    observation=tf.constant([[1.0, 2.0]])
  )
  expected = network(np.array([[1.0, 2.0]], np.float32)).mean()
  np.testing.assert_allclose(outputs["canonical_action"], expected, atol=1e-5)


def test_entries_that_would_share_a_name_are_refused():
  with pytest.raises(ValueError, match="observation_a_b"):
    exporting.input_names({"a b": _VECTOR, "a_b": _VECTOR})
