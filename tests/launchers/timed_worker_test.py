"""Tests of `temper.launchers.timed_worker`, with workers that sleep instead of learning."""

import subprocess
import sys

import pytest

from temper.launchers import timed_worker
from temper.launchers.timed_worker import Threads

_READY = 'print(\'{"versions": {"fake": "1"}}\', flush=True)\n'
_SERVES = (
  "import sys\n" + _READY + "for order in sys.stdin:\n"
  "  print('{\"seconds\": %s}' % (int(order) / 4), flush=True)\n"
)


def _worker(script, **options):
  return timed_worker.TimedWorker("fake, updates", [sys.executable, "-c", script], **options)


def test_a_worker_answers_each_order():
  worker = _worker(_SERVES)
  assert worker.versions == {"fake": "1"}
  assert [worker.seconds(units) for units in (1, 8)] == [0.25, 2.0]
  assert timed_worker.rate(worker, 8) == 4.0
  worker.close()
  worker.close()


def test_closing_ends_the_process(monkeypatch):
  processes = []
  popen = subprocess.Popen
  monkeypatch.setattr(
    subprocess,
    "Popen",
    lambda *args, **options: processes.append(popen(*args, **options)) or processes[-1],
  )
  _worker(_SERVES).close()
  # One that does not listen is killed.
  monkeypatch.setattr(timed_worker, "_CLOSING_SECONDS", 0.2)
  _worker("import time\n" + _READY + "time.sleep(1000)").close()
  assert [process.poll() for process in processes] == [0, -9]


def test_a_worker_that_fails_is_quoted():
  with pytest.raises(timed_worker.WorkerError, match="(?s)fake, updates ended with 1:.*no luck"):
    _worker("raise SystemExit('no luck')")
  worker = _worker(_READY + "raise SystemExit('later')")
  with pytest.raises(timed_worker.WorkerError, match="later"):
    worker.seconds(1)
  worker.close()


def test_a_worker_that_does_not_answer_is_given_up():
  with pytest.raises(timed_worker.WorkerError, match="did not answer for 0 s"):
    _worker("import time; time.sleep(1000)", patience=0.3)


def test_a_worker_that_is_no_program_is_named():
  with pytest.raises(timed_worker.WorkerError, match="fake cannot be started.*/nowhere"):
    timed_worker.TimedWorker("fake", ["/nowhere/python"])


@pytest.mark.parametrize(
  "text, threads", [("1", Threads(1)), ("12", Threads(12)), ("all", Threads())]
)
def test_threads_are_read_as_they_are_written(text, threads):
  assert Threads.from_text(text) == threads and str(threads) == text
  assert str(Threads.from_text("pinned")) == "pinned" and Threads.from_text("pinned").pinned


@pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5"])
def test_other_threads_are_refused(text):
  with pytest.raises(ValueError, match="a number from 1, all, or pinned"):
    Threads.from_text(text)
