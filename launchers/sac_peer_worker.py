"""Does SAC's work as one of its peers does it, so many units at a time: a side of benchmark_sac.

python -I sac_peer_worker.py '{"side": "sbx", "work": "updates", "threads": 0, "pinned": true}'

Runs in the peers' environment, where Temper is not installed: it imports nothing of the project.
Temper imports it for what all sides share, the way they are told what to do above all: see `serve`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import json
import os
import sys
import time
from typing import Any, Callable, TextIO

SBX, SB3 = "sbx", "sb3"

UPDATES = "updates"
VALUE_NETWORK = "value_network"
LOOP = "loop"

# Of every side.
BATCH_SIZE = 256
LAYER_SIZES = (256, 256)
OBSERVATION_SIZE = 24
ACTION_SIZE = 6
TRANSITIONS = 20_000
ENVIRONMENT = "Pendulum-v1"
# Uniform steps of the loop, before anything is learnt.
UNIFORM_STEPS = 300

# How much a side does without looking up. SBX compiles a loop of so many updates.
UNITS: Mapping[str, int] = {UPDATES: 50, VALUE_NETWORK: 50, LOOP: 200}

# Does one unit, and returns when all of it is done.
DoUnit = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Job:
  """What a worker is to be.

  Attributes:
    side: whose work it is.
    work: UPDATES, VALUE_NETWORK or LOOP.
    threads: of one operation; 0 leaves the choice to the library.
    pinned: whether the process is kept on one CPU, so that the library sees but one.
  """

  side: str
  work: str
  threads: int
  pinned: bool

  def to_text(self) -> str:
    """Returns what `from_text` reads."""
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def from_text(cls, text: str) -> "Job":
    """Returns the job that `to_text` wrote."""
    return cls(**json.loads(text))


def restrict(job: Job) -> None:
  """Applies what must hold before a library is loaded, since each makes its threads then."""
  if job.pinned:
    # The last one: systems give the first more of their own work.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
  os.environ["JAX_PLATFORMS"] = "cpu"
  if job.threads:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")
    # Of one operation; TensorFlow still does several at once.
    for name in (*names, "TF_NUM_INTRAOP_THREADS"):
      os.environ[name] = str(job.threads)
  if job.threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"


def take_output() -> TextIO:
  """Returns the process's output for answers alone; what libraries print goes to its errors."""
  answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
  return answers


def serve(do_unit: DoUnit, versions: Mapping[str, str], orders: TextIO, answers: TextIO) -> None:
  """Does units when told to, until the orders end.

  The first answer, `{"versions": {...}}`, comes after one unit, in which all is compiled. Each
  order is a line with a number of units; its answer is `{"seconds": ...}`.

  Args:
    do_unit: does one.
    versions: what is timed.
    orders: lines to read.
    answers: where to write.
  """
  do_unit()
  print(json.dumps({"versions": dict(versions)}), file=answers, flush=True)
  for order in orders:
    units = int(order)
    start = time.perf_counter()
    for _ in range(units):
      do_unit()
    print(json.dumps({"seconds": time.perf_counter() - start}), file=answers, flush=True)


def make_updates(side: str) -> DoUnit:
  """Returns a function that does a unit of updates on a full replay of random transitions."""
  import gymnasium
  import numpy as np

  vector, action = ((OBSERVATION_SIZE,), (ACTION_SIZE,))

  class Spaces(gymnasium.Env):
    """Nothing but the shapes, since nothing acts."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, vector)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, action)

  model = _make_model(side, Spaces())
  random = np.random.default_rng(0)
  for _ in range(TRANSITIONS):
    observation, next_observation = random.standard_normal((2, 1, *vector), np.float32)
    model.replay_buffer.add(
      observation,
      next_observation,
      random.uniform(-1, 1, (1, *action)),
      random.standard_normal(1),
      np.zeros(1),
      [{}],
    )
  _silence(model)
  return lambda: model.train(gradient_steps=UNITS[UPDATES], batch_size=BATCH_SIZE)


def make_loop(side: str) -> DoUnit:
  """Returns a function that goes a unit of steps on in an environment, with an update a step."""
  model = _make_model(side, ENVIRONMENT)

  def do_unit() -> None:
    model.learn(UNITS[LOOP], reset_num_timesteps=False)

  for _ in range(-(-UNIFORM_STEPS // UNITS[LOOP])):
    do_unit()
  return do_unit


def _make_model(side: str, environment: Any) -> Any:
  """Returns a peer's SAC; what is not said here is alike by their defaults."""
  if side == SBX:
    import sbx

    algorithm, options = sbx.SAC, {"policy_delay": 1}
  else:
    import stable_baselines3

    algorithm, options = stable_baselines3.SAC, {}
  return algorithm(
    "MlpPolicy",
    environment,
    batch_size=BATCH_SIZE,
    buffer_size=TRANSITIONS,
    learning_starts=UNIFORM_STEPS,
    train_freq=1,
    gradient_steps=1,
    policy_kwargs={"net_arch": list(LAYER_SIZES)},
    device="cpu",
    seed=0,
    **options,
  )


def _silence(model: Any) -> None:
  from stable_baselines3.common import logger

  model.set_logger(logger.Logger(None, []))


def versions_of(side: str) -> dict[str, str]:
  """Returns the versions of what a side is made of."""
  from importlib import metadata

  names = {SBX: ("sbx-rl", "jax", "jaxlib"), SB3: ("stable-baselines3", "torch")}
  return {name: metadata.version(name) for name in (*names[side], "gymnasium", "numpy")}


def main(argv: Sequence[str]) -> None:
  """Reads the job and serves it."""
  job = Job.from_text(argv[1])
  answers = take_output()
  restrict(job)
  if job.side == SB3 and job.threads:
    import torch

    torch.set_num_threads(job.threads)
  make = {UPDATES: make_updates, LOOP: make_loop}[job.work]
  serve(make(job.side), versions_of(job.side), sys.stdin, answers)


if __name__ == "__main__":
  main(sys.argv)
