"""Small distributed runs, and what their tests look at."""

import os
import time

import psutil

from temper.agents import svg0_prior
from temper.launchers.distributed import board as board_lib
from temper.launchers.experiment_config import ExperimentConfig
from temper.launchers.run_directory import RunDirectory
from temper.utils import fakes
from temper.utils import run_loggers

SEQUENCE_LENGTH = 4
SAMPLES_PER_INSERT = 1.0

_CONFIG = svg0_prior.SVG0Config(
  batch_size=8,
  sequence_length=SEQUENCE_LENGTH,
  samples_per_insert=SAMPLES_PER_INSERT,
  min_replay_size=40,
  max_replay_size=10_000,
  policy_layer_sizes=(16,),
  critic_layer_sizes=(16,),
  prior_layer_sizes=(8,),
  use_prior=True,
  variable_update_period=10,
)


def make_config(directory, **changes):
  """Returns a run of SVG0 on the point mass, whose episodes have 20 steps."""
  settings = {
    "builder": svg0_prior.SVG0Builder(_CONFIG),
    "environment": fakes.PointMass,
    "environment_name": "point mass",
    "steps": 2_000,
    "directory": str(directory),
    "eval_every": 500,
    "eval_episodes": 4,
    "eval_episodes_training": 2,
    "log_every": 100,
    "checkpoint_every": 400,
    "gif": False,
  }
  return ExperimentConfig(**{**settings, **changes})


def rows(directory, name):
  """Returns the rows of a log."""
  return run_loggers.read_csv(os.path.join(RunDirectory(str(directory)).logs, f"{name}.csv"))


def check_logs(directory, steps):
  """Checks that the logs have each row once, up to a step."""
  train = rows(directory, "train")
  assert [int(row["episode"]) for row in train] == list(range(1, len(train) + 1))
  at = [int(row["step"]) for row in train]
  assert at == sorted(set(at)) and at[-1] <= steps
  for name in ("speed", "learner", "program"):
    at = [int(row["step"]) for row in rows(directory, name)]
    assert at == sorted(set(at)) and at[-1] <= steps, name


class Watch:
  """Looks at a program from outside of it, in a thread of its own."""

  def __init__(self, directory):
    self.directory = str(directory)
    self.board = board_lib.Board(os.path.join(self.directory, ".program"))
    self.processes = []

  def wait_for_steps(self, steps, seconds=120.0, saved=False):
    """Waits until so many steps are done, all nodes run, and one is `saved`; returns the nodes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
      status, nodes = self.board.status(), self.board.nodes()
      alive = (board_lib.NodeState.RUNNING, board_lib.NodeState.LOST)
      running = all(node.state in alive for node in nodes.values())
      if status and status["steps"] >= steps and running and (status["checkpoint"] or not saved):
        children = psutil.Process().children(recursive=True)
        self.processes = [child for child in children if "sed" != child.name()]
        return nodes
      time.sleep(0.02)
    raise AssertionError(f"The run does not come to step {steps}: {self.board.status()}")

  def left(self, seconds=30.0):
    """Returns the processes that were seen and still run after so long."""
    return psutil.wait_procs(self.processes, timeout=seconds)[1]
