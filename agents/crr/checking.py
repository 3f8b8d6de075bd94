"""What CRR asks of the networks that it is given, checked before they are used."""

from collections.abc import Mapping
from typing import Any

from acme import specs
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import network_checks

# More than one, so that a network which adds up over the batch is noticed.
_BATCH_SIZE = 2


def check_cores(networks: Mapping[str, Any]) -> None:
  """Raises TypeError unless every network is a recurrent core, which feed-forward ones can be."""
  for name, network in networks.items():
    if not isinstance(network, snt.RNNCore):
      raise TypeError(
        f"{name} is a {type(network).__name__}; a snt.RNNCore is needed. Wrap feed-forward layers "
        "in snt.DeepRNN (a critic's in acme.tf.networks.CriticDeepRNN): their state is empty."
      )


def check_outputs(
  environment_spec: specs.EnvironmentSpec, policy: snt.RNNCore, critic: snt.RNNCore
) -> None:
  """Calls both networks on a batch of zeros and checks what they return.

  Args:
    environment_spec: specs of observations and actions.
    policy: policy network; its variables exist, as the critic's.
    critic: critic network.

  Raises:
    ValueError: if an output lacks something or is not of the shape that is needed; names the
      network, what came and what is needed.
  """
  zeros = lambda spec: tf.zeros([_BATCH_SIZE, *spec.shape], spec.dtype)
  observation = tree.map_structure(zeros, environment_spec.observations)
  action = tree.map_structure(zeros, environment_spec.actions)
  distribution, _ = policy(observation, policy.initial_state(_BATCH_SIZE))
  network_checks.check_policy_output(distribution, environment_spec.actions, _BATCH_SIZE)
  returns, _ = critic(observation, action, critic.initial_state(_BATCH_SIZE))
  missing = [name for name in ("logits", "values") if not hasattr(returns, name)]
  if missing:
    raise ValueError(
      f"critic_network returned {network_checks.describe(returns)}, which has no "
      f"{' and no '.join(missing)}; a distribution over returns is needed, such as "
      "acme.tf.networks.DiscreteValuedHead or temper.utils.heads.ValueDistributionHead give."
    )
  atoms = returns.values.shape
  if atoms.rank != 1 or returns.logits.shape.as_list() != [_BATCH_SIZE, *atoms.as_list()]:
    raise ValueError(
      f"critic_network returned logits of shape {returns.logits.shape} over values of shape "
      f"{atoms} for a batch of {_BATCH_SIZE}; [{_BATCH_SIZE}, K] over [K] is needed."
    )
