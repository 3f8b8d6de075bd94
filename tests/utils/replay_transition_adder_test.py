"""Tests of `temper.utils.replay_transition_adder`: what is written, and how long it waits."""

import threading
import time

from acme import specs
from acme.adders import reverb as reverb_adders
import dm_env
import numpy as np
import pytest
import reverb

from temper.utils import replay_client
from temper.utils import replay_datasets
from temper.utils import replay_server
from temper.utils import replay_tables
from temper.utils import replay_transition_adder
from temper.utils import replay_watch

_TABLE = "transitions"
_EXTRAS = {"version": specs.Array((), np.int32)}


def _spec(observation=None):
  return specs.EnvironmentSpec(
    observations=observation or specs.Array((), np.float32),
    actions=specs.BoundedArray((), np.float32, -1e9, 1e9),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


@pytest.fixture(name="serve")
def _serve():
  servers = []

  def serve(spec=None, limiter=None, restore_from=None, **options):
    limiter = limiter or reverb.rate_limiters.MinSize(1)
    table = replay_tables.transition_table(
      _TABLE, spec or _spec(), _EXTRAS, 1000, limiter, **options
    )
    servers.append(replay_server.start_server([table], restore_from))
    return servers[-1]

  yield serve
  for server in servers:
    server.stop()


def _adder(server, n_step=1, discount=0.5, **options):
  return replay_transition_adder.TransitionAdder(server.client, n_step, discount, _TABLE, **options)


def _step(i, end=None, observation=None):
  """Step i: reward 10 i, the observation i."""
  step_type = dm_env.StepType.MID if end is None else dm_env.StepType.LAST
  discount = np.float32(0 if end == "terminated" else 1)
  observation = np.float32(i) if observation is None else observation
  return dm_env.TimeStep(step_type, np.float32(10 * i), discount, observation)


def _feed(adder, length, end, begun=0):
  """Adds an episode from observation `begun` on; None leaves it half-way."""
  adder.add_first(dm_env.restart(np.float32(begun)))
  for i in range(begun + 1, begun + length + 1):
    last = end if i == begun + length else None
    adder.add(np.float32(-i), _step(i, last), {"version": np.int32(i)})


def _samples(server, count=400, table=_TABLE):
  make = replay_datasets.make_transition_dataset
  return list(make(server.client, table, count, 0, 20_000).take(1))[0]


def _items(server):
  """Returns the table's items as rows: from, to, action, reward, discount, version."""
  data = _samples(server).data
  columns = (
    data.observation,
    data.next_observation,
    data.action,
    data.reward,
    data.discount,
    data.extras["version"],
  )
  return sorted(set(zip(*(column.numpy().tolist() for column in columns))))


def test_one_step_transitions_by_hand(serve):
  server = serve()
  adder = _adder(server)
  _feed(adder, 3, "terminated")
  _feed(adder, 2, "truncated", begun=7)
  adder.flush()
  assert _items(server) == [
    (0, 1, -1, 10, 1, 1),
    (1, 2, -2, 20, 1, 2),
    (2, 3, -3, 30, 0, 3),
    (7, 8, -8, 80, 1, 8),
    (8, 9, -9, 90, 1, 9),
  ]


def test_three_step_transitions_by_hand(serve):
  server = serve()
  adder = _adder(server, n_step=3)
  _feed(adder, 4, "terminated")
  adder.flush()
  # The discount of the agent is 1/2; the learner applies it once more.
  assert _items(server) == [
    (0, 1, -1, 10, 1, 1),
    (0, 2, -1, 10 + 20 / 2, 1 / 2, 1),
    (0, 3, -1, 10 + 20 / 2 + 30 / 4, 1 / 4, 1),
    (1, 4, -2, 20 + 30 / 2 + 40 / 4, 0, 2),
    (2, 4, -3, 30 + 40 / 2, 0, 3),
    (3, 4, -4, 40, 0, 4),
  ]


@pytest.mark.parametrize("n_step", [1, 2, 3, 6])
def test_items_equal_those_of_acmes_adder(serve, n_step):
  spec = _spec()
  signature = reverb_adders.NStepTransitionAdder.signature(spec, _EXTRAS)
  table = reverb.Table(
    "acme",
    reverb.selectors.Uniform(),
    reverb.selectors.Fifo(),
    max_size=100,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=signature,
  )
  acmes = replay_server.start_server([table])
  original = reverb_adders.NStepTransitionAdder(
    acmes.client, n_step, 0.9, priority_fns={"acme": None}
  )
  server = serve()
  adder = _adder(server, n_step, 0.9)
  for each in (adder, original):
    _feed(each, 1, "truncated")
    _feed(each, 5, "terminated", begun=10)
    _feed(each, 4, "truncated", begun=20)
  adder.flush()
  assert server.sizes()[_TABLE] == acmes.sizes()["acme"]
  dataset = replay_datasets.make_dataset(acmes.client.server_address, "acme", 400, 0, 20_000)
  data = next(iter(dataset)).data
  columns = (data.observation, data.next_observation, data.action, data.reward, data.discount)
  columns = [*columns, data.extras["version"]]
  theirs = sorted(set(zip(*(column.numpy().tolist() for column in columns))))
  np.testing.assert_allclose(_items(server), theirs, rtol=1e-6)
  del original
  acmes.stop()


def test_a_truncation_can_count_as_a_termination(serve):
  server = serve()
  adder = _adder(server, n_step=2, bootstrap_on_truncation=False)
  _feed(adder, 3, "truncated")
  adder.flush()
  assert [(item[:2], item[4]) for item in _items(server)] == [
    ((0, 1), 1),
    ((0, 2), 0.5),
    ((1, 3), 0),
    ((2, 3), 0),
  ]


@pytest.mark.parametrize("bootstrap,last", [(True, 1), (False, 0)])
def test_an_episode_left_half_way_counts_as_truncated(serve, bootstrap, last):
  server = serve()
  adder = _adder(server, n_step=2, bootstrap_on_truncation=bootstrap)
  _feed(adder, 2, None)
  _feed(adder, 1, "terminated", begun=5)
  adder.flush()
  assert [(item[:2], item[4]) for item in _items(server)] == [
    ((0, 1), 1),
    ((0, 2), 0.5),
    ((1, 2), last),
    ((5, 6), 0),
  ]


@pytest.mark.parametrize("n_step", [1, 3])
def test_frames_belong_to_their_steps_and_are_stored_once(serve, n_step):
  observation = {"frame": specs.Array((40, 40), np.uint8), "speed": specs.Array((), np.float32)}
  server = serve(_spec(observation))
  adder = _adder(server, n_step)
  frame = np.zeros((40, 40), np.uint8)

  def observe(i):
    frame[:] = i  # Always the same array, as some environments do.
    return {"frame": frame, "speed": np.float32(i)}

  for begun, length, end in ((0, 5, "terminated"), (10, 1, "truncated"), (20, 4, None)):
    adder.add_first(dm_env.restart(observe(begun)))
    for i in range(begun + 1, begun + length + 1):
      last = end if i == begun + length else None
      adder.add(np.float32(-i), _step(i, last, observe(i)), {"version": np.int32(i)})
  adder.flush()
  data = _samples(server).data
  for found in (data.observation, data.next_observation):
    assert found["frame"].shape == (400, 40, 40)
    assert (found["frame"].numpy() == found["speed"].numpy()[:, None, None]).all()
  starts = set(data.observation["speed"].numpy().tolist())
  assert starts >= {0, 1, 2, 3, 4, 10, 20} | ({21, 22, 23} if n_step == 1 else {21})
  ends = data.next_observation["speed"] - data.observation["speed"]
  assert set(ends.numpy().tolist()) == set(range(1, n_step + 1))


def test_new_items_get_the_priority_that_is_asked_for(serve):
  server = serve(priority_exponent=1.0)
  priority = 1.0
  adder = _adder(server, priority=lambda: priority)
  _feed(adder, 2, "terminated")
  priority = 4.0
  _feed(adder, 1, "terminated", begun=5)
  adder.flush()
  sample = _samples(server)
  found = dict(zip(sample.data.observation.numpy().tolist(), sample.info.priority.numpy()))
  assert found == {0: 1, 1: 1, 5: 4}
  probabilities = dict(zip(sample.data.observation.numpy(), sample.info.probability.numpy()))
  np.testing.assert_allclose([probabilities[i] for i in (0, 1, 5)], [1 / 6, 1 / 6, 4 / 6])


def test_a_saved_replay_tells_its_layout_again(serve, tmp_path):
  server = serve()
  adder = _adder(server)
  _feed(adder, 4, "terminated")
  adder.flush()
  saved = str(tmp_path / "replay")
  server.save(saved)
  restored = serve(restore_from=saved)
  assert _items(restored) == _items(server)
  _feed(_adder(restored), 2, "terminated", begun=10)


def test_steps_in_a_wrong_order_are_refused(serve):
  adder = _adder(serve())
  with pytest.raises(ValueError, match="outside of an episode"):
    adder.add(np.float32(0), _step(1), {"version": np.int32(0)})
  with pytest.raises(ValueError, match="must begin with"):
    adder.add_first(_step(1))
  _feed(adder, 1, "terminated")
  with pytest.raises(ValueError, match="outside of an episode"):
    adder.add(np.float32(0), _step(1), {"version": np.int32(0)})
  adder.add_first(dm_env.restart(np.float32(0)))
  adder.reset()
  with pytest.raises(ValueError, match="outside of an episode"):
    adder.add(np.float32(0), _step(1), {"version": np.int32(0)})


def test_bad_arguments_are_refused(serve):
  server = serve()
  for options, text in (
    ({"n_step": 0}, "n_step is 0"),
    ({"discount": 1.5}, "discount is 1.5"),
  ):
    with pytest.raises(ValueError, match=text):
      _adder(server, **options)
  for step, extra, text in (
    (_step(1, observation=np.zeros(2)), "version", r"next_observation has shape \(2,\)"),
    (_step(1), "log_prob", "extras is .*log_prob.*holds .*version"),
  ):
    adder = _adder(server)
    adder.add_first(dm_env.restart(np.float32(0)))
    with pytest.raises(ValueError, match=text):
      adder.add(np.float32(0), step, {extra: np.int32(0)})


# A server that blocks or is gone.


def test_it_ends_with_an_error_when_the_server_is_gone(serve, monkeypatch):
  monkeypatch.setattr(replay_client, "_CONFIRM_TIMEOUT_MS", 200)
  monkeypatch.setattr(replay_watch.check_server, "__defaults__", (1,))
  server = serve()
  adder = _adder(server)
  _feed(adder, 2, None)
  server.server.stop()
  with pytest.raises(replay_watch.ReplayLostError, match="has not answered"):
    _feed(adder, 50, None)
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=100)
  # And then it does not wait at its own end.
  monkeypatch.setattr(adder._writer, "flush", lambda *args, **kwargs: pytest.fail("It waits."))
  adder.__del__()


def test_it_waits_for_a_limiter_as_long_as_the_server_lives(serve, monkeypatch):
  monkeypatch.setattr(replay_client, "_CONFIRM_TIMEOUT_MS", 50)
  server = serve(limiter=reverb.rate_limiters.Queue(1))
  adder = _adder(server)
  thread = threading.Thread(target=_feed, args=(adder, 20, "terminated"), daemon=True)
  thread.start()
  time.sleep(0.5)  # Several timeouts long.
  assert thread.is_alive()
  with pytest.raises(reverb.DeadlineExceededError):
    adder.flush(timeout_ms=100)
  dataset = replay_datasets.make_transition_dataset(server.client, _TABLE, 1, 0, 20_000)
  assert sum(1 for _ in dataset.take(20)) == 20
  thread.join(timeout=20)
  assert not thread.is_alive()


def test_a_dropped_adder_leaves_nothing_behind(serve):
  server = serve()
  adder = _adder(server)
  _feed(adder, 5, None)
  del adder
  assert server.sizes() == {_TABLE: 5}
