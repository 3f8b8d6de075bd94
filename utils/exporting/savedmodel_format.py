"""Functions as a SavedModel: TensorFlow's own format, with a signature for each function."""

from collections.abc import Sequence

import tensorflow as tf

from temper.utils.exporting.functions import PolicyFunction

# What servers and loaders call when no signature is named.
DEFAULT_SIGNATURE = "serving_default"


def write(functions: Sequence[PolicyFunction], directory: str) -> None:
  """Writes a SavedModel.

  Args:
    functions: each becomes the signature of its name; the first one is `serving_default` as well.
    directory: the folder to make.
  """
  traced = {function.name: function.concrete for function in functions}
  module = tf.Module(name="policy")
  # The variables alone: walking the networks would also try to save whatever else they hold.
  variables = {v.ref(): v for concrete in traced.values() for v in concrete.variables}
  module.weights = list(variables.values())
  signatures = {DEFAULT_SIGNATURE: traced[functions[0].name], **traced}
  tf.saved_model.save(module, directory, signatures=signatures)
