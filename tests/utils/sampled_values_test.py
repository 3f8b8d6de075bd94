import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import sampled_values

_S, _N, _A = 6, 5, 3


def _inputs(seed=0):
  random = np.random.RandomState(seed)

  def draw(*shape):
    return tf.constant(random.normal(size=shape).astype(np.float32))

  return {"x": draw(_N, 2), "y": (draw(_N, 4, 2),)}, draw(_S, _N, _A)


class Critic(snt.Module):
  """Smooth in the action; remembers how many rows a call had."""

  def __init__(self, keep_axis=True):
    super().__init__()
    self.weights = tf.Variable(np.random.RandomState(7).normal(size=(_A, 1)).astype(np.float32))
    self.rows = []
    self._keep_axis = keep_axis

  def __call__(self, observation, action):
    self.rows.append(action.shape[0])
    context = (
      tf.reduce_sum(observation["x"], 1, keepdims=True)
      + tf.reduce_sum(observation["y"][0], [1, 2])[:, None]
    )
    value = tf.sin(context + action @ self.weights) * tf.reduce_sum(
      tf.square(action), 1, keepdims=True
    )
    return value if self._keep_axis else value[:, 0]


def _plain(critic, observations, actions):
  return tf.stack([tf.reshape(critic(observations, action), [_N]) for action in actions])


@pytest.mark.parametrize(
  "block_rows, rows", [(1, _N), (11, 2 * _N), (29, 3 * _N), (30, 6 * _N), (10_000, 6 * _N)]
)
@pytest.mark.parametrize("keep_axis", [True, False])
def test_values_and_action_gradients_equal_one_evaluation_per_sample(block_rows, rows, keep_axis):
  observations, actions = _inputs()
  critic = Critic(keep_axis)
  upstream = tf.constant(np.random.RandomState(1).normal(size=(_S, _N)).astype(np.float32))
  results = []
  for evaluate in (
    lambda: _plain(critic, observations, actions),
    tf.function(
      lambda: sampled_values.sampled_values(
        critic, observations, actions, differentiable=True, block_rows=block_rows
      )
    ),
  ):
    critic.rows.clear()
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(actions)
      values = evaluate()
    results.append((values, tape.gradient(values, actions, output_gradients=upstream)))
  assert set(critic.rows) == {rows}
  for mine, plain in zip(results[1], results[0]):
    assert mine.shape == plain.shape
    np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("block_rows", [1, 10_000])
def test_the_critic_itself_gets_no_gradient(block_rows):
  observations, actions = _inputs()
  critic = Critic()

  @tf.function
  def gradients():
    with tf.GradientTape() as tape:
      tape.watch(actions)
      values = sampled_values.sampled_values(
        critic, observations, actions, differentiable=True, block_rows=block_rows
      )
    return tape.gradient(
      values, [actions, critic.weights], unconnected_gradients=tf.UnconnectedGradients.ZERO
    )

  to_actions, to_weights = gradients()
  assert np.abs(to_actions).max() > 0.1
  np.testing.assert_array_equal(to_weights, tf.zeros_like(critic.weights))


@pytest.mark.parametrize("block_rows", [1, 11, 10_000])
def test_without_differentiation_the_values_are_the_same_and_stopped(block_rows):
  observations, actions = _inputs()
  critic = Critic()
  with tf.GradientTape() as tape:
    tape.watch(actions)
    values = sampled_values.sampled_values(
      critic, observations, actions, differentiable=False, block_rows=block_rows
    )
  assert tape.gradient(values, actions) is None
  np.testing.assert_allclose(values, _plain(critic, observations, actions), rtol=1e-5, atol=1e-5)


def test_gradient_equals_finite_differences():
  observations, actions = _inputs()
  critic = Critic()

  def evaluate(x):
    return sampled_values.sampled_values(
      critic, observations, x, differentiable=True, block_rows=11
    )

  with tf.GradientTape() as tape:
    tape.watch(actions)
    values = evaluate(actions)
  gradient = tape.gradient(values, actions).numpy()
  for index in ((0, 0, 0), (3, 4, 2), (5, 2, 1)):
    step = np.zeros(actions.shape, np.float32)
    step[index] = 1e-2
    slope = float(tf.reduce_sum(evaluate(actions + step) - evaluate(actions - step))) / 2e-2
    assert gradient[index] == pytest.approx(slope, rel=1e-2, abs=1e-2)


def test_a_batch_of_unknown_size_and_matrix_actions():
  def critic(observation, action):
    return observation[:, 0] * tf.reduce_sum(action, [1, 2])

  shapes = [tf.TensorSpec([None, 1]), tf.TensorSpec([4, None, 2, 3])]

  @tf.function(input_signature=shapes)
  def call(observations, actions):
    with tf.GradientTape() as tape:
      tape.watch(actions)
      values = sampled_values.sampled_values(critic, observations, actions, differentiable=True)
    return values, tape.gradient(values, actions)

  observations = tf.constant([[2.0], [3.0]])
  values, gradient = call(observations, tf.ones([4, 2, 2, 3]))
  np.testing.assert_allclose(values, [[12.0, 18.0]] * 4)
  np.testing.assert_allclose(gradient[:, 0], 2 * np.ones((4, 2, 3)))
