"""Tests of `temper.launchers.divergence`."""

import dataclasses

import pytest

from temper.agents import crr
from temper.launchers import divergence

_SOUND = {
  "target_outside_support_share": 0.01,
  "weight_saturated_share": 0.2,
  "positive_advantage_share": 0.5,
}


def _watch():
  return divergence.DivergenceWatch(crr.CRRConfig(vmin=-7.0, vmax=3.0, beta=0.5))


def test_nothing_is_said_of_sound_numbers():
  assert _watch().notes(100, _SOUND) == []
  assert _watch().notes(100, {}) == []


@pytest.mark.parametrize(
  "metric, value, words",
  [
    ("target_outside_support_share", 0.3, ["30%", "[-7, 3]", "vmin and vmax", "reward_scale (1)"]),
    ("weight_saturated_share", 0.8, ["80%", "ratio_upper_bound = 20", "beta (0.5)"]),
    ("positive_advantage_share", 0.001, ["0.1%", "[-7, 3]", "beta (0.5)"]),
    ("positive_advantage_share", 0.995, ["99.5%", "reward_scale (1)"]),
  ],
)
def test_each_thing_is_said_once_with_its_number_and_the_mend(metric, value, words):
  watch = _watch()
  (note,) = watch.notes(1_200, {**_SOUND, metric: value})
  assert note.startswith("step 1,200: ")
  assert all(word in note for word in words)
  assert watch.notes(1_300, {**_SOUND, metric: value}) == []


def test_what_comes_later_is_said_too():
  watch = _watch()
  assert len(watch.notes(100, {**_SOUND, "weight_saturated_share": 0.9})) == 1
  assert len(watch.notes(200, {**_SOUND, "target_outside_support_share": 0.9})) == 1


def test_rules_of_fields_that_an_agent_lacks_say_nothing():
  @dataclasses.dataclass
  class Config:
    discount: float = 0.9

  assert divergence.DivergenceWatch(Config()).notes(1, {"weight_saturated_share": 1.0}) == []
