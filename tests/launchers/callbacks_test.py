"""Tests of `temper.launchers.callbacks`."""

import pytest

from temper.launchers import callbacks


class _Told(callbacks.RunCallbacks):
  def __init__(self):
    self.calls = []

  def on_episode(self, *arguments):
    self.calls.append(("episode", *arguments))

  def on_checkpoint(self, *arguments):
    self.calls.append(("checkpoint", *arguments))


class _Failing(callbacks.RunCallbacks):
  def on_evaluation(self, step, result):
    raise KeyError("nothing there")


def test_all_are_told_in_order_and_what_is_not_overridden_does_nothing():
  first, second = _Told(), _Told()
  told = callbacks.CallbackList([first, second])
  told.on_episode(200, 1, -3.5, 200)
  told.on_evaluation(200, None)
  told.on_checkpoint(300, "somewhere")
  assert first.calls == [("episode", 200, 1, -3.5, 200), ("checkpoint", 300, "somewhere")]
  assert second.calls == first.calls


def test_one_that_raises_is_named():
  told = callbacks.CallbackList([_Told(), _Failing()])
  with pytest.raises(
    callbacks.CallbackError, match="_Failing.on_evaluation raised KeyError: 'nothing there'"
  ):
    told.on_evaluation(1, None)
