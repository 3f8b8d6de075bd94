"""Launches one distributed program, measures it, ends it: a side of benchmark_distributed.

python -m temper.launchers.scaling_program_worker SIZE LAUNCH SECONDS

SIZE is JSON of `scaling_sizes.ProgramSize`, LAUNCH local_mt or local_mp, SECONDS how long to
measure. The rates are written into `rates.json` in the size's folder.
"""

from collections.abc import Sequence
import json
import os
import sys
import time
from typing import Any

RATES = "rates.json"

_POLL_SECONDS = 0.1
# Steps of each actor, and of the learner, in which everything is compiled.
_WARM_UP = 5


def slope(times: Sequence[float], counts: Sequence[int]) -> float:
  """Returns how many are counted a second, from the first change to the last.

  A count that is told once a second is exact when it changes and old otherwise.

  Args:
    times: of the readings, seconds.
    counts: the readings.
  """
  changes = [i for i in range(1, len(counts)) if counts[i] != counts[i - 1]]
  if len(changes) < 2:
    return 0.0
  first, last = changes[0], changes[-1]
  return (counts[last] - counts[first]) / (times[last] - times[first])


class Meter:
  """A node that waits until the program runs, measures it and ends it."""

  def __init__(self, size_text: str, seconds: float, counter: Any):
    """Keeps what to measure.

    Args:
      size_text: JSON of `scaling_sizes.ProgramSize`.
      seconds: how long to measure.
      counter: the program's counter.
    """
    self._size_text = size_text
    self._seconds = seconds
    self._counter = counter

  def run(self) -> None:
    """Measures, writes the rates, and stops the program."""
    import launchpad as lp
    import psutil

    from temper.launchers import scaling_sides
    from temper.launchers import scaling_sizes

    size = scaling_sizes.ProgramSize.from_text(self._size_text)
    learner_steps = lambda: int(self._counter.get_counts().get("learner_steps", 0))
    while True:
      steps = scaling_sides.actor_steps(size.folder)
      running = len(steps) == size.num_actors and min(steps) >= _WARM_UP
      if running and learner_steps() >= _WARM_UP:
        break
      time.sleep(_POLL_SECONDS)
    psutil.cpu_percent()
    times: list[float] = []
    acted: list[int] = []
    learnt: list[int] = []
    while not times or times[-1] < times[0] + self._seconds:
      times.append(time.monotonic())
      acted.append(sum(scaling_sides.actor_steps(size.folder)))
      learnt.append(learner_steps())
      time.sleep(_POLL_SECONDS)
    rates = {
      "environment_steps": (acted[-1] - acted[0]) / (times[-1] - times[0]),
      "learner_steps": slope(times, learnt),
      "busy_cpus": psutil.cpu_percent() / 100 * (os.cpu_count() or 1),
    }
    path = os.path.join(size.folder, RATES)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
      json.dump(rates, file)
    os.replace(f"{path}.new", path)
    lp.stop()


def main(argv: Sequence[str]) -> None:
  """Launches the program and waits for its end."""
  from temper.utils import startup

  startup.quiet()
  from absl import flags
  import launchpad as lp

  from temper.launchers import scaling_program_worker
  from temper.launchers import scaling_sides
  from temper.launchers import scaling_sizes

  flags.FLAGS(["scaling_program_worker", "--lp_termination_notice_secs=3"])
  size_text, launch, seconds = argv[1:]
  program = scaling_sides.make_agent(scaling_sizes.ProgramSize.from_text(size_text)).build()
  counter = program.groups["counter"][0].create_handle()
  # Imported by name, so that the node's process finds the class.
  meter = scaling_program_worker.Meter
  program.add_node(lp.CourierNode(meter, size_text, float(seconds), counter), label="meter")
  kinds = {
    "local_mt": lp.LaunchType.LOCAL_MULTI_THREADING,
    "local_mp": lp.LaunchType.LOCAL_MULTI_PROCESSING,
  }
  lp.launch(program, kinds[launch], terminal="current_terminal").wait()


if __name__ == "__main__":
  main(sys.argv)
