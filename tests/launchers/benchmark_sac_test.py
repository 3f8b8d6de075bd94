"""Tests of `temper.launchers.benchmark_sac` with workers that only say how fast they are."""

import contextlib

import pytest

from temper.launchers import benchmark_sac
from temper.launchers import peer_environment
from temper.launchers import sac_peer_worker
from temper.launchers import sac_sides
from temper.launchers import timed_worker
from temper.launchers.timed_worker import Threads

# Units a second by side, work and threads.
_RATES = {
  "temper": {"1": 4.0, "all": 3.0, "pinned": 3.5},
  "sbx": {"1": 1.0, "all": 0.4, "pinned": 2.0},
  "sb3": {"1": 1.0, "all": 0.2, "pinned": 0.6},
}


class _Worker:
  """Does units at the rate of its side, a tenth faster at each order."""

  def __init__(self, job, log):
    self.job = job
    self.log = log
    self.orders = []
    self.closed = False
    self.versions = {job.side: "1.0"}
    log.append(self)

  def seconds(self, units):
    assert not self.closed
    self.orders.append(units)
    threads = Threads(self.job.threads, self.job.pinned)
    return units / _RATES[self.job.side][str(threads)]

  def close(self):
    self.closed = True


@pytest.fixture(name="workers")
def _workers(monkeypatch):
  log = []
  monkeypatch.setattr(peer_environment, "prepare", lambda *args, **options: "/peer/python")
  monkeypatch.setattr(sac_sides, "starter", lambda interpreter: lambda job: _Worker(job, log))
  return log


def test_the_fastest_threads_of_each_side_are_kept_and_the_ratio_judged(workers, capsys):
  words = ["temper benchmark-sac", "--cases=updates", "--rounds=3", "--turn_seconds=2"]
  assert benchmark_sac.run(words) == 0
  text = capsys.readouterr().out
  assert "Threads of temper, updates: 1 200/s, all 150/s, pinned 175/s: 1." in text
  assert "Threads of sbx, updates: 1 50/s, all 20/s, pinned 100/s: pinned." in text
  rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
  assert rows["temper"].split() == ["temper", "200.0", "1"]
  assert rows["sbx"].split()[1:] == "100.0 pinned 2.00x [2.00, 2.00] 1.1x met".split()
  assert rows["sb3"].split()[1:] == "50.0 1 4.00x [4.00, 4.00] 4.0x met".split()
  assert "sbx: sbx 1.0" in text
  assert all(worker.closed for worker in workers)
  kept = [worker for worker in workers if len(worker.orders) >= 3]
  # A trial of one unit and of a turn; then rounds of turns of two seconds.
  assert [(worker.job.side, worker.orders) for worker in kept] == [
    ("temper", [1, 8, 8, 8, 8]),
    ("sbx", [1, 4, 4, 4, 4]),
    ("sb3", [1, 2, 2, 2, 2]),
  ]


def test_what_is_given_needs_no_trial_and_a_worker_serves_two_cases(workers, capsys):
  words = ["b", "--cases=updates,value_network", "--rounds=1", "--threads=temper=1,sbx=1,sb3=all"]
  assert benchmark_sac.run(words) == 0
  text = capsys.readouterr().out
  assert [(worker.job.side, worker.job.work) for worker in workers] == [
    ("temper", "updates"),
    ("sbx", "updates"),
    ("sb3", "updates"),
    ("temper", "value_network"),
  ]
  assert "Threads of sb3, updates: all 10/s: all." in text
  assert text.count("met") == 3 and "MISSED" not in text


def test_the_median_of_the_rounds_ratios_is_judged():
  case = sac_sides.Case("text", "updates", "updates", {"sbx": 1.1})
  rates = {"temper": [10.0, 12.0, 30.0], "sbx": [10.0, 11.0, 10.0]}
  text = benchmark_sac.table(case, rates, {"temper": Threads(), "sbx": Threads(2)})
  # Ratios 1, 12/11 and 3.
  assert "1.09x [1.00, 3.00]   1.1x MISSED" in text
  assert text.splitlines()[1].split() == ["temper", "12.0", "all"]


def test_rounds_alternate():
  orders = []

  class Ordered(_Worker):
    def seconds(self, units):
      orders.append(self.job.side)
      return super().seconds(units)

  one = {side: Threads(1) for side in _RATES}
  with contextlib.ExitStack() as cleanup:
    sides = sac_sides.Sides(one, lambda job: Ordered(job, []), 1.0, cleanup)
    rates = sides.time(sac_sides.CASES["loop"], 2)
  assert orders[-6:] == ["temper", "sbx", "sb3"] * 2
  assert rates["temper"] == [4.0 * sac_peer_worker.UNITS["loop"]] * 2


def test_each_side_has_its_program(monkeypatch):
  commands = {}
  monkeypatch.setattr(
    timed_worker, "TimedWorker", lambda name, command: commands.update({name: command})
  )
  start = sac_sides.starter("/peer/python")
  jobs = [sac_peer_worker.Job(side, "loop", 1, False) for side in ("temper", "sb3")]
  for job in jobs:
    start(job)
  assert commands["temper, loop"][1:3] == ["-m", "temper.launchers.sac_own_worker"]
  assert commands["sb3, loop"][:3] == ["/peer/python", "-I", sac_peer_worker.__file__]
  for job, command in zip(jobs, commands.values()):
    assert sac_peer_worker.Job.from_text(command[-1]) == job


@pytest.mark.parametrize(
  "words, message",
  [
    (["--cases=updates,speed"], "choose among updates, value_network, loop"),
    (["--cases=loop,loop"], "choose among"),
    (["--rounds=0"], "rounds"),
    (["--turn_seconds=0"], "turn_seconds=0.0: it must be above 0"),
    (["--threads=some"], "threads are 'some'; they must be a number from 1, all, or pinned"),
    (["--threads=jax=1"], "the sides are temper, sbx, sb3"),
    (["--intra_op_threads=1"], "no such flag"),
  ],
)
def test_what_is_refused_gets_one_clear_line(workers, words, message, capsys):
  assert benchmark_sac.run(["temper benchmark-sac", *words]) == 2
  assert message in capsys.readouterr().err
  assert not workers


def test_a_side_that_fails_is_told_and_ends_the_others(workers, monkeypatch, capsys):
  def start(job):
    if job.side == "sb3":
      raise timed_worker.WorkerError("sb3, updates ended with 1")
    return _Worker(job, workers)

  monkeypatch.setattr(sac_sides, "starter", lambda interpreter: start)
  assert benchmark_sac.run(["temper benchmark-sac", "--threads=1"]) == 1
  assert "sb3, updates ended with 1" in capsys.readouterr().err
  assert workers and all(worker.closed for worker in workers)
