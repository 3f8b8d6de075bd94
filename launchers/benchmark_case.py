"""What a benchmark's case is: the same work by two sides, timed in turn."""

import dataclasses
from typing import Callable, Optional

OURS = "temper"
THEIRS = "dm-acme"


@dataclasses.dataclass(frozen=True)
class Case:
  """One row of the benchmark.

  Attributes:
    text: what is timed.
    target: ratio to be reached, dm-acme's time over ours.
    make: makes the function of one side, `OURS` or `THEIRS`.
    calls: calls timed in one round.
    threads: of one operation: what suits both sides best on two cores; 0 is TensorFlow's choice.
    first_step: whether the first call alone is timed, each in a process of its own.
    beside: for first steps: the case whose first step, our own, ours is timed beside; None: the
      other side of the same case.
  """

  text: str
  target: float
  make: Callable[[str], Callable[[], object]]
  calls: int = 1
  threads: int = 0
  first_step: bool = False
  beside: Optional[str] = None
