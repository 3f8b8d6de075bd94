"""Tests of `temper.utils.strategies`; the test session has two logical processors."""

import subprocess
import sys

import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import strategies
from temper.utils.strategy_kinds import StrategyKind

_NO_GPU = not tf.config.list_physical_devices("GPU")


def _devices(monkeypatch, gpus, cpus=1):
  """Lets TensorFlow report so many devices, without having them."""
  counts = {"GPU": gpus, "CPU": cpus}
  monkeypatch.setattr(
    tf.config,
    "list_logical_devices",
    lambda kind: [
      tf.config.LogicalDevice(f"/device:{kind}:{i}", kind) for i in range(counts[kind])
    ],
  )


def _kinds(strategy):
  return [name.rpartition("device:")[2] for name in strategy.extended.worker_devices]


def test_one_device_is_the_first():
  strategy = strategies.make_strategy("one_device")
  assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
  assert strategy.num_replicas_in_sync == 1
  assert _kinds(strategy) == [f"{'CPU' if _NO_GPU else 'GPU'}:0"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_auto_is_one_device_without_several_gpus(gpus, monkeypatch):
  _devices(monkeypatch, gpus=gpus, cpus=2)
  strategy = strategies.make_strategy(StrategyKind.AUTO)
  assert _kinds(strategy) == ["GPU:0" if gpus else "CPU:0"]


@pytest.mark.parametrize("kind", [StrategyKind.AUTO, StrategyKind.MIRRORED])
def test_several_gpus_are_all_taken(kind, monkeypatch):
  made = []
  monkeypatch.setattr(snt.distribute, "Replicator", made.append)  # There are no such devices.
  _devices(monkeypatch, gpus=3)
  strategies.make_strategy(kind)
  assert made == [["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"]]


@pytest.mark.parametrize(
  "gpus, cpus, found", [(0, 1, "0 GPUs and 1 CPU"), (1, 2, "1 GPU and 2 CPUs")]
)
def test_mirrored_needs_two_devices_and_says_what_there_is(gpus, cpus, found, monkeypatch):
  _devices(monkeypatch, gpus=gpus, cpus=cpus)
  with pytest.raises(ValueError, match=f"'mirrored' and needs two .* sees {found}.*Take 'auto'"):
    strategies.make_strategy("mirrored")


def test_a_name_that_is_none_is_refused():
  with pytest.raises(ValueError, match="strategy is 'both'.*StrategyKind.MIRRORED .'mirrored'"):
    strategies.make_strategy("both")


@pytest.mark.skipif(not _NO_GPU, reason="GPUs are taken before processors")
def test_what_a_batch_becomes_is_said():
  one, two = (strategies.make_strategy(kind) for kind in ("one_device", "mirrored"))
  assert strategies.description(one, 6) == "Learning on one device, CPU:0: 6 a batch."
  assert strategies.description(two, 6) == (
    "Learning on 2 replicas, CPU:0, CPU:1: 3 of a batch of 6 on each."
  )
  assert strategies.batch_per_replica(5, one) == 5
  with pytest.raises(ValueError, match="A batch of 5 cannot be shared equally by 2 replicas"):
    strategies.description(two, 5)


def test_what_a_learner_would_refuse_is_refused_without_taking_its_gpus(monkeypatch):
  gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(3)]
  taken = []
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
  monkeypatch.setattr(tf.config, "list_logical_devices", taken.append)
  for kind in ("auto", "mirrored"):
    strategies.check(kind, 6)
    with pytest.raises(ValueError, match="A batch of 8 cannot be shared equally by 3 replicas"):
      strategies.check(kind, 8)
  strategies.check("one_device", 8)
  strategies.check("tpu", 8)
  assert not taken


def test_mirrored_on_one_processor_is_refused_by_the_check_too(monkeypatch):
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
  _devices(monkeypatch, gpus=0)
  with pytest.raises(ValueError, match="'mirrored' and needs two"):
    strategies.check("mirrored", 8)


def test_names_are_known_without_tensorflow():
  program = (
    "import sys\n"
    "from temper.utils import strategy_kinds\n"
    "assert 'tensorflow' not in sys.modules\n"
    "print(','.join(kind.value for kind in strategy_kinds.StrategyKind))"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout.strip() == "auto,one_device,mirrored,tpu"


# TPUs, of which none is here: what TensorFlow is asked for is recorded.


def test_a_tpu_is_found_connected_initialised_and_only_then_used(monkeypatch):
  calls = []

  class Resolver:
    def __init__(self, tpu):
      calls.append(("resolve", tpu))

  def record(name):
    return lambda resolver: calls.append((name, type(resolver)))

  monkeypatch.setenv("TPU_NAME", "local")
  monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Resolver)
  monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", record("connect"))
  monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", record("initialise"))
  monkeypatch.setattr(snt.distribute, "TpuReplicator", record("strategy"))
  strategies.make_strategy("tpu")
  assert calls == [
    ("resolve", "local"),
    *((name, Resolver) for name in ("connect", "initialise", "strategy")),
  ]


def test_without_a_tpu_the_refusal_says_how_one_is_named(monkeypatch):
  for name in ("TPU_NAME", "TPU_CONFIG", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
    monkeypatch.delenv(name, raising=False)
  with pytest.raises(ValueError, match="'tpu' and no TPU.*TPU_NAME is not set.* 1?2 CPUs.*'auto'"):
    strategies.make_strategy("tpu")


@pytest.mark.parametrize(
  "error",
  [OSError("unreachable"), tf.errors.NotFoundError(None, None, "unreachable"), ImportError("un")],
)
def test_a_tpu_that_cannot_be_reached_is_named(error, monkeypatch):
  def fail(tpu):
    raise error

  monkeypatch.setenv("TPU_NAME", "mine")
  monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", fail)
  with pytest.raises(ValueError, match="TPU_NAME is 'mine'.*TensorFlow says: .*un"):
    strategies.make_strategy("tpu")
