"""Tests of `temper.launchers.config_flags`."""

import dataclasses
import enum
from typing import Callable, Optional, Union

from absl import flags
import pytest

from temper.launchers import config_flags
from temper.launchers import run_directory
from temper.utils import temperature_config


class _Estimator(enum.Enum):
  SCORE = "score"
  PATHWISE = "pathwise"


class _Point:
  """No dataclass, but made of a text."""

  text_form = "a point such as '1:2'"

  def __init__(self, x, y):
    self.x, self.y = x, y

  @classmethod
  def from_text(cls, text):
    x, _, y = text.partition(":")
    return cls(int(x), int(y))

  def to_text(self):
    return f"{self.x}:{self.y}"

  def __eq__(self, other):
    return (self.x, self.y) == (other.x, other.y)


@dataclasses.dataclass(frozen=True)
class _Shape:
  text_form = "round or square"

  sides: int = 0
  scale: Optional[float] = None
  filled: bool = False
  corner: Union[_Point, Callable, None] = None
  paint: Optional[object] = None

  def __post_init__(self):
    if self.sides < 0:
      raise ValueError(f"sides is {self.sides}; it must be at least 0.")

  @classmethod
  def from_text(cls, text):
    return cls({"round": 0, "square": 4}[text] if text in ("round", "square") else int(text))

  def to_text(self):
    return "square" if self.sides == 4 else "round"


@dataclasses.dataclass(frozen=True)
class _Plain:
  depth: int = 1


@dataclasses.dataclass(frozen=True)
class _Nested:
  width: int = 3
  shape: Optional[_Shape] = None
  plain: _Plain = _Plain()


@dataclasses.dataclass(frozen=True)
class _WithTemperature:
  temperature: Optional[temperature_config.TemperatureConfig] = None


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


@pytest.mark.parametrize(
  "words, config",
  [
    ([], _Nested()),
    (["--config.shape=square"], _Nested(shape=_Shape(4))),
    (["--config.shape", "round"], _Nested(shape=_Shape(0))),
    (["--config.shape=none"], _Nested()),
    (["--config.shape.sides=5"], _Nested(shape=_Shape(5))),
    (["--config.shape.sides", "5"], _Nested(shape=_Shape(5))),
    (["--config.shape.scale=2", "--config.shape=square"], _Nested(shape=_Shape(4, 2.0))),
    (["--config.shape.filled"], _Nested(shape=_Shape(filled=True))),
    (["--config.shape.filled", "true"], _Nested(shape=_Shape(filled=True))),
    (["--noconfig.shape.filled"], _Nested(shape=_Shape(filled=False))),
    (["--config.shape.corner=3:-4"], _Nested(shape=_Shape(corner=_Point(3, -4)))),
    (["--config.plain.depth=7", "--config.width=1"], _Nested(1, plain=_Plain(7))),
  ],
)
def test_fields_of_a_field(words, config):
  assert _parse(*words, config=_Nested()) == (config, [])


def test_a_field_of_a_field_changes_that_of_the_preset():
  preset = _Nested(shape=_Shape(3, 0.5, corner=_Point(1, 2)))
  config, _ = _parse("--config.shape.sides=6", config=preset)
  assert config == _Nested(shape=_Shape(6, 0.5, corner=_Point(1, 2)))
  config, _ = _parse("--config.shape=square", "--config.shape.sides=6", config=preset)
  assert config == _Nested(shape=_Shape(6))
  # `given` says which fields were set.
  values = flags.FlagValues()
  values(config_flags.define(preset, ["program", "--config.shape.sides=6"], values))
  assert config_flags.given(values) == {"shape.sides"}


@pytest.mark.parametrize(
  "words, message",
  [
    (["--config.shape=oval"], r"shape=oval: 'oval' is not round or square or none"),
    (["--config.shape.corner=x"], r"shape.corner=x: 'x' is not a point such as '1:2' or none"),
    (["--config.shape.sides=x"], r"shape.sides=x: 'x' is not an integer"),
    (["--config.shape.sides=-1"], r"refused: sides is -1; it must be at least 0"),
    (["--config.shape.side=1"], r"no such field. Did you mean 'shape.sides'"),
    (["--config.shape.paint=red"], r"no such field"),
    (["--config.width.depth=1"], r"no such field"),
    (["--config.plain=1"], r"this field holds an object.*plain.depth"),
    (["--config.shape=none", "--config.shape.sides=1"], r"^--config.shape=none leaves nothing"),
  ],
)
def test_fields_of_a_field_that_are_refused(words, message):
  with pytest.raises(config_flags.ConfigError, match=message):
    _parse(*words, config=_Nested())


def test_fields_of_a_field_are_listed_with_their_values():
  types = config_flags.field_types(_Nested())
  inner = ["shape.sides", "shape.scale", "shape.filled", "shape.corner"]
  assert list(types) == ["width", "shape", *inner, "plain.depth"]
  assert config_flags.value_of(_Nested(), "shape") is None
  assert config_flags.value_of(_Nested(), "shape.sides") == 0
  preset = _Nested(shape=_Shape(4, corner=_Point(1, 2)))
  texts = {name: config_flags.to_text(config_flags.value_of(preset, name)) for name in types}
  assert texts["shape"] == "square" and texts["shape.corner"] == "1:2"


def test_a_temperature_is_set_by_its_kind_and_by_fields():
  config, _ = _parse(
    "--config.temperature=scheduled",
    "--config.temperature.initial_alpha=0.05",
    "--config.temperature.target_schedule=0:2.0,1000:-1.0",
    config=_WithTemperature(),
  )
  assert config.temperature == temperature_config.TemperatureConfig(
    kind="scheduled", initial_alpha=0.05, target_schedule=((0, 2.0), (1000, -1.0))
  )
  with pytest.raises(config_flags.ConfigError, match="'newton' is not one of fixed, gradient"):
    _parse("--config.temperature=newton", config=_WithTemperature())
  with pytest.raises(config_flags.ConfigError, match="average_window is 3, but .*'gradient'"):
    _parse("--config.temperature.average_window=3", config=_WithTemperature())
  # What config.json says of it.
  assert run_directory.plain(config)["temperature"]["target_schedule"] == {
    "steps": [0, 1000],
    "targets": [2.0, -1.0],
  }
  assert run_directory.plain(config)["temperature"]["kind"] == "scheduled"


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
