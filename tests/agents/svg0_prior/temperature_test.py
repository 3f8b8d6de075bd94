"""SVG0 with a temperature in place of a fixed weight of the entropy."""

import agent_contract
import learner_probes
import numpy as np
import pytest
import svg0_cases
import tensorflow as tf

from temper.agents import svg0_prior
from temper.agents.svg0_prior import networks as networks_lib
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
  return svg0_cases.make_networks(networks_lib.make_network_with_prior, prior=False)


def _run(steps=4, networks=None, temperature=None, strategy=None, **options):
  """Runs a learner; returns it, its networks, the temperature and the rows of its log."""
  log = learner_probes.Log()
  with (strategy or tf.distribute.get_strategy()).scope():
    networks = networks or _networks()
    if temperature is not None:
      temperature = temperature_lib.make_temperature(temperature, svg0_cases.ACTIONS)
  dataset = svg0_cases.make_dataset(steps)
  learner = svg0_cases.make_learner(
    networks,
    dataset if strategy else iter([svg0_cases.make_sample(seed) for seed in range(steps)]),
    optimizer=lambda: optimizers.Adam(1e-2),
    log=log,
    temperature=temperature,
    strategy=strategy,
    **{"entropy_estimator": "pathwise", "soft_value_target": True, **options},
  )
  for _ in range(steps):
    learner.step()
  return learner, networks, temperature, log.rows


def _assert_equal(one, other, **tolerance):
  for key, value in svg0_cases.values(one).items():
    np.testing.assert_allclose(svg0_cases.values(other)[key], value, err_msg=key, **tolerance)


def test_a_fixed_temperature_is_a_fixed_weight():
  _, plain, _, rows = _run(entropy_regularizer_cost=0.3)
  fixed = _Config(kind="fixed", initial_alpha=0.3)
  # The weight that it takes the place of is not looked at.
  _, heated, _, others = _run(temperature=fixed, entropy_regularizer_cost=77.0)
  _assert_equal(plain, heated, rtol=1e-6, atol=1e-7)
  assert others[-1]["policy_loss"] == pytest.approx(rows[-1]["policy_loss"], rel=1e-6)
  assert "alpha" not in rows[-1] and others[-1]["alpha"] == pytest.approx(0.3)


def test_its_first_update_sees_the_entropies_of_steps_that_end_no_episode():
  sample = next(iter(svg0_cases.make_dataset(1)))
  config = _Config(kind="gradient", initial_alpha=0.5, learning_rate=0.1, target_entropy=0.0)
  networks = _networks()
  policy = networks.policy(
    {name: tf.reshape(x, [-1, x.shape[-1]]) for name, x in sample.data.observation.items()}
  )
  noise = policy.sample(svg0_cases.NUM_SAMPLES)
  entropy = -tf.reduce_mean(policy.log_prob(noise), axis=0)
  entropy = tf.reshape(entropy, sample.data.reward.shape)[:, :-1]
  valid = np.logical_not(sample.data.start_of_episode[:, 1:])
  expected = np.mean(entropy.numpy()[valid])
  _, _, temperature, rows = _run(1, networks, config)
  assert rows[0]["entropy"] == pytest.approx(expected, rel=1e-5)
  assert rows[0]["temperature_loss"] == pytest.approx(np.log(0.5) * expected, rel=1e-5)
  # Adam's first step: down, since the entropy is above its target.
  assert expected > 0
  assert np.log(rows[0]["alpha"]) == pytest.approx(np.log(0.5) - 0.1, abs=1e-5)
  assert float(temperature.alpha) == pytest.approx(rows[0]["alpha"])


def test_alpha_rises_while_the_entropy_is_under_its_target_and_a_bound_is_reported_once(caplog):
  config = _Config(kind="gradient", target_entropy=50.0, learning_rate=0.25, max_alpha=2.0)
  report = temperature_report.BoundReport(config)
  _, _, _, rows = _run(5, temperature=config, bound_report=report)
  alphas = [row["alpha"] for row in rows]
  assert 1.0 < alphas[0] < alphas[1] < alphas[2] == alphas[3] == pytest.approx(2.0)
  assert len([message for message in caplog.messages if "max_alpha = 2" in message]) == 1


def test_a_larger_alpha_holds_a_higher_entropy():
  entropy = {}
  for alpha in (0.0, 3.0):
    fixed = _Config(kind="fixed", initial_alpha=alpha)
    _, networks, _, _ = _run(12, temperature=fixed)
    observation = next(iter(svg0_cases.make_dataset(1))).data.observation
    distribution = networks.policy({name: x[:, 0] for name, x in observation.items()})
    entropy[alpha] = float(tf.reduce_mean(distribution.entropy()))
  assert entropy[3.0] > entropy[0.0] + 0.1


@pytest.mark.parametrize("kind", ["gradient", "two_stage", "scheduled"])
@pytest.mark.parametrize("strategy", [tf.distribute.MirroredStrategy])
def test_replicas_equal_one_device_with_the_whole_batch(strategy, kind):
  _, one, temperature, rows = _run(temperature=_Config(kind=kind))
  _, two, shared, others = _run(
    temperature=_Config(kind=kind), strategy=strategy(["CPU:0", "CPU:1"])
  )
  _assert_equal(one, two, rtol=1e-4, atol=1e-4)
  assert float(shared.alpha) == pytest.approx(float(temperature.alpha), rel=1e-5)
  for row, other in zip(rows, others):
    for name in ("alpha", "entropy", "policy_loss"):
      assert other[name] == pytest.approx(row[name], rel=1e-3, abs=1e-4), name


def test_a_staged_one_says_its_stage_and_is_served_and_resumes(tmp_path):
  learner, _, temperature, rows = _run(3, temperature="three_stage")
  for name in ("alpha", "entropy", "stage", "temperature_rate", "target_entropy", "max_entropy"):
    assert np.isfinite(rows[-1][name]), name
  assert len(learner.get_variables(["temperature"])[0]) == len(temperature.variables)
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(3, learner.checkpointables(), {})
  resumed, _, other, _ = _run(1, temperature="three_stage")
  checkpointer.restore(path, resumed.checkpointables())
  for one, two in zip(temperature.variables, other.variables):
    np.testing.assert_array_equal(one.numpy(), two.numpy(), err_msg=one.name)


def _builder(**options):
  return svg0_prior.SVG0Builder(
    svg0_prior.SVG0Config(
      batch_size=4,
      sequence_length=3,
      samples_per_insert=4.0,
      min_replay_size=8,
      max_replay_size=200,
      num_action_samples=2,
      policy_layer_sizes=(8,),
      critic_layer_sizes=(8,),
      entropy_estimator="analytic",
      **options,
    )
  )


class _Contract(agent_contract.AgentContract):
  def make_builder(self):
    return _builder(temperature="three_stage")


@pytest.mark.parametrize("strategy", [None])  # Compiled, as agents are.
def test_the_agent_of_a_config_learns_with_it(strategy):
  environment = agent_contract.make_environment()
  with _Contract().agent(environment, strategy=strategy) as agent:
    before = agent_contract.weights(agent)
    agent_contract.act(agent, environment, 30)
    after = agent_contract.weights(agent)
    metrics = agent.learner.metrics
  changed = {key.split("/")[0] for key in before if not np.array_equal(before[key], after[key])}
  assert "temperature" in changed and metrics["alpha"] > 0
  assert metrics["target_entropy"] == pytest.approx(2 * np.log(0.2), rel=1e-5)


def test_a_config_takes_a_kind_and_refuses_an_estimator_without_effect():
  config = svg0_prior.SVG0Config(temperature="two_stage", entropy_estimator="analytic")
  assert config.temperature == _Config(kind="two_stage")
  assert svg0_prior.SVG0Config(temperature="fixed").temperature.kind.value == "fixed"
  with pytest.raises(ValueError, match="'three_stage', but entropy_estimator is 'score'.*pathwise"):
    svg0_prior.SVG0Config(temperature="three_stage")
  with pytest.raises(ValueError, match="temperature is 'newton'"):
    svg0_prior.SVG0Config(temperature="newton")
