"""Tests of `temper.utils.temperature_config`."""

import dataclasses
import math

import numpy as np
import pytest

from temper.utils import temperature_config

_Config = temperature_config.TemperatureConfig
_Kind = temperature_config.TemperatureKind
_Schedule = temperature_config.TargetSchedule


@pytest.mark.parametrize(
  "kind, alpha",
  [
    ("fixed", 0.2),
    ("gradient", 1.0),
    ("two_stage", 0.01),
    ("three_stage", 0.1),
    ("scheduled", 0.1),
  ],
)
def test_each_kind_has_its_own_first_alpha(kind, alpha):
  config = temperature_config.as_config(kind)
  assert config == _Config(kind=_Kind(kind)) == _Config.from_text(kind)
  assert config.alpha_at_start == alpha
  assert _Config(kind=kind, initial_alpha=0.5).alpha_at_start == 0.5
  assert temperature_config.as_config(config) is config
  assert temperature_config.as_config(_Kind(kind)) == config


def test_bounds_follow_the_kind_and_no_minimum_is_e_to_minus_100():
  assert _Config(kind="gradient").log_alpha_bounds == (math.log(1e-8), math.log(1e4))
  assert _Config(kind="three_stage").log_alpha_bounds == (math.log(1e-4), math.log(1e12))
  for nothing in (0, 0.0, -1):
    config = _Config(kind="two_stage", min_alpha=nothing, max_alpha=2.0)
    assert config.log_alpha_bounds == (-100.0, math.log(2.0))


def test_a_changed_kind_brings_its_own_defaults():
  config = dataclasses.replace(_Config(kind="gradient"), kind="two_stage")
  assert config.alpha_at_start == 0.01 and config.log_alpha_bounds[0] == math.log(1e-4)


@pytest.mark.parametrize(
  "fields, message",
  [
    (dict(kind="newton"), r"kind is 'newton'.*FIXED \('fixed'\)"),
    (dict(loss="beta"), "loss is 'beta'.*'log_alpha'"),
    (dict(initial_alpha=0.0), "initial_alpha is 0.0; .* above 0"),
    (dict(initial_alpha=math.nan), "initial_alpha is nan"),
    (dict(kind="fixed", initial_alpha=-0.1), "initial_alpha is -0.1"),
    (dict(initial_alpha=1e5), "initial_alpha is 100000.0; .* between .* max_alpha = 10000"),
    (dict(kind="two_stage", initial_alpha=1e-5), "initial_alpha is 1e-05; .* min_alpha = 0.0001"),
    (dict(min_alpha=2.0, max_alpha=1.0), "min_alpha is 2 and max_alpha 1"),
    (dict(max_alpha=0.0), "max_alpha is 0.0"),
    (dict(learning_rate=-1.0), "learning_rate is -1.0"),
    (dict(target_entropy=math.inf), "target_entropy is inf"),
    (dict(kind="three_stage", average_window=0), "average_window is 0"),
    (dict(kind="two_stage", slow_update_rate=0.5, fast_update_rate=0.1), "fast_update_rate is 0.1"),
    (dict(kind="three_stage", skip_free_stage=1), "skip_free_stage is 1"),
    (
      dict(kind="three_stage", skip_free_stage=True, max_entropy=1.0),
      "max_entropy is 1.0, but skip",
    ),
    (dict(target_schedule=((0, 1.0),)), "target_schedule is .*'gradient' does not.*'scheduled'"),
    (dict(slow_update_rate=0.1), "slow_update_rate is 0.1, but .*'two_stage', 'three_stage'"),
    (dict(kind="two_stage", average_window=3), "average_window is 3, but"),
    (dict(kind="three_stage", learning_rate=0.1), "learning_rate is 0.1, but .*'gradient'"),
    (dict(kind="fixed", min_alpha=0.1), "min_alpha is 0.1, but"),
    (dict(kind="scheduled", target_schedule=3), "target_schedule is 3; .*pairs"),
    (dict(kind="scheduled", target_schedule=(1, 2)), r"target_schedule is \(1, 2\); .*pairs"),
    (dict(kind="scheduled", target_schedule=()), "target_schedule is"),
    (dict(kind="scheduled", target_schedule=((5, 0.0), (5, 1.0))), "must ascend"),
    (dict(kind="scheduled", target_schedule=((-1, 0.0),)), "step of target_schedule is -1"),
    (dict(kind="scheduled", target_schedule=((0, math.nan),)), "target of target_schedule is nan"),
    (
      dict(kind="scheduled", target_entropy=1.0, target_schedule=((0, 1.0),)),
      "target_entropy is 1.0 and target_schedule .*; give one",
    ),
  ],
)
def test_values_that_are_refused(fields, message):
  with pytest.raises(ValueError, match=message):
    _Config(**fields)


def test_a_schedule_is_read_from_pairs_and_text_and_written_as_text():
  schedule = _Schedule((0, 1000), (2.0, -1.0))
  pairs = ((0, 2.0), (np.int64(1000), -1.0))
  for given in (schedule, pairs, list(pairs), "0:2.0,1000:-1.0", "(0:2, 1e3:-1)"):
    assert _Config(kind="scheduled", target_schedule=given).target_schedule == schedule
  text = schedule.to_text()
  assert text == "0:2.0,1000:-1.0" and _Schedule.from_text(text) == schedule
  function = lambda step: 0.0 * step
  assert _Config(kind="scheduled", target_schedule=function).target_schedule is function


@pytest.mark.parametrize("text", ["", "1", "a:b", "0:1,0:2", "0:1;5:2"])
def test_a_text_that_is_no_schedule_is_refused(text):
  with pytest.raises(ValueError, match="0:2.0,1000:-1.0"):
    _Schedule.from_text(text)
