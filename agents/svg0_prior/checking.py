"""What SVG0 asks of the networks and the data that it is given, checked before they are used."""

from collections.abc import Callable, Mapping
from typing import Any, Optional

from acme import specs
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import network_checks

# More than one, so that a network which adds up over the batch is noticed.
_BATCH_SIZE = 2


def check_modules(networks: Mapping[str, Any]) -> None:
  """Checks that networks can be copied and trained apart from each other.

  Args:
    networks: modules by the name that a message gives them; the prior may be None.

  Raises:
    TypeError: if a network is no Sonnet module, such as a policy loaded from a SavedModel.
    ValueError: if the prior is the policy itself.
  """
  for name, network in networks.items():
    if not isinstance(network, snt.Module) and not (name == "prior_network" and network is None):
      raise TypeError(
        f"{name} is a {type(network).__name__}; a snt.Module is needed, since the agent copies it "
        "to make its target. Wrap a function with acme.tf.utils.to_sonnet_module; rebuild a saved "
        "policy's module and restore its checkpoint."
      )
  if networks["prior_network"] is networks["policy_network"]:
    raise ValueError(
      "prior_network is the same module as policy_network: their KL is always 0, and each would "
      "undo the other's training. Make two modules, for instance with make_network_with_prior."
    )


def check_outputs(
  environment_spec: specs.EnvironmentSpec,
  policy: snt.Module,
  critic: snt.Module,
  prior: Optional[snt.Module],
  needs_entropy: bool,
) -> None:
  """Calls each network on a batch of zeros and checks what it returns.

  TensorFlow's global generator is left as it was, except by a distribution whose `sample` takes no
  seed.

  Args:
    environment_spec: specs of observations and actions.
    policy: policy network; its variables exist, as those of the others.
    critic: critic network.
    prior: behaviour prior, if there is one.
    needs_entropy: whether the policy's analytic entropy will be asked for.

  Raises:
    ValueError: if an output lacks a method, or is not of the shape or dtype that is needed; names
      the network, what came and what is needed.
  """
  zeros = lambda spec: tf.zeros([_BATCH_SIZE, *spec.shape], spec.dtype)
  observation = tree.map_structure(zeros, environment_spec.observations)
  action = tree.map_structure(zeros, environment_spec.actions)
  distribution = policy(observation)
  network_checks.check_policy_output(distribution, environment_spec.actions, _BATCH_SIZE)
  if needs_entropy:
    _check_analytic(
      "policy_network",
      "entropy()",
      lambda: distribution.entropy(),
      "Choose another entropy_estimator, or a distribution that knows its entropy",
    )
  if prior is not None:
    other = prior(observation)
    _check_analytic(
      "prior_network",
      "policy.kl_divergence(prior)",
      lambda: distribution.kl_divergence(other),
      "Give policy and prior one kind of distribution with a known KL",
    )
  value = critic(observation, action)
  floats = tf.is_tensor(value) and value.dtype.is_floating
  if not floats or value.shape.as_list() not in ([_BATCH_SIZE], [_BATCH_SIZE, 1]):
    raise ValueError(
      f"critic_network returned {network_checks.describe(value)} for a batch of {_BATCH_SIZE}; "
      f"floats of shape [{_BATCH_SIZE}] or [{_BATCH_SIZE}, 1] are needed. End it with "
      "snt.Linear(1); of a distribution over values, return the mean."
    )


def _check_analytic(name: str, call: str, evaluate: Callable[[], tf.Tensor], mend: str) -> None:
  try:
    value = evaluate()
  except (AttributeError, NotImplementedError) as error:
    raise ValueError(f"{name}: {call} is needed, but there is none ({error}). {mend}.") from error
  if value.shape.as_list() != [_BATCH_SIZE]:
    raise ValueError(
      f"{name}: {call} is {network_checks.describe(value)} for a batch of {_BATCH_SIZE}; "
      f"one number per observation, shape [{_BATCH_SIZE}], is needed. Make the action's axes one "
      f"event of both distributions, {network_checks.DISTRIBUTION}."
    )
