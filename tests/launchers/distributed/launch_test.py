"""Tests of launch flags and configs: what does not go together is refused with what does."""

import pytest

from temper.launchers import launch_flags
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.distributed.launch_config import LaunchKind
from temper.launchers.distributed.launch_config import OnDeath


def _values(**given):
  return {**{flag.name: flag.default for flag in launch_flags.FLAGS}, **given}


def test_without_flags_a_run_is_one_process():
  assert launch_flags.launch_config(_values()) is None


def test_flags_become_a_config():
  config = launch_flags.launch_config(
    _values(launch="local_mp", num_actors=3, num_caches=1, actor_failure="continue")
  )
  assert config == LaunchConfig(
    kind=LaunchKind.LOCAL_MP, num_actors=3, num_caches=1, actor_failure=OnDeath.CONTINUE
  )
  assert config.in_processes


def test_nodes_of_one_process_are_refused():
  with pytest.raises(ValueError, match="--num_actors is given and --launch is local.*local_mp"):
    launch_flags.launch_config(_values(num_actors=2))


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"num_actors": 0}, "num_actors is 0"),
    ({"num_evaluators": -1}, "num_evaluators is -1"),
    ({"num_caches": 1.5}, "num_caches is 1.5"),
    ({"actor_failure": "ignore"}, "actor_failure is 'ignore'.*restart"),
    ({"learner_failure": "continue"}, "learner_failure is 'continue'.*restart or end"),
    ({"kind": "local"}, "kind is local.*local_mp"),
  ],
)
def test_what_cannot_be_launched_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    LaunchConfig(**changes)
