"""Makes the `tf.distribute` strategy that a name stands for, and says what it does to a batch."""

import os
from typing import Union

import sonnet as snt
import tensorflow as tf

from temper.utils import checks
from temper.utils.strategy_kinds import StrategyKind

# TensorFlow reads it too, but would look for "local", the machine's own TPU, in the cloud.
_TPU_NAME = "TPU_NAME"


def make_strategy(kind: Union[StrategyKind, str]) -> tf.distribute.Strategy:
  """Makes a strategy over devices of this process, or over the cores of a TPU.

  Sonnet's replicators are made, since Sonnet's own optimizers run under no other strategy of
  several replicas. Networks and optimizers are to be made inside of the strategy's scope.

  Args:
    kind: which strategy, or its value such as "mirrored".

  Returns:
    A `tf.distribute.OneDeviceStrategy`, `snt.distribute.Replicator` or
    `snt.distribute.TpuReplicator`.

  Raises:
    ValueError: if the devices that it needs are not there; names those that were found.
  """
  kind = checks.member("strategy", kind, StrategyKind)
  if kind is StrategyKind.TPU:
    return _tpu_strategy()
  devices = _devices(kind, _names("GPU"))
  if len(devices) == 1:
    return tf.distribute.OneDeviceStrategy(devices[0])
  return snt.distribute.Replicator(devices)


def check(kind: Union[StrategyKind, str], batch_size: int) -> None:
  """Refuses what a learner of this machine would refuse, without taking a GPU from it.

  Of a TPU nothing is known before it is connected.

  Args:
    kind: which strategy, or its value.
    batch_size: of the whole batch.

  Raises:
    ValueError: if devices are missing, or cannot share the batch equally.
  """
  kind = checks.member("strategy", kind, StrategyKind)
  if kind is not StrategyKind.TPU:
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    _share(batch_size, len(_devices(kind, gpus)))


def _devices(kind: StrategyKind, gpus: list[str]) -> list[str]:
  """Returns the devices of a strategy, all GPUs being these."""
  if kind is StrategyKind.AUTO:
    kind = StrategyKind.MIRRORED if len(gpus) > 1 else StrategyKind.ONE_DEVICE
  devices = gpus or _names("CPU")
  if kind is StrategyKind.ONE_DEVICE:
    return devices[:1]
  if len(devices) < 2:
    raise ValueError(
      "strategy is 'mirrored' and needs two devices of a kind at least; TensorFlow sees "
      f"{_found()}. Take 'auto' or 'one_device', or make more devices visible, as by "
      "CUDA_VISIBLE_DEVICES."
    )
  return devices


def batch_per_replica(batch_size: int, strategy: tf.distribute.Strategy) -> int:
  """Returns how much of a batch each replica gets.

  Raises:
    ValueError: if the replicas cannot share it equally.
  """
  return _share(batch_size, strategy.num_replicas_in_sync)


def _share(batch_size: int, replicas: int) -> int:
  if batch_size % replicas:
    raise ValueError(
      f"A batch of {batch_size} cannot be shared equally by {replicas} replicas; choose "
      f"a batch size that is a multiple of {replicas}."
    )
  return batch_size // replicas


def description(strategy: tf.distribute.Strategy, batch_size: int) -> str:
  """Says on which devices a learner computes, and how much of a batch each of them gets.

  Raises:
    ValueError: if the replicas cannot share the batch equally.
  """
  share = batch_per_replica(batch_size, strategy)
  devices = ", ".join(_short(name) for name in strategy.extended.worker_devices)
  replicas = strategy.num_replicas_in_sync
  if replicas == 1:
    return f"Learning on one device, {devices}: {batch_size} a batch."
  return f"Learning on {replicas} replicas, {devices}: {share} of a batch of {batch_size} on each."


def _tpu_strategy() -> tf.distribute.Strategy:
  name = os.environ.get(_TPU_NAME, "")
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return snt.distribute.TpuReplicator(resolver)
  except (ImportError, OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
    # The first line says it; the others are TensorFlow's list of kernels.
    cause = (str(error).splitlines() or [type(error).__name__])[0]
    named = f"{_TPU_NAME} is {name!r}" if name else f"{_TPU_NAME} is not set"
    raise ValueError(
      f"strategy is 'tpu' and no TPU can be used: {named}, and TensorFlow sees {_found()}. Set "
      f"{_TPU_NAME} to the TPU's name or address, or to 'local' on the TPU's own machine; without "
      f"a TPU, take 'auto'. TensorFlow says: {cause}"
    ) from error


def _names(device_type: str) -> list[str]:
  return [device.name for device in tf.config.list_logical_devices(device_type)]


def _found() -> str:
  """Returns what there is, such as `0 GPUs and 1 CPU`."""
  counts = [(len(_names(device_type)), device_type) for device_type in ("GPU", "CPU")]
  return " and ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)


def _short(device: str) -> str:
  """Returns `GPU:0` of `/job:localhost/replica:0/task:0/device:GPU:0`."""
  return device.rpartition("device:")[2]
