"""The `temper` command: finds the program that its first word names and hands the rest over."""

from collections.abc import Sequence
import difflib
import importlib
import sys
from typing import Optional

from temper.utils import startup

# Each module exposes `run(argv) -> int`, where argv[0] is the program's name as the user typed it.
COMMANDS = {
  "train": ("temper.launchers.train", "train an agent on an environment, or resume a run"),
  "train-offline": (
    "temper.launchers.train_offline",
    "train an agent from a dataset on disk, or resume a run",
  ),
  "collect": ("temper.launchers.collect", "record episodes into a dataset on disk"),
  "offline": (
    "temper.launchers.offline",
    "record data, learn from it in several ways, and compare",
  ),
  "evaluate": (
    "temper.launchers.evaluate",
    "play episodes by a run or an exported policy, and tell the returns",
  ),
  "record": ("temper.launchers.record", "film an episode of a run or an exported policy"),
  "info": (
    "temper.launchers.info",
    "show what a run, a checkpoint, an exported policy or a dataset holds",
  ),
  "plot": ("temper.launchers.plot", "draw learning curves of runs, over their seeds"),
  "export": (
    "temper.launchers.export",
    "write a run's policy as a SavedModel, ONNX or TensorFlow Lite",
  ),
  "export-check": (
    "temper.launchers.export_check",
    "run exported policies where there is nothing but TensorFlow or onnxruntime",
  ),
  "check-resume": (
    "temper.launchers.check_resume",
    "kill a training run again and again, and check that it resumes",
  ),
  "check-distributed": (
    "temper.launchers.check_distributed",
    "kill random nodes of a distributed run, and check that it still learns",
  ),
  "benchmark": ("temper.launchers.benchmark", "time the agents beside dm-acme's"),
  "benchmark-export": (
    "temper.launchers.benchmark_export",
    "time exported policies beside the actor",
  ),
  "benchmark-d3rlpy": (
    "temper.launchers.benchmark_d3rlpy",
    "train CRR and d3rlpy's CRR on the same dataset, and compare",
  ),
  "benchmark-sac": (
    "temper.launchers.benchmark_sac",
    "time SAC beside SBX and Stable-Baselines3",
  ),
  "benchmark-distributed": (
    "temper.launchers.benchmark_distributed",
    "measure distributed programs beside dm-acme's, and what limits them",
  ),
}

_INTERRUPTED = 130  # What a shell expects of a process that Ctrl-C ended.
_USAGE_ERROR = 2  # What absl and argparse exit with on a bad command line.


def usage() -> str:
  """Returns the help text: how to call the command, and every program with its purpose."""
  width = max(map(len, COMMANDS)) + 2
  rows = "\n".join(f"  {name:<{width}}{purpose}" for name, (_, purpose) in COMMANDS.items())
  return (
    "usage: temper COMMAND [FLAGS]\n"
    "       temper COMMAND --help    the flags of a command\n"
    "       temper --version         Temper's version and those of the stack it runs on\n\n"
    f"commands:\n{rows}\n\n"
    "example:\n  temper train --agent=svg0 --env=gym:Pendulum-v1 --steps=20000\n"
  )


def version_text() -> str:
  """Returns Temper's version and, a line each, those of the stack, read without loading it."""
  rows = [f"temper-rl {startup.version()}"]
  rows += [f"  {name} {number}" for name, number in startup.stack_versions().items()]
  return "\n".join(rows)


def run(argv: Sequence[str]) -> int:
  """Runs one command line.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    The exit code: the called program's own, 0 after help and versions, 2 for a command that does
    not exist.
  """
  word, rest = (argv[1], argv[2:]) if len(argv) > 1 else ("", ())
  if word in ("--help", "-h", "help"):
    print(usage(), end="")
    return 0
  if word in ("--version", "version"):
    print(version_text())
    return 0
  if word not in COMMANDS:
    print(_refusal(word), file=sys.stderr)
    return _USAGE_ERROR
  startup.quiet()
  # Imported only now, so that help, versions and refusals do not wait for TensorFlow.
  program = importlib.import_module(COMMANDS[word][0])
  return program.run([f"temper {word}", *rest])


def main(argv: Optional[Sequence[str]] = None) -> None:
  """The console script: runs `argv`, by default the process's own, and exits with its code."""
  try:
    code = run(sys.argv if argv is None else argv)
  except KeyboardInterrupt:
    # While the program was loaded, or in one that does not handle it itself.
    print("Aborted.", file=sys.stderr)
    code = _INTERRUPTED
  sys.exit(code)


def _refusal(word: str) -> str:
  """Words the answer to a command that does not exist, or to none."""
  listed = ", ".join(COMMANDS)
  if not word:
    return f"temper: a command is needed, one of {listed}. `temper --help` says what each does."
  close = difflib.get_close_matches(word, COMMANDS, n=1)
  hint = f" Did you mean {close[0]}?" if close else ""
  return (
    f"temper: there is no command {word!r}, only {listed}.{hint} "
    "`temper --help` says what each does."
  )


if __name__ == "__main__":
  main()
