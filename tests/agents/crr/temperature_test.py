"""CRR with the policy's entropy in its loss."""

import crr_cases
import learner_probes
import numpy as np
import pytest
import reverb
import tensorflow as tf

from temper.agents import crr
from temper.utils import checkpointing
from temper.utils import optimizers
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_config
from temper.utils import temperature_report

_Config = temperature_config.TemperatureConfig


@pytest.fixture(autouse=True)
def _eagerly(request):
  # Most tests take a few steps, for which making a graph would take longer than running it.
  tf.config.run_functions_eagerly("strategy" not in request.fixturenames)
  yield
  tf.config.run_functions_eagerly(False)


def _networks():
  return crr_cases.make_networks(core=crr_cases.stateless, noise=False)


def _steps(count):
  """Batches with an episode's start inside and padding."""
  steps = []
  for seed in range(count):
    step = crr_cases.make_step(seed, batch_size=4, valid=True)
    step = crr_cases.edit(step, "start_of_episode", (2, 2), True)
    steps.append(crr_cases.edit(step, "valid_mask", (0, slice(2, None)), False))
  return steps


def _run(count=3, networks=None, temperature=None, strategy=None, steps=None, rate=1e-2, **options):
  """Runs a learner; returns it, its networks, the temperature and the rows of its log."""
  log = learner_probes.Log()
  with (strategy or tf.distribute.get_strategy()).scope():
    networks = networks or _networks()
    if temperature is not None:
      temperature = temperature_lib.make_temperature(temperature, crr_cases.ACTION)
  steps = steps or _steps(count)
  samples = [reverb.ReplaySample(info=(), data=step) for step in steps]
  learner = crr_cases.make_learner(
    networks,
    crr_cases.as_dataset(*steps) if strategy else iter(samples),
    log=log,
    make_optimizer=lambda: optimizers.Adam(rate),
    accelerator_strategy=strategy,
    temperature=temperature,
    **options,
  )
  for _ in range(count):
    learner.step()
  return learner, networks, temperature, log.rows


def _fixed(alpha):
  return _Config(kind="fixed", initial_alpha=alpha)


def test_the_entropy_of_unmasked_pairs_is_weighed_in_the_loss():
  _, plain, _, rows = _run()
  _, unweighed, _, others = _run(temperature=_fixed(0.0))
  for key, value in crr_cases.values(plain).items():
    np.testing.assert_allclose(crr_cases.values(unweighed)[key], value, 1e-5, 1e-6, err_msg=key)
  assert "alpha" not in rows[0] and others[0]["alpha"] == 0.0
  weighed = _run(1, temperature=_fixed(0.5))[3][0]
  # 4 sequences of 3 pairs: two pairs lie in padding, one across an episode's start.
  valid, divisor = 9, 4 * crr_cases.LENGTH
  expected = -0.5 * weighed["entropy"] * valid / divisor
  assert weighed["policy_loss"] - rows[0]["policy_loss"] == pytest.approx(expected, rel=1e-4)
  assert weighed["critic_loss"] == pytest.approx(rows[0]["critic_loss"], rel=1e-6)


def test_what_is_masked_does_not_reach_alpha():
  step = _steps(1)[0]
  steps = [crr_cases.edit(step, "observation", (0, slice(3, None)), x) for x in (0.0, 9.0)]
  rows = _run(2, temperature="gradient", steps=steps, rate=0.0)[3]
  assert rows[0]["entropy"] == pytest.approx(rows[1]["entropy"], rel=1e-6)
  assert rows[0]["alpha"] != rows[1]["alpha"]


def test_a_larger_alpha_holds_a_higher_entropy():
  entropy = [
    _run(10, temperature=_fixed(alpha), policy_improvement_modes="all")[3][-1]["entropy"]
    for alpha in (0.0, 30.0)
  ]
  assert entropy[1] > entropy[0] + 0.05


def test_alpha_rises_while_the_entropy_is_under_its_target_and_a_bound_is_reported_once(caplog):
  config = _Config(kind="gradient", target_entropy=50.0, learning_rate=0.25, max_alpha=2.0)
  report = temperature_report.BoundReport(config)
  _, _, _, rows = _run(5, temperature=config, bound_report=report)
  alphas = [row["alpha"] for row in rows]
  assert 1.0 < alphas[0] < alphas[1] < alphas[2] == alphas[3] == pytest.approx(2.0)
  assert len([message for message in caplog.messages if "max_alpha = 2" in message]) == 1


def test_a_staged_one_says_its_stage_and_resumes(tmp_path):
  learner, _, temperature, rows = _run(temperature="three_stage")
  assert rows[-1]["alpha"] == pytest.approx(float(temperature.alpha)) and "stage" in rows[-1]
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(3, learner.checkpointables(), {})
  resumed, _, other, _ = _run(1, temperature="three_stage")
  checkpointer.restore(path, resumed.checkpointables())
  for one, two in zip(temperature.variables, other.variables):
    np.testing.assert_array_equal(one.numpy(), two.numpy(), err_msg=one.name)


def test_opaque_networks_are_as_good():
  rows = []
  for kind in (crr_cases.Kind.DEEP_RNN, crr_cases.Kind.OPAQUE):
    networks = crr_cases.make_networks(kind, noise=False)
    rows.append(_run(1, networks, "gradient", policy_improvement_modes="all")[3][0])
  assert rows[0]["entropy"] == pytest.approx(rows[1]["entropy"], rel=1e-5)
  assert rows[0]["policy_loss"] == pytest.approx(rows[1]["policy_loss"], rel=1e-5)


@pytest.mark.parametrize("kind", ["fixed", "three_stage"])
@pytest.mark.parametrize("strategy", [tf.distribute.MirroredStrategy])
def test_replicas_equal_one_device_with_the_whole_batch(strategy, kind):
  # Behaviour cloning, since replicas draw actions of their own.
  options = dict(temperature=_Config(kind=kind), policy_improvement_modes="all")
  _, _, temperature, rows = _run(**options)
  _, _, shared, others = _run(strategy=strategy(["CPU:0", "CPU:1"]), **options)
  assert float(shared.alpha) == pytest.approx(float(temperature.alpha), rel=1e-5)
  for row, other in zip(rows, others):
    for name in ("alpha", "entropy", "policy_loss"):
      assert other[name] == pytest.approx(row[name], rel=1e-4, abs=1e-5), name


def test_the_builder_gives_the_learner_the_configs_temperature():
  config = crr.CRRConfig(
    temperature="gradient",
    sequence_length=crr_cases.LENGTH,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
    lstm_size=4,
    num_atoms=11,
  )
  assert config.temperature == _Config(kind="gradient")
  builder, spec = crr.CRRBuilder(config), crr_cases.environment_spec()
  networks = builder.make_networks(spec)
  dataset = iter([reverb.ReplaySample(info=(), data=step) for step in _steps(1)])
  log = learner_probes.Log()
  learner = builder.make_learner(networks, dataset, logger=log, environment_spec=spec)
  learner.step()
  assert log.rows[0]["alpha"] != 1.0 and "temperature" in learner.checkpointables()
  with pytest.raises(ValueError, match="no spec of actions.*set target_entropy"):
    builder.make_learner(networks, dataset)
