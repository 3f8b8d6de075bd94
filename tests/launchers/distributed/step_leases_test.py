"""Tests of step leases: nothing is leased twice or too much, and in whole rounds."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from temper.launchers.distributed import step_leases


def _hear(leases, actor_id, steps=0, seconds=0.0, **report):
  leases.hear(actor_id, step_leases.Report(steps, seconds, **report))


def test_a_lease_is_a_tenth_of_a_second_in_whole_rounds():
  leases = step_leases.StepLeases(envs_per_actor=3)
  _hear(leases, 0)
  assert leases.lease(0, 1_000) == 3  # How quick it is is not known.
  _hear(leases, 0, 3, 0.015)  # 200 steps a second.
  assert leases.lease(0, 997) == 18
  _hear(leases, 0, 18, 1e-9)
  assert leases.lease(0, 10**6) == 999


def test_less_than_a_round_is_leased_when_nothing_else_is_left():
  leases = step_leases.StepLeases(envs_per_actor=4)
  for actor_id in (0, 1):
    _hear(leases, actor_id)
  assert leases.lease(0, 6) == 4
  assert leases.lease(1, 6) == 0  # Actor 0 may be killed and leave its four.
  _hear(leases, 0, 4, 1e-3)
  assert leases.lease(1, 2) == 2


@given(
  total=st.integers(0, 60),
  rows=st.integers(1, 5),
  actors=st.integers(1, 4),
  order=st.lists(st.integers(0, 3), min_size=1, max_size=50),
)
def test_all_steps_are_done_once_whatever_the_order(total, rows, actors, order):
  leases = step_leases.StepLeases(rows)
  leased, done = {}, 0
  # After the drawn order each has its turn, until nothing is left.
  for turn in [*order, *range(actors * 150)]:
    actor_id = turn % actors
    steps = leased.get(actor_id, 0)
    done += steps
    _hear(leases, actor_id, steps, 0.05 * steps)
    leased[actor_id] = leases.lease(actor_id, total - done)
    assert done + sum(leased.values()) <= total
    assert leased[actor_id] % rows == 0 or done + sum(leased.values()) == total
  assert done == total


def test_a_killed_actor_leaves_its_steps():
  leases = step_leases.StepLeases()
  _hear(leases, 0)
  assert leases.lease(0, 1) == 1 and leases.any_leased
  leases.take_in(0)
  assert not leases.any_leased and leases.num_acting == 1
  leases.give_up(0)
  assert leases.all_done and leases.num_acting == 0 and leases.num_known == 1


def test_the_rates_are_those_of_the_actors_that_act():
  leases = step_leases.StepLeases()
  for actor_id, seconds in ((2, 0.5), (0, 0.1), (1, 0.2)):
    _hear(leases, actor_id, 10, seconds)
  assert leases.rates == [100.0, 50.0, 20.0]
  leases.give_up(1)
  assert leases.rates == [100.0, 20.0]


def test_the_oldest_variables_count_until_they_are_forgotten():
  leases = step_leases.StepLeases()
  _hear(leases, 0, version=90, age=step_leases.Age(4.0, 0.5))
  _hear(leases, 0, version=98, age=step_leases.Age(1.0, 2.0))
  _hear(leases, 1, version=97)
  assert leases.oldest(100) == (4.0, 2.0)
  leases.forget_ages()
  assert leases.oldest(100) == (3.0, 0.0)
  leases.give_up(1)
  assert leases.oldest(100) == (2.0, 0.0)


@pytest.mark.parametrize(
  "metrics, older",
  [({}, (2.0, 3.0)), ({"variable_age_steps": 5.0, "variable_age_seconds": 1.0}, (5.0, 3.0))],
)
def test_the_larger_of_two_ages_counts_each_for_itself(metrics, older):
  assert step_leases.Age(2.0, 3.0).or_older(metrics) == older
