"""Tests of `temper.utils.variable_client`, on a source that serves what the test says and when."""

import gc
import resource
import threading
import time
import tracemalloc

import courier
import numpy as np
import pytest
import sac_cases
import tensorflow as tf

from temper.agents import sac
from temper.utils import variable_client


class _Clock:
  """Tells the time that it is set to."""

  def __init__(self):
    self.now = 1000.0

  def __call__(self):
    return self.now


class _Source:
  """A learner of one weight, which is the number of its steps; can be made to keep one waiting."""

  def __init__(self, clock=time.time, shape=()):
    self.num_steps = 0
    self.error = None
    self.requests = []
    self.open = threading.Event()
    self.open.set()
    self._clock = clock
    self._shape = shape

  def get_variables(self, names):
    self.requests.append(list(names))
    served_at = np.float64(self._clock())
    weight = np.full(self._shape, self.num_steps, np.float32)
    served = {"policy": [weight], "num_steps": [np.int32(self.num_steps)], "served_at": [served_at]}
    assert self.open.wait(timeout=30)
    if self.error is not None:
      raise self.error
    return [served[name] for name in names]


def _client(source, shape=(), **options):
  weight = tf.Variable(tf.zeros(shape))
  client = variable_client.VariableClient(source, {"policy": [weight]}, **options)
  client.update_and_wait()
  return client, weight


def _settle(client):
  """Waits until what was asked for has come, without asking for it again."""
  if client._fetch is not None:
    client._fetch._thread.join(timeout=30)


def test_a_fetch_begins_after_every_period_of_calls():
  source = _Source()
  client, weight = _client(source, period_calls=3)
  values = []
  for step in range(1, 10):
    source.num_steps = step
    client.update()
    _settle(client)
    values.append(int(weight.numpy()))
  assert len(source.requests) == 1 + 3
  assert set(map(tuple, source.requests)) == {("policy", "num_steps", "served_at")}
  # Asked for at calls 3, 6 and 9, copied by the call after.
  assert values == [0, 0, 0, 3, 3, 3, 6, 6, 6]
  assert client.policy_version() == 6


def test_a_fetch_begins_after_every_period_of_seconds():
  clock = _Clock()
  source = _Source(clock)
  client, _ = _client(source, period_seconds=2.0, clock=clock)
  begun = []
  for _ in range(12):
    clock.now += 0.5
    before = len(source.requests)
    client.update()
    _settle(client)
    if len(source.requests) > before:
      begun.append(clock.now - 1000.0)
  assert begun == [2.0, 4.0, 6.0]


def test_variables_are_never_older_than_the_period_a_fetch_and_a_step():
  clock = _Clock()
  source = _Source(clock)
  client, _ = _client(source, period_seconds=1.0, clock=clock)
  ages = []
  for _ in range(100):
    clock.now += 0.3  # A step of the actor.
    client.update()
    clock.now += 0.1
    _settle(client)
    ages.append(client.metrics()["variable_age_seconds"])
  # Due after at most 1.0 + 0.4, copied one step of 0.4 later; none is copied earlier than that.
  assert max(ages) <= 1.0 + 2 * 0.4 + 1e-6
  assert max(ages) >= 1.0


def test_ages_are_the_largest_since_they_were_asked_for():
  clock = _Clock()
  source = _Source(clock)
  source.num_steps = 10
  client, _ = _client(source, period_calls=1, clock=clock)
  assert client.metrics() == {"variable_age_steps": 0.0, "variable_age_seconds": 0.0}
  clock.now += 5.0
  assert client.metrics()["variable_age_seconds"] == 5.0

  def fetch(steps, seconds):
    clock.now += seconds
    source.num_steps += steps
    client.update(wait=True)

  fetch(7, 2.0)  # The first ones lagged by 7 steps, and were 7 s old.
  fetch(3, 1.0)
  clock.now += 0.5
  assert client.metrics() == {"variable_age_steps": 7.0, "variable_age_seconds": 7.0}
  # No fetch since: the lag is that of the last one.
  assert client.metrics() == {"variable_age_steps": 3.0, "variable_age_seconds": 0.5}
  fetch(2, 1.5)
  assert client.metrics() == {"variable_age_steps": 2.0, "variable_age_seconds": 2.0}


def test_a_cache_between_makes_variables_older():
  clock = _Clock()
  source = _Source(clock)

  class Cache:
    """Serves what it was told once."""

    def get_variables(self, names):
      self.kept = getattr(self, "kept", None) or source.get_variables(names)
      return self.kept

  client, _ = _client(Cache(), period_calls=1, clock=clock)
  clock.now += 4.0
  client.update(wait=True)
  assert client.metrics()["variable_age_seconds"] == 4.0


def test_a_learner_that_began_again_is_not_ahead():
  source = _Source()
  source.num_steps = 100
  client, _ = _client(source, period_calls=1)
  source.num_steps = 60
  client.update(wait=True)
  assert client.policy_version() == 60 and client.metrics()["variable_age_steps"] == 0.0


def test_the_actor_does_not_wait_for_a_slow_learner():
  source = _Source()
  client, weight = _client(source, period_calls=1)
  source.open.clear()
  source.num_steps = 5
  for _ in range(10):
    client.update()
  assert weight.numpy() == 0 and len(source.requests) <= 2  # One was on its way all the time.
  source.open.set()
  _settle(client)
  client.update()
  assert weight.numpy() == 5


def test_what_the_learner_raises_reaches_the_actor():
  source = _Source()
  client, _ = _client(source, period_calls=1)
  source.error = RuntimeError("the learner is gone")
  client.update()
  _settle(client)
  with pytest.raises(RuntimeError, match="the learner is gone"):
    client.update()


def test_other_networks_are_refused():
  with pytest.raises(ValueError, match=r"'policy' with the shapes \[\(2,\)\].*\[\(3,\)\]"):
    _client(_Source(shape=(2,)), shape=(3,), period_calls=1)


@pytest.mark.parametrize(
  "options, message",
  [
    ({}, "give one of them"),
    ({"period_calls": 1, "period_seconds": 1.0}, "give one of them"),
    ({"period_calls": 0}, "period_calls is 0"),
    ({"period_seconds": 0.0}, "period_seconds is 0.0"),
  ],
)
def test_a_period_that_is_none_is_refused(options, message):
  with pytest.raises(ValueError, match=message):
    variable_client.VariableClient(_Source(), {}, **options)


def test_a_thousand_fetches_keep_no_memory():
  source = _Source(shape=(50_000,))  # 200 kB a fetch.
  client, _ = _client(source, shape=(50_000,), period_calls=1)
  threads = threading.active_count()

  def fetch(count):
    for _ in range(count):
      client.update(wait=True)
    gc.collect()

  fetch(100)  # Fills caches.
  del source.requests[:]
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  tracemalloc.start()
  try:
    fetch(10)
    before = tracemalloc.get_traced_memory()[0]
    fetch(1000)
    kept = tracemalloc.get_traced_memory()[0] - before - 1000 * 100  # The list of requests.
  finally:
    tracemalloc.stop()
  assert len(source.requests) == 1010 and threading.active_count() <= threads
  # Kept weights would be 200 MB.
  assert kept < 1_000_000
  assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 50_000  # kB


# With a learner and an actor.


@pytest.mark.parametrize(
  "period", [{"variable_update_period": 2}, {"variable_update_seconds": 1e-6}]
)
def test_an_actor_follows_a_learner_and_tells_by_how_much_it_lags(period):
  config = sac_cases.make_config("twin_target", **period)
  builder = sac.SACBuilder(config)
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(8), seed=1)
  networks = builder.make_networks(sac_cases.SPEC, seed=2)
  before = networks.policy_network.trainable_variables[0].numpy()
  actor = builder.make_actor(
    builder.make_policy(networks), variable_source=learner, action_spec=sac_cases.SPEC.actions
  )
  served = lambda: learner.get_variables(["policy"])[0]
  mine = networks.policy_network.variables
  assert not np.array_equal(mine[0].numpy(), before)
  np.testing.assert_array_equal(mine[0].numpy(), served()[0])  # It begins with the learner's.
  for _ in range(5):
    learner.step()
  assert not np.array_equal(mine[0].numpy(), served()[0])
  for _ in range(2):
    actor.update(wait=True)
  for variable, array in zip(mine, served()):
    np.testing.assert_array_equal(variable.numpy(), array)
  metrics = actor.metrics()
  assert metrics["variable_age_steps"] == 5.0
  assert 0.0 < metrics["variable_age_seconds"] < 60.0


def test_a_learner_serves_the_time_before_it_reads():
  learner = sac_cases.make_learner(sac_cases.make_config("twin_target"), sac_cases.make_dataset(1))
  before = time.time()
  ((served_at,), (steps,), _) = learner.get_variables(["served_at", "num_steps", "policy"])
  assert before <= served_at <= time.time() and served_at.dtype == np.float64
  assert steps == 0


def test_an_actor_that_shares_variables_has_no_age():
  config = sac_cases.make_config("twin_target")
  builder = sac.SACBuilder(config)
  networks = builder.make_networks(sac_cases.SPEC)
  actor = builder.make_actor(builder.make_policy(networks), action_spec=sac_cases.SPEC.actions)
  assert actor.metrics() == {}


def test_variables_come_over_the_wire_with_their_age():
  config = sac_cases.make_config("twin_target", variable_update_period=1)
  builder = sac.SACBuilder(config)
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(3), seed=1)
  server = courier.Server("learner")
  server.Bind("get_variables", learner.get_variables)
  server.Start()
  try:
    source = courier.Client(f"localhost:{server.port}")
    networks = builder.make_networks(sac_cases.SPEC, seed=2)
    actor = builder.make_actor(
      builder.make_policy(networks), variable_source=source, action_spec=sac_cases.SPEC.actions
    )
    for _ in range(3):
      learner.step()
    actor.update(wait=True)
    (served,) = learner.get_variables(["policy"])
    for variable, array in zip(networks.policy_network.variables, served):
      np.testing.assert_array_equal(variable.numpy(), array)
    metrics = actor.metrics()
    assert metrics["variable_age_steps"] == 3.0 and 0 <= metrics["variable_age_seconds"] < 60
  finally:
    server.Stop()
