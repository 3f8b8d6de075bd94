"""Runs exported policies of every agent in clean environments, and compares them with the actor.

For each format an environment is made that holds nothing but what runs it: TensorFlow, or
onnxruntime. Policies of every agent are exported, and run there on so many observations, all at
once and one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any, Optional

from temper.launchers import command_line
from temper.launchers import exported_policy_worker as worker
from temper.launchers import native_output
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.export_check"

# What runs each format, and so is all that its environment holds, with what that needs itself.
_RUNTIMES = {"savedmodel": "tensorflow", "onnx": "onnxruntime", "tflite": "tensorflow"}
# What no environment of an exported policy may need.
FOREIGN = frozenset(
  {"temper", "acme", "sonnet", "tensorflow_probability", "reverb", "launchpad", "trfl", "onnx"}
)
_TAIL = 2_000

_FLAGS: Sequence[Flag] = (
  Flag("formats", "string", ",".join(_RUNTIMES), None, "Which formats to try."),
  Flag("observations", "integer", 1000, 1, "On how many observations, at once and one by one."),
  Flag("seed", "integer", 0, 0, "Seed of the observations and of what is random."),
)


class CheckError(RuntimeError):
  """An environment cannot be made, or what runs in it failed."""


def run(argv: Sequence[str]) -> int:
  """Checks as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 if every policy acts as its actor does, 1 if not or if an environment cannot be made, 2 when
    what is asked for is refused, 130 or 143 when it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --formats=onnx --observations=100"),
    sets_threads=False,
    has_config=False,
  )

  def check(values: dict[str, Any]) -> dict[str, Any]:
    if set(values["formats"].split(",")) - set(_RUNTIMES):
      raise ValueError(f"--formats={values['formats']}; it must be some of {', '.join(_RUNTIMES)}.")
    return values

  return flag_table.answer(argv, check, lambda values: _compare(values, stop))


def _compare(values: dict[str, Any], stop: stopping.StopSignal) -> int:
  formats = values["formats"].split(",")
  try:
    with native_output.held_back():
      return _check(formats, values["observations"], values["seed"], stop)
  except (CheckError, ImportError) as error:
    return command_line.fail(error)


def _check(formats: Sequence[str], count: int, seed: int, stop: stopping.StopSignal) -> int:
  from temper.utils.exporting import verification

  largest = 0.0
  for package in sorted({_RUNTIMES[name] for name in formats}):
    with tempfile.TemporaryDirectory() as scratch:
      folders = {}
      for name in formats:
        if _RUNTIMES[name] == package:
          folders.update(_export_all(name, scratch, count, seed, stop))
      print(f"making an environment with {package} alone", flush=True)
      with clean_environment(package) as python:
        stop.check()
        print(f"running {len(folders)} policies there, {count:,} observations", flush=True)
        report = run_worker(python, list(folders))
    found = sorted(FOREIGN & set(report["modules"]))
    if found:
      raise CheckError(f"The environment of {package} is not clean: it has {', '.join(found)}.")
    for folder, differences in report["differences"].items():
      for function, off in differences.items():
        print(f"{folders[folder]:38} {function:22} {off:.1e}", flush=True)
        largest = max(largest, off)
  allowed = verification.TOLERANCE
  verdict = "matches the actor" if largest <= allowed else "DIFFERS from the actor"
  print(
    f"{verdict}: largest difference {largest:.1e} on {count:,} observations, allowed {allowed:g} "
    "of numbers about one, and relative to larger ones"
  )
  return 0 if largest <= allowed else 1


def _export_all(
  export_format: str, scratch: str, count: int, seed: int, stop: stopping.StopSignal
) -> dict[str, str]:
  """Exports all cases in a format; returns what each folder holds."""
  from temper.launchers import export_cases
  from temper.launchers import export_references
  from temper.utils import exporting

  print(f"exporting {len(export_cases.CASES)} policies as {export_format}", flush=True)
  folders = {}
  for name, make in export_cases.CASES.items():
    stop.check()
    folder = os.path.join(scratch, export_format, re.sub(r"\W+", "_", name))
    os.makedirs(folder)
    export_references.export_with_references(
      make(),
      export_cases.CHOICES,
      exporting.ExportFormat(export_format),
      folder,
      count=count,
      singles=count,
      seed=seed,
    )
    folders[folder] = f"{export_format:11} {name}"
  return folders


@contextlib.contextmanager
def clean_environment(package: str) -> Iterator[str]:
  """Makes an environment that holds one package, of the version installed here, and what it needs.

  Args:
    package: its distribution.

  Yields:
    The environment's interpreter; the environment is removed afterwards.

  Raises:
    CheckError: if it cannot be made, such as where no package index can be reached.
  """
  with tempfile.TemporaryDirectory() as folder:
    constraints = pathlib.Path(folder, "constraints.txt")
    installed = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    installed.pop("temper-rl", None)
    rows = [f"{name}=={version}\n" for name, version in installed.items() if name]
    constraints.write_text("".join(rows))
    environment = os.path.join(folder, "venv")
    python = os.path.join(environment, "bin", "python")
    _call([sys.executable, "-m", "venv", environment])
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    _call([*install, "--constraint", str(constraints), package])
    yield python


def run_worker(
  python: str, folders: Sequence[str], preamble: Optional[str] = None
) -> Mapping[str, Any]:
  """Compares folders in another interpreter; returns what the worker prints.

  Args:
    python: the interpreter.
    folders: exported policies with their references.
    preamble: code to run first.

  Raises:
    CheckError: if it fails.
  """
  code = f"{preamble or ''}\nimport runpy\nrunpy.run_path({worker.__file__!r}, run_name='__main__')"
  # Isolated, so that neither this folder nor PYTHONPATH is seen.
  printed = _call([python, "-I", "-c", code, *folders])
  return json.loads(printed.splitlines()[-1])


def _call(command: Sequence[str]) -> str:
  environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
  result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
  if result.returncode:
    shown = " ".join(command[:6])
    raise CheckError(f"{shown} … failed:\n{result.stderr[-_TAIL:]}")
  return result.stdout


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
