"""Sources of variables that stand between a learner and its actors in other processes."""

from collections.abc import Sequence
import threading
import time
from typing import Any, Callable

from absl import logging
from acme import core
import numpy as np

_RETRY_SECONDS = 0.5


class PatientSource(core.VariableSource):
  """Asks again while a learner is being started again, instead of passing its absence on."""

  def __init__(self, source: core.VariableSource, patience_seconds: float = 300.0):
    """Wraps a source.

    Args:
      source: client of a learner, or of a cache.
      patience_seconds: how long the source may be gone.
    """
    self._source = source
    self._patience_seconds = patience_seconds

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks.

    Raises:
      Exception: the source's own, once it has failed for longer than it may.
    """
    begun = time.monotonic()
    while True:
      try:
        return self._source.get_variables(names)
      except Exception as error:  # Courier has one type for a lost server and for its errors.
        if time.monotonic() - begun > self._patience_seconds:
          raise
        logging.warning("No variables yet, asking again: %s", error)
        time.sleep(_RETRY_SECONDS)


class VariableCache(core.VariableSource):
  """Serves copies of a source's variables that are at most so old, to many actors.

  The source is asked once a period for each set of names, however many ask here.
  """

  def __init__(
    self,
    source: core.VariableSource,
    max_age_seconds: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Initialises an empty cache.

    Args:
      source: where variables come from.
      max_age_seconds: age beyond which a copy is fetched anew.
      clock: returns the time, seconds.
    """
    self._source = source
    self._max_age_seconds = max_age_seconds
    self._clock = clock
    self._lock = threading.Lock()
    self._entries: dict[tuple[str, ...], _Entry] = {}

  def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns the variables of the named networks, at most `max_age_seconds` old.

    Raises:
      Exception: the source's own.
    """
    key = tuple(names)
    with self._lock:
      entry = self._entries.setdefault(key, _Entry())
    # One fetches, and those that ask meanwhile wait for what it gets.
    with entry.lock:
      now = self._clock()
      if entry.variables is None or now - entry.fetched > self._max_age_seconds:
        entry.variables = self._source.get_variables(list(names))
        entry.fetched = now
      variables: list[list[np.ndarray]] = entry.variables
      return variables


class _Entry:
  """A copy of variables, and when it was asked for."""

  def __init__(self) -> None:
    self.lock = threading.Lock()
    self.variables: Any = None
    self.fetched = 0.0
