"""Set-up of the test session: two logical processors, for strategies of two replicas."""

import temper.utils  # noqa: F401 Checks and quiets the stack, so it comes before TensorFlow.

# isort: split
import tensorflow as tf

# It must be done before TensorFlow starts its devices, that is, before the first test.
tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
