"""SAC's nodes of a Launchpad program, each called here: what an actor of its own process needs."""

from acme.utils import counting
import agent_contract
import pytest
import reverb
import sac_cases

from temper.agents import distributed
from temper.agents import sac


@pytest.mark.parametrize("variant", sac.SACVariant)
def test_an_actor_begins_uniformly_and_fills_replay(variant):
  config = sac_cases.make_config(variant, warm_up_steps=5, min_replay_size=10)
  builder = sac.SACBuilder(config)
  program = distributed.DistributedAgent(
    builder,
    lambda evaluation: agent_contract.make_environment("vector", "asymmetric"),
    builder.make_networks,
  )
  server = reverb.Server(tables=program.replay())
  try:
    client = reverb.Client(f"localhost:{server.port}")
    learner = program.learner(client, counting.Counter())
    loop = program.actor(client, learner, counting.Counter())
    loop.run(num_episodes=1)
    (table,) = client.server_info().values()
    assert table.current_size == loop.num_steps == 10
    learner.step()
    ((num_steps,),) = learner.get_variables(["num_steps"])
    assert num_steps == 1
  finally:
    server.stop()
