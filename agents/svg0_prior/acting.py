"""What SVG0's actor stores beside each action, and the actor itself."""

from collections.abc import Mapping
from typing import Any, Optional

from acme import adders
from acme import specs
from acme.tf import variable_utils
import numpy as np
import sonnet as snt

from temper.agents import actor as actor_lib

# `log_prob`: log density of the action under the policy that acted, for the importance weights.
# `policy_version`: the learner step that the policy came from, for the age of samples.
EXTRAS: Mapping[str, actor_lib.Extra] = {
  "log_prob": actor_lib.Extra(
    specs.Array((), np.float32, "log_prob"), lambda pi, action: pi.log_prob(action)
  ),
  "policy_version": actor_lib.Extra(specs.Array((), np.int32, "policy_version")),
}


class SVG0Actor(actor_lib.Actor):
  """Samples actions from the policy, or takes its mean, and stores their log density.

  The arguments before the star are Acme's.
  """

  def __init__(
    self,
    policy_network: snt.Module,
    adder: Optional[adders.Adder] = None,
    variable_client: Optional[variable_utils.VariableClient] = None,
    deterministic_policy: bool = False,
    *,
    extras: actor_lib.Extras = EXTRAS,
    **kwargs: Any,
  ):
    """Initialises the actor.

    Args:
      policy_network: maps a batch of observations to a distribution over actions.
      adder: where experience goes.
      variable_client: fetches the policy's variables.
      deterministic_policy: whether to take the mean.
      extras: what to store beside each action.
      **kwargs: see `temper.agents.actor.Actor`.
    """
    super().__init__(
      policy_network,
      adder,
      variable_client,
      deterministic=deterministic_policy,
      extras=extras,
      **kwargs,
    )
