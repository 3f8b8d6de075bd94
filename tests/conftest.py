"""Set-up of the whole test session: two logical processors, so that strategies of two replicas can be tested."""

import temper.utils  # noqa: F401 Checks and quiets the stack, so it comes before TensorFlow.
import tensorflow as tf

# It must be done before TensorFlow starts its devices, that is, before the first test.
tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
