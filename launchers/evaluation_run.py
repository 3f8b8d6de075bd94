"""One evaluation of a run or an exported policy, from the first episode to the files."""

from collections.abc import Sequence
import contextlib
import csv
import dataclasses
import os
import re
import sys
import time
from typing import Any, Callable, Optional

from acme import specs

from temper.agents import policies
from temper.launchers import artefacts
from temper.launchers import environment_count
from temper.launchers import quantities
from temper.launchers import saved_policy
from temper.launchers.run_directory import write_json
from temper.launchers.stopping import StopSignal
from temper.utils import batched_evaluation
from temper.utils import evaluation
from temper.utils import startup
from temper.utils.progress import Progress

EPISODES_FILE = "episodes.csv"
RESULT_FILE = "result.json"
FOLDER = "evaluations"


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
  """What to evaluate, and how.

  Attributes:
    saved: the run or the exported policy, with an environment.
    choice: how actions are taken.
    seeds: which start each episode begins from.
    environments: in how many to play at once; None measures what is quickest.
    seed: of what is random in the policy; None takes the run's.
    output: folder of the files; None makes one in the run's or the policy's.
    command: the command line, for the record.
  """

  saved: saved_policy.Saved
  choice: policies.PolicyChoice
  seeds: tuple[int, ...]
  environments: Optional[int] = None
  seed: Optional[int] = None
  output: Optional[str] = None
  command: str = ""

  def __post_init__(self) -> None:
    if not self.seeds:
      raise ValueError("seeds is empty; at least one episode is needed.")
    if self.environments is not None and self.environments < 1:
      raise ValueError(f"environments is {self.environments}; it must be at least 1.")
    if self.output is not None and not self.output:
      raise ValueError("output is empty; leave it out for a folder in the run's.")

  @property
  def actor_seed(self) -> int:
    """The seed of what is random in the policy."""
    return self.saved.seed if self.seed is None else self.seed

  def folder(self) -> str:
    """Returns the folder of the files."""
    return output_path(self.saved, self.choice, FOLDER) if self.output is None else self.output


def output_path(saved: saved_policy.Saved, choice: policies.PolicyChoice, folder: str) -> str:
  """Returns where what is made of a saved policy is kept, if nobody says where.

  Args:
    saved: the run or the exported policy.
    choice: how actions are taken.
    folder: name of the folder for all of its kind.
  """
  parts = [choice.kind.value]
  if saved.step is not None:
    parts.append(f"step{saved.step}")
  assert saved.source is not None
  if saved.source.maker != saved.record.get("environment"):
    maker = saved.source.maker
    parts.append(re.sub(r"[^\w.]+", "-", maker if isinstance(maker, str) else maker.__name__))
  return os.path.join(saved.folder, folder, "-".join(parts))


def run_evaluation(config: EvaluationConfig, stop: StopSignal) -> dict[str, Any]:
  """Plays the episodes and writes `episodes.csv` and `result.json`.

  Args:
    config: what to do.
    stop: an entered signal of the caller.

  Returns:
    What result.json holds.

  Raises:
    StopRequested: if the user stops it; nothing is written.
    ValueError: if the policy cannot act so, or does not fit the environment.
    CheckpointError: if the checkpoint is damaged or does not fit.
    EnvironmentFault: if the environment returns what it may not.
    EndlessEpisodeError: if an episode does not end.
    ImportError: if a package of the environment is missing.
    OSError: if the files cannot be written.
  """
  note = lambda line: print(line, file=sys.stderr, flush=True)
  saved, choice = config.saved, config.choice
  assert saved.source is not None
  make_environment = lambda: saved.source.make(saved.seed)
  # An ExitStack may swallow exceptions for all a type checker knows, hence no return inside.
  with contextlib.ExitStack() as cleanup:
    environment = make_environment()
    cleanup.callback(environment.close)
    agent = saved.load(specs.make_environment_spec(environment))
    stop.check()
    note(_introduction(config))
    make_actor = lambda count: agent.make_batch_actor(choice, count, seed=config.actor_seed)
    count = 1 if len(config.seeds) == 1 else config.environments
    if count is None:
      chosen = environment_count.choose(
        environment,
        make_environment,
        make_actor,
        config.seeds,
        check_stop=stop.check,
        cleanup=cleanup,
      )
    else:
      environments = [environment]
      for _ in range(min(count, len(config.seeds)) - 1):
        stop.check()
        environments.append(make_environment())
        cleanup.callback(environments[-1].close)
      chosen = environment_count.Chosen(environments, make_actor(len(environments)), "")
    how = f"{len(chosen.environments)} environments at once"
    if len(chosen.environments) == 1:
      how = "One episode after the other"
    note(f"{how}. {chosen.reason}" if chosen.reason else f"{how}.")
    begun = time.monotonic()
    result = _play(chosen, config, stop.check)
    seconds = time.monotonic() - begun
  summary = _summary(config, result, len(chosen.environments), chosen.reason, seconds)
  _write(config.folder(), summary, result)
  return summary


def table(summary: dict[str, Any]) -> str:
  """Returns the table of an evaluation.

  Args:
    summary: what result.json holds.
  """
  shortest, longest = min(summary["lengths"]), max(summary["lengths"])
  ended = ", ".join(
    f"{count} by {end}"
    for end in ("termination", "truncation")
    if (count := summary["ended_by"].count(end))
  )
  length = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
  facts = [
    ("policy", summary["policy_in_words"]),
    ("of", summary["of"]),
    ("start seeds", seeds_in_words(summary["seeds"])),
    ("steps", f"{length} an episode, ended {ended}"),
    ("wall time", quantities.duration(summary["wall_seconds"])),
    ("files", summary["folder"]),
  ]
  return artefacts.render(summary["title"], [(summary["mode"], summary)], facts)


def seeds_in_words(seeds: Sequence[int]) -> str:
  """Returns seeds as a command line takes them, a range as `first-last`."""
  if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
    return f"{seeds[0]}-{seeds[-1]}"
  return ",".join(str(seed) for seed in seeds)


def _play(
  chosen: environment_count.Chosen, config: EvaluationConfig, check_stop: Callable[[], None]
) -> evaluation.EvaluationResult:
  progress = Progress(len(config.seeds), unit="episode")
  begun, steps, done = time.monotonic(), 0, 0

  def on_step() -> None:
    nonlocal steps
    check_stop()
    # Rounds of all environments, so that a long episode shows.
    steps += 1
    if steps % 100 == 0:
      rate = steps / (time.monotonic() - begun)
      progress.describe(f"{steps:,} steps of each environment, {rate:.0f}/s")
      progress.advance(done)

  def on_episode(count: int) -> None:
    nonlocal done
    done = count
    progress.advance(done)

  with contextlib.closing(progress):
    return batched_evaluation.evaluate(
      chosen.environments,
      chosen.actor,
      seeds=config.seeds,
      kind=config.choice.kind,
      on_step=on_step,
      on_episode=on_episode,
    )


def origin(saved: saved_policy.Saved) -> str:
  """Returns of what a policy is loaded, in words."""
  if isinstance(saved, saved_policy.SavedPolicy):
    return f"the exported policy {saved.path} ({saved.record.get('format')})"
  return f"{saved.checkpoint} (step {saved.step:,})"


def environment_in_words(saved: saved_policy.Saved) -> str:
  """Returns the environment's name; of one's own maker, the maker's."""
  assert saved.source is not None
  maker = saved.source.maker
  return maker if isinstance(maker, str) else getattr(maker, "__name__", type(maker).__name__)


def _introduction(config: EvaluationConfig) -> str:
  deterministic = config.choice.kind is policies.PolicyKind.MEAN
  drawn = "nothing is drawn" if deterministic else f"drawn with seed {config.actor_seed}"
  return (
    f"Evaluating {origin(config.saved)} on {environment_in_words(config.saved)}: "
    f"{len(config.seeds)} episodes from the start seeds {seeds_in_words(config.seeds)}.\n"
    f"Policy: {config.choice}; deterministic: {'yes' if deterministic else 'no'}, {drawn}."
  )


def _summary(
  config: EvaluationConfig,
  result: evaluation.EvaluationResult,
  environments: int,
  reason: str,
  seconds: float,
) -> dict[str, Any]:
  saved, choice = config.saved, config.choice
  assert saved.source is not None
  return {
    "title": f"{saved.title} on {environment_in_words(saved)}",
    "of": origin(saved),
    "agent": saved.record.get("agent"),
    "environment": environment_in_words(saved),
    "environment_options": dict(saved.source.options),
    "step": saved.step,
    "mode": result.mode,
    "deterministic": choice.kind is policies.PolicyKind.MEAN,
    "policy_in_words": str(choice),
    **_boltzmann(choice),
    "policy_seed": config.actor_seed,
    **result.as_dict(),
    "interval": "95 %, percentile bootstrap over the episodes",
    "environments_at_once": environments,
    "environments_reason": reason,
    "wall_seconds": seconds,
    "folder": config.folder(),
    "command": config.command,
    "versions": {"temper-rl": startup.version(), **startup.stack_versions()},
  }


def _boltzmann(choice: policies.PolicyChoice) -> dict[str, Any]:
  if choice.kind is not policies.PolicyKind.BOLTZMANN:
    return {}
  return {"beta": choice.beta, "num_action_samples": choice.num_action_samples}


def _write(folder: str, summary: dict[str, Any], result: evaluation.EvaluationResult) -> None:
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, EPISODES_FILE)
  # In one rename, so that a reader never sees half of it.
  with open(path + ".new", "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["seed", "return", "length", "ended_by"])
    ends = [end.value for end in result.ends]
    writer.writerows(zip(result.seeds, result.returns, result.lengths, ends))
  os.replace(path + ".new", path)
  write_json(os.path.join(folder, RESULT_FILE), summary)
