"""Tests of `temper.utils.batched_evaluation`."""

from acme import core
import dm_env
from dm_env import specs
import numpy as np
import pytest

from temper.utils import batched_evaluation
from temper.utils import evaluation
from temper.utils.policy_kinds import PolicyKind


class _Walk(dm_env.Environment):
  """Episodes of `seed % 7 + 1` steps; observes place and step, rewards the action times the place.

  Every third seed ends by termination.
  """

  def seed(self, seed):
    self._seed = seed

  def reset(self):
    self._step = 0
    self._place = np.random.default_rng(self._seed).normal()
    return dm_env.restart(self._observe())

  def step(self, action):
    assert action.shape == (1,)
    self._step += 1
    reward = float(action[0]) * self._place
    self._place += float(action[0])
    if self._step <= self._seed % 7:
      return dm_env.transition(reward, self._observe())
    end = dm_env.termination if self._seed % 3 == 0 else dm_env.truncation
    return end(reward, self._observe())

  def _observe(self):
    return {"place": np.array([self._place]), "step": np.array(self._step)}

  def observation_spec(self):
    return {"place": specs.Array((1,), np.float64), "step": specs.Array((), np.int64)}

  def action_spec(self):
    return specs.BoundedArray((1,), np.float64, -1, 1)


class _Recurrent:
  """Acts by the place and by the sum of the places in the episode."""

  def __init__(self, rows):
    self._sums = np.full(rows, np.nan)
    self.calls = 0

  def restart(self):
    self._sums[:] = 0.0

  def begin(self, row):
    self._sums[row] = 0.0

  def select_actions(self, observations):
    assert observations["step"].shape == self._sums.shape
    self.calls += 1
    self._sums += observations["place"][:, 0]
    return np.tanh(observations["place"] + 0.1 * self._sums[:, None])


class _One(core.Actor):
  """The same, one at a time."""

  def __init__(self):
    self._actor = _Recurrent(1)

  def select_action(self, observation):
    return self._actor.select_actions({name: leaf[None] for name, leaf in observation.items()})[0]

  def observe_first(self, timestep):
    self._actor.begin(0)

  def observe(self, action, next_timestep):
    pass

  def update(self, wait=False):
    pass


_SEEDS = [3, 9, 20, 1, 0, 13, 6, 5, 100, 27]


@pytest.mark.parametrize("rows", [1, 3, 10, 12])
def test_what_is_played_at_once_comes_to_what_is_played_one_by_one(rows):
  one_by_one = evaluation.evaluate(_Walk(), _One(), seeds=_SEEDS, kind=PolicyKind.MEAN)
  actor = _Recurrent(rows)
  finished = []
  at_once = batched_evaluation.evaluate(
    [_Walk() for _ in range(rows)],
    actor,
    seeds=_SEEDS,
    kind=PolicyKind.MEAN,
    on_episode=finished.append,
  )
  assert at_once == one_by_one
  assert at_once.lengths == [seed % 7 + 1 for seed in _SEEDS]
  assert at_once.ends[0] is evaluation.EpisodeEnd.TERMINATION
  assert at_once.ends[2] is evaluation.EpisodeEnd.TRUNCATION
  assert finished == list(range(1, 11))
  # One call for all rows: no more than the longest row needs.
  assert actor.calls == (sum(at_once.lengths) if rows == 1 else actor.calls)
  assert actor.calls <= -(-sum(at_once.lengths) // min(rows, 10)) + 6


def test_what_on_step_raises_ends_it_and_endless_episodes_are_given_up(monkeypatch):
  def stop():
    raise KeyError("stop")

  with pytest.raises(KeyError):
    batched_evaluation.evaluate(
      [_Walk()], _Recurrent(1), seeds=[6], kind=PolicyKind.MEAN, on_step=stop
    )
  monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 5)
  with pytest.raises(evaluation.EndlessEpisodeError):
    batched_evaluation.evaluate([_Walk()], _Recurrent(1), seeds=[6], kind=PolicyKind.MEAN)
