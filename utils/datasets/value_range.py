"""Between which values the discounted returns of a dataset lie."""

import numpy as np

from temper.utils import checks
from temper.utils.datasets import episodes

# The policy that is learnt is to be better than the data, hence room above; targets are noisy.
_MARGIN = 0.2


def value_range(
  dataset: episodes.EpisodeDataset,
  *,
  discount: float,
  reward_scale: float = 1.0,
  margin: float = _MARGIN,
) -> tuple[float, float]:
  """Returns an interval for the values of a critic that learns from a dataset.

  It holds the discounted return that follows each of the data's steps, with a margin on both sides.
  Where an episode was truncated, what would have followed is taken to be worth what the data's
  steps are worth on average. No value can lie beyond that of the data's smallest or largest reward
  for ever, so the interval does not either.

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
  known, share_of_rest = [], []
  least = largest = 0.0
  for episode in dataset:
    returns, rest = _returns_to_go(episode, discount)
    known.append(returns)
    share_of_rest.append(rest)
    least = min(least, float(episode.reward.min()))
    largest = max(largest, float(episode.reward.max()))
  returns, rest = np.concatenate(known), np.concatenate(share_of_rest)
  # The mean value m of all steps, where m is also what follows a truncation: m = mean(G) + m rest.
  # Without discount it would be infinite; then what follows is left out.
  mean_rest = rest.mean()
  mean = returns.mean() / (1 - mean_rest) if discount < 1 else 0.0
  values = returns + rest * mean
  low, high = float(values.min()), float(values.max())
  room = margin * (high - low)
  low, high = low - room, high + room
  if discount < 1:
    low, high = max(low, least / (1 - discount)), min(high, largest / (1 - discount))
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
  return (
    round(float(np.floor(low / unit) * unit), digits),
    round(float(np.ceil(high / unit) * unit), digits),
  )
