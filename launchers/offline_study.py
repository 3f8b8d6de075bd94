"""Runs a study: records its data, learns in each way with each seed, and compares."""

from collections.abc import Mapping, Sequence
import dataclasses
import gc
import json
import os
import sys
import time
from typing import Any, Optional

from temper.agents import policies
from temper.launchers import agent_table
from temper.launchers import collection
from temper.launchers import episode_sources
from temper.launchers import offline_comparison
from temper.launchers import offline_experiment
from temper.launchers import presets
from temper.launchers import run_directory
from temper.launchers.offline_experiment_config import OfflineExperimentConfig
from temper.launchers.offline_studies import Arm
from temper.launchers.offline_studies import Study
from temper.launchers.outcomes import SettingsError
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import comparison_plot
from temper.utils import datasets
from temper.utils import plotting

# Of the data, whatever the seeds of learning are: all learn from the same.
_DATA_SEED = 0


@dataclasses.dataclass(frozen=True)
class StudyConfig:
  """What to run and where.

  Attributes:
    study: data, arms and claims.
    directory: folder of everything; what is finished in it is not done again.
    seeds: of learning; each arm is run with each.
    eval_episodes: episodes of each evaluation at the end of a run.
  """

  study: Study
  directory: str
  seeds: tuple[int, ...] = (0,)
  eval_episodes: int = 50

  def __post_init__(self) -> None:
    if not self.directory:
      raise ValueError("directory is empty; a study needs a folder of its own.")
    if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
      raise ValueError(f"seeds is {self.seeds}; it must be different integers from 0 on.")
    if self.eval_episodes < 1:
      raise ValueError(f"eval_episodes is {self.eval_episodes}; it must be at least 1.")

  @property
  def dataset(self) -> str:
    """Path of the data."""
    return os.path.join(self.directory, "data.npz")

  def run_path(self, arm: Arm, seed: int) -> str:
    """Returns the folder of a run."""
    return os.path.join(self.directory, f"{arm.name}-seed{seed}")


@dataclasses.dataclass(frozen=True)
class StudyResult:
  """What a study has come to.

  Attributes:
    comparison: None if it was stopped.
    files: what was written about it, by what it is.
    stop: why it ended early, None if it did not.
  """

  comparison: Optional[offline_comparison.Comparison]
  files: Mapping[str, str]
  stop: Optional[StopRequested]


def run_study(config: StudyConfig, stop: StopSignal) -> StudyResult:
  """Runs what is not finished of a study, and compares.

  Args:
    config: what to run.
    stop: an entered signal of the caller.

  Raises:
    SettingsError: if the folder holds something else.
    StopRequested: if the user stops it while data are recorded; those are then recorded anew.
    TrainingFailed: if a run fails.
    CheckpointError: if a checkpoint is damaged.
    ImportError: if a package is missing.
  """
  begun = time.monotonic()
  directory = run_directory.RunDirectory(config.directory)
  claim = directory.claim()
  try:
    _check_folder(config)
    dataset = _data(config, stop)
    results: dict[str, dict[int, Any]] = {arm.name: {} for arm in config.study.arms}
    wanted = [(arm, seed) for seed in config.seeds for arm in config.study.arms]
    for number, (arm, seed) in enumerate(wanted):
      say(f"\n{arm.name}, seed {seed}: run {number + 1} of {len(wanted)}.")
      found: Optional[Mapping[str, Any]] = _finished(config, arm, seed)
      if found is None:
        result = offline_experiment.run_offline_experiment(
          _run_config(config, arm, seed, dataset), stop
        )
        if result.stop is not None:
          return StudyResult(None, {}, result.stop)
        found = result.summary
        # A run's networks and graphs refer to each other, and would lie about until much later.
        gc.collect()
      else:
        say("It is finished.")
      results[arm.name][seed] = found
    comparison = offline_comparison.compare(config.study, results, dataset.returns.tolist())
    files = _write(config, comparison)
  finally:
    claim.release()
  say(f"\n{time.monotonic() - begun:.0f} s in all.")
  return StudyResult(comparison, files, None)


def say(line: str) -> None:
  """Tells the user what goes on, where progress bars are too."""
  print(line, file=sys.stderr, flush=True)


def _check_folder(config: StudyConfig) -> None:
  """Writes down which study the folder is of; raises SettingsError if it is another's."""
  path = os.path.join(config.directory, "study.json")
  asked = run_directory.plain(config.study)
  if os.path.exists(path):
    with open(path, encoding="utf-8") as file:
      found = json.load(file)
    differing = [name for name in asked if found.get(name) != asked[name]]
    if differing:
      raise SettingsError(
        f"{config.directory} holds a study with another {', '.join(differing)}. Choose another "
        "directory."
      )
  elif os.listdir(config.directory):
    raise SettingsError(
      f"{config.directory} exists and holds no study (there is no study.json in it). Choose "
      "another directory."
    )
  run_directory.write_json(path, asked)


def _data(config: StudyConfig, stop: StopSignal) -> datasets.EpisodeDataset:
  """Returns the study's data, which are recorded if they are not there."""
  study = config.study
  if not os.path.exists(config.dataset):
    entry = agent_table.find(study.learning_agent)
    preset = presets.find(study.learning_agent, study.environment)
    builder = entry.builder_class(entry.config_class(**preset.config))
    say(
      f"Recording {study.random_episodes} episodes of random actions, and every episode of "
      f"{study.learning_steps:,} steps in which {entry.title} learns."
    )
    asked = collection.CollectionConfig(
      environment=study.environment,
      output=config.dataset,
      format=datasets.DatasetFormat.NPZ,
      parts=(
        collection.Part(episode_sources.RandomSource(), episodes=study.random_episodes),
        collection.Part(episode_sources.LearningSource(builder), steps=study.learning_steps),
      ),
      seed=_DATA_SEED,
      keep_when_stopped=False,
    )
    say(str(collection.collect(asked, stop).summary))
  return datasets.open_dataset(config.dataset)


def _run_config(
  config: StudyConfig, arm: Arm, seed: int, dataset: datasets.EpisodeDataset
) -> OfflineExperimentConfig:
  """Returns one run of the study."""
  study = config.study
  entry = agent_table.find(study.agent)
  preset = presets.find(study.agent, study.environment)
  agent_config = entry.config_class(**{**preset.config, **arm.config})
  weighted = policies.PolicyChoice(policies.PolicyKind.BOLTZMANN, agent_config.beta)
  return OfflineExperimentConfig(
    builder_class=entry.builder_class,
    config=agent_config,
    dataset=dataset,
    environment=study.environment,
    environment_options=arm.environment_options,
    steps=study.steps,
    directory=config.run_path(arm, seed),
    seed=seed,
    agent_name=study.agent,
    title=f"{entry.title} {arm.name}",
    eval_policies=(policies.RAW, weighted),
    eval_every=study.eval_every,
    eval_episodes=config.eval_episodes,
    checkpoint_every=study.eval_every,
    checkpoints_to_keep=1,
    gif=False,
  )


def _finished(config: StudyConfig, arm: Arm, seed: int) -> Optional[dict[str, Any]]:
  """Returns what a finished run has come to; None if it has to be run, or evaluated again."""
  path = run_directory.RunDirectory(config.run_path(arm, seed)).result
  if not os.path.exists(path):
    return None
  with open(path, encoding="utf-8") as file:
    result = json.load(file)
  episodes = {found["episodes"] for found in result["evaluations"].values()}
  done = result["learner_steps"] >= config.study.steps and episodes == {config.eval_episodes}
  return result if done else None


def _write(config: StudyConfig, comparison: offline_comparison.Comparison) -> dict[str, str]:
  """Writes numbers and picture."""
  stem = os.path.join(config.directory, "comparison")
  files = dict(zip(("numbers", "table"), comparison.write(stem)))
  data = comparison.data
  points = [
    comparison_plot.Point(
      group=entry.arm,
      series=entry.policy,
      hollow=entry.networks != "final",
      label=f"{entry.policy}, {entry.networks}",
      mean=entry.mean,
      low=entry.low,
      high=entry.high,
      parts=entry.seed_means,
    )
    for entry in _by_policy(comparison.entries[1:])
  ]
  pictures = [f"{stem}.png", f"{stem}.svg"]
  try:
    comparison_plot.plot_comparison(
      points,
      pictures,
      title=f"{comparison.title}: mean return, 95 % interval",
      reference=plotting.Reference("the data's mean return", data.mean, data.low, data.high),
    )
  except ImportError as error:
    say(f"No picture: {error}")
    return files
  return {**files, "picture": pictures[0], "drawing": pictures[1]}


def _by_policy(entries: Sequence[offline_comparison.Entry]) -> list[offline_comparison.Entry]:
  """Puts final and best of the same policy side by side, arm by arm."""
  arms = list(dict.fromkeys(entry.arm for entry in entries))
  kinds = list(dict.fromkeys(entry.policy for entry in entries))
  return sorted(entries, key=lambda e: (arms.index(e.arm), kinds.index(e.policy)))
