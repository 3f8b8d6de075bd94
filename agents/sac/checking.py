"""What SAC asks of the networks that it is given, checked before they are used."""

from typing import Optional

from acme import specs
from acme import types
from acme.tf import utils as tf2_utils
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import distributions
from temper.utils import network_checks

# More than one, so that a network which adds up over the batch is noticed.
_BATCH_SIZE = 2


def check_outputs(
  environment_spec: specs.EnvironmentSpec,
  policy_network: snt.Module,
  critic_network: snt.Module,
  value_network: Optional[snt.Module],
) -> None:
  """Checks what networks return for a batch of zeros.

  Args:
    environment_spec: specs of observations and actions.
    policy_network: is to return a distribution over actions with reparameterised samples.
    critic_network: is to return two values `[B]` of observations and actions.
    value_network: is to return values `[B]` of observations; None if there is none.

  Raises:
    ValueError: if an output is something else; names the network, what came and what is needed.
  """
  observation, action = (
    tf.nest.map_structure(
      lambda x: tf.repeat(x[None], _BATCH_SIZE, axis=0), tf2_utils.zeros_like(spec)
    )
    for spec in (environment_spec.observations, environment_spec.actions)
  )
  network_checks.check_policy_output(
    policy_network(observation), environment_spec.actions, _BATCH_SIZE
  )
  _check_reparameterised(policy_network, observation)
  values = critic_network(observation, action)
  if not isinstance(values, (tuple, list)) or len(values) != 2:
    raise ValueError(
      f"critic_network returned {network_checks.describe(values)}; a tuple of two values, [B] each,"
      " is needed: SAC learns twin critics. See temper.agents.sac.networks.TwinCritic."
    )
  named = [("critic_network's value", value) for value in values]
  if value_network is not None:
    named.append(("value_network's value", value_network(observation)))
  for name, value in named:
    if not tf.is_tensor(value) or value.shape.as_list() != [_BATCH_SIZE]:
      raise ValueError(
        f"{name} is {network_checks.describe(value)} for a batch of {_BATCH_SIZE}; floats of shape "
        f"[{_BATCH_SIZE}] are needed. Squeeze the last axis of the last layer."
      )


def _check_reparameterised(policy_network: snt.Module, observation: types.NestedTensor) -> None:
  """Raises ValueError if the critics' gradient would not reach the policy through its samples."""
  with tf.GradientTape() as tape:
    distribution = policy_network(observation)
    sample, _ = distributions.sample_and_log_prob(distribution, tf.zeros([2], tf.int32))
  full = tfp.distributions.FULLY_REPARAMETERIZED
  # Under a strategy's scope, but in none of its replicas, one copy of each variable is read.
  copies = tf.distribute.get_strategy().experimental_local_results
  gradients = tape.gradient(sample, [copies(v)[0] for v in policy_network.trainable_variables])
  if getattr(distribution, "reparameterization_type", full) is not full or not any(
    gradient is not None for gradient in gradients
  ):
    raise ValueError(
      f"The samples of policy_network's {type(distribution).__name__} are not reparameterised, so "
      "the critics' gradient would not reach the policy. Return a distribution whose samples are a "
      "differentiable function of the network's outputs, such as "
      "temper.utils.squashed_gaussian.SquashedGaussian."
    )
