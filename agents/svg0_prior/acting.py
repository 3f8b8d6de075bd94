"""What SVG0's actor stores beside each action, and the actor itself."""

from collections.abc import Mapping
from typing import Any, Optional

from acme import adders
from acme import specs
from acme import types
import numpy as np
import sonnet as snt

from temper.agents import actor as actor_lib
from temper.agents import policies

# `log_prob`: log density of the action under the policy that acted, for the importance weights.
# `policy_version`: the learner step that the policy came from, for the age of samples.
EXTRAS: Mapping[str, actor_lib.Extra] = {
  "log_prob": actor_lib.Extra(
    specs.Array((), np.float32, "log_prob"), lambda pi, action: pi.log_prob(action)
  ),
  "policy_version": actor_lib.Extra(specs.Array((), np.int32, "policy_version")),
}


class SVG0Actor(actor_lib.Actor):
  """Acts by the policy network, as is chosen, and stores the log density of each action.

  The arguments before the star are Acme's.
  """

  def __init__(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_client: Optional[actor_lib.VariableClient] = None,
    deterministic_policy: bool = False,
    *,
    choice: Optional[policies.PolicyChoice] = None,
    critic_network: Optional[snt.Module] = None,
    action_spec: Optional[types.NestedSpec] = None,
    extras: actor_lib.Extras = EXTRAS,
    **kwargs: Any,
  ):
    """Initialises the actor.

    Args:
      policy_network: maps a batch of observations to a distribution over actions.
      adder: where experience goes.
      variable_client: fetches the policy's variables, and the critic's if it is used.
      deterministic_policy: whether to take the mean; that, or `choice`.
      choice: how to take actions; None: as the flag says.
      critic_network: values actions; the Boltzmann policy alone needs it.
      action_spec: see `PolicyChoice.make`.
      extras: what to store beside each action.
      **kwargs: see `temper.agents.actor.Actor`.

    Raises:
      ValueError: if both the flag and `choice` are given, or the critic is needed and missing.
    """
    choice = policies.choice_of(deterministic_policy, choice)
    policy = choice.make(policy_network, critic_network, action_spec)
    super().__init__(policy, adder, variable_client, extras=extras, **kwargs)
