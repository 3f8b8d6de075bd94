"""Tests of `temper.agents.vector_actor`: it acts and stores as single actors do."""

from acme import specs
import dm_env
import numpy as np
import pytest

from temper.agents import actor as actor_lib
from temper.agents import crr
from temper.agents import policies
from temper.agents import sac
from temper.agents import svg0_prior
from temper.agents import vector_actor
from temper.utils.policy_kinds import PolicyKind

_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((3,), np.float32),
  actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)
_SIZES = {"policy_layer_sizes": (8,), "critic_layer_sizes": (8,)}
_BUILDERS = {
  "svg0": lambda: svg0_prior.SVG0Builder(svg0_prior.SVG0Config(**_SIZES)),
  "sac": lambda: sac.SACBuilder(sac.SACConfig(warm_up_steps=0, **_SIZES)),
  "crr": lambda: crr.CRRBuilder(crr.CRRConfig(lstm_size=8, **_SIZES)),
}


class _Adder:
  """Remembers what it is given."""

  def __init__(self):
    self.rows = []

  def add_first(self, timestep):
    self.rows.append(("first", timestep.observation.copy()))

  def add(self, action, next_timestep, extras=()):
    self.rows.append(
      ("add", np.array(action), next_timestep.observation.copy(), {**extras}, next_timestep.last())
    )


class _Client:
  """Counts its calls."""

  def __init__(self):
    self.calls = 0

  def update(self, wait=False):
    self.calls += 1


def _parts(builder):
  networks = builder.make_networks(_SPEC, seed=3)
  return {
    "policy_network": builder.make_policy(networks),
    "critic_network": builder.make_critic(networks),
    "action_spec": _SPEC.actions,
  }


def _vector(builder, adders, **options):
  parts = _parts(builder)
  return builder.make_vector_actor(parts.pop("policy_network"), adders, **parts, **options)


def _timesteps(row, count):
  """Returns the time steps of episodes whose lengths differ by row."""
  random = np.random.default_rng(row)
  timesteps = []
  while len(timesteps) < count:
    for step in range(3 + row):
      observation = random.normal(size=3).astype(np.float32)
      make = dm_env.restart if step == 0 else dm_env.transition
      last = step == 2 + row
      arguments = (observation,) if step == 0 else (np.float32(step), observation)
      timesteps.append(dm_env.truncation(*arguments) if last else make(*arguments))
  return timesteps[:count]


def _play_one(actor, timesteps):
  for before, after in zip(timesteps, timesteps[1:]):
    if before.first():
      actor.observe_first(before)
    if not after.first():
      actor.observe(actor.select_action(before.observation), after)


def _play_all(actor, rows):
  """Plays each row's time steps; a row whose episode ends begins the next in the same round."""
  places = [0] * len(rows)
  while all(place + 2 < len(steps) for place, steps in zip(places, rows)):
    for row, steps in enumerate(rows):
      if steps[places[row]].last():
        places[row] += 1
      if steps[places[row]].first():
        actor.observe_first(row, steps[places[row]])
    batch = np.stack([steps[place].observation for place, steps in zip(places, rows)])
    actions = actor.select_actions(batch)
    for row, steps in enumerate(rows):
      places[row] += 1
      actor.observe(row, actions[row], steps[places[row]])


def _assert_same(mine, expected, **tolerance):
  """Compares rows of an adder with the first ones of another."""
  assert len(mine) > 10
  for row, other in zip(mine, expected):
    assert row[0] == other[0] and len(row) == len(other)
    for value, wanted in zip(row[1:3], other[1:3]):
      np.testing.assert_allclose(value, wanted, **tolerance)
    if row[0] == "add":
      assert row[3].keys() == other[3].keys() and row[4] == other[4]
      for name, value in row[3].items():
        assert value.dtype == other[3][name].dtype and value.shape == other[3][name].shape == ()
        np.testing.assert_allclose(value, other[3][name], **tolerance, err_msg=name)


@pytest.mark.parametrize("name", _BUILDERS)
def test_each_row_stores_what_an_actor_of_its_own_stores(name):
  builder = _BUILDERS[name]()
  rows = [_timesteps(row, 25) for row in range(3)]
  adders = [_Adder() for _ in rows]
  actor = _vector(builder, adders, choice=policies.MEAN, policy_version=lambda: 7)
  assert actor.num_environments == 3 and actor.choice == policies.MEAN
  _play_all(actor, rows)
  for steps, adder in zip(rows, adders):
    parts, alone = _parts(builder), _Adder()
    single = builder.make_actor(
      parts.pop("policy_network"), alone, choice=policies.MEAN, policy_version=lambda: 7, **parts
    )
    _play_one(single, steps)
    _assert_same(adder.rows, alone.rows, atol=1e-5, rtol=1e-5)
    assert all(row[3]["policy_version"] == 7 for row in adder.rows if row[0] == "add")


@pytest.mark.parametrize("kind", [PolicyKind.RAW, PolicyKind.BOLTZMANN])
@pytest.mark.parametrize("name", _BUILDERS)
def test_one_environment_draws_what_an_actor_draws(name, kind):
  builder, choice = _BUILDERS[name](), policies.PolicyChoice(kind)
  steps, adder, alone = _timesteps(0, 20), _Adder(), _Adder()
  _play_all(_vector(builder, [adder], choice=choice, seed=5), [steps])
  parts = _parts(builder)
  _play_one(
    builder.make_actor(parts.pop("policy_network"), alone, choice=choice, seed=5, **parts), steps
  )
  _assert_same(adder.rows, alone.rows, atol=1e-6, rtol=1e-5)


def test_the_density_that_is_stored_is_that_of_the_rows_own_action():
  builder = _BUILDERS["svg0"]()
  adders = [_Adder() for _ in range(3)]
  actor = _vector(builder, adders, seed=1)
  _play_all(actor, [_timesteps(row, 12) for row in range(3)])
  policy = _parts(builder)["policy_network"]
  for adder in adders:
    before = None
    for kind, *row in adder.rows:
      if kind == "add":
        expected = policy(before[None]).log_prob(row[0][None])[0]
        np.testing.assert_allclose(row[2]["log_prob"], expected, rtol=1e-4, atol=1e-4)
      before = row[0] if kind == "first" else row[1]


def _warm(builder, adders, count, **options):
  warm_up = actor_lib.WarmUp(
    policies.UniformPolicy(_SPEC.actions.replace(minimum=2.0, maximum=3.0)), count
  )
  return _vector(builder, adders, warm_up=warm_up, **options)


@pytest.mark.parametrize("count, rounds", [(0, 0), (1, 1), (3, 1), (4, 2), (9, 3)])
@pytest.mark.parametrize("name", ["svg0", "crr"])
def test_a_warm_up_counts_the_actions_of_all_environments(name, count, rounds):
  adders = [_Adder() for _ in range(3)]
  actor = _warm(_BUILDERS[name](), adders, count, choice=policies.MEAN)
  _play_all(actor, [_timesteps(row, 20) for row in range(3)])
  for adder in adders:
    actions = [row[1] for row in adder.rows if row[0] == "add"]
    # What it draws from lies where the policy's mean never is.
    assert [bool(np.all(action >= 2)) for action in actions] == [
      i < rounds for i in range(len(actions))
    ]


def test_a_recurrent_policy_begins_after_the_warm_up():
  builder = _BUILDERS["crr"]()
  parts, steps = _parts(builder), _timesteps(0, 20)
  adder, alone = _Adder(), _Adder()
  actor = _warm(builder, [adder], 4, choice=policies.MEAN)
  _play_all(actor, [steps])
  warm_up = actor_lib.WarmUp(
    policies.UniformPolicy(_SPEC.actions.replace(minimum=2.0, maximum=3.0)), 4
  )
  single = builder.make_actor(
    parts.pop("policy_network"), alone, choice=policies.MEAN, warm_up=warm_up, **parts
  )
  _play_one(single, steps)
  _assert_same(adder.rows, alone.rows, atol=1e-5, rtol=1e-5)


def test_variables_are_fetched_once_for_all_environments():
  policy = policies.RAW.make(_parts(_BUILDERS["svg0"]())["policy_network"])
  client = _Client()
  actor = vector_actor.VectorActor(policy, [_Adder() for _ in range(4)], client)
  actor.update()
  assert client.calls == 1 and actor.metrics() == {}


@pytest.mark.parametrize("period, environments, fetches", [(8, 4, 5), (8, 3, 5), (2, 4, 10)])
def test_the_period_of_fetches_is_in_steps_of_all_environments(period, environments, fetches):
  config = sac.SACConfig(warm_up_steps=0, variable_update_period=period, **_SIZES)
  builder = sac.SACBuilder(config)
  served = builder.make_policy(builder.make_networks(_SPEC, seed=8)).variables

  class Source:
    requests = -1  # The first one comes before any step.

    def get_variables(self, names):
      self.requests += 1
      values = {"policy": [v.numpy() for v in served], "num_steps": [np.int32(3)]}
      return [values.get(name, [np.float64(0.0)]) for name in names]

  source, adders = Source(), [_Adder() for _ in range(environments)]
  actor = _vector(builder, adders, variable_source=source)
  for row in range(environments):
    actor.observe_first(row, _timesteps(0, 1)[0])
  for _ in range(10):
    actions = actor.select_actions(np.zeros([environments, 3], np.float32))
    for row in range(environments):
      actor.observe(row, actions[row], _timesteps(0, 2)[1])
    actor.update(wait=True)
  assert source.requests == fetches
  assert all(row[3]["policy_version"] == 3 for row in adders[-1].rows if row[0] == "add")
  assert actor.metrics()["variable_age_seconds"] > 0


@pytest.mark.parametrize("environments", [1, 2, 3])
def test_saved_draws_go_on_with_any_number_of_environments(environments):
  builder = _BUILDERS["svg0"]()
  same = np.zeros([environments, 3], np.float32)

  def draws(actor, count):
    for row in range(environments):
      actor.observe_first(row, _timesteps(0, 1)[0])
    return [actor.select_actions(same) for _ in range(count)]

  make = lambda: _vector(builder, [_Adder() for _ in range(environments)], seed=2)
  whole = draws(make(), 6)
  first, second = make(), make()
  draws(first, 4)
  assert first.state() == {"num_actions": 4 * environments}
  second.load_state(first.state())
  np.testing.assert_array_equal(draws(second, 2), whole[4:])
  # Of an actor of one environment, none of whose draws it repeats.
  second.load_state({"num_actions": 5})
  assert second.state()["num_actions"] >= 5


def test_what_it_needs_is_asked_for():
  with pytest.raises(ValueError, match="adders is empty"):
    _vector(_BUILDERS["svg0"](), [])
  sac_builder = sac.SACBuilder(sac.SACConfig(warm_up_steps=3, **_SIZES))
  parts = _parts(sac_builder)
  with pytest.raises(ValueError, match="uniform actions need action_spec"):
    sac_builder.make_vector_actor(parts["policy_network"], [_Adder()])
