"""Tables of what benchmark_distributed measured, and the model beside the measured points."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import statistics
from typing import Any, Optional

import numpy as np

from temper.launchers import scaling_sizes
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.utils import scaling_model
from temper.utils import scaling_simulation

ACTOR_TARGET = 5.0
LINEAR_ACTORS = 4
LINEAR_TOLERANCE = 0.15

# What is predicted for machines of one's own: parameters that a fetch brings, actors, caches, and
# seconds between fetches, None for dm-acme's period in steps.
PREDICTED = (
  *((scaling_sizes.POLICY_PARAMETERS, actors, 0, 1.0) for actors in (1, 10, 100, 1_000)),
  (scaling_sizes.POLICY_PARAMETERS, 1_000, 0, None),
  (1_000_000, 1_000, 0, 1.0),
  (1_000_000, 1_000, 8, 1.0),
  (1_000_000, 1_000, 0, 10.0),
)

_SIMULATED_SECONDS = 100.0


def scaling(record: Mapping[str, Any]) -> list[str]:
  """Returns the table of whole programs, and whether ours is linear.

  Args:
    record: what `scaling_measuring.measure_scaling` returned.
  """
  waits = 1e3 * record["environment_seconds"]
  lines = [
    f"scaling: {waits:g} ms environment, {record['launch']}",
    f"  {'side':8} {'actors':>6} {'env steps/s':>12} {'an actor':>9} {'learner/s':>10}  busy CPUs",
  ]
  for point in record["points"]:
    row = f"  {point['side']:8} {point['num_actors']:6}"
    if "error" in point:
      lines.append(f"{row} did not run: {point['error'].strip().splitlines()[-1]}")
      continue
    steps = point["environment_steps"]
    lines.append(
      f"{row} {steps:12.1f} {steps / point['num_actors']:9.1f} {point['learner_steps']:10.2f}"
      f"  {point['busy_cpus']:9.1f}"
    )
  for side in (OURS, THEIRS):
    share = linearity(record["points"], side)
    if share is None:
      continue
    text = f"  {side}: {LINEAR_ACTORS} actors are {LINEAR_ACTORS * share:.2f} times one"
    if side == OURS:
      met = share >= 1 - LINEAR_TOLERANCE
      least = LINEAR_ACTORS * (1 - LINEAR_TOLERANCE)
      text += f"; at least {least:.2f} {'met' if met else 'MISSED'}"
    lines.append(text)
  return lines


def linearity(points: Sequence[Mapping[str, Any]], side: str) -> Optional[float]:
  """Returns the steps/s of four actors over four times those of one; None without both.

  Args:
    points: of `scaling_measuring.measure_scaling`.
    side: whose.
  """
  rates = {
    point["num_actors"]: point["environment_steps"]
    for point in points
    if point["side"] == side and "error" not in point
  }
  if not {1, LINEAR_ACTORS} <= set(rates):
    return None
  return rates[LINEAR_ACTORS] / (LINEAR_ACTORS * rates[1])


def node(work: str, rates: Mapping[str, Sequence[float]], target: Optional[float]) -> list[str]:
  """Returns the table of one node.

  Args:
    work: its name.
    rates: what `scaling_measuring.measure_node` returned.
    target: the ratio to be reached, if there is one.
  """
  ratios = [ours / theirs for ours, theirs in zip(rates[OURS], rates[THEIRS])]
  ratio = statistics.median(ratios)
  ours, theirs = (statistics.median(rates[side]) for side in (OURS, THEIRS))
  text = f"  {OURS} {ours:.1f}/s, {THEIRS} {theirs:.1f}/s: "
  text += f"{ratio:.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
  if target is not None:
    text += f"   {target:.1f}x {'met' if ratio >= target else 'MISSED'}"
  return [f"{work}: steps/s of one node, {len(ratios)} rounds in turn", text]


def replay(records: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns the table of the replay server.

  Args:
    records: what `scaling_measuring.measure_replay` returned.
  """
  lines = ["replay: one server", "  work   item bytes clients    items/s      MB/s"]
  for record in records:
    rate, size = record["items"], record["item_bytes"]
    lines.append(
      f"  {record['work']:6} {size:10,} {record['clients']:7} {rate:10,.0f}"
      f" {rate * size / 1e6:9.1f}"
    )
  return lines


def variables(records: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns the table of the source of variables.

  Args:
    records: what `scaling_measuring.measure_variables` returned.
  """
  lines = ["variables: one source", "  parameters   latency ms  fetches/s (8 clients)       MB/s"]
  for record in records:
    megabytes = 4e-6 * record["parameters"] * record["fetches"]
    lines.append(
      f"  {record['parameters']:10,} {1e3 * record['latency']:12.3f} {record['fetches']:22,.1f}"
      f" {megabytes:10.1f}"
    )
  return lines


def costs(results: Mapping[str, Any], side: str) -> scaling_model.NodeCosts:
  """Returns what single nodes of a side take.

  Args:
    results: by case: `scaling`, of which the environment's time alone is read, `actor`, `learner`,
      `replay` and `variables`.
    side: whose actor and learner.

  Raises:
    ValueError: if a case was not measured.
  """
  missing = {"scaling", "actor", "learner", "replay", "variables"} - set(results)
  if missing:
    raise ValueError(f"The model needs the cases {', '.join(sorted(missing))}; measure them first.")
  small = min(record["item_bytes"] for record in results["replay"])
  best = {
    work: max(
      record["items"]
      for record in results["replay"]
      if record["work"] == work and record["item_bytes"] == small
    )
    for work in ("writer", "reader")
  }
  return scaling_model.NodeCosts(
    environment=results["scaling"]["environment_seconds"],
    acting=1 / statistics.median(results["actor"][side]),
    learning=1 / statistics.median(results["learner"][side]),
    insert=1 / best["writer"],
    sample=1 / best["reader"],
    fetch=_fetch_seconds(results, scaling_sizes.POLICY_PARAMETERS),
  )


def _fetch_seconds(results: Mapping[str, Any], parameters: int) -> float:
  """Returns how long one source works for a request of so many parameters."""
  sizes = [record["parameters"] for record in results["variables"]]
  seconds = [1 / record["fetches"] for record in results["variables"]]
  return float(np.exp(np.interp(np.log(parameters), np.log(sizes), np.log(seconds))))


def _shape(
  num_actors: int,
  cpus: Optional[int],
  num_caches: int = 0,
  fetch_seconds: Optional[float] = None,
) -> scaling_model.RunShape:
  return scaling_model.RunShape(
    num_actors=num_actors,
    num_caches=num_caches,
    num_evaluators=1,
    steps_per_item=scaling_sizes.SEQUENCE_LENGTH,
    batch_size=scaling_sizes.BATCH_SIZE,
    samples_per_step=scaling_sizes.SAMPLES_PER_STEP,
    fetch_period=scaling_sizes.VARIABLE_PERIOD,
    fetch_seconds=fetch_seconds,
    cpus=cpus,
  )


def predicted(
  results: Mapping[str, Any], side: str, num_actors: int
) -> tuple[scaling_model.Rates, scaling_model.Rates]:
  """Returns what model and simulation say of a program on this machine.

  Args:
    results: by case; see `costs`.
    side: whose program.
    num_actors: its actors.
  """
  found, shape = costs(results, side), _shape(num_actors, os.cpu_count())
  simulated = scaling_simulation.simulate(found, shape, _SIMULATED_SECONDS, warm_up=10.0)
  return scaling_model.predict(found, shape), simulated


def model(results: Mapping[str, Any]) -> list[str]:
  """Returns the measured points beside the predictions, and predictions for many machines.

  Args:
    results: by case; see `costs`.

  Raises:
    ValueError: if a case was not measured.
  """
  found = {side: costs(results, side) for side in (OURS, THEIRS)}
  lines = [
    "model: environment and learner steps/s, predicted from single nodes, beside the measured ones",
    f"  {'side':8} {'actors':>6} {'measured':>15} {'model':>15} {'simulation':>15}  off  limit",
  ]
  for point in results["scaling"]["points"]:
    if "error" in point:
      continue
    side, count = point["side"], point["num_actors"]
    rates, simulated = predicted(results, side, count)
    off = rates.environment_steps / point["environment_steps"] - 1
    limit = scaling_model.limit(found[side], _shape(count, os.cpu_count())).value
    cells = [
      f"{steps:8.1f} {updates:6.2f}"
      for steps, updates in (
        (point["environment_steps"], point["learner_steps"]),
        (rates.environment_steps, rates.learner_steps),
        (simulated.environment_steps, simulated.learner_steps),
      )
    ]
    lines.append(f"  {side:8} {count:6} {' '.join(cells)} {off:+4.0%}  {limit}")
  return [*lines, *_many(results, found[OURS])]


def _many(results: Mapping[str, Any], found: scaling_model.NodeCosts) -> list[str]:
  """Returns predictions of ours, each node on a machine of its own."""
  lines = [
    f"  {OURS}, each node on a machine of its own:",
    f"  {'parameters':>10} {'actors':>6} {'caches':>6} {'period':>10} {'env steps/s':>12}"
    f" {'learner/s':>10} {'fetches/s':>10} {'variable age s':>15}  limit",
  ]
  for parameters, num_actors, num_caches, seconds in PREDICTED:
    shape = _shape(num_actors, None, num_caches, seconds)
    priced = dataclasses.replace(found, fetch=_fetch_seconds(results, parameters))
    rates = scaling_model.predict(priced, shape)
    period = f"{shape.fetch_period:,} steps" if seconds is None else f"{seconds:g} s"
    lines.append(
      f"  {parameters:10,} {num_actors:6,} {num_caches:6} {period:>10}"
      f" {rates.environment_steps:12,.1f} {rates.learner_steps:10,.1f} {rates.fetches:10.2f}"
      f" {rates.variable_age:15.1f}  {scaling_model.limit(priced, shape).value}"
    )
  most = max(num_actors for _, num_actors, _, _ in PREDICTED)
  allowed = scaling_model.bounds(found, _shape(most, None))
  text = ", ".join(f"{name.value} {rate:,.0f}" for name, rate in allowed.items())
  return [
    *lines,
    f"  of {most:,} actors, env steps/s that each alone allows: {text}",
  ]
