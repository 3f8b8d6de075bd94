"""What each node of a run asks of Google's Vertex AI, and the program that is launched there."""

from collections.abc import Mapping
import dataclasses
import importlib.util
from typing import Any, Optional

import launchpad as lp

from temper.launchers.distributed import program as program_lib
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.settings import RunSettings
from temper.utils import checks


@dataclasses.dataclass(frozen=True)
class NodeResources:
  """What one node asks for.

  Attributes:
    cpus: virtual CPUs.
    memory_gib: memory, GiB.
    gpus: graphics processors, of the type that the launch names.
  """

  cpus: int
  memory_gib: int
  gpus: int = 0

  def __post_init__(self) -> None:
    checks.integer("cpus", self.cpus, minimum=1)
    checks.integer("memory_gib", self.memory_gib, minimum=1)
    checks.integer("gpus", self.gpus, minimum=0)


# Vertex AI has four pools of equal machines, one of them of a single machine: no more than four
# kinds of node may differ.
_SMALL = NodeResources(cpus=4, memory_gib=16)
_REPLAY = NodeResources(cpus=8, memory_gib=64)
_LEARNER = NodeResources(cpus=8, memory_gib=32, gpus=1)


def node_resources(launch: LaunchConfig) -> dict[str, NodeResources]:
  """Returns what each group of nodes asks for.

  Args:
    launch: the nodes; groups without a node are left out.
  """
  acting = dataclasses.replace(_SMALL, gpus=1) if launch.actor_gpus else _SMALL
  resources = {"replay": _REPLAY, "monitor": _SMALL, "learner": _LEARNER, "actor": acting}
  if launch.num_evaluators:
    resources["evaluator"] = acting
  if launch.num_caches:
    resources["cacher"] = _SMALL
  return resources


def launch(
  settings: RunSettings,
  *,
  code_directory: str,
  requirements: str,
  gpu_type: str = "t4",
  resources: Optional[Mapping[str, NodeResources]] = None,
) -> Any:
  """Packages and launches a run on Vertex AI.

  The run's folder must be one that all nodes reach, such as a mounted bucket. Nodes are started
  again by Vertex AI, as its jobs are set up; nothing here watches over them.

  Args:
    settings: the run.
    code_directory: folder whose code is copied to the nodes.
    requirements: file of the packages that are installed there.
    gpu_type: xmanager's name of the accelerator, for nodes that ask for one.
    resources: what each group asks for; None takes `node_resources`.

  Raises:
    ImportError: if xmanager is missing, which Launchpad needs there.
  """
  configs = docker_configs(
    resources or node_resources(settings.launch),
    code_directory=code_directory,
    requirements=requirements,
    gpu_type=gpu_type,
  )
  program = program_lib.make_program(settings)
  return lp.launch(program, lp.LaunchType.VERTEX_AI, xm_resources=configs)


def docker_configs(
  resources: Mapping[str, NodeResources], *, code_directory: str, requirements: str, gpu_type: str
) -> dict[str, Any]:
  """Returns resources in the terms of Launchpad's launch on Vertex AI, by group.

  Args:
    resources: by group.
    code_directory: see `launch`.
    requirements: see `launch`.
    gpu_type: see `launch`.

  Raises:
    ImportError: if xmanager is missing.
  """
  if importlib.util.find_spec("xmanager") is None:
    raise ImportError(
      "A launch on Vertex AI needs xmanager, which is not installed, and a Google Cloud project "
      "that is set up for it. Install it with: pip install xmanager. On one machine, take local_mp."
    )
  from launchpad.nodes.python import xm_docker
  from xmanager import xm

  configs = {}
  for group, asked in resources.items():
    accelerators = {gpu_type: asked.gpus} if asked.gpus else {}
    configs[group] = xm_docker.DockerConfig(
      code_directory,
      requirements,
      xm.JobRequirements(cpu=asked.cpus, ram=asked.memory_gib * xm.GiB, **accelerators),
    )
  return configs
