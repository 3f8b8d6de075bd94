"""Tests of `temper.utils.temperature`: signs, bounds, replicas, checkpoints."""

import math

from acme import specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import checkpointing
from temper.utils import entropy_target
from temper.utils import temperature
from temper.utils import temperature_config
from temper.utils import temperature_report

_Config = temperature_config.TemperatureConfig
_SPEC = specs.BoundedArray((2,), np.float32, -1.0, 1.0)
_MOVING = ("gradient", "two_stage", "three_stage", "scheduled")


def _make(kind="gradient", dtype=tf.float32, **fields):
  return temperature.make_temperature(_Config(kind=kind, **fields), _SPEC, dtype=dtype)


def _compiled(made):
  return tf.function(made.update, autograph=False)


def _values(made):
  # The clock of a schedule apart: it goes on without a valid entropy too.
  return {v.name: v.numpy() for v in made.variables if "num_calls" not in v.name}


def _log_alpha(made):
  return math.log(float(made.alpha))


# Under the target and falling, which is what the staged rules look at too.
_UNDER = [np.full([3, 4], -2.5 - 0.3 * k, np.float32) for k in range(8)]


@pytest.mark.parametrize("loss", ["alpha", "log_alpha"])
def test_gradient_entropy_under_the_target_raises_alpha_and_above_lowers_it(loss):
  for shift, sign in ((-0.5, 1), (0.5, -1)):
    made = _make(loss=loss, learning_rate=0.1)
    result = made.update(tf.constant([-2.0 + shift, -2.0]))
    # Adam's first step is its learning rate.
    assert _log_alpha(made) == pytest.approx(sign * 0.1, rel=1e-4)
    assert float(result.alpha) == float(made.alpha)
    assert float(result.metrics["entropy"]) == pytest.approx(-2.0 + shift / 2)


@pytest.mark.parametrize("kind", _MOVING)
def test_entropy_under_the_target_raises_alpha(kind):
  made = _make(kind, target_entropy=-2.0)
  before = float(made.alpha)
  for entropy in _UNDER:
    result = made.update(entropy)
  assert float(result.alpha) > before and float(made.alpha) == float(result.alpha)


@pytest.mark.parametrize("loss", ["alpha", "log_alpha"])
def test_gradient_steps_are_adams_on_the_loss(loss):
  made = _make(loss=loss, initial_alpha=0.2, learning_rate=0.01, dtype=tf.float64)
  reference = tf.Variable(math.log(0.2), dtype=tf.float64)
  adam = snt.optimizers.Adam(0.01)
  random = np.random.RandomState(0)
  for _ in range(10):
    entropy = random.normal(size=[8])
    with tf.GradientTape() as tape:
      weight = tf.exp(reference) if loss == "alpha" else reference
      # As the papers write it, of log densities.
      expected = -weight * tf.reduce_mean(-entropy + -2.0)
    adam.apply([tape.gradient(expected, reference)], [reference])
    result = made.update(tf.constant(entropy))
    assert float(result.loss) == pytest.approx(float(expected), rel=1e-8)
    assert _log_alpha(made) == pytest.approx(float(reference), abs=1e-7)


def test_the_learning_rate_can_be_scaled_in_the_graph():
  made = _make(learning_rate=0.1)
  update = tf.function(lambda e, s: made.update(e, None, s).alpha, autograph=False)
  alpha = update(tf.constant([-5.0]), tf.constant(0.5))
  assert math.log(alpha) == pytest.approx(0.05, rel=1e-4)


def test_default_targets():
  target = lambda kind: float(_make(kind).update(tf.constant([0.0])).metrics["target_entropy"])
  for kind in ("two_stage", "three_stage", "scheduled"):
    assert target(kind) == pytest.approx(2 * math.log(0.2))
  # Minus the number of dimensions: no loss there.
  assert float(_make("gradient", loss="alpha").update(tf.constant([-2.0])).loss) == 0.0


@pytest.mark.parametrize("kind", ("fixed", *_MOVING))
def test_without_a_valid_entropy_nothing_changes(kind):
  made = _make(kind)
  update = _compiled(made)
  entropies = [tf.constant(e) for e in _UNDER]
  all_valid = tf.ones([3, 4], tf.bool)
  for entropy in entropies[:3]:
    update(entropy, all_valid)
  before = _values(made)
  last = tf.fill([3, 4], 2)
  result = update(tf.constant(math.inf, shape=[3, 4]), entropy_target.valid_steps(last))
  assert float(result.alpha) == float(made.alpha)
  for name, value in _values(made).items():
    np.testing.assert_array_equal(value, before[name], err_msg=name)
  update(entropies[3], all_valid)
  changed = any(np.any(value != before[name]) for name, value in _values(made).items())
  assert changed == (kind != "fixed")


@pytest.mark.parametrize("kind", _MOVING)
def test_entropies_that_are_not_valid_have_no_part(kind):
  masked, cut = _make(kind), _make(kind)
  mask = np.array([[True, False, True, True], [False] * 4, [True, True, False, True]])
  for entropy in _UNDER:
    other = np.where(mask, entropy, np.float32(1e30))
    masked.update(tf.constant(other), tf.constant(mask))
    cut.update(tf.constant(entropy[mask]))
  assert _log_alpha(masked) == pytest.approx(_log_alpha(cut), rel=1e-5)
  with pytest.raises(ValueError, match=r"valid has shape \(2,\), the entropies \(3, 4\)"):
    masked.update(tf.constant(entropy), tf.constant([True, False]))


@pytest.mark.parametrize("kind", _MOVING)
@pytest.mark.parametrize("direction, bound", [(-1.0, "max_alpha = 10"), (1.0, "min_alpha = 0.01")])
def test_alpha_stays_in_its_bounds_and_that_is_said_once(kind, direction, bound, caplog):
  rate = {"learning_rate": 0.5} if kind == "gradient" else {}
  config = _Config(
    kind=kind, target_entropy=0.0, initial_alpha=0.1, min_alpha=0.01, max_alpha=10.0, **rate
  )
  made = temperature.make_temperature(config, _SPEC)

  @tf.function(autograph=False)
  def run():
    # Far under the target at first, which ends the free stage; then ever further to one side.
    def body(i, lowest, highest):
      entropy = tf.where(i < 10, -1.0 - tf.cast(i, tf.float32), direction * tf.cast(i, tf.float32))
      alpha = made.update(entropy[None]).alpha
      return i + 1, tf.minimum(lowest, alpha), tf.maximum(highest, alpha)

    return tf.while_loop(lambda i, *_: i < 10_000, body, [0, math.inf, -math.inf])

  _, lowest, highest = run()
  assert 0.01 * (1 - 1e-6) <= lowest < highest <= 10.0 * (1 + 1e-6)
  report = temperature_report.BoundReport(config)
  for k in range(20):
    result = made.update(tf.constant([direction * (10_000 + k)]))
    report.report({name: float(value) for name, value in result.metrics.items()})
  said = [message for message in caplog.messages if message.startswith("alpha has reached")]
  assert [bound in message for message in said] == [True]


def test_both_bounds_are_reported_each_once(caplog):
  report = temperature_report.BoundReport("gradient")
  for alpha, at_bound in ((1.0, 0.0), (1e4, 1.0), (1e-8, 1.0), (1e4, 1.0), (1e-8, 0.5), (0.0, 1.0)):
    report.report({"alpha": alpha, "alpha_at_bound": at_bound})
  report.report({"policy_loss": 1.0})
  assert len(caplog.messages) == 2
  assert "max_alpha = 10000" in caplog.messages[0] and "min_alpha = 1e-08" in caplog.messages[1]


@pytest.mark.parametrize("kind", ("fixed", *_MOVING))
@pytest.mark.parametrize("entropy", [0.0, -3.0, 7.0])
def test_a_constant_entropy_leaves_alpha_finite(kind, entropy):
  made = _make(kind)
  step = lambda i: (made.update(tf.fill([2], entropy)), i + 1)[1]
  tf.function(lambda: tf.while_loop(lambda i: i < 1000, step, [0]), autograph=False)()
  assert math.isfinite(float(made.alpha))
  assert all(np.all(np.isfinite(value)) for value in _values(made).values())


def test_no_minimum_is_e_to_minus_100():
  made = _make("three_stage", min_alpha=0, skip_free_stage=True, target_entropy=0.0)
  update = _compiled(made)
  for k in range(200):
    result = update(tf.constant([float(k)]))
  assert float(result.metrics["alpha_at_bound"]) == 1.0
  assert made._log_alpha.numpy() == -100.0


def test_a_fixed_temperature_is_a_variable_that_stays():
  made = _make("fixed", initial_alpha=0.0, dtype=tf.float64)
  result = made.update(tf.constant([1.0, 3.0]))
  assert float(result.alpha) == 0.0 == float(made.alpha) and len(made.variables) == 1
  assert float(result.metrics["entropy"]) == 2.0 and float(result.loss) == 0.0


@pytest.mark.parametrize("kind", ("fixed", *_MOVING))
def test_a_restored_one_goes_on_as_if_never_interrupted(kind, tmp_path):
  random = np.random.RandomState(1)
  entropies = [tf.constant(random.normal(-1.0, 2.0, [5]).astype(np.float32)) for _ in range(20)]
  whole, half = _make(kind), _make(kind)
  for entropy in entropies[:10]:
    whole.update(entropy)
    half.update(entropy)
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(10, {"temperature": half}, {})
  resumed = _make(kind, initial_alpha=0.3)
  checkpointer.restore(path, {"temperature": resumed})
  for entropy in entropies[10:]:
    before = float(resumed.alpha)
    whole.update(entropy)
    resumed.update(entropy)
    if kind == "gradient":
      assert float(resumed.alpha) != before
  assert sorted(v.name for v in whole.variables) == sorted(v.name for v in resumed.variables)
  for one, other in zip(whole.variables, resumed.variables):
    np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.name)


@pytest.mark.parametrize("kind", ("fixed", *_MOVING))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
  "make_strategy", [tf.distribute.MirroredStrategy, snt.distribute.Replicator]
)
def test_two_replicas_equal_one(kind, masked, make_strategy):
  single = _make(kind)
  strategy = make_strategy(["CPU:0", "CPU:1"])
  with strategy.scope():
    shared = _make(kind)

  def per_replica(entropy, valid):
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    entropy = tf.gather(entropy, index, axis=1)
    valid = tf.gather(valid, index, axis=1) if masked else None
    return shared.update(entropy, valid).metrics

  step = tf.function(lambda *args: strategy.run(per_replica, args=args), autograph=False)
  for k, entropy in enumerate(_UNDER):
    both = tf.constant(entropy * np.linspace(0.5, 1.5, 4, dtype=np.float32))
    both = tf.reshape(both, [3, 2, 2])
    # At one step only one of the replicas has a valid entropy, at another none.
    shares = {2: [[True] * 2, [False] * 2], 5: [[False] * 2, [False] * 2]}.get(
      k, [[True, False]] * 2
    )
    valid = tf.constant([shares] * 3)
    metrics = step(both, valid)
    expected = single.update(both, valid if masked else None).metrics
    for name, value in metrics.items():
      for local in strategy.experimental_local_results(value):
        assert float(local) == pytest.approx(float(expected[name]), rel=1e-5), name
  for one, other in zip(single.variables, shared.variables):
    for copy in strategy.experimental_local_results(other):
      np.testing.assert_allclose(copy.numpy(), one.numpy(), rtol=1e-5)


def test_a_callable_schedule_moves_in_the_graph():
  schedule = lambda step: 1.0 - tf.cast(step, tf.float32)
  made = _make("scheduled", target_schedule=schedule, dtype=tf.float64)
  update = _compiled(made)
  targets = [float(update(tf.constant([5.0])).metrics["target_entropy"]) for _ in range(4)]
  assert targets == [1.0, 0.0, -1.0, -2.0]


@pytest.mark.parametrize(
  "config, spec, message",
  [
    ("gradient", specs.DiscreteArray(3), "not continuous.*Set target_entropy"),
    ("three_stage", specs.Array((2,), np.float32), "no finite range.*Set target_entropy"),
    (_Config(kind="three_stage", max_entropy=-5.0), _SPEC, "-3.21888, above max_entropy = -5"),
    (
      _Config(kind="scheduled", max_entropy=1.0, target_schedule=((0, 2.0),)),
      _SPEC,
      "2, above max_entropy = 1",
    ),
    ("gradient", None, "no spec of actions.*set target_entropy"),
    ("two_stage", None, "no spec of actions.*set target_entropy"),
    ("newton", _SPEC, "temperature is 'newton'"),
  ],
)
def test_what_cannot_be_made_is_refused(config, spec, message):
  with pytest.raises(ValueError, match=message):
    temperature.make_temperature(config, spec)


def test_other_dtypes_are_refused_and_targets_need_no_range_when_given():
  with pytest.raises(ValueError, match="must be tf.float32 or tf.float64"):
    _make(dtype=tf.float16)
  unbounded = specs.Array((2,), np.float32)
  config = _Config(kind="two_stage", target_entropy=1.0)
  assert float(temperature.make_temperature(config, unbounded).alpha) == pytest.approx(0.01)
