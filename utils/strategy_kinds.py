"""On how many devices a learner computes, for flags and logs; without TensorFlow."""

import enum


class StrategyKind(enum.Enum):
  """What shares a learner's batches."""

  AUTO = "auto"
  """All GPUs if there are two or more, else one device."""
  ONE_DEVICE = "one_device"
  """The first GPU, or the CPU if there is none."""
  MIRRORED = "mirrored"
  """All GPUs, or all logical CPUs if there is no GPU; two devices at least."""
  TPU = "tpu"
  """The cores of the TPU that the environment variable TPU_NAME names."""
