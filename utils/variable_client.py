"""Keeps an actor's variables as new as is asked for, and measures how old they are."""

from collections.abc import Mapping, Sequence
import threading
import time
from typing import Callable, Optional

from acme import core
import numpy as np
import tensorflow as tf

from temper.utils import checks

# What learners serve beside networks: learner steps done, int; and when they served, float64,
# seconds since the epoch.
NUM_STEPS = "num_steps"
SERVED_AT = "served_at"


class VariableClient:
  """Fetches variables from a learner, or a cache before it, while the actor goes on.

  A fetch begins when the period is over, and its result is copied by the first `update` after it
  has come: variables lag behind by the period, a fetch and one step of the actor.
  """

  def __init__(
    self,
    source: core.VariableSource,
    variables: Mapping[str, Sequence[tf.Variable]],
    *,
    period_calls: Optional[int] = None,
    period_seconds: Optional[float] = None,
    clock: Callable[[], float] = time.time,
  ):
    """Initialises the client; nothing is fetched yet.

    Args:
      source: serves the variables by name, and `NUM_STEPS` and `SERVED_AT`.
      variables: what is written to, by the names that the source knows.
      period_calls: calls of `update` from one fetch to the next; this, or `period_seconds`.
      period_seconds: seconds from one fetch to the next.
      clock: returns seconds since the epoch. On several machines their clocks must agree to what
        ages are to be trusted.

    Raises:
      ValueError: if both periods or none are given, or one is not above 0.
    """
    if (period_calls is None) == (period_seconds is None):
      raise ValueError(
        f"period_calls is {period_calls} and period_seconds {period_seconds}; give one of them."
      )
    checks.integer("period_calls", period_calls, minimum=1, optional=True)
    checks.number("period_seconds", period_seconds, above=0, optional=True)
    self._source = source
    self._variables = {name: list(values) for name, values in variables.items()}
    self._names = [*self._variables, NUM_STEPS, SERVED_AT]
    self._period_calls = period_calls
    self._period_seconds = period_seconds
    self._clock = clock
    self._calls = 0
    self._begun_at = clock()
    self._fetch: Optional[_Fetch] = None
    self._num_steps: Optional[int] = None
    self._served_at = clock()
    # The oldest that variables were when they were replaced, since `metrics` was asked.
    self._oldest_seconds = 0.0
    self._oldest_steps: Optional[int] = None
    self._newest_lag = 0

  def policy_version(self) -> int:
    """Returns the learner steps done for the variables as they are; 0 before the first fetch."""
    return self._num_steps or 0

  def update(self, wait: bool = False) -> None:
    """Begins a fetch if one is due, and copies what has come of the one before.

    Args:
      wait: whether to wait for the fetch that is due.

    Raises:
      ValueError: if the source serves variables of other networks.
      Exception: what the source raised.
    """
    self._calls += 1
    if self._fetch is not None and self._fetch.done:
      self._take()
    if self._fetch is None and self._is_due():
      self._begin()
    if wait and self._fetch is not None:
      self._take()

  def update_and_wait(self) -> None:
    """Fetches now, whatever the period, and waits for it; raises as `update` does."""
    # What is on its way may have been served a while ago.
    self._begin()
    self._take()

  def metrics(self) -> dict[str, float]:
    """Returns how old the variables were, at most, since this was asked last.

    `variable_age_seconds` is the time since they were served. `variable_age_steps` are the learner
    steps that a fetch was ahead of the variables that it replaced; without a fetch since then, it
    is that of the last one.
    """
    age = max(self._clock() - self._served_at, self._oldest_seconds, 0.0)
    steps = self._newest_lag if self._oldest_steps is None else self._oldest_steps
    self._oldest_seconds, self._oldest_steps = 0.0, None
    return {"variable_age_steps": float(steps), "variable_age_seconds": age}

  def _is_due(self) -> bool:
    if self._period_calls is not None:
      return self._calls >= self._period_calls
    assert self._period_seconds is not None
    return self._clock() - self._begun_at >= self._period_seconds

  def _begin(self) -> None:
    self._calls, self._begun_at = 0, self._clock()
    self._fetch = _Fetch(self._source, self._names)

  def _take(self) -> None:
    assert self._fetch is not None
    fetch, self._fetch = self._fetch, None
    *values, num_steps, served_at = fetch.result()
    for (name, variables), arrays in zip(self._variables.items(), values):
      _check(name, variables, arrays)
      for variable, array in zip(variables, arrays):
        variable.assign(array)
    steps = int(np.asarray(num_steps).item())
    if self._num_steps is not None:
      # A learner that began again from a checkpoint is behind.
      self._newest_lag = max(steps - self._num_steps, 0)
      self._oldest_steps = max(self._newest_lag, self._oldest_steps or 0)
      self._oldest_seconds = max(self._oldest_seconds, self._clock() - self._served_at)
    self._num_steps, self._served_at = steps, float(np.asarray(served_at).item())


def metrics_of(client: object) -> dict[str, float]:
  """Returns a client's metrics; none of one that does not measure, as dm-acme's, or of None."""
  return client.metrics() if isinstance(client, VariableClient) else {}


class _Fetch:
  """One request, in a thread that nobody has to wait for when the process ends."""

  def __init__(self, source: core.VariableSource, names: Sequence[str]):
    self._values: Sequence[Sequence[np.ndarray]] = ()
    self._error: Optional[Exception] = None
    self._thread = threading.Thread(
      target=self._run, args=(source, names), name="variable_fetch", daemon=True
    )
    self._thread.start()

  def _run(self, source: core.VariableSource, names: Sequence[str]) -> None:
    try:
      self._values = source.get_variables(names)
    except Exception as error:  # It is raised where the actor runs.
      self._error = error

  @property
  def done(self) -> bool:
    return not self._thread.is_alive()

  def result(self) -> Sequence[Sequence[np.ndarray]]:
    self._thread.join()
    if self._error is not None:
      raise self._error
    return self._values


def _check(name: str, variables: Sequence[tf.Variable], arrays: Sequence[np.ndarray]) -> None:
  mine, served = ([tuple(x.shape) for x in each] for each in (variables, arrays))
  if mine != served:
    raise ValueError(
      f"The learner serves variables of {name!r} with the shapes {served}, and the actor's have "
      f"{mine}. Make both networks by the same factory."
    )
