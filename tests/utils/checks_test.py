import enum
import math

import numpy as np
import pytest

from temper.utils import checks


class _Mode(enum.Enum):
  FAST = "fast"
  SLOW = "slow"


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_sound_integers(value):
  checks.integer("size", value, minimum=1)


@pytest.mark.parametrize("value", [0, -3, 1.0, "2", None, True, np.float32(2)])
def test_unsound_integers_are_named(value):
  with pytest.raises(ValueError) as error:
    checks.integer("size", value, minimum=1)
  assert str(error.value) == f"size is {value!r}; it must be an integer of at least 1."


def test_sound_numbers():
  for value in (0, 1, 0.5, np.float32(0.25)):
    checks.number("rate", value, minimum=0, maximum=1)
  checks.number("rate", None, above=0, optional=True)
  checks.number("rate", 1e-30, above=0)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "1", True, None])
def test_unsound_numbers_are_named(value):
  with pytest.raises(ValueError) as error:
    checks.number("rate", value, minimum=0, maximum=1)
  assert (
    str(error.value)
    == f"rate is {value!r}; it must be a finite number of at least 0 and of at most 1."
  )


def test_an_excluded_bound_and_none_are_named():
  with pytest.raises(ValueError, match="rate is 0; it must be a finite number above 0, or None"):
    checks.number("rate", 0, above=0, optional=True)


def test_a_number_of_any_size_must_be_finite():
  checks.number("x", -1e9)
  with pytest.raises(ValueError) as error:
    checks.number("x", math.nan)
  assert str(error.value) == "x is nan; it must be a finite number."


def test_members_and_their_values():
  assert checks.member("mode", _Mode.FAST, _Mode) is _Mode.FAST
  assert checks.member("mode", "slow", _Mode) is _Mode.SLOW
  with pytest.raises(ValueError) as error:
    checks.member("mode", "medium", _Mode)
  allowed = "_Mode.FAST ('fast'), _Mode.SLOW ('slow')"
  assert str(error.value) == f"mode is 'medium'; it must be one of {allowed}."


def test_layer_sizes():
  checks.layer_sizes("sizes", (64, 64))
  checks.layer_sizes("sizes", [np.int32(3)])
  for value in ((), (0,), ("8",), (True,), "88", 3, None):
    with pytest.raises(ValueError, match="sizes is"):
      checks.layer_sizes("sizes", value)
