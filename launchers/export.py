"""Exports a run's policy, to act without Temper: as a SavedModel, ONNX or TensorFlow Lite."""

from collections.abc import Mapping, Sequence
import os
import sys
from typing import Any

from temper.launchers import command_line
from temper.launchers import environment_flags
from temper.launchers import saved_flags
from temper.launchers import stopping
from temper.launchers.command_line import Flag
from temper.utils.policy_kinds import PolicyKind

_PROGRAM = "python -m temper.launchers.export"

# The names of `temper.agents.exported_policies`, which would load TensorFlow.
_KINDS = {
  "deterministic": PolicyKind.MEAN,
  "sample": PolicyKind.RAW,
  "boltzmann": PolicyKind.BOLTZMANN,
}
_DEFAULTS: Mapping[str, Any] = {"checkpoint": "latest", "beta": 1.0, "num_action_samples": 16}

_FLAGS: Sequence[Flag] = (
  Flag(
    "format",
    ["savedmodel", "onnx", "tflite"],
    "savedmodel",
    None,
    "savedmodel, onnx or tflite: for TensorFlow, for onnxruntime and others, for TensorFlow Lite.",
  ),
  Flag("output", "string", None, None, "Folder to write; default exported/<format> in the run's."),
  Flag(
    "policy",
    "string",
    "deterministic,sample",
    None,
    f"Functions to export, some of {','.join(_KINDS)}.",
  ),
  Flag("beta", "float", None, 0, "Temperature of boltzmann; 0 takes the best sample."),
  Flag("num_action_samples", "integer", None, 1, "Samples that boltzmann chooses among."),
  Flag(
    "checkpoint",
    "string",
    None,
    None,
    "Of the run: latest, best (by the evaluations while training), a number of steps, or a folder.",
  ),
  Flag(
    "directory", "string", None, None, "Folder of the run, instead of the word after the command."
  ),
  Flag("env", "string", None, None, "Another environment than the run's, named as for train."),
  *environment_flags.FLAGS,
)

# The flags, the ways to act, and the environment's options.
_Checked = tuple[Mapping[str, Any], list[PolicyKind], dict[str, Any]]


def run(argv: Sequence[str]) -> int:
  """Exports as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when it is done, 2 when what is asked for is refused, 1 when it fails, 130 or 143 when it is
    stopped by Ctrl-C or SIGTERM; nothing is written then.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  """Reads the command line and exports."""
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    later_defaults=_DEFAULTS,
    closing=(
      "",
      "examples:",
      f"  {argv[0]} runs/pendulum --format=onnx",
      f"  {argv[0]} runs/pendulum --policy=boltzmann --beta=0.1 --output=policies/pendulum",
    ),
    sets_threads=False,
    has_config=False,
    operand="RUN",
    most_operands=1,
  )

  def check(values: dict[str, Any]) -> _Checked:
    saved_flags.path_of(values)
    return values, _kinds(values), environment_flags.environment_options(values)

  return flag_table.answer(
    argv, check, lambda checked: saved_flags.report(lambda: _export(*checked, stop))
  )


def _kinds(values: Mapping[str, Any]) -> list[PolicyKind]:
  """Returns the ways to act that are asked for, and checks the flags that belong to one of them."""
  names = values["policy"].split(",")
  unknown = [name for name in names if name not in _KINDS]
  if unknown or len(set(names)) < len(names):
    raise ValueError(
      f"--policy={values['policy']}; it must be some of {', '.join(_KINDS)}, each once, with "
      "commas between them."
    )
  if "boltzmann" not in names:
    for name in ("beta", "num_action_samples"):
      if values[name] is not None:
        raise ValueError(f"--{name} is for boltzmann, which --policy={values['policy']} lacks.")
  return [_KINDS[name] for name in names]


def _export(
  values: Mapping[str, Any],
  kinds: Sequence[PolicyKind],
  options: Mapping[str, Any],
  stop: stopping.StopSignal,
) -> None:
  # TensorFlow is loaded only now, so that help and refusals come at once.
  from temper.agents import exported_policies
  from temper.agents import policies
  from temper.launchers import run_loading
  from temper.utils import exporting

  given = {name: values[name] for name in _DEFAULTS if values[name] is not None}
  given = {**_DEFAULTS, **given}
  choices = [
    policies.PolicyChoice(kind, beta=given["beta"], num_action_samples=given["num_action_samples"])
    for kind in kinds
  ]
  saved = run_loading.open_run(
    saved_flags.path_of(values),
    given["checkpoint"],
    kind=kinds[0],
    environment=values["env"],
    environment_options=options,
  )
  stop.check()
  interface = saved.make_interface()
  agent = saved.load(interface.environment_spec)
  networks = exported_policies.ExportedNetworks(
    agent.builder.make_policy(agent.networks),
    agent.environment_spec,
    interface.action_mapping,
    agent.builder.make_critic(agent.networks),
  )
  export_format = exporting.ExportFormat(values["format"])
  functions = exported_policies.make_functions(networks, choices, export_format)
  stop.check()
  output = values["output"] or os.path.join(saved.directory.path, "exported", export_format.value)
  exporting.write(
    functions, output, export_format, {**saved.record, "step": saved.step, **networks.facts()}
  )
  verified = exporting.verify(functions, output)
  print(f"{saved.title}, step {saved.step:,}, as {export_format.value} in {output}:")
  for function in functions:
    outputs = ", ".join(sorted(function.concrete.structured_outputs))
    print(f"  {function.name}: {', '.join(function.inputs)} -> {outputs}")
  print(f"Each was run beside the agent; the largest difference is {verified.largest:.1e}.")
  if verified.edges:
    print(f"In {verified.edges} rows a choice was on an edge, and fell to the other side of it.")
  print(f"{os.path.join(output, exporting.METADATA_FILE)} says what goes in and comes out.")


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
