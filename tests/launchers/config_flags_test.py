"""Tests of `temper.launchers.config_flags`."""

import dataclasses
import enum
from typing import Optional

from absl import flags
import pytest

from temper.launchers import config_flags


class _Estimator(enum.Enum):
  SCORE = "score"
  PATHWISE = "pathwise"


@dataclasses.dataclass(frozen=True)
class _Config:
  batch_size: int = 256
  learning_rate: float = 1e-4
  use_prior: bool = False
  cost: Optional[float] = 1e-3
  layer_sizes: tuple[int, ...] = (256, 256)
  keys: Optional[tuple[str, ...]] = None
  estimator: _Estimator = _Estimator.SCORE
  table: str = "table"
  optimizer: Optional[object] = None

  def __post_init__(self):
    if self.batch_size < 1:
      raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1.")


def _parse(*words, config=_Config()):
  values = flags.FlagValues()
  values.set_gnu_getopt(True)
  flags.DEFINE_integer("steps", 5, "", flag_values=values)
  stray = values(config_flags.define(config, ["program", *words], values))[1:]
  return config_flags.read(config, values), stray


@pytest.mark.parametrize(
  "words, field, value",
  [
    (["--config.batch_size=32"], "batch_size", 32),
    (["--config.batch_size", "32"], "batch_size", 32),
    (["-config.batch_size=32"], "batch_size", 32),
    (["--config.batch_size=1e3"], "batch_size", 1000),
    (["--config.batch_size=1", "--config.batch_size=2"], "batch_size", 2),
    (["--config.learning_rate=3e-4"], "learning_rate", 3e-4),
    (["--config.learning_rate", "2"], "learning_rate", 2.0),
    (["--config.use_prior"], "use_prior", True),
    (["--config.use_prior=true"], "use_prior", True),
    (["--config.use_prior", "true"], "use_prior", True),
    (["--config.use_prior", "False"], "use_prior", False),
    (["--config.cost=none"], "cost", None),
    (["--config.cost", "None"], "cost", None),
    (["--config.cost=-0.5"], "cost", -0.5),
    (["--config.cost", "-0.5"], "cost", -0.5),
    (["--config.layer_sizes=(128,128)"], "layer_sizes", (128, 128)),
    (["--config.layer_sizes", "(64, 32, 16)"], "layer_sizes", (64, 32, 16)),
    (["--config.layer_sizes=[7]"], "layer_sizes", (7,)),
    (["--config.layer_sizes=(7,)"], "layer_sizes", (7,)),
    (["--config.layer_sizes=7,8"], "layer_sizes", (7, 8)),
    (["--config.keys=('position','velocity')"], "keys", ("position", "velocity")),
    (["--config.keys=position"], "keys", ("position",)),
    (["--config.keys=none"], "keys", None),
    (["--config.estimator=pathwise"], "estimator", _Estimator.PATHWISE),
    (["--config.estimator=PATHWISE"], "estimator", _Estimator.PATHWISE),
    (["--config.table=other"], "table", "other"),
  ],
)
def test_values_that_are_read(words, field, value):
  config, stray = _parse(*words)
  assert getattr(config, field) == value and type(getattr(config, field)) is type(value)
  assert not stray
  # Every other field keeps its default.
  assert dataclasses.replace(config, **{field: getattr(_Config(), field)}) == _Config()


def test_flags_and_fields_may_be_mixed():
  config, stray = _parse("--config.batch_size", "8", "--steps", "3", "--noconfig.use_prior", "word")
  assert config == _Config(batch_size=8) and stray == ["word"]


def test_nothing_given_leaves_the_preset():
  config = _Config(batch_size=7, cost=None, use_prior=True)
  assert _parse(config=config)[0] == config
  assert not _parse("--noconfig.use_prior", config=config)[0].use_prior


@pytest.mark.parametrize(
  "words, message",
  [
    (["--config.batch_size=many"], r"batch_size.*'many' is not an integer"),
    (["--config.batch_size=1.5"], r"batch_size.*'1.5' is not an integer"),
    (["--config.batch_size=none"], r"batch_size.*'none' is not an integer"),
    (["--config.batch_size=0"], r"batch_size is 0; it must be at least 1"),
    (["--config.learning_rate=fast"], r"learning_rate.*'fast' is not a number"),
    (["--config.use_prior=maybe"], r"use_prior.*'maybe' is not true or false"),
    (["--config.cost=x"], r"cost.*'x' is not a number or none"),
    (["--config.layer_sizes=(a,b)"], r"layer_sizes.*not a tuple of int such as '\(128,128\)'"),
    (["--config.estimator=best"], r"estimator.*'best' is not one of score, pathwise"),
    (["--config.batchsize=1"], r"no such field. Did you mean 'batch_size'.*Fields: batch_size,"),
    (["--config.batchsize", "1"], r"no such field"),
    (["--config.=1"], r"no such field"),
    (["--config.optimizer=adam"], r"holds an object"),
    (["--config=file.py"], r"one field at a time"),
  ],
)
def test_values_that_are_refused(words, message):
  with pytest.raises(config_flags.ConfigError, match=message):
    _parse(*words)


def test_a_refusal_lists_every_field_that_a_flag_can_set():
  with pytest.raises(config_flags.ConfigError) as caught:
    _parse("--config.zzz=1")
  listed = str(caught.value).partition("Fields: ")[2].rstrip(".").split(", ")
  assert sorted(listed) == sorted(
    field.name for field in dataclasses.fields(_Config) if field.name != "optimizer"
  )


@pytest.mark.parametrize("value", [None, True, 3, 1e-4, (1, 2), ("a",), _Estimator.PATHWISE, "x"])
def test_texts_are_read_back(value):
  hints = {
    type(None): Optional[int],
    bool: bool,
    int: int,
    float: float,
    _Estimator: _Estimator,
    str: str,
    tuple: tuple[int, ...] if value == (1, 2) else tuple[str, ...],
  }
  text = config_flags.to_text(value)
  assert config_flags.parse("field", hints[type(value)], text) == value
