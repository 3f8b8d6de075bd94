"""Tests of `temper.agents.local`: exact rates, ends in bounded time, memory that stays flat."""

import logging as std_logging
import os
import time

import acme
from acme import specs
from acme.utils import loggers
import numpy as np
import psutil
import pytest

from temper.agents import learner as learner_lib
from temper.agents import local
from temper.agents import policies
from temper.agents import svg0_prior
from temper.utils import checkpointing
from temper.utils import environments
from temper.utils import fakes
from temper.utils import replay_client
from temper.utils import replay_tables
from temper.utils import replay_watch

_SMALL = dict(
  batch_size=4,
  sequence_length=3,
  samples_per_insert=1.0,
  min_replay_size=8,
  max_replay_size=100,
  num_action_samples=2,
  policy_layer_sizes=(4,),
  critic_layer_sizes=(4,),
)


def _environment():
  return environments.wrap(fakes.PointMass(seed=0))


def _agent(environment, seed=0, replay_checkpoint=None, behaviour_policy=policies.RAW, **options):
  builder = svg0_prior.SVG0Builder(svg0_prior.SVG0Config(**{**_SMALL, **options}))
  return local.LocalAgent(
    builder,
    acme.make_environment_spec(environment),
    logger=loggers.NoOpLogger(),
    seed=seed,
    behaviour_policy=behaviour_policy,
    replay_checkpoint=replay_checkpoint,
  )


def _run(agent, environment, steps):
  """Runs whole episodes of 20 steps."""
  for _ in range(steps // 20):
    timestep = environment.reset()
    agent.observe_first(timestep)
    while not timestep.last():
      action = agent.select_action(timestep.observation)
      timestep = environment.step(action)
      agent.observe(action, timestep)
      agent.update()


@pytest.mark.parametrize(
  "ratio,batch_size,min_size,length",
  [
    (0.5, 1, 1, 1),
    (1.0, 256, 50, 10),
    (1.5, 7, 190, 3),
    (32.0, 64, 100, 60),
    (256.0, 256, 1, 5),
    (None, 3, 150, 2),
    (1.0, 4, 10, 300),
  ],
)
def test_200_steps_finish_with_the_asked_ratio(ratio, batch_size, min_size, length):
  environment = _environment()
  with _agent(
    environment,
    samples_per_insert=ratio,
    batch_size=batch_size,
    min_replay_size=min_size,
    sequence_length=length,
  ) as agent:
    _run(agent, environment, 200)
    updates = agent.learner.num_steps
  if length > 200:
    assert (
      updates == 0
    )  # No sequence is complete: there is nothing to learn from, and nothing waits.
    return
  per_step = batch_size if ratio is None else ratio
  wanted = per_step * (200 - max(min_size, batch_size))
  if wanted < 0:
    assert updates == 0
  else:
    assert 0 <= updates * batch_size - wanted <= batch_size


def test_updates_that_wait_for_the_first_long_sequence_are_made_up_for():
  environment = _environment()
  with _agent(environment, sequence_length=50, samples_per_insert=4.0, min_replay_size=8) as agent:
    _run(agent, environment, 40)
    assert agent.learner.num_steps == 0
    _run(agent, environment, 20)
    assert agent.learner.num_steps == 60 - 8 + 1


def test_a_minimum_that_replay_cannot_hold_is_refused_with_the_numbers():
  with pytest.raises(ValueError, match="min_replay_size is 31 .* 10 sequences of 3 .* at most 30"):
    svg0_prior.SVG0Config(**{**_SMALL, "min_replay_size": 31, "max_replay_size": 10})
  for name, value in (("samples_per_insert", 0), ("batch_size", 0), ("sequence_length", 2.5)):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
      svg0_prior.SVG0Config(**{**_SMALL, name: value})


def test_the_memory_estimate_is_logged_when_the_agent_is_built(caplog):
  with caplog.at_level(std_logging.INFO, logger="absl"):
    with _agent(_environment(), max_replay_size=2**20) as agent:
      # Per step: 2 observations, 2 actions, reward, discount, log_prob, version; a flag of a byte.
      assert replay_tables.estimate_bytes(
        agent.builder.make_replay_tables(acme.make_environment_spec(_environment()))[
          0
        ].info.signature,
        1,
      ) == 4 * (8 * 4 + 1)
  assert "up to 1,048,576 items, 0.13 GiB" in caplog.text


def test_a_server_that_is_gone_ends_acting_and_learning(monkeypatch):
  monkeypatch.setattr(replay_client, "_CONFIRM_TIMEOUT_MS", 200)
  monkeypatch.setattr(replay_watch.check_server, "__defaults__", (1,))
  monkeypatch.setattr(replay_watch.ServerWatch.__init__, "__defaults__", (0.5,))
  environment = _environment()
  start = time.monotonic()
  agent = _agent(environment)
  _run(agent, environment, 60)
  agent._replay.server.stop()
  with pytest.raises((replay_watch.ReplayLostError, learner_lib.DataExhaustedError)):
    _run(agent, environment, 2000)
  with pytest.raises(learner_lib.DataExhaustedError, match="is its server alive"):
    for _ in range(1000):
      agent.learner.step()
  agent.close()
  agent.close()
  assert time.monotonic() - start < 60  # Where it used to wait for ever.


def test_a_closed_agent_says_so_and_still_acts():
  environment = _environment()
  agent = _agent(environment)
  _run(agent, environment, 20)
  scratch = agent._replay.scratch
  agent.close()
  assert not os.path.exists(scratch)
  timestep = environment.reset()
  action = agent.select_action(timestep.observation)
  for call in (
    lambda: agent.observe_first(timestep),
    lambda: agent.observe(action, timestep),
    agent.update,
  ):
    with pytest.raises(RuntimeError, match="agent is closed"):
      call()


def test_the_tail_of_experience_is_in_replay_when_it_is_saved(tmp_path):
  environment = _environment()
  with _agent(environment, sequence_length=8) as agent:
    _run(agent, environment, 20)  # 21 rows: items begin at 0 and 8, and the tail's at 12.
    agent.save_replay(str(tmp_path))
    assert agent.replay_sizes() == {"priority_table": 3}
  with _agent(environment, sequence_length=8, replay_checkpoint=str(tmp_path)) as agent:
    assert agent.replay_sizes() == {"priority_table": 3}
  with pytest.raises(checkpointing.CheckpointError, match="no whole replay in .*other"):
    _agent(environment, replay_checkpoint=str(tmp_path / "other"))


def test_a_learner_that_is_refused_leaves_no_scratch_folder(tmp_path):
  scratch = tmp_path / "scratch"
  scratch.mkdir()
  (scratch / "of_a_killed_process").write_text("x")
  builder = svg0_prior.SVG0Builder(svg0_prior.SVG0Config(**_SMALL))
  spec = acme.make_environment_spec(_environment())
  with pytest.raises(TypeError):
    local.LocalAgent(builder, spec, replay_scratch=str(scratch), no_such_option=1)
  assert not scratch.exists()
  with local.LocalAgent(builder, spec, replay_scratch=str(scratch)):
    assert os.listdir(tmp_path) == ["scratch"]
  assert not scratch.exists()


def test_without_its_replay_the_schedule_begins_anew():
  environment = _environment()
  with _agent(environment, min_replay_size=20) as agent:
    _run(agent, environment, 40)
    state = agent.state()
  with _agent(environment, min_replay_size=20) as agent:
    agent.load_state(state, replay_restored=False)
    assert agent.state()["actor"] == state["actor"]
    _run(agent, environment, 20)
    assert agent.learner.num_steps == 1


def test_memory_stays_flat_at_a_full_table():
  environment = _environment()
  process = psutil.Process()
  with _agent(environment, max_replay_size=50, samples_per_insert=0.5) as agent:
    _run(agent, environment, 1000)
    assert agent.replay_sizes() == {"priority_table": 50}
    before = process.memory_info().rss
    _run(agent, environment, 2000)
    for _ in range(300):
      agent.get_variables(["policy", "critic"])
    grown = process.memory_info().rss - before
    assert agent.replay_sizes() == {"priority_table": 50}
  assert grown < 30 * 2**20, f"{grown / 2**20:.0f} MiB more"


def test_samples_are_as_fresh_as_the_table_allows():
  environment = _environment()
  # Nothing in replay is older than four sequences of three steps, and the batch sampled ahead adds
  # one update; there is one update a step.
  with _agent(environment, max_replay_size=4, samples_per_insert=4.0) as agent:
    _run(agent, environment, 100)
    for _ in range(5):
      _run(agent, environment, 20)
      assert 0 <= agent.metrics()["sample_age"] <= 4 * 3 + 8


def test_variable_length_observations_are_refused():
  spec = acme.make_environment_spec(_environment())
  varying = spec._replace(observations={"x": specs.Array((-1,), np.float32)})
  builder = svg0_prior.SVG0Builder(svg0_prior.SVG0Config(**_SMALL))
  with pytest.raises(ValueError, match=r"'x' has shape \(-1,\); its length must not vary"):
    local.LocalAgent(builder, varying)


def test_a_boltzmann_behaviour_policy_learns_and_stores_its_densities():
  environment = _environment()
  choice = policies.PolicyChoice("boltzmann", beta=0.1, num_action_samples=4)
  with _agent(environment, behaviour_policy=choice) as agent:
    assert agent.behaviour_policy == choice
    _run(agent, environment, 100)
    metrics = agent.metrics()
    assert agent.learner.num_steps > 10 and np.isfinite(list(metrics.values())).all()
    dataset = agent.builder.make_dataset(agent._replay.client, in_process=True)
    sample = next(iter(dataset))
    log_prob = sample.data.extras["log_prob"].numpy()
    assert np.isfinite(log_prob).all() and (log_prob != 0).any()


def test_a_behaviour_policy_that_does_not_explore_is_refused():
  with pytest.raises(ValueError, match="behaviour_policy is mean; it would not explore.*boltzmann"):
    _agent(_environment(), behaviour_policy=policies.MEAN)


def test_an_actor_apart_from_the_learner_fetches_the_critic_too():
  environment = _environment()
  spec = acme.make_environment_spec(environment)
  with _agent(environment) as agent:
    _run(agent, environment, 40)
    builder, choice = agent.builder, policies.PolicyChoice("boltzmann", beta=0.0)
    own = builder.make_networks(spec, seed=5)
    policy, critic = builder.make_policy(own), builder.make_critic(own)
    make = lambda: builder.make_actor(
      policy, None, agent, choice=choice, critic_network=critic, action_spec=spec.actions, seed=3
    )
    observation = environment.reset().observation
    apart, shared = make(), agent.make_evaluation_actor(choice, seed=3)
    np.testing.assert_array_equal(
      apart.select_action(observation), shared.select_action(observation)
    )
    for mine, learners in zip(critic.variables, agent.networks.critic_network.variables):
      np.testing.assert_array_equal(mine, learners)
