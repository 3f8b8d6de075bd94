"""A trained policy as a SavedModel that plain TensorFlow loads, in the environment's own units."""

from collections.abc import Mapping
import json
import os
import re
import shutil
from typing import Any, Callable

from acme import specs
import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import distributions

METADATA_FILE = "metadata.json"


def export_policy(
  network: snt.Module,
  environment_spec: specs.EnvironmentSpec,
  directory: str,
  *,
  to_environment: Callable[[tf.Tensor], tf.Tensor],
  metadata: Mapping[str, Any],
) -> None:
  """Writes a policy as a SavedModel with two signatures.

  `serving_default` (also named `deterministic`) maps a batch of observations to

  - `action`: the policy's mean in the environment's own bounds and dtype, `[B, ...]`;
  - `canonical_action`: the same before it is clipped and mapped, as the actor returns it.

  `sample` takes in addition `seed`, an int32 scalar, and draws the action instead of taking the
  mean; one seed always gives one draw. It returns `log_prob`, float32 `[B]`, of `canonical_action`
  as well. Networks return distributions, which cannot be saved; these tensors can.

  An observation that is one array is the input `observation`; an entry of a dict or tuple is
  `observation_<key or index>`. The names, shapes and dtypes of all inputs are in `metadata.json`.

  Args:
    network: maps a batch of observations to a distribution over canonical actions.
    environment_spec: what the agent sees: observations and canonical actions, without batch axis.
    directory: the folder to write; one that exists is replaced once the new one is complete.
    to_environment: maps canonical actions `[B, ...]` to the environment's own.
    metadata: JSON-able facts to keep beside the policy.
  """
  names = input_names(environment_spec.observations)
  flat = tree.flatten(environment_spec.observations)
  module = _PolicyModule(network, environment_spec, names, to_environment)
  inputs = {
    name: tf.TensorSpec((None, *spec.shape), spec.dtype, name=name)
    for name, spec in zip(names, flat)
  }
  deterministic = module.deterministic.get_concrete_function(**inputs)
  sample = module.sample.get_concrete_function(
    seed=tf.TensorSpec((), tf.int32, name="seed"), **inputs
  )
  scratch = directory.rstrip(os.sep) + ".new"
  shutil.rmtree(scratch, ignore_errors=True)
  tf.saved_model.save(
    module,
    scratch,
    signatures={
      "serving_default": deterministic,
      "deterministic": deterministic,
      "sample": sample,
    },
  )
  with open(os.path.join(scratch, METADATA_FILE), "w", encoding="utf-8") as file:
    json.dump(
      {
        **metadata,
        "inputs": {name: _describe(spec) for name, spec in zip(names, flat)},
        "canonical_action": _describe(environment_spec.actions),
        "signatures": {
          "deterministic": sorted(deterministic.structured_outputs),
          "sample": sorted(sample.structured_outputs),
        },
      },
      file,
      indent=2,
    )
  shutil.rmtree(directory, ignore_errors=True)
  os.replace(scratch, directory)


def input_names(observation_spec: Any) -> list[str]:
  """Returns the name of each leaf of an observation, in the order of `tree.flatten`.

  Raises:
    ValueError: if two leaves get one name, such as keys that differ only in punctuation.
  """
  names = []
  for path, _ in tree.flatten_with_path(observation_spec):
    parts = ["observation", *(re.sub(r"\W", "_", str(part)) for part in path)]
    names.append("_".join(parts))
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ValueError(
      f"Several observation entries would be the policy's input {twice[0]!r}: rename the keys so "
      "that they differ in letters or digits."
    )
  return names


class _PolicyModule(tf.Module):
  """Holds the variables and the two functions of an exported policy."""

  def __init__(
    self,
    network: snt.Module,
    environment_spec: specs.EnvironmentSpec,
    names: list[str],
    to_environment: Callable[[tf.Tensor], tf.Tensor],
  ) -> None:
    super().__init__(name="policy")
    # The variables alone: walking the network would also try to save whatever else it holds.
    self.weights = list(network.variables)

    def distribution(inputs: Mapping[str, tf.Tensor]) -> Any:
      flat = [inputs[name] for name in names]
      return network(tree.unflatten_as(environment_spec.observations, flat))

    def outputs(action: tf.Tensor) -> dict[str, tf.Tensor]:
      return {
        "action": tf.identity(to_environment(action)),
        "canonical_action": tf.identity(action),
      }

    def deterministic(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
      return outputs(distribution(inputs).mean())

    def sample(seed: tf.Tensor, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
      policy = distribution(inputs)
      action = distributions.sample(policy, (), seed=tf.stack([seed, 0]))
      return {**outputs(action), "log_prob": tf.identity(policy.log_prob(action))}

    self.deterministic = tf.function(deterministic)
    self.sample = tf.function(sample)


def _describe(spec: specs.Array) -> dict[str, Any]:
  """Returns a spec in JSON terms, without the batch axis."""
  described: dict[str, Any] = {"shape": list(spec.shape), "dtype": np.dtype(spec.dtype).name}
  if isinstance(spec, specs.BoundedArray):
    described["minimum"] = np.asarray(spec.minimum).tolist()
    described["maximum"] = np.asarray(spec.maximum).tolist()
  return described
