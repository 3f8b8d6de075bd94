"""What benchmark_distributed measures; each function returns a record that JSON can represent."""

from collections.abc import Sequence
from concurrent import futures
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

from temper.launchers import scaling_node_worker as nodes
from temper.launchers import scaling_program_worker as programs
from temper.launchers import scaling_server_worker as servers
from temper.launchers import scaling_sizes
from temper.launchers import timed_worker
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS

SIDES = (OURS, THEIRS)
CLIENTS = (1, 2, 4, 8)
# About one item of the benchmark's program, and ten and a hundred times as much.
ITEM_BYTES = (1_400, 14_000, 140_000)
PARAMETERS = (10_000, 100_000, 1_000_000, 10_000_000)

# dm-acme's learner traces for a minute, longer where all CPUs are busy.
_PROGRAM_PATIENCE_SECONDS = 400.0
_ENDING_SECONDS = 20.0
_POLL_SECONDS = 0.2
_TAIL = 2_000

Say = Callable[[str], None]


def measure_scaling(
  num_actors: Sequence[int], environment_seconds: float, launch: str, seconds: float, say: Say
) -> dict[str, Any]:
  """Measures whole programs of both sides, in turn, each in processes of its own.

  Args:
    num_actors: how many actor nodes the programs have.
    environment_seconds: how long a step of the environment sleeps.
    launch: local_mt or local_mp.
    seconds: how long each is measured.
    say: hears of each program as soon as it was measured.

  Returns:
    `environment_seconds`, `launch`, and `points`: of each, `side`, `num_actors` and the rates, or
    `error` if it did not run.
  """
  points = []
  for count in num_actors:
    for side in SIDES:
      point: dict[str, Any] = {"side": side, "num_actors": count}
      try:
        point.update(measure_program(side, count, environment_seconds, launch, seconds))
      except timed_worker.WorkerError as error:
        point["error"] = str(error)
      points.append(point)
      say(f"scaling: {json.dumps(point)}")
  return {"environment_seconds": environment_seconds, "launch": launch, "points": points}


def measure_program(
  side: str, num_actors: int, environment_seconds: float, launch: str, seconds: float
) -> dict[str, float]:
  """Launches one program, measures it, and sees that none of its processes is left.

  Returns:
    `environment_steps` and `learner_steps` a second, and `busy_cpus` of the machine meanwhile.

  Raises:
    WorkerError: if it ended or took too long before it was measured.
  """
  with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    size = scaling_sizes.ProgramSize(side, num_actors, environment_seconds, True, folder)
    command = [sys.executable, "-m", programs.__name__, size.to_text(), launch, str(seconds)]
    # dm-acme writes below the home directory.
    variables = {**os.environ, "HOME": folder, "TF_NUM_INTRAOP_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as output:
      process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=variables,
        start_new_session=True,
      )
      rates = os.path.join(folder, programs.RATES)
      deadline = time.monotonic() + _PROGRAM_PATIENCE_SECONDS
      try:
        while not os.path.exists(rates):
          if process.poll() is not None or time.monotonic() > deadline:
            output.seek(0)
            fate = "took too long" if process.poll() is None else f"ended with {process.poll()}"
            raise timed_worker.WorkerError(f"{side}, {launch} {fate}: {output.read()[-_TAIL:]}")
          time.sleep(_POLL_SECONDS)
        with open(rates, encoding="utf-8") as file:
          return json.load(file)
      finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
  """Lets a program end that was asked to, and kills what is left of it."""
  import psutil

  family = []
  with contextlib.suppress(psutil.NoSuchProcess):
    launcher = psutil.Process(process.pid)
    family = [launcher, *launcher.children(recursive=True)]
  with contextlib.suppress(subprocess.TimeoutExpired):
    process.wait(_ENDING_SECONDS)
  _, left = psutil.wait_procs(family, timeout=1.0)
  for member in left:
    with contextlib.suppress(psutil.NoSuchProcess):
      member.kill()
  process.wait()


def measure_node(work: str, rounds: int, seconds: float, say: Say) -> dict[str, list[float]]:
  """Measures one node of both sides, in turn.

  Args:
    work: ACTOR or LEARNER of `scaling_node_worker`.
    rounds: how often each side is timed.
    seconds: about how long each time.
    say: hears of each round.

  Returns:
    Steps a second by side, one of each round.

  Raises:
    WorkerError: if a side fails.
  """
  with contextlib.ExitStack() as cleanup:
    home = cleanup.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    workers, units = {}, {}
    for side in SIDES:
      program = ["env", f"HOME={home}", sys.executable, "-m", nodes.__name__]
      workers[side] = timed_worker.TimedWorker(f"{side}, {work}", [*program, side, work])
      cleanup.callback(workers[side].close)
      units[side] = max(1, round(timed_worker.rate(workers[side], 2) * seconds))
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
      for side, worker in workers.items():
        rates[side].append(timed_worker.rate(worker, units[side]) * nodes.UNITS[work])
      say(f"{work}: " + ", ".join(f"{side} {values[-1]:.1f}/s" for side, values in rates.items()))
  return rates


def measure_replay(seconds: float, say: Say) -> list[dict[str, Any]]:
  """Measures how fast a Reverb server takes and gives items.

  Args:
    seconds: about how long each number of clients works.
    say: hears of each measurement.

  Returns:
    Of each, `work`, `item_bytes`, `clients` and `items` a second.

  Raises:
    WorkerError: if a process fails.
  """
  records = []
  for item_bytes in ITEM_BYTES:
    with _server(servers.REPLAY, item_bytes) as start:
      for work, per_unit in ((servers.WRITER, 1), (servers.READER, servers.BATCH_SIZE)):
        for clients, units, took in _clients(start, work, seconds):
          items = servers.UNITS[work] * per_unit * units * clients / took
          records.append(dict(work=work, item_bytes=item_bytes, clients=clients, items=items))
          say(f"replay: {json.dumps(records[-1])}")
  return records


def measure_variables(rounds: int, seconds: float, say: Say) -> list[dict[str, Any]]:
  """Measures how long variables take to fetch, and how many requests a server answers.

  Args:
    rounds: how often a single client is timed.
    seconds: about how long each time.
    say: hears of each measurement.

  Returns:
    Of each size, `parameters`, `latency` in seconds, and `fetches` a second for 8 clients.

  Raises:
    WorkerError: if a process fails.
  """
  records = []
  for parameters in PARAMETERS:
    with _server(servers.VARIABLES, parameters) as start:
      client = start(servers.FETCHER)
      units = max(1, round(timed_worker.rate(client, 3) * seconds / rounds))
      latency = statistics.median(client.seconds(units) / units for _ in range(rounds))
      *_, (clients, units, took) = _clients(start, servers.FETCHER, seconds)
    fetches = clients * units / took
    records.append(dict(parameters=parameters, latency=latency, fetches=fetches))
    say(f"variables: {json.dumps(records[-1])}")
  return records


@contextlib.contextmanager
def _server(work: str, size: int) -> Any:
  """Starts a server; gives what starts a client of it, and closes all in the end."""
  import portpicker

  port = portpicker.pick_unused_port()

  def start(kind: str) -> timed_worker.TimedWorker:
    command = [sys.executable, "-m", servers.__name__, kind, str(port), str(size)]
    return cleanup.enter_context(
      contextlib.closing(timed_worker.TimedWorker(f"{kind}, {size}", command))
    )

  with contextlib.ExitStack() as cleanup:
    start(work)
    yield start


def _clients(start: Callable[[str], Any], work: str, seconds: float) -> Any:
  """Lets 1, 2, 4 and 8 clients work at once; yields their number, units of each, and seconds."""
  with futures.ThreadPoolExecutor(max(CLIENTS)) as pool:
    workers = list(pool.map(start, [work] * max(CLIENTS)))
    alone = timed_worker.rate(workers[0], 3)
    for count in CLIENTS:
      units = max(1, round(alone * seconds / count))
      took = max(pool.map(lambda worker, units=units: worker.seconds(units), workers[:count]))
      yield count, units, took
