"""Trains CRR by Temper and by d3rlpy on one dataset and compares the policies that come of it.

What a side has finished is kept, and the same command goes on with it.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import flags
import numpy as np

from temper.launchers import command_line
from temper.launchers import comparison
from temper.launchers import d3rlpy_sides
from temper.launchers import d3rlpy_worker
from temper.launchers import peer_environment
from temper.launchers.command_line import Flag
from temper.utils import datasets
from temper.utils import evaluation
from temper.utils import policy_kinds

OURS, THEIRS = "temper", "d3rlpy"
_PROGRAM = "python -m temper.launchers.benchmark_d3rlpy"
_KINDS = [kind.value for kind in policy_kinds.PolicyKind]

_FLAGS: Sequence[Flag] = (
  Flag("dataset", "string", None, None, "Path of the dataset, as train_offline takes it."),
  Flag("env", "string", "gym:Pendulum-v1", None, "Where to evaluate: gym:<id>."),
  Flag("directory", "string", "runs/benchmark-d3rlpy", None, "Folder of the runs of both sides."),
  Flag("seeds", "string", "0,1,2", None, "Seeds; both sides are trained once with each."),
  Flag("steps", "integer", 10_000, 1, "Learner steps of each run."),
  Flag("eval_every", "integer", 1_000, 1, "Steps between evaluations; must divide steps."),
  Flag("eval_episodes", "integer", 20, 1, "Episodes of each evaluation."),
  Flag("eval_policy", "string", ",".join(_KINDS), None, "How actions are taken: one or several."),
  Flag(
    "normalise_observations",
    "boolean",
    True,
    None,
    "Whether networks normalise observations by the data's mean and standard deviation.",
  ),
  Flag("ours", "string", "", None, "Further flags of train_offline, such as '--config.vmin=-170'."),
  Flag(
    "peer_folder",
    "string",
    None,
    None,
    "d3rlpy's environment, made once; default .peers/d3rlpy beside the sources.",
  ),
  Flag(
    "peer_python", "string", None, None, "Python to make it with; default 3.11 if there is one."
  ),
)


def run(argv: Sequence[str]) -> int:
  """Compares as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when the tables are printed, 2 when what is asked for is refused, 1 when a side fails, 130
    after Ctrl-C.
  """
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=(
      "",
      "The config is what both sides are trained with.",
      "",
      "example:",
      f"  {argv[0]} --dataset=data/pendulum.npz --steps=5000 --eval_every=500",
    ),
  )
  base = d3rlpy_worker.Config()
  try:
    early = flag_table.peek(argv)
    if early["help"] or early["helpfull"]:
      print(flag_table.help(argv[0], base if early["helpfull"] else None))
      return 0
    options, config, _ = flag_table.read(argv, base)
    print(compare(config, options))
    return 0
  except (flags.Error, ValueError) as error:
    return command_line.refuse(error)
  except (d3rlpy_sides.ComparisonError, peer_environment.PeerError, ImportError) as error:
    return command_line.fail(error)
  except KeyboardInterrupt:
    print("Aborted; the same command goes on with what is finished.", file=sys.stderr)
    return 130


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


def compare(config: d3rlpy_worker.Config, options: Mapping[str, Any]) -> str:
  """Trains both sides on every seed and returns the table.

  Args:
    config: what both are trained with.
    options: the other flags by name.

  Raises:
    ValueError: if something asked for is not possible.
    PeerError: if d3rlpy's environment cannot be made.
    ComparisonError: if a side fails, or the environments differ.
  """
  scheme, _, environment_id = options["env"].partition(":")
  if scheme != "gym":
    raise ValueError(f"--env={options['env']}: d3rlpy plays Gymnasium's environments, gym:<id>.")
  if not options["dataset"]:
    raise ValueError("--dataset is missing: the path of the dataset to learn from.")
  seeds = _seeds(options["seeds"])
  kinds = _kinds(options["eval_policy"])
  dataset = datasets.open_dataset(options["dataset"])
  directory = pathlib.Path(options["directory"]).absolute()
  directory.mkdir(parents=True, exist_ok=True)
  job = d3rlpy_worker.Job(
    dataset=str(d3rlpy_sides.write_for_peer(dataset, directory)),
    environment=environment_id,
    start_seeds=tuple(evaluation.start_seeds(options["eval_episodes"])),
    seed=0,
    steps=options["steps"],
    eval_every=options["eval_every"],
    normalise_observations=options["normalise_observations"],
    threads=options["intra_op_threads"],
    config=config,
  )
  expected_probe = d3rlpy_sides.probe(options["env"], job.start_seeds[0])
  interpreter = peer_environment.prepare(
    "d3rlpy",
    pathlib.Path(options["peer_folder"] or peer_environment.default_folder("d3rlpy")),
    options["peer_python"],
  )
  # By way to act, side and seed.
  curves: dict[policy_kinds.PolicyKind, dict[str, dict[int, comparison.Curve]]] = {
    kind: {OURS: {}, THEIRS: {}} for kind in kinds
  }
  rates = []
  for seed in seeds:
    seeded = dataclasses.replace(job, seed=seed)
    result = d3rlpy_sides.train_theirs(seeded, directory / f"d3rlpy-seed{seed}", interpreter)
    d3rlpy_sides.check_probe(expected_probe, result["probe_return"], options["env"])
    rates.append(result["updates_per_second"])
    ours = d3rlpy_sides.train_ours(seeded, directory / f"temper-seed{seed}", kinds, options)
    for kind, sides in curves.items():
      sides[OURS][seed], sides[THEIRS][seed] = ours[kind], d3rlpy_sides.peer_curve(result, kind)
  normalisation = "normalised by the data's mean and std" if job.normalise_observations else None
  versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
  return "\n".join(
    [
      str(datasets.summarise(dataset, sequence_length=2, normalisation=normalisation)),
      f"Mean return of the data {np.mean(dataset.returns):.1f}; "
      f"{len(job.start_seeds)} episodes an evaluation, {job.steps:,} updates.",
      f"d3rlpy: {np.mean(rates):.0f} updates/s on {job.threads} thread(s); {versions}.",
      *(f"\nActing by {kind.value}\n{comparison.table(curves[kind])}" for kind in kinds),
    ]
  )


def _seeds(text: str) -> list[int]:
  words = text.split(",")
  if not all(word.isdecimal() for word in words) or len(set(words)) < len(words):
    raise ValueError(f"--seeds={text}: different whole numbers are needed, as in 0,1,2.")
  return [int(word) for word in words]


def _kinds(text: str) -> list[policy_kinds.PolicyKind]:
  words = text.split(",")
  if not set(words) <= set(_KINDS) or len(set(words)) < len(words):
    raise ValueError(f"--eval_policy={text}: choose among {', '.join(_KINDS)}, commas between.")
  return [policy_kinds.PolicyKind(word) for word in words]


if __name__ == "__main__":
  main()
