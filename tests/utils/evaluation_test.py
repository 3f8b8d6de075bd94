"""Tests of `temper.utils.evaluation`."""

from acme import core
import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.utils import evaluation
from temper.utils.policy_kinds import PolicyKind


class _Countdown(dm_env.Environment):
  """Episodes of `seed % 7 + 1` steps with reward 2 each; can be seeded."""

  def __init__(self):
    self.seeds = []
    self._left = 0

  def seed(self, seed):
    self.seeds.append(seed)

  def reset(self):
    self._left = self.seeds[-1] % 7 + 1 if self.seeds else 3
    return dm_env.restart(np.zeros(1, np.float32))

  def step(self, action):
    self._left -= 1
    make = dm_env.transition if self._left else dm_env.termination
    return make(reward=2.0, observation=np.zeros(1, np.float32))

  def observation_spec(self):
    return specs.Array((1,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1, 1)


class _Still(core.Actor):
  """Does nothing, and refuses to be trained."""

  def select_action(self, observation):
    return np.zeros(1, np.float32)

  def observe_first(self, timestep):
    assert timestep.first()

  def observe(self, action, next_timestep):
    assert not next_timestep.first()

  def update(self, wait=False):
    raise AssertionError("an evaluation must not train")


def test_interval_of_zero_and_one_by_hand():
  # Means of two draws from {0, 1}: 0 and 1 with chance 1/4 each, more than the 2.5 % tails.
  assert evaluation.bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)
  # At 40 % confidence the tails are 30 %, which ends inside the middle half of the means, at 1/2.
  assert evaluation.bootstrap_interval([0.0, 1.0], confidence=0.4) == (0.5, 0.5)


def test_interval_of_one_value_or_equal_values_has_no_width():
  assert evaluation.bootstrap_interval([3.5]) == (3.5, 3.5)
  low, high = evaluation.bootstrap_interval([-2.0] * 20)
  assert low == pytest.approx(-2.0) and high == pytest.approx(-2.0)


def test_interval_has_the_width_of_the_standard_error():
  values = np.random.default_rng(3).normal(10.0, 4.0, size=400)
  low, high = evaluation.bootstrap_interval(values)
  error = values.std() / np.sqrt(values.size)
  assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error + 0.02)
  assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error + 0.02)


def test_interval_moves_and_scales_with_the_values():
  values = [1.0, 4.0, 2.0, 8.0, 5.0]
  low, high = evaluation.bootstrap_interval(values)
  moved = evaluation.bootstrap_interval([10.0 - 3.0 * value for value in values])
  assert moved[0] == pytest.approx(10.0 - 3.0 * high, abs=0.15)
  assert moved[1] == pytest.approx(10.0 - 3.0 * low, abs=0.15)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_interval_refuses_values_without_a_mean(values):
  with pytest.raises(ValueError, match="finite numbers"):
    evaluation.bootstrap_interval(values)


def test_interval_refuses_a_confidence_that_is_no_share():
  with pytest.raises(ValueError, match="confidence"):
    evaluation.bootstrap_interval([1.0], confidence=95)


def test_starts_vary_within_an_evaluation_and_agree_between_two():
  environment = _Countdown()
  seeds = evaluation.start_seeds(6)
  first = evaluation.evaluate(environment, _Still(), seeds=seeds, kind=PolicyKind.MEAN)
  second = evaluation.evaluate(environment, _Still(), seeds=seeds, kind=PolicyKind.MEAN)
  assert len(set(environment.seeds[:6])) == 6
  assert first == second and first.seeds == seeds
  assert first.lengths == [seed % 7 + 1 for seed in environment.seeds[:6]]
  assert first.returns == [2.0 * length for length in first.lengths]
  assert first.mean == pytest.approx(np.mean(first.returns))
  assert first.low <= first.mean <= first.high
  assert first.mode == "deterministic" and first.as_dict()["policy"] == "mean"


def test_more_episodes_begin_with_the_same_starts():
  assert evaluation.start_seeds(20)[:5] == evaluation.start_seeds(5)
  with pytest.raises(ValueError, match="at least 1"):
    evaluation.start_seeds(0)


def test_an_environment_that_cannot_be_seeded_is_still_evaluated():
  environment = _Countdown()
  environment.can_seed = False
  result = evaluation.evaluate(environment, _Still(), seeds=[7, 8], kind=PolicyKind.RAW)
  assert result.returns == [6.0, 6.0] and not environment.seeds


def test_an_episode_without_end_is_given_up(monkeypatch):
  monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 5)
  environment = _Countdown()
  environment.seed(5 - 1)  # Five steps: as long as may be.
  assert evaluation.run_episode(environment, _Still()) == (
    10.0,
    5,
    evaluation.EpisodeEnd.TERMINATION,
  )
  environment.seed(6 - 1)
  with pytest.raises(evaluation.EndlessEpisodeError, match="after 5 steps.*max_episode_steps"):
    evaluation.run_episode(environment, _Still())


def test_what_on_step_raises_ends_the_evaluation():
  seen = []

  def stop_after_three(timestep):
    seen.append(timestep)
    if len(seen) == 3:
      raise KeyError("stop")

  with pytest.raises(KeyError):
    evaluation.evaluate(
      _Countdown(), _Still(), seeds=range(9), kind=PolicyKind.MEAN, on_step=stop_after_three
    )
  assert len(seen) == 3
