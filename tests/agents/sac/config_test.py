"""Tests of `temper.agents.sac.config`."""

import dataclasses

import pytest

from temper.agents.sac import config as config_lib
from temper.utils import optimizers
from temper.utils import temperature_config

_Config = config_lib.SACConfig
_VALUE = config_lib.SACVariant.VALUE_NETWORK
_TWIN = config_lib.SACVariant.TWIN_TARGET


def test_defaults_are_those_of_each_variants_authors():
  value, twin = _Config(variant="value_network").resolved(), _Config().resolved()
  assert value.variant is _VALUE and twin.variant is _TWIN
  for config in (value, twin):
    assert (config.batch_size, config.discount, config.target_update_rate) == (256, 0.99, 0.005)
    assert (config.min_log_scale, config.max_log_scale) == (-20.0, 2.0)
    assert config.samples_per_insert == 256.0 and config.bootstrap_on_truncation
    assert config.temperature.kind is temperature_config.TemperatureKind.GRADIENT
    assert config.temperature.target_entropy is None  # Minus the number of action dimensions.
  assert value.policy_learning_rate == value.critic_learning_rate == 3e-4
  assert value.temperature.learning_rate == 3e-4 and value.temperature.initial_alpha == 1.0
  assert value.temperature.loss is temperature_config.TemperatureLoss.ALPHA
  assert (value.policy_update_period, value.warm_up_steps, value.max_replay_size) == (
    2,
    10_000,
    1e5,
  )
  assert value.squash_mean and value.output_limit == 3e-3 and value.density_offset == 1e-7
  assert twin.temperature.loss is temperature_config.TemperatureLoss.LOG_ALPHA
  assert twin.temperature.initial_alpha == 0.2 and twin.policy_update_period == 1
  assert not twin.squash_mean and twin.output_limit is None and twin.density_offset == 0.0


def test_what_is_given_stays_when_the_rest_is_resolved():
  given = dict(
    batch_size=7,
    policy_learning_rate=0.0,
    warm_up_steps=0,
    min_replay_size=3,
    squash_mean=False,
    density_offset=0.0,
    temperature="fixed",
    policy_update_period=1,
  )
  config = _Config(variant=_VALUE, **given).resolved()
  for name in given.keys() - {"temperature"}:
    assert getattr(config, name) == given[name], name
  assert config.temperature == temperature_config.TemperatureConfig(kind="fixed")
  assert config.samples_per_insert == 7.0  # One update an environment step.
  assert _Config(batch_size=7, samples_per_insert=2.0).resolved().samples_per_insert == 2.0
  assert config.resolved() == config
  assert all(
    getattr(config, field.name) is not None
    for field in dataclasses.fields(config)
    if field.name in config_lib._DEFAULTS[_VALUE]
  )


def test_a_configuration_is_frozen():
  with pytest.raises(dataclasses.FrozenInstanceError):
    _Config().discount = 0.5
  with pytest.raises(dataclasses.FrozenInstanceError):
    _Config().resolved().discount = 0.5


@pytest.mark.parametrize(
  "field,value",
  [
    ("variant", "three"),
    ("variant", None),
    ("temperature", "hot"),
    ("discount", 1.1),
    ("discount", float("nan")),
    ("batch_size", 0),
    ("batch_size", 2.5),
    ("prefetch_size", -1),
    ("policy_learning_rate", -1e-3),
    ("critic_learning_rate", "1e-3"),
    ("learning_rate_decay_period", 0),
    ("max_critic_gradient_norm", 0.0),
    ("target_update_rate", 0.0),
    ("target_update_rate", 1.5),
    ("policy_update_period", 0),
    ("policy_update_period", True),
    ("updates_per_call", 0),
    ("n_step", 0),
    ("reward_scale", 0.0),
    ("reward_scale", float("inf")),
    ("warm_up_steps", -1),
    ("min_replay_size", 0),
    ("max_replay_size", 0),
    ("samples_per_insert", 0.0),
    ("replay_table_name", ""),
    ("variable_update_period", 0),
    ("variable_update_seconds", 0.0),
    ("variable_update_seconds", None),
    ("policy_layer_sizes", ()),
    ("critic_layer_sizes", (0,)),
    ("critic_layer_sizes", 64),
    ("encoder_sharing", "some"),
    ("min_log_scale", float("-inf")),
    ("min_log_scale", None),
    ("output_limit", 0.0),
    ("density_offset", -1e-7),
  ],
)
@pytest.mark.parametrize("variant", [_VALUE, _TWIN])
def test_a_bad_value_is_named(variant, field, value):
  with pytest.raises(ValueError) as error:
    _Config(**{"variant": variant, field: value})
  assert str(error.value).startswith(f"{field} is {value!r}; it must ")


@pytest.mark.parametrize("field", ["bootstrap_on_truncation", "sample_in_memory", "squash_mean"])
def test_a_switch_is_true_or_false(field):
  # Text such as "False" would be taken for True.
  with pytest.raises(ValueError, match=f"{field} is 'False'; it must be True or False"):
    _Config(**{field: "False"})


@pytest.mark.parametrize(
  "options,message",
  [
    (dict(max_log_scale=-20.0), "max_log_scale is -20.0.*above -20.0"),
    (
      dict(updates_per_call=3, policy_update_period=2),
      "updates_per_call is 3.*every 2 updates.*1 or a multiple of policy_update_period = 2",
    ),
    (dict(variant=_VALUE, updates_per_call=5), "updates_per_call is 5.*every 2 updates"),
    (
      dict(min_replay_size=20, max_replay_size=10),
      "min_replay_size is 20.*max_replay_size = 10.*Lower min_replay_size or raise",
    ),
    # The variant's own minimum counts, too.
    (
      dict(variant=_VALUE, max_replay_size=5000),
      "min_replay_size is 10000.*max_replay_size = 5000",
    ),
    (
      dict(value_optimizer=optimizers.Adam(1e-3)),
      'value_optimizer is given, but variant is twin_target.*variant="value_network"',
    ),
  ],
  ids=["log_scales", "updates", "default_updates", "replay", "default_replay", "value_optimizer"],
)
def test_values_that_do_not_go_together_are_named(options, message):
  with pytest.raises(ValueError, match=message):
    _Config(**options)


def test_enumerations_and_temperatures_may_be_given_by_their_text():
  config = _Config(variant="value_network", encoder_sharing="all", temperature="three_stage")
  assert config.variant is _VALUE
  assert config.encoder_sharing is config_lib.EncoderSharing.ALL
  assert config.temperature.kind is temperature_config.TemperatureKind.THREE_STAGE
