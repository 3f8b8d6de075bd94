import dataclasses

import pytest

from temper.agents.svg0_prior import config as config_lib
from temper.utils import svg0_utils


def test_defaults_are_sound_and_frozen():
  config = config_lib.SVG0Config()
  assert config.entropy_estimator is svg0_utils.EntropyEstimator.SCORE
  assert not config.soft_value_target
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.discount = 0.5


@pytest.mark.parametrize(
  "field, value",
  [
    ("batch_size", 0),
    ("batch_size", 2.5),
    ("prefetch_size", -1),
    ("target_update_period", 0),
    ("min_replay_size", 0),
    ("max_replay_size", 0),
    ("sequence_length", 0),
    ("num_action_samples", 0),
    ("variable_update_period", 0),
    ("variable_update_seconds", 0.0),
    ("variable_update_seconds", None),
    ("sample_block_rows", 0),
    ("discount", 1.1),
    ("discount", float("nan")),
    ("lambda_", -0.1),
    ("distillation_cost", -1.0),
    ("entropy_regularizer_cost", float("inf")),
    ("policy_learning_rate", -1e-3),
    ("critic_learning_rate", None),
    ("prior_learning_rate", "1e-3"),
    ("reward_scale", 0.0),
    ("init_scale", 0.0),
    ("min_scale", -0.1),
    ("samples_per_insert", 0.0),
    ("max_gradient_norm", 0.0),
    ("policy_layer_sizes", ()),
    ("critic_layer_sizes", (0,)),
    ("prior_layer_sizes", 64),
    ("entropy_estimator", "entropy"),
    ("replay_table_name", ""),
    ("replay_table_name", None),
  ],
)
def test_a_bad_value_is_named(field, value):
  with pytest.raises(ValueError) as error:
    config_lib.SVG0Config(**{field: value})
  assert str(error.value).startswith(f"{field} is {value!r}; it must ")


def test_an_enumeration_may_be_given_by_its_value():
  config = config_lib.SVG0Config(entropy_estimator="pathwise")
  assert config.entropy_estimator is svg0_utils.EntropyEstimator.PATHWISE


@pytest.mark.parametrize(
  "field",
  ["distillation_cost", "entropy_regularizer_cost", "samples_per_insert", "max_gradient_norm"],
)
def test_what_may_be_none(field):
  assert getattr(config_lib.SVG0Config(**{field: None}), field) is None


def test_a_replay_that_can_never_be_full_enough_is_refused():
  with pytest.raises(
    ValueError,
    match="min_replay_size is 1000 environment steps, but max_replay_size = 50.*at most 500",
  ):
    config_lib.SVG0Config(min_replay_size=1000, max_replay_size=50, sequence_length=10)


def test_keys_of_a_prior_that_there_is_not_are_refused():
  with pytest.raises(ValueError, match="prior_keys is .*use_prior is False"):
    config_lib.SVG0Config(prior_keys=("goal",))
  assert config_lib.SVG0Config(prior_keys=("goal",), use_prior=True).prior_keys == ("goal",)
