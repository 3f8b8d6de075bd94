"""Set-up of the test session: two logical processors, for strategies of two replicas."""

import os
import sys

import pytest

import temper.utils  # noqa: F401 Checks and quiets the stack, so it comes before TensorFlow.

# isort: split
import tensorflow as tf

# It must be done before TensorFlow starts its devices, that is, before the first test.
tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
  """Ends the process at once: iterators that TensorFlow tunes would hold its end for minutes."""
  reporter = config.pluginmanager.get_plugin("terminalreporter")
  status = getattr(reporter, "_session", None) and reporter._session.exitstatus
  if status is not None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status))
