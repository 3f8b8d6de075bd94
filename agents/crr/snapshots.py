"""What is snapshotted of CRR: policies that act, and the critic's mean."""

from typing import Optional

from acme.tf import networks as acme_networks
import sonnet as snt


def modules_to_snapshot(
  policy_network: snt.RNNCore,
  critic_network: snt.RNNCore,
  behavior_network: Optional[snt.Module] = None,
  cwp_network: Optional[snt.Module] = None,
) -> dict[str, snt.Module]:
  """Returns what is snapshotted, by the names that Acme gives it.

  Args:
    policy_network: maps observations and a state to a distribution and the next state.
    critic_network: maps observations, actions and a state to a distribution and the next state.
    behavior_network: what is to be the snapshot `policy`; None: none.
    cwp_network: critic-weighted policy; None: none.

  Returns:
    `raw_policy`, which samples; `critic`, the mean return; and, when given, `policy` and
    `cwp_policy`.
  """
  modules: dict[str, snt.Module] = {
    "raw_policy": snt.DeepRNN([policy_network, acme_networks.StochasticSamplingHead()]),
    "critic": acme_networks.CriticDeepRNN([critic_network, acme_networks.StochasticMeanHead()]),
  }
  if behavior_network is not None:
    modules["policy"] = behavior_network
  if cwp_network is not None:
    modules["cwp_policy"] = cwp_network
  return modules
