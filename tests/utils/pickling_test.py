"""Tests of `temper.utils.pickling`: the message names the innermost thing that cannot be sent."""

import dataclasses
import threading

import pytest

from temper.utils import pickling


@dataclasses.dataclass
class _Config:
  rate: float
  hook: object


def test_what_can_be_sent_passes():
  offset = 3
  pickling.check("the factory", lambda: offset)
  pickling.check("the config", _Config(0.1, [1, "two"]))


def test_a_variable_that_a_function_closes_over_is_named():
  lock = threading.Lock()

  def make():
    return lock

  with pytest.raises(pickling.NotPicklableError, match="the factory's variable lock is a lock"):
    pickling.check("the factory", make)


def test_a_field_deep_inside_is_named():
  config = _Config(0.1, {"a": [1, threading.Lock()]})
  with pytest.raises(pickling.NotPicklableError, match=r"the config.hook\['a'\]\[1\] is a lock"):
    pickling.check("the config", config)


def test_an_attribute_of_an_object_is_named():
  class Holder:
    pass

  holder = Holder()
  holder.event = threading.Event()
  with pytest.raises(pickling.NotPicklableError, match=r"the holder\.event\S* is a lock"):
    pickling.check("the holder", holder)
