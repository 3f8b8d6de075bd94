"""Exports policies and writes, beside each, what the agent does on given observations."""

from collections.abc import Sequence
import os
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tree

from temper.agents import exported_policies
from temper.agents import policies
from temper.agents.boltzmann import networks as boltzmann_networks
from temper.agents.exported_policies import ExportedNetworks
from temper.launchers import exported_policy_worker as worker
from temper.utils import distributions
from temper.utils import exporting
from temper.utils import noise as noise_lib
from temper.utils.exporting import InputKind
from temper.utils.exporting import PolicyFunction
from temper.utils.exporting import verification
from temper.utils.exporting.loading import Arrays
from temper.utils.policy_kinds import PolicyKind


def export_with_references(
  networks: ExportedNetworks,
  choices: Sequence[policies.PolicyChoice],
  export_format: exporting.ExportFormat,
  directory: str,
  *,
  count: int,
  singles: int,
  seed: int = 0,
) -> None:
  """Exports a policy, with `reference.npz` beside it, which the worker reads.

  Args:
    networks: what to export.
    choices: ways to act.
    export_format: how.
    directory: where to.
    count: number of observations in one batch.
    singles: how many of them are passed one by one as well.
    seed: decides observations, states and what is random.
  """
  functions = exported_policies.make_functions(networks, choices, export_format)
  exporting.write(functions, directory, export_format, networks.facts())
  reference: dict[str, np.ndarray] = {}
  for function, choice in zip(functions, choices):
    act = Acting(networks, choice, function, export_format)
    inputs = verification.example_inputs(function, count, seed)
    outputs = act(inputs)
    _keep(reference, function.name, worker.BATCHED, inputs, outputs)
    # A seed draws other numbers for a batch than for its rows.
    seeds = {"seed": np.arange(count, dtype=np.int32)} if "seed" in inputs else {}
    inputs = {name: x[:singles] for name, x in {**inputs, **seeds}.items()}
    if seeds:
      rows = [act(worker.row_of(inputs, i)) for i in range(singles)]
      outputs = {name: np.concatenate([row[name] for row in rows]) for name in outputs}
    else:
      outputs = {name: x[:singles] for name, x in outputs.items()}
    _keep(reference, function.name, worker.SINGLE, inputs, outputs)
  np.savez(os.path.join(directory, worker.REFERENCE_FILE), **reference)


class Acting:
  """The agent's own acting policy, called by the inputs of an exported function."""

  def __init__(
    self,
    networks: ExportedNetworks,
    choice: policies.PolicyChoice,
    function: PolicyFunction,
    export_format: exporting.ExportFormat,
  ):
    """Keeps what is compared.

    Args:
      networks: of the agent.
      choice: how it acts.
      function: whose inputs are given.
      export_format: tells whether there is float64.
    """
    self._networks = networks
    self._choice = choice
    self._format = export_format
    self._names = {
      kind: [name for name, given in function.inputs.items() if given.kind is kind]
      for kind in InputKind
    }
    self._policy = choice.make(
      networks.policy_network, networks.critic_network, networks.environment_spec.actions
    )
    self._compiled = tf.function(self._act, autograph=False)

  def __call__(self, inputs: Arrays) -> Arrays:
    """Maps the inputs of the exported function to what its outputs have to be."""
    leaves = lambda kind: [tf.constant(inputs[name]) for name in self._names[kind]]
    observation = tree.unflatten_as(
      self._networks.environment_spec.observations, leaves(InputKind.OBSERVATION)
    )
    state = tree.unflatten_as(self._policy.initial_state(1), leaves(InputKind.STATE))
    action, log_prob, next_state = self._compiled(observation, state, _randomness(inputs))
    # In NumPy, as the wrapper of an environment maps actions.
    own = self._networks.actions.to_environment(action.numpy())
    outputs = {
      "canonical_action": action.numpy(),
      "action": own.astype(self._format.dtype(own.dtype)),
    }
    if log_prob is not None:
      outputs["log_prob"] = log_prob.numpy()
    for name, leaf in zip(self._names[InputKind.STATE], tree.flatten(next_state)):
      outputs[f"next_{name}"] = leaf.numpy()
    return outputs

  def _act(
    self, observation: Any, state: Any, randomness: distributions.Randomness
  ) -> tuple[tf.Tensor, Optional[tf.Tensor], Any]:
    acted = self._policy(observation, state, randomness)
    log_prob = None
    if self._choice.kind is PolicyKind.RAW:
      network = self._networks.policy_network
      distribution, _ = boltzmann_networks.step(network, (observation,), state)
      _, log_prob = distributions.sample_and_log_prob(distribution, randomness)
    return acted.action, log_prob, acted.next_state


def _randomness(inputs: Arrays) -> distributions.Randomness:
  """Returns the actor's seed, or noise whose first axis is that of the draws."""
  if "noise" not in inputs:
    return tf.constant([inputs.get("seed", 0), 0], tf.int32)
  choice = inputs.get("choice_uniform")
  draws_first = lambda x: tf.constant(x if choice is None else np.swapaxes(x, 0, 1))
  component = inputs.get("component_uniform")
  return noise_lib.Noise(
    draws_first(inputs["noise"]),
    None if component is None else draws_first(component),
    None if choice is None else tf.constant(choice),
  )


def _keep(reference: Arrays, function: str, mode: str, inputs: Arrays, outputs: Arrays) -> None:
  for side, arrays in (("in", inputs), ("out", outputs)):
    for name, value in arrays.items():
      reference[f"{function}/{mode}/{side}/{name}"] = value
