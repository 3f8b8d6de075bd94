"""The functions of an agent's policy that are exported, see `temper.utils.exporting`.

For every agent and way to act, recurrent or not; the mapping to the environment's own actions is
inside. Networks return distributions, which no format holds; these functions return tensors.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

from acme import specs
from acme import types
import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import policies
from temper.agents.boltzmann import networks as boltzmann_networks
from temper.utils import distributions
from temper.utils import noise as noise_lib
from temper.utils.environment_actions import ActionMapping
from temper.utils.exporting import ExportError
from temper.utils.exporting import ExportFormat
from temper.utils.exporting import Input
from temper.utils.exporting import InputKind
from temper.utils.exporting import PolicyFunction
from temper.utils.exporting import describe
from temper.utils.exporting import leaf_names
from temper.utils.policy_kinds import PolicyKind

# Which function each way to act becomes.
NAMES: Mapping[PolicyKind, str] = {
  PolicyKind.MEAN: "deterministic",
  PolicyKind.RAW: "sample",
  PolicyKind.BOLTZMANN: "boltzmann",
}

_SEED = "seed"
_NOISE = "noise"
_COMPONENT = "component_uniform"
_CHOICE = "choice_uniform"


class ExportedNetworks(NamedTuple):
  """What is exported.

  Attributes:
    policy_network: maps observations, and a state if it has `initial_state`, to a distribution.
    environment_spec: what the agent sees: observations and canonical actions, without batch axis.
    actions: maps canonical actions to the environment's own.
    critic_network: values actions; the Boltzmann policy alone needs it.
  """

  policy_network: snt.Module
  environment_spec: specs.EnvironmentSpec
  actions: ActionMapping
  critic_network: Optional[snt.Module] = None

  def facts(self) -> dict[str, Any]:
    """Returns what the metadata says of actions: the environment's own, and canonical ones."""
    return {
      "action": describe(self.actions.environment_spec),
      "canonical_action": describe(self.environment_spec.actions),
    }


def make_functions(
  networks: ExportedNetworks, choices: Sequence[policies.PolicyChoice], export_format: ExportFormat
) -> list[PolicyFunction]:
  """Makes the functions of policies.

  Inputs are batches: each entry of the observation (`observation`, or `observation_<key>`), each
  tensor of the state (`state_<...>`), and what is random: a `seed`, or, in a format that does not
  draw, `noise`, `component_uniform` for a mixture, and `choice_uniform` for the Boltzmann policy.
  Outputs are

  - `action`, `[B, *A]`: in the environment's own bounds and dtype;
  - `canonical_action`, float32 `[B, *A]`: as the actor returns it, before it is clipped and mapped;
  - `log_prob`, float32 `[B]`, of a sample: log density of `canonical_action`;
  - `next_<state>`: the state for the observation that follows.

  Args:
    networks: what to export.
    choices: ways to act, each of another kind: MEAN becomes `deterministic`, RAW `sample`,
      BOLTZMANN `boltzmann`, with its temperature and number of samples fixed.
    export_format: what the functions are made for.

  Raises:
    ExportError: if two choices are of one kind, or the policy returns no distribution that the
      format can draw from.
    ValueError: if a Boltzmann policy has no critic, or observation keys are too alike.
  """
  names = [NAMES[choice.kind] for choice in choices]
  if not names or len(set(names)) < len(names):
    raise ExportError(f"The functions {names} are asked for; give at least one, and each once.")
  mixture = _check_distribution(networks, export_format)
  return [_make_function(networks, choice, export_format, mixture) for choice in choices]


def _make_function(
  networks: ExportedNetworks,
  choice: policies.PolicyChoice,
  export_format: ExportFormat,
  mixture: bool,
) -> PolicyFunction:
  spec = networks.environment_spec
  policy = choice.make(networks.policy_network, networks.critic_network, spec.actions)
  initial = tree.map_structure(lambda x: np.asarray(x)[0], policy.initial_state(1))
  observation_names = leaf_names("observation", spec.observations)
  state_names = leaf_names("state", initial)
  take = _take_sample if choice.kind is PolicyKind.RAW else _take_action

  def function(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    observation = tree.unflatten_as(spec.observations, [given[name] for name in observation_names])
    state = tree.unflatten_as(initial, [given[name] for name in state_names])
    outputs, next_state = take(networks, policy, observation, state, _randomness(given))
    action = outputs["canonical_action"]
    outputs["action"] = networks.actions.to_environment(
      action, in_float32=not export_format.has_float64
    )
    for name, leaf in zip(state_names, tree.flatten(next_state)):
      outputs[f"next_{name}"] = leaf
    # An input may be an output too, and one tensor two outputs; formats need another name then.
    return {name: tf.identity(x, name=name) for name, x in outputs.items()}

  inputs = {
    name: Input(InputKind.OBSERVATION, tuple(leaf.shape), export_format.dtype(leaf.dtype))
    for name, leaf in zip(observation_names, tree.flatten(spec.observations))
  }
  for name, leaf in zip(state_names, tree.flatten(initial)):
    inputs[name] = Input(InputKind.STATE, leaf.shape, leaf.dtype, initial=leaf)
  inputs.update(_random_inputs(choice, spec.actions.shape, export_format, mixture))
  facts: dict[str, Any] = {"policy": choice.kind.value}
  if choice.kind is PolicyKind.BOLTZMANN:
    facts.update(beta=choice.beta, num_action_samples=choice.num_action_samples)
  return PolicyFunction(NAMES[choice.kind], function, inputs, facts)


_Taken = tuple[dict[str, tf.Tensor], types.NestedTensor]
_Take = Callable[..., _Taken]


def _take_action(
  networks: ExportedNetworks,
  policy: policies.ActingPolicy,
  observation: types.NestedTensor,
  state: types.NestedTensor,
  randomness: distributions.Randomness,
) -> _Taken:
  """Acts as the actor does."""
  del networks
  acted = policy(observation, state, randomness)
  return {"canonical_action": acted.action}, acted.next_state


def _take_sample(
  networks: ExportedNetworks,
  policy: policies.ActingPolicy,
  observation: types.NestedTensor,
  state: types.NestedTensor,
  randomness: distributions.Randomness,
) -> _Taken:
  """Draws as the actor does, and keeps the density that only the draw itself knows exactly."""
  del policy
  distribution, next_state = boltzmann_networks.step(networks.policy_network, (observation,), state)
  action, log_prob = distributions.sample_and_log_prob(distribution, randomness)
  return {"canonical_action": action, "log_prob": log_prob}, next_state


def _random_inputs(
  choice: policies.PolicyChoice,
  action_shape: Sequence[int],
  export_format: ExportFormat,
  mixture: bool,
) -> dict[str, Input]:
  """Returns the inputs that decide what is random; none for the mean."""
  if choice.kind is PolicyKind.MEAN:
    return {}
  if export_format.draws:
    return {_SEED: Input(InputKind.SEED, (), np.dtype(np.int32))}
  boltzmann = choice.kind is PolicyKind.BOLTZMANN
  draws = (choice.num_action_samples,) if boltzmann else ()
  float32 = np.dtype(np.float32)
  inputs = {_NOISE: Input(InputKind.STANDARD_NORMAL, (*draws, *action_shape), float32)}
  if mixture:
    inputs[_COMPONENT] = Input(InputKind.UNIFORM, draws, float32)
  if boltzmann:
    inputs[_CHOICE] = Input(InputKind.UNIFORM, (), float32)
  return inputs


def _randomness(given: Mapping[str, tf.Tensor]) -> distributions.Randomness:
  """Returns a stateless seed, or the noise with the axis of the draws before that of the batch."""
  if _NOISE not in given:
    return tf.stack([given.get(_SEED, tf.zeros([], tf.int32)), 0])
  normal, component, choice = given[_NOISE], given.get(_COMPONENT), given.get(_CHOICE)
  if choice is not None:
    normal = _swap_first_axes(normal)
    component = None if component is None else _swap_first_axes(component)
  return noise_lib.Noise(normal, component, choice)


def _swap_first_axes(x: tf.Tensor) -> tf.Tensor:
  return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _check_distribution(networks: ExportedNetworks, export_format: ExportFormat) -> bool:
  """Returns whether the policy returns mixtures; raises ExportError if nothing can be drawn."""
  spec = networks.environment_spec
  zeros = lambda leaf: tf.zeros([1, *leaf.shape], leaf.dtype)
  state = boltzmann_networks.initial_state(networks.policy_network, 1)
  distribution, _ = boltzmann_networks.step(
    networks.policy_network, (tree.map_structure(zeros, spec.observations),), state
  )
  if not hasattr(distribution, "mean") or not hasattr(distribution, "sample"):
    raise ExportError(
      f"The policy returns a {type(distribution).__name__}; a distribution is needed, with mean "
      "and sample."
    )
  mixture = noise_lib.is_mixture(distribution)
  if not export_format.draws:
    uniform = tf.zeros([1])
    try:
      noise_lib.sample_and_log_prob(
        distribution, noise_lib.Noise(zeros(spec.actions), uniform if mixture else None)
      )
    except TypeError as error:
      raise ExportError(f"{error} Or export it as savedmodel, which draws by itself.") from error
  return mixture
