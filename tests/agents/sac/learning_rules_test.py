"""The rules by which SAC's learner goes: phases, several updates, rates, clipping, temperatures."""

import itertools

from acme import specs
import learner_probes
import numpy as np
import pytest
import sac_cases
import sonnet as snt
import tensorflow as tf

from temper.agents import sac
from temper.agents.sac import networks as networks_lib
from temper.utils import optimizers
from temper.utils import prioritised_replay
from temper.utils import temperature
from temper.utils.temperature_config import TemperatureConfig

_COMMON = {"critic", "critic_optimizer", "num_steps"}
_POLICY = {"policy", "policy_optimizer"}
_TEMPERATURE = {"temperature"}
_VALUE = {"value", "value_optimizer"}


def _moving(**options):
  """A gradient temperature with a rate that is seen."""
  return TemperatureConfig(learning_rate=1e-2, initial_alpha=0.5, **options)


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_what_moves_in_which_update(variant):
  config = sac_cases.make_config(variant, policy_update_period=3, temperature=_moving())
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(6))
  rows = []
  for number in range(6):
    before = sac_cases.values(learner)
    learner.step()
    rows.append(learner.metrics)
    moved = sac_cases.moved(before, sac_cases.values(learner))
    with_policy = number % 3 == 2
    if variant == "twin_target":
      expected = _COMMON | {"target_critic"} | (_POLICY | _TEMPERATURE if with_policy else set())
    else:
      expected = _COMMON | _VALUE | _TEMPERATURE
      expected |= _POLICY | {"target_value"} if with_policy else set()
    assert moved == expected, number
  # What was told in the third update is told until the sixth.
  for name in ("policy_loss", "policy_gradient_norm"):
    assert [name in row for row in rows] == [False, False, True, True, True, True]
    told = [row[name] for row in rows[2:]]
    assert told[0] == told[1] == told[2] != told[3]
  alphas = [row.get("alpha") for row in rows]
  if variant == "twin_target":
    assert alphas[:2] == [None, None] and alphas[2] == alphas[3] == alphas[4] != alphas[5]
  else:
    assert len(set(alphas)) == 6


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_targets_move_by_tau_after_what_they_follow_or_before(variant):
  config = sac_cases.make_config(variant, target_update_rate=0.3, policy_update_period=1)
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(1))
  name = "critic" if variant == "twin_target" else "value"
  online, target = (learner.checkpointables()[n] for n in (name, f"target_{name}"))
  for variable in target.variables:
    variable.assign_add(tf.ones_like(variable))
  read = lambda network: [v.numpy() for v in network.variables]
  old_online, old_target = read(online), read(target)
  learner.step()
  # The twin critics' target sees the step's own update, the value network's the one before.
  followed = read(online) if variant == "twin_target" else old_online
  for now, before, source in zip(read(target), old_target, followed):
    np.testing.assert_allclose(now, before + 0.3 * (source - before), rtol=1e-5, atol=1e-6)


class Writer:
  """Keeps the priorities that a learner writes."""

  max_priority = 1.0

  def __init__(self):
    self.written = []

  def write(self, keys, priorities):
    self.written.append((keys, priorities))


def _with_priorities(config, dataset):
  """A learner as the builder makes it, but with a writer that is looked at."""
  builder = sac.SACBuilder(config)
  networks = builder.make_networks(sac_cases.SPEC)
  trained = networks.value_network or networks.critic_network
  config, writer = builder.config, Writer()
  learner = sac.SACLearner(
    networks,
    networks_lib.target_of(trained),
    dataset,
    temperature.make_temperature(config.temperature, sac_cases.SPEC.actions),
    policy_update_period=config.policy_update_period,
    updates_per_call=config.updates_per_call,
    learning_rate_decay_period=config.learning_rate_decay_period,
    prioritised_replay=config.prioritised_replay,
    priority_writer=writer,
    logger=learner_probes.Log(),
  )
  return learner, writer


@pytest.mark.parametrize(
  "variant,period", [("value_network", 2), ("twin_target", 1), ("twin_target", 2)]
)
def test_several_updates_a_call_equal_as_many_calls(variant, period):
  options = dict(
    policy_update_period=period,
    learning_rate_decay_period=5,
    temperature=_moving(),
    prioritised_replay=prioritised_replay.PrioritisedReplay(anneal_steps=6),
  )
  one, one_writer = _with_priorities(
    sac_cases.make_config(variant, **options), sac_cases.make_dataset(8)
  )
  several, writer = _with_priorities(
    sac_cases.make_config(variant, updates_per_call=4, **options), sac_cases.make_dataset(8)
  )
  rows = sac_cases.steps(one, 8)
  joined = sac_cases.steps(several, 2)
  assert several.num_steps == one.num_steps == 8 and several.updates_per_step == 4
  assert joined[-1]["steps"] == 8
  expected, got = sac_cases.values(one), sac_cases.values(several)
  assert expected.keys() == got.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-7, err_msg=name)
  # Metrics are means over those of a call's updates that tell them.
  for name in ("critic_loss", "learning_rate_scale", "importance_weight_mean", "q_mean"):
    means = [np.mean([row[name] for row in rows[i : i + 4]]) for i in (0, 4)]
    assert [row[name] for row in joined] == pytest.approx(means, rel=1e-4), name
  policy_rows = rows[period - 1 :: period]
  mean = np.mean([row["policy_loss"] for row in policy_rows[-(4 // period) :]])
  assert joined[-1]["policy_loss"] == pytest.approx(mean, rel=1e-4, abs=1e-6)
  # Priorities come in the order of the batches.
  assert [len(keys) for keys, _ in writer.written] == [16, 16]
  for index in range(2):
    for mine, other in zip(zip(*one_writer.written), writer.written[index]):
      together = np.concatenate(mine[4 * index : 4 * index + 4])
      np.testing.assert_allclose(other, together, rtol=1e-5)
  assert all(np.all(priorities > 0) for _, priorities in writer.written)


def test_a_call_that_does_not_fit_the_turns_or_the_data_is_refused():
  config = sac_cases.make_config("twin_target", updates_per_call=2)
  samples = iter([sac_cases.make_sample()])
  with pytest.raises(ValueError, match="2 updates a call need a tf.data.Dataset"):
    sac_cases.make_learner(config, samples)


def test_all_rates_decay_to_a_tenth():
  config = sac_cases.make_config(
    "value_network",
    learning_rate_decay_period=4,
    policy_update_period=1,
    policy_learning_rate=0.02,
    critic_learning_rate=0.03,
    temperature=_moving(),
  )
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(9))
  objects = learner.checkpointables()
  for number in range(9):
    learner.step()
    # Of the update just done, before which `number` were.
    factor = 1 - 0.9 * min(number / 4, 1)
    assert learner.metrics["learning_rate_scale"] == pytest.approx(factor, rel=1e-6)
    for name, base in (("policy", 0.02), ("critic", 0.03), ("value", 0.03)):
      rate = float(objects[f"{name}_optimizer"].learning_rate)
      assert rate == pytest.approx(base * factor, rel=1e-5)
    (rate,) = (v for v in objects["temperature"].variables if "learning_rate" in v.name)
    assert float(rate) == pytest.approx(1e-2 * factor, rel=1e-5)


def test_the_critics_gradient_is_clipped_and_no_other():
  recorded = {
    name: learner_probes.RecordingOptimizer(snt.optimizers.SGD(1.0))
    for name in ("policy", "critic", "value")
  }
  config = sac_cases.make_config(
    "value_network",
    max_critic_gradient_norm=1e-3,
    policy_update_period=1,
    **{f"{name}_optimizer": optimizer for name, optimizer in recorded.items()},
  )
  sample = sac_cases.make_sample()
  sample = sample._replace(data=sample.data._replace(reward=sample.data.reward * 100))
  learner = sac_cases.make_learner(config, iter([sample]))
  learner.step()
  norm = lambda name: float(tf.linalg.global_norm(recorded[name].updates))
  assert norm("critic") == pytest.approx(1e-3, rel=1e-4)
  assert learner.metrics["critic_gradient_norm"] > 1.0
  for name in ("policy", "value"):
    assert norm(name) == pytest.approx(learner.metrics[f"{name}_gradient_norm"], rel=1e-5)
    assert norm(name) > 2e-3


# Temperatures.


@pytest.mark.parametrize(
  "variant,loss,target,sign",
  [
    ("value_network", "alpha", 20.0, 1),
    ("twin_target", "log_alpha", 20.0, 1),
    ("twin_target", "alpha", -20.0, -1),
  ],
)
def test_entropy_under_the_target_raises_alpha_and_above_lowers_it(variant, loss, target, sign):
  config = sac_cases.make_config(
    variant, policy_update_period=1, temperature=_moving(loss=loss, target_entropy=target)
  )
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(3))
  alphas = [0.5, *(row["alpha"] for row in sac_cases.steps(learner, 3))]
  assert np.all(sign * np.diff(alphas) > 0)
  # Adam's first step is its rate.
  assert np.log(alphas[1] / alphas[0]) == pytest.approx(sign * 1e-2, rel=1e-3)


@pytest.mark.parametrize(
  "config",
  [
    TemperatureConfig(kind="fixed", initial_alpha=0.3),
    TemperatureConfig(kind="two_stage", target_entropy=20.0),
    TemperatureConfig(kind="three_stage", skip_free_stage=True, target_entropy=20.0),
    TemperatureConfig(kind="three_stage", very_slow_update_rate=0.1),
    TemperatureConfig(kind="scheduled", target_schedule=((0, 1.0), (4, -5.0)), max_entropy=2.0),
  ],
  ids=["fixed", "two_stage", "skip_free", "three_stage", "scheduled"],
)
def test_alpha_follows_every_other_rule(config):
  learner = sac_cases.make_learner(
    sac_cases.make_config("twin_target", temperature=config), sac_cases.make_dataset(6)
  )
  rule = temperature.make_temperature(config, sac_cases.SPEC.actions)
  start = float(rule.alpha)
  rows = sac_cases.steps(learner, 6)
  for row in rows:
    update = rule.update(tf.constant([row["entropy"]]))
    assert row["alpha"] == pytest.approx(float(update.alpha), rel=1e-5)
    for name, value in update.metrics.items():
      assert row[name] == pytest.approx(float(value), rel=1e-4, abs=1e-5), name
  changed = [row["alpha"] != pytest.approx(start, rel=1e-6) for row in rows]
  assert any(changed) == (config.kind.value != "fixed")


def test_an_alpha_at_its_bound_is_told_once(caplog):
  config = sac_cases.make_config(
    "twin_target",
    temperature=TemperatureConfig(
      initial_alpha=0.5, max_alpha=0.501, learning_rate=0.1, target_entropy=20.0
    ),
  )
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(4))
  with caplog.at_level("WARNING", logger="absl"):
    rows = sac_cases.steps(learner, 4)
  assert [row["alpha"] for row in rows] == pytest.approx([0.501] * 4)
  assert caplog.text.count("alpha has reached max_alpha") == 1


# Batches.


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_huge_observations_leave_a_whole_step_finite(variant):
  sample = sac_cases.make_sample()
  data = sample.data
  huge = data._replace(
    observation=1e6 * data.observation, next_observation=1e6 * data.next_observation
  )
  config = sac_cases.make_config(variant, policy_update_period=1)
  learner = sac_cases.make_learner(config, itertools.repeat(sample._replace(data=huge)))
  for row in sac_cases.steps(learner, 3):
    assert all(np.isfinite(value) for value in row.values()), row
  assert all(np.isfinite(value).all() for value in sac_cases.values(learner).values())


class Constant(snt.Module):
  """Values that heed nothing."""

  def __init__(self, value, count):
    super().__init__()
    self.value = tf.Variable(float(value))
    self._count = count

  def __call__(self, observation, action=None):
    heed = 0.0 if action is None else 0.0 * tf.reduce_sum(action, axis=1)
    value = self.value + heed + tf.zeros_like(observation[:, 0])
    return value if self._count == 1 else (value, value + 1.0)


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_the_critics_loss_by_hand(variant):
  """Q is 2 and 3 and V is 4 everywhere; alpha is 0."""
  with_value = variant == "value_network"
  config = sac_cases.make_config(
    variant,
    discount=0.9,
    reward_scale=0.5,
    temperature=TemperatureConfig(kind="fixed", initial_alpha=0.0),
  )
  made = sac.SACBuilder(config).make_networks(sac_cases.SPEC)
  networks = sac.SACNetworks(
    made.policy_network, Constant(2.0, 2), Constant(4.0, 1) if with_value else None
  )
  # Integer rewards, and discounts in double precision.
  sample = sac_cases.make_sample(
    reward=np.array([2, 2, 4, 4]), discount=np.array([1.0, 0.5, 0.0, 0.0])
  )
  learner = sac_cases.make_learner(config, iter([sample]), networks=networks)
  learner.step()
  bootstrap = 4.0 if with_value else 2.0  # The smaller one of the twins.
  target = np.array([1 + 0.9 * bootstrap, 1 + 0.45 * bootstrap, 2, 2])
  expected = np.mean((2 - target) ** 2) + np.mean((3 - target) ** 2)
  assert learner.metrics["critic_loss"] == pytest.approx(expected, rel=1e-5)
  assert learner.metrics["q_mean"] == pytest.approx(2.0)
  if with_value:
    # The critics' smaller value, without entropy.
    assert learner.metrics["value_loss"] == pytest.approx((4 - 2) ** 2, rel=1e-5)


def test_at_terminations_an_infinite_next_value_does_no_harm():
  class Infinite(Constant):
    def __call__(self, observation, action=None):
      return super().__call__(observation) + np.inf

  builder = sac.SACBuilder(sac_cases.make_config("value_network"))
  networks = builder.make_networks(sac_cases.SPEC)
  networks.value_network = Constant(4.0, 1)
  sample = sac_cases.make_sample(discount=np.zeros(sac_cases.BATCH_SIZE, np.float32))
  learner = sac.SACLearner(
    networks,
    Infinite(4.0, 1),
    iter([sample]),
    temperature.make_temperature("fixed", None),
    logger=learner_probes.Log(),
  )
  first, second = networks.critic_network(*map(tf.constant, sample.data[:2]))
  learner.step()
  expected = sum(np.mean((q.numpy() - sample.data.reward) ** 2) for q in (first, second))
  assert learner.metrics["critic_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_shared_encoder_is_trained_by_the_critics_alone():
  pixels = np.random.RandomState(0).randint(0, 255, (4, 8, 8, 3)).astype(np.uint8)
  image = specs.BoundedArray((8, 8, 3), np.uint8, 0, 255)
  spec = sac_cases.SPEC._replace(observations=image)
  config = sac_cases.make_config(
    "twin_target",
    encoder_sharing="all",
    critic_optimizer=snt.optimizers.SGD(0.0),
    policy_optimizer=snt.optimizers.SGD(0.1),
  )
  builder = sac.SACBuilder(config)
  networks = builder.make_networks(spec)
  sample = sac_cases.make_sample(observation=pixels, next_observation=pixels[::-1])
  learner = sac_cases.make_learner(config, iter([sample]), networks=networks)
  before = sac_cases.values(learner)
  learner.step()
  moved = sac_cases.moved(before, sac_cases.values(learner))
  # The critics, the encoder among them, stand still at a rate of 0.
  assert "policy" in moved and "critic" not in moved


# Checkpoints.


@pytest.mark.parametrize("variant", sac_cases.VARIANTS)
def test_an_interrupted_learner_equals_one_that_was_not(tmp_path, variant):
  config = sac_cases.make_config(
    variant, policy_update_period=2, learning_rate_decay_period=10, temperature=_moving()
  )
  make = lambda dataset: sac_cases.make_learner(
    config, dataset, checkpoint=True, directory=str(tmp_path)
  )
  whole = sac_cases.make_learner(config, sac_cases.make_dataset(7))
  rows = sac_cases.steps(whole, 7)
  first = make(sac_cases.make_dataset(3))
  sac_cases.steps(first, 3)  # In the middle of a turn of two.
  saved, _ = sac_cases.values(first), first.save_checkpoint()
  second = make(sac_cases.make_dataset(4, first=3))
  for name, value in sac_cases.values(second).items():
    np.testing.assert_array_equal(value, saved[name], err_msg=name)
  alpha = float(second.checkpointables()["temperature"].alpha)
  row = sac_cases.steps(second, 1)[0]
  # One step after loading changes alpha, by the optimizer's own history.
  assert row["alpha"] == rows[3]["alpha"] != alpha
  sac_cases.steps(second, 3)
  expected, got = sac_cases.values(whole), sac_cases.values(second)
  assert expected.keys() == got.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(got[name], value, err_msg=name)
  assert any("temperature" in name and "/m/" in name for name in expected)


# What is refused.


@pytest.mark.parametrize(
  "options,message",
  [
    (dict(discount=1.5), "discount is 1.5"),
    (dict(target_update_rate=0.0), "target_update_rate is 0.0"),
    (dict(reward_scale=-1.0), "reward_scale is -1.0"),
    (dict(policy_update_period=0), "policy_update_period is 0"),
    (dict(max_critic_gradient_norm=0.0), "max_critic_gradient_norm is 0.0"),
    (dict(learning_rate_decay_period=0), "learning_rate_decay_period is 0"),
    (dict(updates_per_call=3, policy_update_period=2), "3 updates a call, .* turns of 2"),
  ],
)
def test_bad_numbers_are_refused(options, message):
  networks = sac.SACBuilder(sac_cases.make_config("twin_target")).make_networks(sac_cases.SPEC)
  with pytest.raises(ValueError, match=message):
    sac.SACLearner(
      networks,
      networks_lib.target_of(networks.critic_network),
      sac_cases.make_dataset(1),
      temperature.make_temperature("fixed", None),
      **options,
    )


@pytest.mark.parametrize(
  "change,options,message",
  [
    (lambda s: s.data._asdict(), {}, "holds dict; acme.types.Transition is needed"),
    (lambda s: s.data, {"prioritised": True}, "prioritised replay needs reverb.ReplaySample"),
    (
      lambda s: s.data._replace(reward=np.zeros((4, 2), np.float32)),
      {},
      r"one number each, \[B\]",
    ),
    (lambda s: s.data._replace(discount=np.zeros((4, 1), np.float32)), {}, "discounts have shape"),
  ],
  ids=["dict", "no_info", "rewards", "discounts"],
)
def test_datasets_of_something_else_are_refused(change, options, message):
  prioritised = prioritised_replay.PrioritisedReplay() if options else None
  networks = sac.SACBuilder(sac_cases.make_config("twin_target")).make_networks(sac_cases.SPEC)
  with pytest.raises(ValueError, match=message):
    sac.SACLearner(
      networks,
      networks_lib.target_of(networks.critic_network),
      sac_cases.dataset_of([change(sac_cases.make_sample())]),
      temperature.make_temperature("fixed", None),
      prioritised_replay=prioritised,
    )


def test_transitions_without_the_information_of_replay_are_taken():
  data = sac_cases.make_sample().data
  learner = sac_cases.make_learner(
    sac_cases.make_config("twin_target"), sac_cases.dataset_of([data])
  )
  learner.step()
  assert learner.metrics["sample_age"] == 0.0
  assert np.isfinite(learner.metrics["critic_loss"])


def test_a_missing_target_entropy_or_client_is_named():
  builder = sac.SACBuilder(sac_cases.make_config("twin_target"))
  networks = builder.make_networks(sac_cases.SPEC)
  with pytest.raises(ValueError, match="no target entropy.*environment's spec, or set"):
    builder.make_learner(networks, sac_cases.make_dataset(1))
  prioritised = prioritised_replay.PrioritisedReplay()
  config = sac_cases.make_config("twin_target", prioritised_replay=prioritised)
  with pytest.raises(ValueError, match="replay_client is None.*prioritised_replay to None"):
    sac_cases.make_learner(config, sac_cases.make_dataset(1))


def test_optimizers_of_ones_own_are_used():
  made = {f"{n}_optimizer": optimizers.Adam(0.0) for n in ("policy", "critic", "value")}
  config = sac_cases.make_config("value_network", policy_update_period=1, **made)
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(1))
  before = sac_cases.values(learner)
  learner.step()
  moved = sac_cases.moved(before, sac_cases.values(learner))
  assert not moved & {"policy", "critic", "value"} and "temperature" in moved
