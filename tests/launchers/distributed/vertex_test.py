"""Tests of the launch on Vertex AI, as far as packaging the nodes; xmanager is a stand-in."""

import dataclasses
import os
import sys
import types

from acme import specs
import distributed_cases
from launchpad import context
import pytest

from temper.launchers.distributed import program as program_lib
from temper.launchers.distributed import settings as settings_lib
from temper.launchers.distributed import vertex
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import LaunchKind
from temper.utils import fakes


class _Requirements:
  """What xmanager's job requirements are here."""

  def __init__(self, **asked):
    self.asked, self.replicas = asked, 1


@dataclasses.dataclass
class _Container:
  path: str
  base_image: str
  entrypoint: object
  docker_instructions: list


@pytest.fixture(name="xmanager")
def _xmanager(monkeypatch):
  package, xm = types.ModuleType("xmanager"), types.ModuleType("xmanager.xm")
  package.xm, package.__spec__ = xm, types.SimpleNamespace(name="xmanager")
  xm.JobRequirements, xm.PythonContainer, xm.CommandList = _Requirements, _Container, list
  xm.GiB = 2**30
  monkeypatch.setitem(sys.modules, "xmanager", package)
  monkeypatch.setitem(sys.modules, "xmanager.xm", xm)
  yield xm
  sys.modules.pop("launchpad.nodes.python.xm_docker", None)


def _settings(tmp_path, **changes):
  launch = LaunchConfig(kind=LaunchKind.VERTEX_AI, num_actors=3, num_caches=1, **changes)
  config = distributed_cases.make_config(tmp_path / "run")
  spec = specs.make_environment_spec(fakes.PointMass())
  return settings_lib.RunSettings(config, launch, spec, config.record())


def test_each_group_asks_for_what_it_needs(tmp_path):
  settings = _settings(tmp_path)
  resources = vertex.node_resources(settings.launch)
  assert set(resources) == set(program_lib.make_program(settings).groups)
  assert resources["learner"].gpus == 1 and resources["actor"].gpus == 0
  # One pool is of a single machine; there are four in all.
  assert len(set(resources.values())) <= 4
  assert vertex.node_resources(_settings(tmp_path, actor_gpus=True).launch)["actor"].gpus == 1


@pytest.mark.parametrize("changes", [{"cpus": 0}, {"memory_gib": 1.5}, {"gpus": -1}])
def test_resources_are_checked(changes):
  with pytest.raises(ValueError, match=next(iter(changes))):
    vertex.NodeResources(**{"cpus": 4, "memory_gib": 16, **changes})


def test_without_xmanager_the_launch_says_what_is_missing(tmp_path):
  with pytest.raises(ImportError, match="pip install xmanager"):
    vertex.launch(_settings(tmp_path), code_directory=".", requirements="requirements.txt")


def test_the_nodes_are_packaged_with_their_resources(tmp_path, xmanager):
  (tmp_path / "code").mkdir()
  (tmp_path / "code" / "own.py").write_text("x = 1\n")
  (tmp_path / "requirements.txt").write_text("temper-rl\n")
  settings = _settings(tmp_path)
  configs = vertex.docker_configs(
    vertex.node_resources(settings.launch),
    code_directory=str(tmp_path / "code"),
    requirements=str(tmp_path / "requirements.txt"),
    gpu_type="t4",
  )
  program = program_lib.make_program(settings)
  for group, nodes in program.groups.items():
    for node in nodes:
      node._initialize_context(context.LaunchType.VERTEX_AI, launch_config=configs[group])
      for handle in node.input_handles:
        handle.connect(node, group)
  for index, nodes in enumerate(program.groups.values()):
    for instance, node in enumerate(nodes):
      node.bind_addresses(cluster=f"workerpool{index}", instance=instance)
  asked = {}
  for group, nodes in program.groups.items():
    ((container, requirements),) = nodes[0].to_executables(nodes, group, nodes[0].launch_context)
    assert {"own.py", "job.pkl", "process_entry.py"} <= set(os.listdir(container.path))
    asked[group] = (requirements.replicas, requirements.asked)
  assert asked["actor"] == (3, {"cpu": 4, "ram": 16 * xmanager.GiB})
  assert asked["learner"] == (1, {"cpu": 8, "ram": 32 * xmanager.GiB, "t4": 1})
  assert asked["replay"][0] == 1 and asked["replay"][1]["ram"] == 64 * xmanager.GiB
