"""Snapshots: modules as SavedModels that plain TensorFlow loads, in canonical units.

Unlike a checkpoint, a snapshot holds the computation beside the weights, so that it can be used
without the code that made it. `temper.utils.exporting` writes the policy that is to be shipped.
"""

from collections.abc import Mapping
import os
import shutil

from acme.tf import savers
import sonnet as snt
import tensorflow as tf


def save_snapshots(modules: Mapping[str, snt.Module], directory: str) -> None:
  """Writes a SavedModel of each module into the folder of its name.

  `tf.saved_model.load(path)` gives a function of observations, (actions and) state with the
  module's outputs, and `initial_state(batch_size)`.

  Args:
    modules: modules that return tensors, and whose variables `acme.tf.utils.create_variables` made,
      as the `init` of networks does.
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
