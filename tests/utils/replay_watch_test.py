"""Tests of `temper.utils.replay_watch`."""

import threading

import pytest
import reverb

from temper.utils import replay_watch


class _Client:
  """A client whose server answers as the script says, the last answer for ever."""

  server_address = "localhost:1"

  def __init__(self, answers):
    self._answers = list(answers)
    self.asked = 0

  def server_info(self, timeout):
    assert timeout > 0
    self.asked += 1
    answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
    if answer is not None:
      raise answer


_LATE = reverb.DeadlineExceededError("late")


def test_a_server_that_answers_passes_and_one_that_does_not_is_named():
  replay_watch.check_server(_Client([None]))
  for error in (_LATE, RuntimeError("unavailable")):
    with pytest.raises(replay_watch.ReplayLostError, match="localhost:1"):
      replay_watch.check_server(_Client([error]))


def test_the_callback_comes_once_after_two_failures_in_a_row():
  calls = []
  lost = threading.Event()
  client = _Client([None, _LATE, None, _LATE, _LATE])

  def on_lost():
    calls.append(client.asked)
    lost.set()

  watch = replay_watch.ServerWatch(client, on_lost, period_seconds=0.01)
  assert lost.wait(timeout=20)
  watch.stop()
  assert calls == [5]
  assert client.asked == 5


def test_no_callback_after_a_stop():
  calls = []
  client = _Client([_LATE])
  watch = replay_watch.ServerWatch(client, lambda: calls.append(1), period_seconds=0.2)
  watch.stop()
  assert not calls and client.asked == 0
