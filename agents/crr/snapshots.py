"""Snapshots of CRR's policies and critic: SavedModels that plain TensorFlow loads.

Unlike a checkpoint, a snapshot holds the computation beside the weights, so that it can be used
without the code that made it. `temper.utils.exporting` writes the policy that is to be shipped.
"""

from collections.abc import Mapping
import os
import shutil
from typing import Optional

from acme.tf import networks as acme_networks
from acme.tf import savers
import sonnet as snt
import tensorflow as tf


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


def save_snapshots(modules: Mapping[str, snt.Module], directory: str) -> None:
  """Writes a SavedModel of each module into the folder of its name.

  `tf.saved_model.load(path)` gives a function of observations, (actions and) state with the
  module's outputs, and `initial_state(batch_size)`.

  Args:
    modules: modules that return tensors, and whose variables `acme.tf.utils.create_variables` made,
      as `CRRNetworks.init` does.
    directory: the folder; snapshots in it are replaced, each once its successor is complete.

  Raises:
    ValueError: if a module's variables were made in another way; names the module.
  """
  for name, module in modules.items():
    path = os.path.join(directory, name)
    scratch = path + ".new"
    shutil.rmtree(scratch, ignore_errors=True)
    tf.saved_model.save(savers.make_snapshot(module), scratch)
    shutil.rmtree(path, ignore_errors=True)
    os.replace(scratch, path)
