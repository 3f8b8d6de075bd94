import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import optimizers

_SHAPES = ((3, 2), (2,), ())


def _parameters():
  return [tf.Variable(tf.fill(shape, 0.5)) for shape in _SHAPES]


def _updates(seed):
  random = np.random.RandomState(seed)
  # Of very different sizes, down to where epsilon counts.
  return [
    tf.constant((10.0 ** random.uniform(-9, 2) * random.normal(size=s)).astype(np.float32))
    for s in _SHAPES
  ]


def _run(optimizer, steps=20):
  parameters = _parameters()
  step = tf.function(lambda *updates: optimizer.apply(updates, parameters), autograph=False)
  history = []
  for seed in range(steps):
    step(*_updates(seed))
    history.append([p.numpy() for p in parameters])
  return history


@pytest.mark.parametrize(
  "options", [{}, dict(learning_rate=0.1, beta1=0.5, beta2=0.99, epsilon=1e-3)]
)
def test_adam_equals_sonnets_for_twenty_steps(options):
  for ours, theirs in zip(_run(optimizers.Adam(**options)), _run(snt.optimizers.Adam(**options))):
    for mine, other in zip(ours, theirs):
      np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
  "make",
  [tf.distribute.MirroredStrategy, snt.distribute.Replicator],
  ids=["mirrored", "replicator"],
)
def test_adam_under_a_strategy_of_two_replicas(make):
  strategy = make(["CPU:0", "CPU:1"])
  with strategy.scope():
    parameters, optimizer = _parameters(), optimizers.Adam(0.01)
    optimizers.initialise_slots(optimizer, parameters)
  step = tf.function(
    lambda *updates: strategy.run(lambda u: optimizer.apply(u, parameters), args=(updates,)),
    autograph=False,
  )
  expected = _run(optimizers.Adam(0.01))
  for seed in range(20):
    step(*_updates(seed))
    for parameter, value in zip(parameters, expected[seed]):
      for copy in strategy.experimental_local_results(parameter):
        np.testing.assert_allclose(copy, value, rtol=1e-6, atol=1e-7)


def test_the_first_step_by_hand():
  # A first gradient g has corrected moments g and g^2: the step is rate * g / (|g| + epsilon).
  parameter = tf.Variable([1.0, 1.0])
  optimizers.Adam(0.1, epsilon=0.5).apply([tf.constant([1.5, -0.5])], [parameter])
  np.testing.assert_allclose(parameter, [1 - 0.1 * 1.5 / 2.0, 1 + 0.1 * 0.5 / 1.0], rtol=1e-5)


def test_a_parameter_without_update_stays_and_the_rate_may_be_a_variable():
  rate = tf.Variable(0.1)
  still, moving = tf.Variable(1.0), tf.Variable(1.0)
  optimizer = optimizers.Adam(rate)
  optimizer.apply([None, tf.constant(1.0)], [still, moving])
  assert float(still) == 1.0
  assert float(moving) == pytest.approx(0.9)
  rate.assign(0.0)
  optimizer.apply([None, tf.constant(1.0)], [still, moving])
  assert float(moving) == pytest.approx(0.9)


def test_double_precision_parameters_beside_single_ones():
  double, single = tf.Variable(1.0, dtype=tf.float64), tf.Variable(1.0)
  optimizers.Adam(0.1).apply([tf.constant(2.0, tf.float64), tf.constant(2.0)], [double, single])
  assert float(double) == pytest.approx(float(single), rel=1e-6)


@pytest.mark.parametrize(
  "options, message",
  [
    (dict(learning_rate=-1.0), "learning_rate is -1.0"),
    (dict(learning_rate=float("nan")), "learning_rate is nan"),
    (dict(beta1=1.0), "beta1 is 1.0"),
    (dict(beta2=-0.1), "beta2 is -0.1"),
    (dict(epsilon=0.0), "epsilon is 0.0"),
  ],
)
def test_bad_numbers_are_refused(options, message):
  with pytest.raises(ValueError, match=message):
    optimizers.Adam(**options)


def test_updates_that_do_not_fit_are_refused():
  parameter = tf.Variable(1.0)
  with pytest.raises(ValueError, match="2 updates for 1 parameters"):
    optimizers.Adam().apply([tf.constant(1.0)] * 2, [parameter])
  with pytest.raises(ValueError, match="None of the parameters received an update"):
    optimizers.Adam().apply([None], [parameter])


@pytest.mark.parametrize("make", [optimizers.Adam, snt.optimizers.Adam])
def test_slots_can_be_made_before_the_first_step(make):
  parameters, optimizer = _parameters(), make()
  optimizers.initialise_slots(optimizer, parameters)
  made = [id(v) for v in optimizer.variables]
  assert len(made) == 1 + 2 * len(parameters)
  optimizer.apply(_updates(0), parameters)
  assert [id(v) for v in optimizer.variables] == made


def test_an_optimizer_without_slots_needs_none():
  optimizers.initialise_slots(snt.optimizers.SGD(0.1), _parameters())
