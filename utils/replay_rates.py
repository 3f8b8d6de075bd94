"""How fast learning follows acting: exactly in one process, by a table's limiter in several."""

import fractions
from typing import Optional

import reverb


class UpdateSchedule:
  """Says how many learner steps are due, exactly, for environment steps that were added.

  With `steps` environment steps of which the first `min_size` only fill replay, `floor((steps -
  min_size) * samples_per_insert / batch_size) + 1` learner steps are due. The quotient is a
  fraction, so no ratio drifts or is rounded to a whole number of steps.
  """

  def __init__(self, samples_per_insert: Optional[float], batch_size: int, min_size: int):
    """Initialises the schedule.

    Args:
      samples_per_insert: samples per environment step; None means one learner step each environment
        step.
      batch_size: samples of a learner step.
      min_size: environment steps before the first learner step.
    """
    ratio = (
      fractions.Fraction(batch_size)
      if samples_per_insert is None
      else fractions.Fraction(repr(samples_per_insert))
    )
    self._updates_per_step = ratio / batch_size
    self._min_size = min_size

  @property
  def min_size(self) -> int:
    """Environment steps before the first learner step."""
    return self._min_size

  def updates_due(self, steps: int) -> int:
    """Returns the learner steps that are due in total after `steps` environment steps."""
    if steps < self._min_size:
      return 0
    return int((steps - self._min_size) * self._updates_per_step) + 1


def rate_limiter(
  samples_per_insert: Optional[float],
  min_size: int,
  batch_size: int,
  period: int,
  *,
  in_process: bool = False,
) -> reverb.rate_limiters.RateLimiter:
  """Makes the limiter of a table.

  Args:
    samples_per_insert: samples per environment step; None for no limit but the minimum.
    min_size: environment steps before the first sample.
    batch_size: samples that the reader takes at once.
    period: environment steps per inserted item.
    in_process: whether one process both writes and reads. The table must not keep it waiting then;
      an `UpdateSchedule` keeps the rate.

  Returns:
    A limiter that counts items, as the table does.
  """
  if in_process:
    return reverb.rate_limiters.MinSize(1)
  min_items = max(1, -(-min_size // period))
  if samples_per_insert is None:
    return reverb.rate_limiters.MinSize(min_items)
  per_item = samples_per_insert * period
  # A whole batch and a whole item must fit on either side, else reader and writer wait for each
  # other.
  error_buffer = 2.0 * max(batch_size, per_item, 1.0)
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=per_item, min_size_to_sample=min_items, error_buffer=error_buffer
  )
