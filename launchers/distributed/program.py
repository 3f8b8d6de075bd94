"""The Launchpad program of a run: which nodes there are and what each of them is given."""

from collections.abc import Mapping
import os
from typing import Any, Optional

import launchpad as lp
from launchpad.nodes.python import local_multi_processing
import tensorflow as tf

from temper.agents import variable_sources
from temper.launchers.distributed import actor_node
from temper.launchers.distributed import evaluator_node
from temper.launchers.distributed import learner_node
from temper.launchers.distributed import monitor as monitor_lib
from temper.launchers.distributed import replay_node
from temper.launchers.distributed import supervision
from temper.launchers.distributed.launch_config import OnDeath
from temper.launchers.distributed.settings import RunSettings

# Groups whose nodes compute nothing that a GPU would be quicker at.
_WITHOUT_GPU = ("replay", "monitor", "cacher")
_ACTING = ("actor", "evaluator")


def make_program(
  settings: RunSettings, launcher: Optional[supervision.Launcher] = None
) -> lp.Program:
  """Makes the program.

  Args:
    settings: the run.
    launcher: nothing outlives this process, which reads the board; None where each node is on its
      own.

  Returns:
    A program whose groups are `replay`, `monitor`, `learner`, `actor`, and, if there are such
    nodes, `evaluator` and `cacher`.
  """
  launch = settings.launch
  program = lp.Program(name=settings.name)

  def add(
    group: str, node: Any, on_death: OnDeath = OnDeath.END, index: Optional[int] = None
  ) -> Any:
    name = group if index is None else f"{group}_{index}"
    if launcher is not None:
      log = os.path.join(settings.node_logs, f"{name}.log") if launch.in_processes else None
      node.supervision = supervision.Supervision(name, settings.board, log, on_death, launcher)
    with program.group(group):
      return program.add_node(node)

  replay = add(
    "replay",
    supervision.ReverbNode(
      lambda: replay_node.make_tables(settings),
      lambda: replay_node.make_replay_checkpointer(settings),
    ),
  )
  courier = supervision.CourierNode
  monitor = add("monitor", courier(monitor_lib.Monitor, settings, replay))
  learner = add(
    "learner", courier(learner_node.LearnerNode, settings, replay, monitor), launch.learner_failure
  )
  sources = [learner]
  if launch.num_caches:
    sources = [
      add("cacher", courier(make_cache, learner), OnDeath.RESTART, index)
      for index in range(launch.num_caches)
    ]
  for index in range(launch.num_evaluators):
    node = courier(evaluator_node.EvaluatorNode, settings, learner, monitor)
    add("evaluator", node, OnDeath.RESTART, index)
  for index in range(launch.num_actors):
    source = sources[index % len(sources)]
    node = courier(actor_node.ActorNode, settings, index, replay, source, monitor)
    add("actor", node, launch.actor_failure, index)
  return program


def make_cache(source: Any) -> variable_sources.VariableCache:
  """Makes what a cache node serves."""
  return variable_sources.VariableCache(variable_sources.PatientSource(source))


def local_resources(settings: RunSettings) -> Mapping[str, Any]:
  """Returns, by group, the environment of its processes on this machine."""
  threads = str(tf.config.threading.get_intra_op_parallelism_threads() or 1)
  resources = {}
  for group in ("replay", "monitor", "learner", "cacher", "actor", "evaluator"):
    environment = {"TF_NUM_INTRAOP_THREADS": threads}
    if group in _WITHOUT_GPU or (group in _ACTING and not settings.launch.actor_gpus):
      environment["CUDA_VISIBLE_DEVICES"] = ""
    resources[group] = local_multi_processing.PythonProcess(env=environment)
  return resources
