"""Tests of `temper.agents.distributed`: Launchpad programs of all agents, run as threads."""

import subprocess
import sys

from acme.utils import counting
import pytest
import reverb

from temper.agents import crr
from temper.agents import sac
from temper.utils import environments
from temper.utils import fakes


def _environment(evaluation):
  del evaluation
  return environments.environment_factory(fakes.PointMass)(0)


# As dm-acme's own test of its distributed agent, in a process of its own: actors never end.
_PROGRAM = """
import functools, os
from absl import flags
import launchpad as lp
from temper.agents import svg0_prior
from temper.utils import environments
from temper.utils import fakes

flags.FLAGS(["test"])
program = svg0_prior.DistributedSVG0(
  lambda evaluation: environments.environment_factory(fakes.PointMass)(0),
  functools.partial(
    svg0_prior.make_default_networks, policy_layer_sizes=(8,), critic_layer_sizes=(8,)
  ),
  num_actors=2, num_caches=1, batch_size=8, min_replay_size=40, sequence_length=4,
).build()
(node,) = program.groups["learner"]
node.disable_run()
lp.launch(program, lp.LaunchType.LOCAL_MULTI_THREADING)
learner = node.create_handle().dereference()
for _ in range(5):
  learner.step()
print(sorted(program.groups), int(learner.get_variables(["num_steps"])[0][0]), flush=True)
os._exit(0)
"""


def test_a_program_of_svg0_learns_from_its_actors():
  result = subprocess.run(
    [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False
  )
  assert result.returncode == 0, result.stderr[-3_000:]
  groups = ["actor", "cacher", "counter", "evaluator", "learner", "replay"]
  assert result.stdout.strip().splitlines()[-1] == f"{groups} 5"


_TO_THE_END = """
import functools, sys
from absl import flags
import launchpad as lp
from temper.agents import svg0_prior
from temper.utils import environments
from temper.utils import fakes

class Fragile(fakes.PointMass):
  steps = 0

  def step(self, action):
    self.steps += 1
    if self.steps > int(sys.argv[1]):
      raise RuntimeError("the joint is broken")
    return super().step(action)

flags.FLAGS(["test"])
program = svg0_prior.DistributedSVG0(
  lambda evaluation: environments.environment_factory(
    fakes.PointMass if evaluation else Fragile
  )(0),
  functools.partial(
    svg0_prior.make_default_networks, policy_layer_sizes=(8,), critic_layer_sizes=(8,)
  ),
  num_actors=2, envs_per_actor=2, batch_size=8, min_replay_size=40, sequence_length=4,
  samples_per_insert=8.0, max_actor_steps=200,
).build()
lp.launch(program, lp.LaunchType.LOCAL_MULTI_THREADING).wait()
print("after the launch", flush=True)
"""


@pytest.mark.parametrize("steps", [10_000, 30])
def test_a_program_ends_at_its_limit_and_at_an_error(steps):
  result = subprocess.run(
    [sys.executable, "-c", _TO_THE_END, str(steps)],
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  if steps == 30:
    assert result.returncode == 1 and "RuntimeError: the joint is broken" in result.stderr
  else:
    # Whatever waits for replay or for a counter that is gone is left: nobody had to be killed.
    assert result.returncode == 0, result.stderr[-3_000:]
    assert result.stdout.strip().endswith("after the launch")


def test_actors_share_the_warm_up():
  builder = sac.SACBuilder(sac.SACConfig(warm_up_steps=1_000))
  actions = fakes.PointMass().action_spec()
  share = lambda *counts: builder.make_share_of_warm_up(actions, *counts).num_actions
  assert (share(1), share(4), share(3), share(4, 200), share(4, 2_000)) == (1_000, 250, 334, 200, 0)
  agent = sac.DistributedSAC(_environment, sac.SACConfig(warm_up_steps=1_000), num_actors=4)
  server = reverb.Server(agent.replay())
  learner = agent.learner(reverb.Client(f"localhost:{server.port}"), counting.Counter())
  loop = agent.actor(reverb.Client(f"localhost:{server.port}"), learner, counting.Counter())
  assert loop._actor._actor._warm_up.num_actions == 250
  server.stop()


@pytest.mark.parametrize(
  "make",
  [
    lambda: sac.DistributedSAC(_environment, num_actors=3),
    lambda: crr.DistributedCRR(_environment, num_actors=3, num_caches=2),
  ],
  ids=["sac", "crr"],
)
def test_other_agents_have_programs(make):
  program = make().build()
  assert len(program.groups["actor"]) == 3 and len(program.groups["replay"]) == 1
