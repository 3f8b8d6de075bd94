"""Tests of the program: its nodes, and what their processes see of the machine."""

from acme import specs
import distributed_cases
import pytest

from temper.launchers.distributed import program as program_lib
from temper.launchers.distributed import settings as settings_lib
from temper.launchers.distributed import supervision
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import OnDeath
from temper.utils import fakes


def _settings(tmp_path, **changes):
  config = distributed_cases.make_config(tmp_path / "run")
  spec = specs.make_environment_spec(fakes.PointMass())
  return settings_lib.RunSettings(config, LaunchConfig(**changes), spec, config.record())


def test_each_node_is_watched_over_as_configured(tmp_path):
  settings = _settings(
    tmp_path, num_actors=2, num_evaluators=2, num_caches=1, actor_failure="continue"
  )
  program = program_lib.make_program(settings, supervision.Launcher.this_process())
  watched = {node.supervision.name: node.supervision for node in program.get_all_nodes()}
  assert {name: each.on_death for name, each in watched.items()} == {
    "replay": OnDeath.END,
    "monitor": OnDeath.END,
    "learner": OnDeath.RESTART,
    "cacher_0": OnDeath.RESTART,
    "evaluator_0": OnDeath.RESTART,
    "evaluator_1": OnDeath.RESTART,
    "actor_0": OnDeath.CONTINUE,
    "actor_1": OnDeath.CONTINUE,
  }
  assert watched["actor_1"].log == str(tmp_path / "run" / "logs" / "nodes" / "actor_1.log")


@pytest.mark.parametrize("actor_gpus", [False, True])
def test_only_the_learner_sees_gpus_unless_actors_are_to(tmp_path, actor_gpus):
  resources = program_lib.local_resources(_settings(tmp_path, actor_gpus=actor_gpus))
  blind = {group for group, each in resources.items() if each.env.get("CUDA_VISIBLE_DEVICES") == ""}
  acting = set() if actor_gpus else {"actor", "evaluator"}
  assert blind == {"replay", "monitor", "cacher"} | acting


def test_a_launcher_that_is_gone_is_known_by_more_than_its_number():
  launcher = supervision.Launcher.this_process()
  assert launcher.alive
  assert not supervision.Launcher(launcher.pid, launcher.created - 1.0).alive
  assert not supervision.Launcher(2**22 + 1, launcher.created).alive
