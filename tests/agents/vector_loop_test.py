"""Tests of `temper.agents.vector_loop`: each environment is played as it would be alone."""

from acme import specs
from acme.utils import counting
from acme.utils import loggers
import dm_env
import numpy as np
import pytest

from temper.agents import vector_loop


class _Counting(dm_env.Environment):
  """Episodes of a fixed length, whose observations count all steps and whose rewards are 1."""

  def __init__(self, length):
    self._length, self._in_episode, self.total = length, 0, 0

  def reset(self):
    self._in_episode = 0
    return dm_env.restart(self._observation())

  def step(self, action):
    assert action.shape == (1,)
    self._in_episode, self.total = self._in_episode + 1, self.total + 1
    end = dm_env.truncation if self._in_episode == self._length else dm_env.transition
    return end(np.float32(1.0), self._observation())

  def _observation(self):
    return {"total": np.float32(self.total), "length": np.float32([self._length])}

  def observation_spec(self):
    return {"total": specs.Array((), np.float32), "length": specs.Array((1,), np.float32)}

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1.0, 1.0)


class _Actor:
  """Acts by numbering its calls, and writes down what it is told."""

  def __init__(self, num_environments):
    self.num_environments = num_environments
    self.told = [[] for _ in range(num_environments)]
    self.seen, self.updates, self.asked = [], 0, 0

  def observe_first(self, row, timestep):
    self.told[row].append(("first", float(timestep.observation["total"])))

  def select_actions(self, observations):
    self.seen.append(observations["total"].tolist())
    rows = np.arange(self.num_environments, dtype=np.float32)
    return (100 * rows + len(self.seen))[:, None]

  def observe(self, row, action, next_timestep):
    self.told[row].append((float(action[0]), float(next_timestep.observation["total"])))

  def update(self, wait=False):
    self.updates += 1

  def metrics(self):
    self.asked += 1
    return {"asked": self.asked}


def _loop(lengths, **options):
  actor = _Actor(len(lengths))
  counter = options.setdefault("counter", counting.Counter())
  logger = loggers.InMemoryLogger()
  environments = [_Counting(length) for length in lengths]
  return (
    vector_loop.VectorLoop(environments, actor, logger=logger, **options),
    actor,
    counter,
    logger,
  )


def test_each_environment_is_played_as_if_alone():
  loop, actor, _, _ = _loop([2, 3])
  for _ in range(4):
    loop.run_round()
  assert actor.seen == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
  short = [("first", 0.0), (1.0, 1.0), (2.0, 2.0), ("first", 2.0), (3.0, 3.0), (4.0, 4.0)]
  long = [("first", 0.0), (101.0, 1.0), (102.0, 2.0), (103.0, 3.0), ("first", 3.0), (104.0, 4.0)]
  assert actor.told == [short, long] and actor.updates == 4 and loop.num_steps == 8


def test_counter_logger_and_observers_hear_of_each_episode():
  heard = []
  loop, _, counter, logger = _loop([2, 3], observers=[heard.append])
  loop.run(num_episodes=3)
  # The third one to end is the second of the short environment, after four rounds.
  assert [row["episode_length"] for row in logger.data] == [2, 3, 2]
  assert [row["episode_return"] for row in logger.data] == [2.0, 3.0, 2.0]
  assert [row["steps"] for row in logger.data] == [2, 5, 7]
  assert [row["asked"] for row in logger.data] == [1, 2, 3] and heard == logger.data
  # With the step of the episode that is under way.
  assert counter.get_counts() == {"episodes": 3, "steps": 8}


def test_steps_go_on_where_the_last_run_ended():
  loop, actor, counter, _ = _loop([4, 4, 4])
  loop.run(num_steps=4)  # Two whole rounds.
  assert counter.get_counts()["steps"] == loop.num_steps == 6
  loop.run(num_steps=6)
  assert counter.get_counts() == {"episodes": 3, "steps": 12}
  assert actor.seen[2:] == [[2.0] * 3, [3.0] * 3]


def test_a_last_round_may_leave_environments_out():
  told = []
  loop, actor, _, _ = _loop([1, 1, 1], observers=[lambda _: told.append(loop.num_steps)])
  loop.run_round()
  results = loop.run_round(2)
  # An observer sees how many steps were done when the episode ended.
  assert len(results) == 2 and told == [1, 2, 3, 4, 5] and loop.num_steps == 5
  assert [len(rows) for rows in actor.told] == [4, 4, 3]  # All three were reset before.


def test_variables_are_not_fetched_where_that_is_not_wanted():
  loop, actor, _, _ = _loop([2], should_update=False)
  loop.run(num_episodes=1)
  assert actor.updates == 0


def test_what_does_not_fit_is_refused():
  with pytest.raises(ValueError, match="There are 1 environments and the actor acts in 2"):
    vector_loop.VectorLoop([_Counting(2)], _Actor(2))
  loop, _, _, _ = _loop([2])
  with pytest.raises(ValueError, match="num_episodes is 1 and num_steps is 2; give one"):
    loop.run(num_episodes=1, num_steps=2)
