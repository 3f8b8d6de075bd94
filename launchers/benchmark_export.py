"""Times exported policies beside the agent's own actor, and prints a table for docs/export.md.

All forms run in this process, in turn, with one thread unless more are asked for. What is timed is
a whole call: NumPy arrays in, NumPy arrays out.
"""

from collections.abc import Mapping, Sequence
import os
import sys
import tempfile
import time
from typing import Any, Callable

from temper.launchers import command_line
from temper.launchers import native_output
from temper.launchers import stopping
from temper.launchers.command_line import Flag

_PROGRAM = "python -m temper.launchers.benchmark_export"

ACTOR = "actor"
_BATCH_SIZES = (1, 256)
# Seconds that one timing takes at least, so that the clock's resolution does not matter.
_LEAST_SECONDS = 0.05

_FLAGS: Sequence[Flag] = (
  Flag("formats", "string", "savedmodel,onnx,tflite", None, "Which formats to time."),
  Flag(
    "rounds", "integer", 7, 1, "Rounds: in each, every form is timed once; the quickest counts."
  ),
)


def run(argv: Sequence[str]) -> int:
  """Times as the command line says.

  Args:
    argv: the words of the command line, the program's name first.

  Returns:
    0 when it is done, 2 when what is asked for is refused, 1 when a package is missing, 130 or 143
    when it is stopped by Ctrl-C or SIGTERM.
  """
  return command_line.run_stoppable(argv, _run)


def _run(argv: Sequence[str], stop: stopping.StopSignal) -> int:
  flag_table = command_line.CommandLine(
    purpose=__doc__,
    flags=_FLAGS,
    closing=("", "example:", f"  {argv[0]} --formats=onnx --rounds=3"),
    has_config=False,
  )
  return flag_table.answer(argv, _checked, lambda values: _print_table(values, stop))


def _checked(values: dict[str, Any]) -> dict[str, Any]:
  if set(values["formats"].split(",")) - {"savedmodel", "onnx", "tflite"}:
    raise ValueError(f"--formats={values['formats']}; savedmodel, onnx and tflite there are.")
  return values


def _print_table(values: dict[str, Any], stop: stopping.StopSignal) -> int:
  formats = values["formats"].split(",")
  command_line.set_threads(values["intra_op_threads"])
  try:
    with native_output.held_back():
      print(f"| policy | batch | {' | '.join([ACTOR, *formats])} |")
      print("| --- " * (len(formats) + 3) + "|")
      for line in rows(formats, values["rounds"], stop.check):
        print(line, flush=True)
  except ImportError as error:
    return command_line.fail(error)
  return 0


def rows(formats: Sequence[str], rounds: int, check_stop: Callable[[], None] = lambda: None) -> Any:
  """Yields the table's rows: microseconds a call, and actions a second.

  Args:
    formats: values of `ExportFormat`.
    rounds: how often each form is timed; the quickest is told.
    check_stop: called before each row.
  """
  from temper.launchers import export_cases
  from temper.utils import exporting

  with tempfile.TemporaryDirectory() as scratch:
    for name, (make, choice) in export_cases.TIMED.items():
      networks = make()
      loaded = {}
      for export_format in map(exporting.ExportFormat, formats):
        folder = os.path.join(scratch, f"{len(os.listdir(scratch))}")
        loaded[export_format] = _export(networks, choice, export_format, folder)
      for batch_size in _BATCH_SIZES:
        check_stop()
        calls = {ACTOR: _actor_call(networks, choice, batch_size)}
        for export_format, (function, policy) in loaded.items():
          calls[export_format.value] = _exported_call(function, policy, batch_size)
        seconds = _time_in_turn(calls, rounds)
        cells = [
          f"{1e6 * second:,.0f} µs, {batch_size / second:,.0f}/s" for second in seconds.values()
        ]
        yield f"| {name} | {batch_size} | {' | '.join(cells)} |"


def _export(networks: Any, choice: Any, export_format: Any, folder: str) -> tuple[Any, Any]:
  """Returns the function that was exported, and the exported policy."""
  from temper.agents import exported_policies
  from temper.utils import exporting

  (function,) = exported_policies.make_functions(networks, [choice], export_format)
  exporting.write([function], folder, export_format, networks.facts())
  return function, exporting.LoadedPolicy(folder)


def _exported_call(function: Any, policy: Any, batch_size: int) -> Callable[[], Any]:
  from temper.utils.exporting import verification

  inputs = verification.example_inputs(function, batch_size)
  call = policy.functions[function.name]
  return lambda: call(**inputs)


def _actor_call(networks: Any, choice: Any, batch_size: int) -> Callable[[], Any]:
  """Returns a call of the actor, or of what it compiles if there are several observations."""
  import numpy as np
  import tensorflow as tf
  import tree

  from temper.agents import actor as actor_lib

  policy = choice.make(
    networks.policy_network, networks.critic_network, networks.environment_spec.actions
  )
  random = np.random.default_rng(0)
  observation = tree.map_structure(
    lambda spec: random.normal(size=(batch_size, *spec.shape)).astype(spec.dtype),
    networks.environment_spec.observations,
  )
  if batch_size == 1:
    actor = actor_lib.Actor(policy)
    first = tree.map_structure(lambda x: x[0], observation)
    return lambda: actor.select_action(first)
  compiled = tf.function(
    lambda *given: _tensors(policy(*given)), autograph=False, reduce_retracing=True
  )
  state, seed = policy.initial_state(batch_size), np.array([0, 0], np.int32)
  return lambda: tree.map_structure(
    lambda x: x.numpy(),
    compiled(tree.map_structure(tf.constant, observation), state, tf.constant(seed)),
  )


def _tensors(acted: Any) -> tuple[Any, Any]:
  return acted.action, acted.next_state


def _time_in_turn(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
  """Returns the seconds of a call in the round that was disturbed least."""
  repetitions = {name: _repetitions(call) for name, call in calls.items()}
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for _ in range(rounds):
    for name, call in calls.items():
      seconds[name].append(_time(call, repetitions[name]))
  return {name: min(values) for name, values in seconds.items()}


def _repetitions(call: Callable[[], Any]) -> int:
  _time(call, 3)  # Traces, and fills caches.
  return max(1, round(_LEAST_SECONDS / _time(call, 3)))


def _time(call: Callable[[], Any], repetitions: int) -> float:
  start = time.perf_counter()
  for _ in range(repetitions):
    call()
  return (time.perf_counter() - start) / repetitions


def main() -> None:
  """Runs the process's own command line and exits with its code."""
  sys.exit(run([_PROGRAM, *sys.argv[1:]]))


if __name__ == "__main__":
  main()
