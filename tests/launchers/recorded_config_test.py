"""Tests of `temper.launchers.recorded_config`."""

import dataclasses
import json
from typing import Optional

import pytest
import sonnet as snt

from temper.agents import crr
from temper.agents import sac
from temper.agents import svg0_prior
from temper.launchers import recorded_config
from temper.launchers import run_directory
from temper.utils import prioritised_replay
from temper.utils import temperature_config

_STAGED = temperature_config.TemperatureConfig(
  kind=temperature_config.TemperatureKind.SCHEDULED,
  target_schedule="0:2.0,1000:-1.0",
  average_window=3,
)


@pytest.mark.parametrize(
  "config",
  [
    svg0_prior.SVG0Config(
      policy_layer_sizes=(8, 4),
      policy_keys=("position",),
      entropy_estimator="analytic",
      prioritised_replay=prioritised_replay.PrioritisedReplay(anneal_steps=7),
    ),
    crr.CRRConfig(lstm_size=None, policy_head="mixture", temperature="three_stage"),
    sac.SACConfig(variant="value_network"),
    sac.SACConfig(temperature=_STAGED, encoder_sharing="all", max_replay_size=2_000),
    sac.SACConfig(temperature="fixed").resolved(),
  ],
)
def test_a_config_survives_json(config):
  record = json.loads(json.dumps(run_directory.plain(config)))
  assert recorded_config.from_record(type(config), record) == config


def test_what_an_older_version_did_not_have_takes_its_default():
  assert recorded_config.from_record(crr.CRRConfig, {"batch_size": 3}) == crr.CRRConfig(
    batch_size=3
  )


def test_objects_of_ones_own_are_left_at_their_defaults():
  config = sac.SACConfig(policy_optimizer=snt.optimizers.SGD(0.1), batch_size=5)
  record = run_directory.plain(config)
  assert record["policy_optimizer"] == "SGD"
  found = recorded_config.from_record(sac.SACConfig, record)
  assert found.policy_optimizer is None and found.batch_size == 5


def test_fields_and_values_of_another_version_are_refused():
  with pytest.raises(ValueError, match=r"no fields \['depth', 'width'\]: the run is of an"):
    recorded_config.from_record(crr.CRRConfig, {"width": 3, "depth": 2})
  with pytest.raises(ValueError, match="refuses what the run was made with.*policy_head"):
    recorded_config.from_record(crr.CRRConfig, {"policy_head": "cauchy"})


def test_a_nested_dataclass_is_checked_too():
  @dataclasses.dataclass(frozen=True)
  class Outer:
    inner: Optional[prioritised_replay.PrioritisedReplay] = None

  made = recorded_config.from_record(Outer, {"inner": {"anneal_steps": 3}})
  assert made.inner == prioritised_replay.PrioritisedReplay(anneal_steps=3)
  assert recorded_config.from_record(Outer, {"inner": None}).inner is None
  with pytest.raises(ValueError, match="PrioritisedReplay.*anneal_steps"):
    recorded_config.from_record(Outer, {"inner": {"anneal_steps": -3}})
