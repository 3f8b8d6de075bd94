"""Evaluates and films the agent of a run."""

from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any, Callable, Union

import dm_env

from temper.agents import actor as actor_lib
from temper.agents import policies
from temper.launchers import artefacts
from temper.utils import environments
from temper.utils import evaluation
from temper.utils import recording
from temper.utils.progress import Progress

# Steps of one evaluation episode after which, and after as many more, the user is told of it.
_LONG_EPISODE = 10_000

MakeActor = Callable[[policies.PolicyChoice, int], actor_lib.Actor]


@dataclasses.dataclass(frozen=True)
class EnvironmentSource:
  """Makes the environments of a run.

  Attributes:
    maker: name of the environment, or what makes it.
    options: see `temper.utils.environments`.
  """

  maker: Union[str, Callable[..., Any]]
  options: Mapping[str, Any]

  def make(self, seed: int, *, render: bool = False) -> environments.CanonicalEnvironment:
    """Makes an environment; one to be filmed if `render`."""
    options = dict(self.options)
    if render and isinstance(self.maker, str):
      # Gymnasium must know beforehand; an environment of one's own draws itself or does not.
      options["render"] = True
    return environments.environment_factory(self.maker, **options)(seed)


class Evaluator:
  """Plays evaluation episodes that the user can stop, and tells of long ones."""

  def __init__(
    self,
    source: EnvironmentSource,
    environment: environments.CanonicalEnvironment,
    make_actor: MakeActor,
    *,
    seed: int,
    progress: Progress,
    check_stop: Callable[[], None],
  ):
    """Initialises the evaluator.

    Args:
      source: makes the environment to film in.
      environment: where to evaluate.
      make_actor: makes an actor of a choice and a seed.
      seed: seed of actors, whose draws are the same in each evaluation, and of the film.
      progress: what the user sees.
      check_stop: called at each step; raises when the user wants to stop.
    """
    self._source = source
    self._environment = environment
    self._make_actor = make_actor
    self._seed = seed
    self._progress = progress
    self._check_stop = check_stop
    self._actors: dict[policies.PolicyChoice, tuple[actor_lib.Actor, dict[str, Any]]] = {}

  def evaluate(self, choice: policies.PolicyChoice, episodes: int) -> evaluation.EvaluationResult:
    """Plays episodes from the starts that every evaluation has.

    Raises:
      EndlessEpisodeError: if an episode does not end.
    """
    steps = 0

    def on_step(timestep: dm_env.TimeStep) -> None:
      nonlocal steps
      self._check_stop()
      steps = 0 if timestep.first() else steps + 1
      if steps and steps % _LONG_EPISODE == 0:
        self._progress.note(
          f"An evaluation episode has run for {steps:,} steps; the limit is "
          f"{evaluation.MAX_EPISODE_STEPS:,}."
        )

    return evaluation.evaluate(
      self._environment,
      self._actor(choice),
      seeds=evaluation.start_seeds(episodes),
      kind=choice.kind,
      on_step=on_step,
    )

  def _actor(self, choice: policies.PolicyChoice) -> actor_lib.Actor:
    """Returns the actor of a choice as if new; to compile one takes as long as an episode."""
    if choice not in self._actors:
      actor = self._make_actor(choice, self._seed)
      self._actors[choice] = actor, actor.state()
    actor, state = self._actors[choice]
    actor.load_state(state)
    return actor

  def film(
    self, choice: policies.PolicyChoice, evaluated: evaluation.EvaluationResult, path: str
  ) -> None:
    """Films the evaluated episode of median return; where that cannot be, a note says why."""
    try:
      with contextlib.closing(self._source.make(self._seed, render=True)) as environment:
        artefacts.film(environment, self._actor(choice), evaluated, path)
    except (recording.RenderingError, ImportError) as error:
      self._progress.note(f"No GIF of an episode: {error}")
