"""A learner as a node of a Launchpad program: it ends when the program does, wherever it waits."""

from collections.abc import Sequence
import threading

from acme import core
import launchpad as lp
import numpy as np

from temper.agents import learner as learner_lib

_POLL_SECONDS = 0.1


class LearnerWorker(core.VariableSource, core.Worker):
  """Learns until the program ends, and serves the variables meanwhile."""

  def __init__(self, learner: learner_lib.Learner):
    """Takes the learner; one with a directory keeps checkpoints there."""
    self._learner = learner

  def run(self) -> None:
    """Learns until the program ends; saves then, if the learner keeps checkpoints.

    Raises:
      NonFiniteError: if learning has diverged.
      DataExhaustedError: if replay is gone while the program goes on.
    """
    program_stops = lp.stop_event()
    failures: list[Exception] = []

    def learn() -> None:
      try:
        while not program_stops.is_set():
          self._learner.step()
      except Exception as error:  # It is raised where the node runs.
        failures.append(error)

    # In a thread of its own, since a step may wait in TensorFlow for a batch that no actor will
    # complete, and where that is, no signal is heard.
    learning = threading.Thread(target=learn, name="learner", daemon=True)
    learning.start()
    while learning.is_alive() and not program_stops.wait(_POLL_SECONDS):
      pass
    stopped = program_stops.is_set()
    self._learner.cancel()
    learning.join()
    for error in failures:
      if not (stopped and isinstance(error, learner_lib.DataExhaustedError)):
        raise error
    self._learner.save_checkpoint()

  def step(self) -> None:
    """Does one step; for a program whose learner does not run on its own."""
    self._learner.step()

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks."""
    return self._learner.get_variables(names)
