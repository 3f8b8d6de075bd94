"""Tests of the episode recorder."""

import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.utils import fakes
from temper.utils.environment_wrappers import CanonicalEnvironment
from temper.utils.episode_recorder import EpisodeRecorder

_SPEC = {
  "joints": specs.Array((2,), np.float64),
  "gear": specs.DiscreteArray(3, dtype=np.int64),
}
_ACTION = specs.BoundedArray((1,), np.float64, -5.0, 15.0)


def _wrapped(**options):
  inner = fakes.FakeEnvironment(_SPEC, _ACTION, seed=3, **options)
  recorder = EpisodeRecorder(inner)
  return CanonicalEnvironment(recorder), recorder


def _play(environment, actions):
  timesteps = [environment.reset()]
  for action in actions:
    timesteps.append(environment.step(np.float32([action])))
  return timesteps


def test_what_is_recorded_is_in_the_environments_own_units():
  environment, recorder = _wrapped(episode_length=3)
  timesteps = _play(environment, [-1.0, 0.0, 0.5])
  episode = recorder.take()
  assert episode.num_steps == 3 and not episode.terminated
  np.testing.assert_allclose(episode.action, [[-5.0], [5.0], [10.0]])
  # Of the environment's dtypes, not those that an agent sees.
  assert episode.observation["joints"].dtype == np.float64
  assert episode.observation["joints"].shape == (4, 2)
  assert episode.observation["gear"].shape == (4,) and episode.observation["gear"].dtype.kind == "i"
  for seen, gear in zip(timesteps, episode.observation["gear"]):
    assert np.argmax(seen.observation["gear"]) == gear
  np.testing.assert_array_equal(episode.reward, [t.reward for t in timesteps[1:]])
  np.testing.assert_array_equal(episode.discount, [1.0, 1.0, 1.0])


def test_a_termination_has_discount_zero():
  environment, recorder = _wrapped(episode_length=2, terminate=True)
  _play(environment, [0.0, 0.0])
  episode = recorder.take()
  assert episode.terminated
  np.testing.assert_array_equal(episode.discount, [1.0, 0.0])


def test_an_episode_that_is_cut_is_a_truncation_and_none_without_a_step():
  environment, recorder = _wrapped(episode_length=10, terminate=True)
  environment.reset()
  assert recorder.take() is None
  _play(environment, [0.0, 0.0])
  episode = recorder.take()
  assert episode.num_steps == 2 and not episode.terminated
  assert recorder.take() is None


def test_a_reset_forgets_and_a_step_after_the_last_begins_anew():
  environment, recorder = _wrapped(episode_length=3)
  _play(environment, [1.0, 1.0])
  _play(environment, [0.0, 0.0, 0.0])
  timestep = environment.step(np.float32([1.0]))
  assert timestep.first()
  assert recorder.take() is None
  environment.step(np.float32([-1.0]))
  np.testing.assert_allclose(recorder.take().action, [[-5.0]])


class _SameBuffer(dm_env.Environment):
  """Writes each observation into the same array."""

  def __init__(self):
    self._buffer = np.zeros((1,), np.float32)

  def reset(self):
    self._buffer[:] = 0
    return dm_env.restart(self._buffer)

  def step(self, action):
    self._buffer += 1
    return dm_env.transition(0.0, self._buffer)

  def observation_spec(self):
    return specs.Array((1,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1.0, 1.0)


def test_arrays_are_copied():
  recorder = EpisodeRecorder(_SameBuffer())
  recorder.reset()
  action = np.zeros((1,), np.float32)
  for value in (0.25, 0.5):
    action[:] = value
    recorder.step(action)
  episode = recorder.take()
  assert episode.observation[:, 0].tolist() == [0.0, 1.0, 2.0]
  assert episode.action[:, 0].tolist() == [0.25, 0.5]


@pytest.mark.parametrize("seed", [0, 7])
def test_what_the_environment_can_do_is_passed_through(seed):
  environment, _ = _wrapped()
  assert environment.can_seed
  environment.seed(seed)
  first = environment.reset().observation["joints"]
  environment.seed(seed)
  np.testing.assert_array_equal(first, environment.reset().observation["joints"])
