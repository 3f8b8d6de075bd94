"""Between which values the discounted returns of a dataset lie."""

import numpy as np

from temper.utils import checks
from temper.utils.datasets import episodes

_MARGIN = 0.2
_GOOD_REWARD = 0.95


def value_range(
  dataset: episodes.EpisodeDataset,
  *,
  discount: float,
  reward_scale: float = 1.0,
  margin: float = _MARGIN,
) -> tuple[float, float]:
  """Returns an interval for the values of a critic that learns from a dataset.

  It holds the discounted return that follows each of the data's steps, with a margin on both sides.
  What would have followed a truncation is not known. At worst it is taken to be like the worst of
  the truncated episodes, gone on for ever. At best it is like the best of them, or each reward is
  one that a twentieth of the data's reach, if that is better: the policy that is learnt is to be
  better than the data. The interval never goes beyond the smallest or the largest reward for ever.

  Args:
    dataset: read once, an episode at a time.
    discount: the agent's, in [0, 1]; it multiplies the environment's.
    reward_scale: factor of the rewards.
    margin: room on each side, as a share of the interval that the data spans.

  Returns:
    The lower and the upper end; the upper one is larger. Both are rounded outwards to three digits.

  Raises:
    ValueError: if a number is out of its range.
    DatasetError: if an episode is malformed.
  """
  checks.number("discount", discount, minimum=0, maximum=1)
  checks.number("reward_scale", reward_scale, above=0)
  checks.number("margin", margin, minimum=0)
  known, shares, rewards, for_ever = [], [], [], []
  for episode in dataset:
    returns, rest = _returns_to_go(episode, discount)
    known.append(returns)
    shares.append(rest)
    rewards.append(np.asarray(episode.reward, np.float64))
    if 0 < rest[0] < 1:
      for_ever.append(returns[0] / (1 - rest[0]))
  returns, rest, reward = (np.concatenate(part) for part in (known, shares, rewards))
  worst = best = 0.0  # Without discount it would be infinite; then what follows is left out.
  if for_ever:
    worst, best = min(for_ever), max(for_ever)
    best = max(best, float(np.quantile(reward, _GOOD_REWARD)) / (1 - discount))
  low, high = float((returns + rest * worst).min()), float((returns + rest * best).max())
  room = margin * (high - low)
  low, high = low - room, high + room
  if discount < 1:
    low = max(low, min(0.0, float(reward.min())) / (1 - discount))
    high = min(high, max(0.0, float(reward.max())) / (1 - discount))
  low, high = reward_scale * low, reward_scale * high
  if high - low < 1e-6 * max(1.0, abs(low), abs(high)):
    # All steps are worth the same, so nothing tells how far values may lie apart.
    half = max(1.0, abs(low))
    low, high = low - half, high + half
  return _outwards(low, high)


def _returns_to_go(episode: episodes.Episode, discount: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns what the episode's rewards are worth at each step, and what share the rest has there.

  The rest is what would follow the last step; after a termination its share is 0.
  """
  returns = np.zeros(episode.num_steps)
  rest = np.zeros(episode.num_steps)
  value, share = 0.0, 1.0
  for step in reversed(range(episode.num_steps)):
    factor = discount * float(episode.discount[step])
    value = float(episode.reward[step]) + factor * value
    share *= factor
    returns[step], rest[step] = value, share
  return returns, rest


def _outwards(low: float, high: float) -> tuple[float, float]:
  """Rounds an interval outwards to three digits of its larger end."""
  digits = 2 - int(np.floor(np.log10(max(abs(low), abs(high)))))
  unit = 10.0**-digits
  slack = 1e-6  # An end that is round but for the last bits is left as it is.
  return (
    round(float(np.floor(low / unit + slack) * unit), digits),
    round(float(np.ceil(high / unit - slack) * unit), digits) + 0.0,  # Never minus zero.
  )
