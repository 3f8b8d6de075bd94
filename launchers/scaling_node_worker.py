"""One node's work, so much at a time, in a process of its own: a side of benchmark_distributed.

python -m temper.launchers.scaling_node_worker SIDE WORK

WORK is `actor` (episodes of an actor node that adds to a replay server, the environment not
sleeping) or `learner` (steps on what such an actor added). How it is told what to do: see
`temper.launchers.sac_peer_worker.serve`.
"""

from collections.abc import Sequence
import sys
import tempfile
from typing import Any, Callable

from temper.launchers import sac_peer_worker as shared

ACTOR, LEARNER = "actor", "learner"
# Environment steps or learner steps of a unit.
UNITS = {ACTOR: 100, LEARNER: 10}

_EPISODES_TO_LEARN_FROM = 10


class _Variables:
  """What an actor fetches, at hand as from a server that answers at once."""

  def __init__(self, variables: Sequence[Any]):
    self._values = [variable.numpy() for variable in variables]

  def get_variables(self, names: Sequence[str]) -> list[Any]:
    """Returns arrays by name: the policy's, or a learner's count."""
    import numpy as np

    return [self._values if name == "policy" else [np.int32(0)] for name in names]


def make_unit(side: str, work: str, folder: str) -> Callable[[], object]:
  """Makes a node with a replay server beside it; returns what does a unit of its work.

  Args:
    side: `OURS` or `THEIRS`.
    work: ACTOR or LEARNER.
    folder: where the environment counts its steps.
  """
  from acme.tf import utils as tf2_utils
  from acme.utils import counting
  import reverb

  from temper.launchers import scaling_sides
  from temper.launchers import scaling_sizes

  size = scaling_sizes.ProgramSize(
    side, num_actors=1, environment_seconds=0.0, limited=False, folder=folder
  )
  agent = scaling_sides.make_agent(size)
  server = reverb.Server(agent.replay())
  client = reverb.Client(f"localhost:{server.port}")
  environment = scaling_sides.environment_factory(size)(True)
  policy = scaling_sides.make_networks(side)["policy"]
  variables = tf2_utils.create_variables(policy, [environment.observation_spec()])
  del variables
  loop = agent.actor(client, _Variables(policy.variables), counting.Counter())
  if work == ACTOR:
    return lambda: (loop.run(num_episodes=1), server)
  for _ in range(_EPISODES_TO_LEARN_FROM):
    loop.run(num_episodes=1)
  learner = agent.learner(client, counting.Counter())
  return lambda: ([learner.step() for _ in range(UNITS[LEARNER])], server)


def main(argv: Sequence[str]) -> None:
  """Makes the node and serves it."""
  side, work = argv[1:]
  answers = shared.take_output()

  from absl import flags

  from temper.launchers import command_line
  from temper.utils import startup

  startup.quiet()
  command_line.set_threads(1)
  flags.FLAGS(["scaling_node_worker"])  # Loops ask Launchpad for the program's end.
  with tempfile.TemporaryDirectory() as folder:
    do_unit = make_unit(side, work, folder)
    versions = {"temper-rl": startup.version(), **startup.stack_versions()}
    shared.serve(do_unit, versions, sys.stdin, answers)


if __name__ == "__main__":
  main(sys.argv)
