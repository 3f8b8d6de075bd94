"""Tests of `temper.launchers.stopping`."""

import os
import signal
import threading

import pytest

from temper.launchers import stopping


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_noticed_at_the_next_check(signum, code):
  before = signal.getsignal(signum)
  with stopping.StopSignal() as stop:
    stop.check()
    os.kill(os.getpid(), signum)
    with pytest.raises(stopping.StopRequested, match=signal.Signals(signum).name) as caught:
      stop.check()
  assert caught.value.exit_code == code
  assert signal.getsignal(signum) is before


def test_a_second_ctrl_c_acts_at_once():
  with stopping.StopSignal():
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
      signal.pause()


def test_other_threads_leave_the_handlers_alone():
  before = signal.getsignal(signal.SIGINT)
  seen = []

  def enter():
    with stopping.StopSignal() as stop:
      stop.check()
      seen.append(signal.getsignal(signal.SIGINT))

  thread = threading.Thread(target=enter)
  thread.start()
  thread.join()
  assert seen == [before]
