"""Tests of `temper.utils.datasets.value_range`."""

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from temper.utils.datasets import episodes
from temper.utils.datasets import value_range


def _dataset(*rewards, terminated=False):
  made = []
  for r in rewards:
    discount = np.ones(len(r), np.float32)
    discount[-1] = 0.0 if terminated else 1.0
    made.append(
      episodes.Episode(
        observation=np.zeros((len(r) + 1, 1), np.float32),
        action=np.zeros((len(r), 1), np.float32),
        reward=np.asarray(r, np.float32),
        discount=discount,
      )
    )
  return episodes.InMemoryDataset(made, path="data.npz", format=episodes.DatasetFormat.NPZ)


def test_returns_of_terminated_episodes_by_hand():
  # To go: 1 + 0.5 (2 + 0.5 · 4) = 3, 2 + 0.5 · 4 = 4, 4; and −2.
  data = _dataset([1, 2, 4], [-2], terminated=True)
  assert value_range.value_range(data, discount=0.5, margin=0.0) == (-2.0, 4.0)
  # A tenth of the six between them on each side.
  assert value_range.value_range(data, discount=0.5, margin=0.1) == pytest.approx((-2.6, 4.6))


def test_no_value_lies_beyond_the_extreme_rewards_for_ever():
  data = _dataset([1, 2, 4], [-2], terminated=True)
  # At a discount of 0.5, −2 for ever is −4 and 4 for ever is 8.
  assert value_range.value_range(data, discount=0.5, margin=10.0) == (-4.0, 8.0)
  # Episodes may end at once: with rewards of one sign the bound on the other side is 0.
  assert value_range.value_range(_dataset([1, 3], terminated=True), discount=0.5, margin=9)[0] == 0


def test_a_truncated_episode_is_taken_to_go_on():
  # −1 for ever at 0.9 is −10, and nothing was better.
  low, high = value_range.value_range(_dataset([-1] * 5, [-1] * 7), discount=0.9, margin=0.0)
  assert (low, high) == pytest.approx((-20, 0), abs=0.2)  # All are worth −10: room around it.
  # The better of two episodes, gone on for ever, is −10; the worse is −20.
  low, high = value_range.value_range(_dataset([-1] * 5, [-2] * 5), discount=0.9, margin=0.0)
  assert (low, high) == pytest.approx((-20, -10), abs=0.1)


def test_short_episodes_of_a_few_good_steps_leave_room_for_a_better_policy():
  # Every episode begins badly and ends at a reward of 0, where a good policy would stay.
  data = _dataset(*[[-1.0] * 8 + [0.0] * 2] * 20)
  low, high = value_range.value_range(data, discount=0.99)
  assert high == 0.0 and -100 <= low < -70


def test_the_reward_scale_scales_the_interval():
  data = _dataset([1, 2, 4], [-2, 1])
  one = value_range.value_range(data, discount=0.9)
  assert value_range.value_range(data, discount=0.9, reward_scale=0.1) == pytest.approx(
    tuple(0.1 * end for end in one), rel=0.02
  )


def test_data_without_any_difference_gets_an_interval_around_its_value():
  assert value_range.value_range(_dataset([0, 0], terminated=True), discount=0.9) == (-1.0, 1.0)
  low, high = value_range.value_range(_dataset([5.0], terminated=True), discount=0.9)
  assert low < 5 < high


def test_without_discount_the_returns_themselves_are_taken():
  data = _dataset([1, 1, 1], [2, 2])
  assert value_range.value_range(data, discount=1.0, margin=0.0) == (1.0, 4.0)


@hypothesis.given(
  rewards=st.lists(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6), min_size=1, max_size=5
  ),
  terminated=st.booleans(),
  discount=st.floats(0.0, 0.99),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_every_discounted_return_lies_inside(rewards, terminated, discount):
  data = _dataset(*rewards, terminated=terminated)
  low, high = value_range.value_range(data, discount=discount)
  assert np.isfinite([low, high]).all() and low < high
  if terminated:
    for episode in data:
      value = 0.0
      for reward in episode.reward[::-1]:
        value = float(reward) + discount * value
        assert low - 1e-4 * abs(low) <= value <= high + 1e-4 * abs(high)


@pytest.mark.parametrize("name, value", [("discount", 1.5), ("reward_scale", 0), ("margin", -1)])
def test_numbers_out_of_range_are_refused(name, value):
  with pytest.raises(ValueError, match=f"{name} is {value}"):
    value_range.value_range(_dataset([1.0]), **{"discount": 0.9, name: value})
