"""Tests of `temper.launchers.presets` and the agent table."""

import dataclasses

import pytest

from temper.launchers import agent_table
from temper.launchers import presets
from temper.launchers import train
from temper.launchers import train_offline


def test_auto_takes_the_environments_family_else_the_default():
  assert presets.find("svg0", "gym:Pendulum-v1").name == "pendulum"
  assert presets.find("svg0", "dm_control:cartpole:swingup").name == "cartpole_swingup"
  assert presets.find("svg0", "gym:Hopper-v5").name == "default"


def test_sac_has_presets_of_its_own_and_one_that_only_its_name_chooses():
  assert presets.find("sac", "gym:Pendulum-v1").name == "pendulum"
  assert presets.find("sac", "dm_control:cheetah:run").name == "cheetah_run"
  assert presets.find("sac", "gym:Hopper-v5").name == "default"
  document = presets.find("sac", "gym:Pendulum-v1", "pendulum_document")
  assert document.config == {"variant": "value_network"}
  assert "pendulum_document" not in presets.names("svg0")


def test_a_name_holds_for_any_environment_and_none_changes_nothing():
  assert presets.find("svg0", "gym:Hopper-v5", "pendulum").name == "pendulum"
  nothing = presets.find("svg0", "gym:Pendulum-v1", "none")
  assert nothing.name == "none" and not nothing.config and not nothing.runner


def test_an_unknown_name_is_refused_with_the_list():
  with pytest.raises(ValueError, match="Did you mean 'pendulum'.*cartpole_swingup"):
    presets.find("svg0", "gym:Pendulum-v1", "pendulums")


@pytest.mark.parametrize("agent", agent_table.AGENTS)
def test_every_preset_fits_the_config_and_the_launcher(agent):
  config_class = agent_table.find(agent).config_class
  for name in presets.names(agent):
    preset = presets.find(agent, "", name)
    made = config_class(**preset.config)
    assert preset.name == name and dataclasses.is_dataclass(made)
    assert set(preset.runner) <= set(train.RUNNER_DEFAULTS)
    assert set(preset.offline) <= set(train_offline.RUNNER_DEFAULTS)


def test_an_unknown_agent_is_refused_with_the_list():
  with pytest.raises(ValueError, match="'svgo' does not exist. Did you mean 'svg0'"):
    agent_table.find("svgo")
