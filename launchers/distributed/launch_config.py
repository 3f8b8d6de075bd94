"""How a distributed run is launched, and what happens when one of its nodes dies."""

import dataclasses
import enum

from temper.utils import checks


class LaunchKind(enum.Enum):
  """What carries out a run."""

  LOCAL = "local"
  """One process, in which acting and learning take turns."""
  LOCAL_MT = "local_mt"
  """A Launchpad program, each node a thread of this process."""
  LOCAL_MP = "local_mp"
  """A Launchpad program, each node a process of this machine."""
  VERTEX_AI = "vertex_ai"
  """A Launchpad program, its nodes on machines of Google's Vertex AI."""


class OnDeath(enum.Enum):
  """What happens when a node's process is killed; an exception in a node always ends the run."""

  RESTART = "restart"
  """It is started again."""
  CONTINUE = "continue"
  """The run goes on without it."""
  END = "end"
  """The run ends with an error."""


@dataclasses.dataclass(frozen=True)
class LaunchConfig:
  """The nodes of a distributed run.

  Attributes:
    kind: what carries them out.
    num_actors: actor nodes, at least 1.
    envs_per_actor: environments in which each actor acts at once, by one call of its policy.
    num_evaluators: nodes that play the evaluations while training; 0 for none of those.
    num_caches: nodes between the learner and the actors that hold copies of the variables.
    actor_failure: what happens when an actor's process is killed.
    learner_failure: what happens when the learner's process is killed: RESTART, from its newest
      checkpoint, or END.
    actor_gpus: whether actors and evaluators see the machine's GPUs.
  """

  kind: LaunchKind = LaunchKind.LOCAL_MP
  num_actors: int = 1
  envs_per_actor: int = 1
  num_evaluators: int = 1
  num_caches: int = 0
  actor_failure: OnDeath = OnDeath.RESTART
  learner_failure: OnDeath = OnDeath.RESTART
  actor_gpus: bool = False

  def __post_init__(self) -> None:
    # A frozen dataclass allows no other way.
    for name, members in (("kind", LaunchKind), ("actor_failure", OnDeath)):
      object.__setattr__(self, name, checks.member(name, getattr(self, name), members))
    failure = checks.member("learner_failure", self.learner_failure, OnDeath)
    object.__setattr__(self, "learner_failure", failure)
    if self.kind is LaunchKind.LOCAL:
      raise ValueError(
        "kind is local: a run of one process has no nodes. Take local_mt or local_mp."
      )
    checks.integer("num_actors", self.num_actors, minimum=1)
    checks.integer("envs_per_actor", self.envs_per_actor, minimum=1)
    checks.integer("num_evaluators", self.num_evaluators, minimum=0)
    checks.integer("num_caches", self.num_caches, minimum=0)
    if self.learner_failure is OnDeath.CONTINUE:
      raise ValueError(
        "learner_failure is 'continue'; without a learner nothing is learnt. Take restart or end."
      )

  @property
  def in_processes(self) -> bool:
    """Whether each node is a process of this machine, which can be killed and started again."""
    return self.kind is LaunchKind.LOCAL_MP
