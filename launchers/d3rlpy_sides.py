"""The two sides of benchmark_d3rlpy: the same job done by d3rlpy and by Temper."""

from collections.abc import Mapping, Sequence
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
from typing import Any

import numpy as np

from temper.launchers import comparison
from temper.launchers import config_flags
from temper.launchers import d3rlpy_worker
from temper.launchers import run_directory
from temper.utils import datasets
from temper.utils import environments
from temper.utils import policy_kinds

_TAIL = 3_000


class ComparisonError(RuntimeError):
  """A side failed, or the two did not have the same environment."""


def write_for_peer(dataset: datasets.EpisodeDataset, directory: pathlib.Path) -> pathlib.Path:
  """Writes a dataset for the worker, under a name that tells its content.

  Raises:
    DatasetError: if observations or actions are not vectors, which is what d3rlpy's networks take.
  """
  rows, digest = [], hashlib.sha256()
  for index, episode in enumerate(dataset):
    arrays = (episode.observation, episode.action)
    if not all(isinstance(array, np.ndarray) and array.ndim == 2 for array in arrays):
      raise datasets.DatasetError(
        f"{dataset.path}: observations and actions of episode {index} must be vectors for d3rlpy."
      )
    rows.append((*arrays, episode.reward, episode.terminated))
    for array in (*arrays, episode.reward, episode.discount):
      digest.update(np.ascontiguousarray(array).tobytes())
  path = directory / f"dataset-{digest.hexdigest()[:12]}.npz"
  if not path.exists():
    scratch = path.with_name("scratch.npz")
    d3rlpy_worker.write_episodes(str(scratch), rows)
    os.replace(scratch, path)
  return path


def probe(name: str, seed: int) -> float:
  """Plays one episode by the middle of the action bounds, as the worker's `probe` does."""
  environment = environments.make_environment(name)
  try:
    environment.seed(seed)
    timestep, total = environment.reset(), 0.0
    middle = np.zeros(environment.action_spec().shape, np.float32)
    while not timestep.last():
      timestep = environment.step(middle)
      total += float(timestep.reward)
    return total
  finally:
    environment.close()


def check_probe(ours: float, theirs: float, name: str) -> None:
  """Raises ComparisonError unless one episode went alike on both sides."""
  if not np.isclose(ours, theirs, rtol=1e-3):
    raise ComparisonError(
      f"{name} is not the same environment on both sides: the same actions from the same start "
      f"return {ours:.6g} here and {theirs:.6g} beside d3rlpy. Lock the same versions of what it "
      "is made of."
    )


def train_theirs(job: d3rlpy_worker.Job, directory: pathlib.Path, interpreter: str) -> Any:
  """Runs the worker, or reads what it wrote when the same job was run before.

  Args:
    job: what to run.
    directory: where job and result are kept.
    interpreter: that of d3rlpy's environment.

  Returns:
    What `d3rlpy_worker.run` returned.

  Raises:
    ComparisonError: if it fails.
  """
  result_path, errors_path = directory / "result.json", directory / "stderr.txt"
  entries = job.to_json()
  if result_path.exists():
    result = json.loads(result_path.read_text())
    if result["job"] == entries:
      return result
  directory.mkdir(exist_ok=True)
  job_path = directory / "job.json"
  job_path.write_text(json.dumps(entries, indent=2))
  # Isolated, so that nothing is imported from beside the worker, which is Temper's.
  command = [interpreter, "-I", d3rlpy_worker.__file__, str(job_path), str(result_path)]
  with open(errors_path, "w", encoding="utf-8") as errors:
    status = subprocess.run(command, stderr=errors, check=False).returncode
  if status:
    raise ComparisonError(f"d3rlpy ended with {status}:\n{errors_path.read_text()[-_TAIL:]}")
  return json.loads(result_path.read_text())


def peer_curve(result: Mapping[str, Any], kind: policy_kinds.PolicyKind) -> comparison.Curve:
  """Returns the worker's evaluations of one way to act."""
  return [
    comparison.Evaluation.of_returns(entry["step"], entry["returns"])
    for entry in result["evaluations"]
    if entry["policy"] == kind.value
  ]


def train_ours(
  job: d3rlpy_worker.Job,
  directory: pathlib.Path,
  kinds: Sequence[policy_kinds.PolicyKind],
  options: Mapping[str, Any],
) -> dict[policy_kinds.PolicyKind, comparison.Curve]:
  """Trains Temper's feed-forward CRR by `temper.launchers.train_offline`.

  Args:
    job: what d3rlpy is trained with.
    directory: the run's; a run that is there is gone on with.
    kinds: how the evaluated policies act.
    options: the flags; `dataset`, `env` and `ours` are used.

  Returns:
    A curve for each way to act.

  Raises:
    ComparisonError: if it fails.
  """
  command = [sys.executable, "-m", "temper.launchers.train_offline"]
  command += our_flags(job, directory, kinds, options)
  status = subprocess.run(command, check=False).returncode
  if status:
    raise ComparisonError(f"{shlex.join(command)} ended with {status}.")
  logs = run_directory.RunDirectory(str(directory)).logs
  curves: dict[policy_kinds.PolicyKind, comparison.Curve] = {}
  for kind in kinds:
    curve = comparison.read_curve(os.path.join(logs, "evaluation.csv"), kind.mode)
    # d3rlpy is not evaluated before its first update.
    curves[kind] = [point for point in curve if point.step > 0]
  return curves


def our_flags(
  job: d3rlpy_worker.Job,
  directory: pathlib.Path,
  kinds: Sequence[policy_kinds.PolicyKind],
  options: Mapping[str, Any],
) -> list[str]:
  """Returns the command line of `train_offline` that asks for what `job` asks of d3rlpy."""
  config = job.config
  fields = {
    "discount": config.discount,
    "batch_size": config.batch_size,
    # Two steps make one pair: a batch of sequences is one of transitions.
    "sequence_length": 2,
    "lstm_size": None,
    "target_update_period": config.target_update_period,
    "num_action_samples_policy_weight": config.num_action_samples,
    "baseline_reduce_function": config.baseline,
    "policy_improvement_modes": config.mode,
    "ratio_upper_bound": config.ratio_upper_bound,
    "beta": config.beta,
    "max_gradient_norm": config.max_gradient_norm,
    "reward_scale": config.reward_scale,
    "policy_learning_rate": config.learning_rate,
    "critic_learning_rate": config.learning_rate,
    "policy_layer_sizes": config.layer_sizes,
    "critic_layer_sizes": config.layer_sizes,
    # What d3rlpy has nothing like, chosen for this length of run: else the last evaluations swing.
    "learning_rate_decay_period": job.steps,
    "num_atoms": 201,
  }
  no = "" if job.normalise_observations else "no"
  return [
    f"--dataset={options['dataset']}",
    f"--env={options['env']}",
    f"--directory={directory}",
    f"--seed={job.seed}",
    f"--steps={job.steps}",
    f"--eval_every={job.eval_every}",
    f"--eval_episodes={len(job.start_seeds)}",
    f"--eval_episodes_training={len(job.start_seeds)}",
    f"--eval_policy={','.join(kind.value for kind in kinds)}",
    # d3rlpy's critic-weighted policy has this temperature and as many samples as the baseline.
    "--beta=1.0",
    f"--num_action_samples={config.num_action_samples}",
    f"--{no}normalise_observations",
    f"--intra_op_threads={job.threads}",
    "--preset=none",
    "--nogif",
    *(f"--config.{name}={config_flags.to_text(value)}" for name, value in fields.items()),
    *shlex.split(options["ours"]),
  ]
