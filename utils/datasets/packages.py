"""Imports the packages that only some formats need."""

import importlib
import types


def load(name: str, purpose: str) -> types.ModuleType:
  """Imports an optional package.

  Args:
    name: of the module.
    purpose: what needs it, the subject of the error's sentence.

  Raises:
    ImportError: if it is missing or broken; the message says how to install it.
  """
  try:
    return importlib.import_module(name)
  except ImportError as error:
    raise ImportError(
      f"{purpose} need the package {name}: pip install 'temper-rl[datasets]' ({error})."
    ) from error
