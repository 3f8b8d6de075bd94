"""The comparisons that the offline launcher runs: data, ways to learn from it, and claims."""

from collections.abc import Mapping
import dataclasses
from typing import Any, Optional

from temper.utils.policy_kinds import PolicyKind


@dataclasses.dataclass(frozen=True)
class Arm:
  """One way to learn, beside others on the same data.

  Attributes:
    name: how tables and folders call it.
    config: fields of the agent's config that differ from the preset's.
    environment_options: what is made of the environment, see `temper.utils.environments`.
  """

  name: str
  config: Mapping[str, Any]
  environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Claim:
  """Something that is expected to end above something else.

  Attributes:
    better: name of an arm, and how its actions are taken.
    worse: the same; or None for the data's own episodes.
  """

  better: tuple[str, PolicyKind]
  worse: Optional[tuple[str, PolicyKind]]


@dataclasses.dataclass(frozen=True)
class Study:
  """Arms that learn from the same data.

  Attributes:
    name: what the command line calls it.
    title: the line above table and picture.
    environment: where data come from, and where policies are evaluated.
    random_episodes: episodes of uniform actions in the data.
    learning_agent: agent whose every training episode is in the data, from its first to trained.
    learning_steps: its environment steps.
    agent: what learns from the data.
    arms: how.
    steps: learner steps of each run.
    eval_every: learner steps between evaluations while training.
    claims: what the study is to show.
  """

  name: str
  title: str
  environment: str
  random_episodes: int
  learning_agent: str
  learning_steps: int
  agent: str
  arms: tuple[Arm, ...]
  steps: int
  eval_every: int
  claims: tuple[Claim, ...]


_RAW, _BOLTZMANN = PolicyKind.RAW, PolicyKind.BOLTZMANN

_MODES = Study(
  name="modes",
  title="CRR on mixed data of Pendulum-v1",
  environment="gym:Pendulum-v1",
  random_episodes=40,
  learning_agent="svg0",
  learning_steps=8_000,
  agent="crr",
  arms=tuple(Arm(mode, {"policy_improvement_modes": mode}) for mode in ("exp", "binary", "all")),
  steps=3_000,
  eval_every=500,
  claims=(
    Claim(("exp", _RAW), ("all", _RAW)),
    Claim(("binary", _RAW), ("all", _RAW)),
    Claim(("exp", _RAW), None),
    Claim(("binary", _RAW), None),
    Claim(("exp", _BOLTZMANN), ("exp", _RAW)),
    Claim(("binary", _BOLTZMANN), ("binary", _RAW)),
    Claim(("all", _BOLTZMANN), ("all", _RAW)),
  ),
)

# Cosine and sine of the angle; the third observation is the velocity.
_WITHOUT_VELOCITY = {"observation_indices": (0, 1)}
# Long enough to tell velocities from, also far into an episode; the same without memory, so that
# memory is all that differs.
_LONG = {
  "sequence_length": 24,
  "batch_size": 32,
  "policy_learning_rate": 3e-3,
  "critic_learning_rate": 3e-3,
  "policy_layer_sizes": (64,),
  "critic_layer_sizes": (64,),
}
_TWO_LAYERS = {"policy_layer_sizes": (64, 64), "critic_layer_sizes": (64, 64)}

_MEMORY = Study(
  name="memory",
  title="CRR on Pendulum-v1 without the velocity",
  environment="gym:Pendulum-v1",
  random_episodes=40,
  learning_agent="svg0",
  learning_steps=8_000,
  agent="crr",
  arms=(
    Arm("recurrent", {**_LONG, "lstm_size": 64}, _WITHOUT_VELOCITY),
    # A second hidden layer in the place of the recurrent core.
    Arm("feed-forward", {**_LONG, **_TWO_LAYERS, "lstm_size": None}, _WITHOUT_VELOCITY),
  ),
  steps=4_000,
  eval_every=1_000,
  claims=(
    Claim(("recurrent", _RAW), ("feed-forward", _RAW)),
    Claim(("recurrent", _RAW), None),
  ),
)

STUDIES = {study.name: study for study in (_MODES, _MEMORY)}
