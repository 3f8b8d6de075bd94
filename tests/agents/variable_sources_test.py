"""Tests of `temper.agents.variable_sources`: caches and patience, with a source told what to do."""

import threading
import time

import numpy as np
import pytest

from temper.agents import variable_sources


class _Source:
  """Counts its calls, returns the count, and fails as often as it is told."""

  def __init__(self, failures=0, seconds=0.0):
    self.calls = 0
    self._failures, self._seconds = failures, seconds

  def get_variables(self, names):
    time.sleep(self._seconds)
    self.calls += 1
    if self.calls <= self._failures:
      raise RuntimeError("not there")
    return [[np.full(2, self.calls)] for _ in names]


def test_a_patient_source_waits_for_a_learner_that_comes_back(monkeypatch):
  monkeypatch.setattr(variable_sources, "_RETRY_SECONDS", 0.01)
  source = _Source(failures=3)
  (variables,) = variable_sources.PatientSource(source).get_variables(["policy"])
  np.testing.assert_array_equal(variables[0], [4, 4])


def test_patience_has_an_end(monkeypatch):
  monkeypatch.setattr(variable_sources, "_RETRY_SECONDS", 0.01)
  with pytest.raises(RuntimeError, match="not there"):
    variable_sources.PatientSource(_Source(failures=10**6), 0.05).get_variables(["policy"])


def test_a_cache_asks_once_a_period_and_set_of_names():
  now, source = [0.0], _Source()
  cache = variable_sources.VariableCache(source, max_age_seconds=1.0, clock=lambda: now[0])
  first = cache.get_variables(["policy"])
  now[0] = 0.9
  assert cache.get_variables(["policy"]) is first and source.calls == 1
  cache.get_variables(["policy", "critic"])
  assert source.calls == 2
  now[0] = 1.1
  assert cache.get_variables(["policy"])[0][0][0] == 3


def test_actors_that_ask_at_once_share_one_fetch():
  source = _Source(seconds=0.1)
  cache = variable_sources.VariableCache(source, max_age_seconds=60.0)
  threads = [threading.Thread(target=cache.get_variables, args=(["policy"],)) for _ in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert source.calls == 1
