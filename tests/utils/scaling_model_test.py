"""Tests of `temper.utils.scaling_model` by hand, and against the simulation."""

import dataclasses

import pytest

from temper.utils import scaling_model
from temper.utils import scaling_simulation
from temper.utils.scaling_model import Limit

# An actor alone does 20 steps/s, the learner 100 steps/s, the server 2,000 items/s either way.
_COSTS = scaling_model.NodeCosts(
  environment=0.049, acting=0.001, learning=0.01, insert=5e-4, sample=5e-4, fetch=0.01
)
# A learner step for each 20 environment steps.
_SHAPE = scaling_model.RunShape(
  num_actors=4, steps_per_item=10, batch_size=32, samples_per_step=1.6, fetch_period=100
)


def _costs(**changes):
  return dataclasses.replace(_COSTS, **changes)


def _shape(**changes):
  return dataclasses.replace(_SHAPE, **changes)


@pytest.mark.parametrize("num_actors", [1, 4, 40])
def test_without_contention_the_rate_is_linear(num_actors):
  shape = _shape(num_actors=num_actors)
  rates = scaling_model.predict(_COSTS, shape)
  assert scaling_model.limit(_COSTS, shape) is Limit.ACTORS
  assert rates.environment_steps == pytest.approx(20 * num_actors)
  assert rates.learner_steps == pytest.approx(num_actors)
  assert rates.fetches == pytest.approx(0.2 * num_actors)
  # A request each 5 s, answered in 0.01 s.
  assert rates.variable_age == pytest.approx(2.51)


def test_the_learner_holds_the_actors_back_by_the_limiter():
  # 2 learner steps/s at the most, each for 20 environment steps.
  costs = _costs(learning=0.5)
  assert scaling_model.limit(costs, _SHAPE) is Limit.LEARNER
  rates = scaling_model.predict(costs, _SHAPE)
  assert (rates.environment_steps, rates.learner_steps) == pytest.approx((40, 2))


def test_the_replay_server_has_time_for_so_many_items():
  # 0.2 s / 10 for inserting, 1.6 * 0.0125 s for sampling: 0.04 s for each environment step.
  costs = _costs(insert=0.2, sample=0.0125)
  assert scaling_model.limit(costs, _SHAPE) is Limit.REPLAY
  assert scaling_model.predict(costs, _SHAPE).environment_steps == pytest.approx(25)


def test_shared_cpus_are_divided_among_acting_evaluating_and_learning():
  # 0.02 s in the actors, a quarter of that in the evaluator, 0.5 s / 20 in the learner: 0.05 s.
  costs = _costs(acting=0.02, learning=0.5, environment=0.001)
  shape = _shape(cpus=1, num_evaluators=1)
  assert scaling_model.bounds(costs, shape)[Limit.CPUS] == pytest.approx(20)
  assert scaling_model.limit(costs, shape) is Limit.CPUS


def test_a_saturated_source_answers_no_more_requests_but_slows_nobody():
  costs = _costs(fetch=1.0)
  few, many = (
    scaling_model.predict(costs, _shape(num_actors=num_actors)) for num_actors in (100, 200)
  )
  assert few.fetches == many.fetches == pytest.approx(1)
  # Each actor waits for all the others' requests: half of that on average, and the answer.
  assert (few.variable_age, many.variable_age) == pytest.approx((51, 101))
  assert scaling_model.bounds(costs, _shape(num_actors=200))[Limit.ACTORS] == pytest.approx(4000)


def test_caches_answer_as_many_requests_as_there_are_caches():
  costs = _costs(fetch=1.0)
  rates = scaling_model.predict(costs, _shape(num_actors=100, num_caches=4))
  assert rates.fetches == pytest.approx(4)
  # 25 s between two requests; what a cache holds is half a second old on average.
  assert rates.variable_age == pytest.approx(1 + 12.5 + 0.5)


@pytest.mark.parametrize("num_actors, limited_by", [(10, None), (100, "sources"), (2, "steps")])
def test_requests_by_time_are_as_many_as_actors_sources_or_steps_allow(num_actors, limited_by):
  seconds = 1e-3 if limited_by == "steps" else 4.0
  costs = _costs(fetch=0.0 if limited_by == "steps" else 0.1)
  rates = scaling_model.predict(costs, _shape(num_actors=num_actors, fetch_seconds=seconds))
  expected = {None: 10 / 4, "sources": 1 / 0.1, "steps": rates.environment_steps}[limited_by]
  assert rates.fetches == pytest.approx(expected)


_CASES = {
  "one actor": (_COSTS, _shape(num_actors=1)),
  "linear": (_COSTS, _shape(num_actors=40)),
  "shared, idle": (_COSTS, _shape(num_actors=8, cpus=2, num_evaluators=1)),
  "shared, busy": (_costs(acting=0.03), _shape(num_actors=8, cpus=2, num_evaluators=1)),
  "learner": (_costs(learning=0.5), _SHAPE),
  "replay": (_costs(insert=0.2, sample=0.0125), _SHAPE),
  "source": (_costs(fetch=1.0), _shape(num_actors=20)),
  "by time": (_costs(fetch=0.01), _shape(num_actors=20, fetch_seconds=20.0)),
  "caches": (_costs(fetch=1.0), _shape(num_actors=20, num_caches=4)),
}


@pytest.mark.parametrize("name", _CASES)
def test_the_simulation_comes_to_the_same(name):
  costs, shape = _CASES[name]
  expected = scaling_model.predict(costs, shape)
  found = scaling_simulation.simulate(costs, shape, 400.0, warm_up=100.0)
  assert found.environment_steps == pytest.approx(expected.environment_steps, rel=0.05)
  assert found.learner_steps == pytest.approx(expected.learner_steps, rel=0.05)
  assert found.fetches == pytest.approx(expected.fetches, rel=0.06)
  assert found.variable_age == pytest.approx(expected.variable_age, rel=0.15)


def test_the_simulated_limiter_keeps_the_ratio_of_samples_to_steps():
  found = scaling_simulation.simulate(_costs(learning=0.5), _SHAPE, 500.0, warm_up=50.0)
  samples_per_step = found.learner_steps * _SHAPE.batch_size / found.environment_steps
  assert samples_per_step == pytest.approx(_SHAPE.samples_per_step, rel=0.02)


def test_a_simulation_can_be_repeated():
  runs = [scaling_simulation.simulate(_COSTS, _SHAPE, 50.0, seed=seed) for seed in (1, 1)]
  assert runs[0] == runs[1]


@pytest.mark.parametrize(
  "changes",
  [
    {"num_actors": 0},
    {"num_caches": -1},
    {"samples_per_step": 0.0},
    {"cpus": 0},
    {"fetch_seconds": 0.0},
  ],
)
def test_an_impossible_shape_is_refused(changes):
  with pytest.raises(ValueError, match=next(iter(changes))):
    _shape(**changes)


@pytest.mark.parametrize("changes", [{"fetch": -1.0}, {"learning": 0.0}, {"insert": float("nan")}])
def test_impossible_costs_are_refused(changes):
  with pytest.raises(ValueError, match=next(iter(changes))):
    _costs(**changes)


def test_a_simulation_of_no_time_is_refused():
  with pytest.raises(ValueError, match="seconds is 0"):
    scaling_simulation.simulate(_COSTS, _SHAPE, 0.0)
