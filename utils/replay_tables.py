"""Replay tables of sequences and of transitions, and how much memory they can take."""

from collections.abc import Mapping
import os
from typing import Optional

from absl import logging
from acme import specs
from acme import types
from acme.adders import reverb as reverb_adders
import numpy as np
import reverb
import tree

from temper.utils import replay_rows


def sequence_table(
  name: str,
  environment_spec: specs.EnvironmentSpec,
  extras_spec: Mapping[str, specs.Array],
  sequence_length: int,
  max_size: int,
  limiter: reverb.rate_limiters.RateLimiter,
  priority_exponent: Optional[float] = None,
) -> reverb.Table:
  """Makes a first-in-first-out table of sequences, and logs how much memory it can take.

  Args:
    name: name of the table.
    environment_spec: what the adder will add.
    extras_spec: extras of each step by name.
    sequence_length: steps of an item.
    max_size: items at the most.
    limiter: rate limiter.
    priority_exponent: an item is sampled in proportion to its priority to this power; None samples
      all alike.

  Returns:
    The table; nothing is allocated before items arrive.
  """
  signature = reverb_adders.SequenceAdder.signature(
    environment_spec, extras_spec=dict(extras_spec), sequence_length=sequence_length
  )
  return _table(name, signature, max_size, limiter, priority_exponent)


def transition_table(
  name: str,
  environment_spec: specs.EnvironmentSpec,
  extras_spec: Mapping[str, specs.Array],
  max_size: int,
  limiter: reverb.rate_limiters.RateLimiter,
  priority_exponent: Optional[float] = None,
) -> reverb.Table:
  """Makes a first-in-first-out table of transitions, and logs how much memory it can take.

  Its items are packed as `temper.utils.replay_rows` says.

  Args:
    name: name of the table.
    environment_spec: what the adder will add.
    extras_spec: extras of each action by name.
    max_size: items at the most.
    limiter: rate limiter.
    priority_exponent: an item is sampled in proportion to its priority to this power; None samples
      all alike.

  Returns:
    The table; nothing is allocated before items arrive.
  """
  rows = replay_rows.TransitionRows.of_specs(environment_spec, extras_spec)
  return _table(name, rows.signature, max_size, limiter, priority_exponent)


def _table(
  name: str,
  signature: types.NestedSpec,
  max_size: int,
  limiter: reverb.rate_limiters.RateLimiter,
  priority_exponent: Optional[float],
) -> reverb.Table:
  report_memory(name, signature, max_size)
  return reverb.Table(
    name=name,
    sampler=(
      reverb.selectors.Uniform()
      if priority_exponent is None
      else reverb.selectors.Prioritized(priority_exponent)
    ),
    remover=reverb.selectors.Fifo(),
    max_size=max_size,
    rate_limiter=limiter,
    signature=signature,
  )


def estimate_bytes(signature: types.NestedSpec, max_size: int) -> int:
  """Returns the bytes of `max_size` uncompressed items of a signature.

  Reverb compresses, so this is a bound.
  """
  item = sum(int(np.prod(leaf.shape)) * leaf.dtype.size for leaf in tree.flatten(signature))
  return item * max_size


def report_memory(name: str, signature: types.NestedSpec, max_size: int) -> int:
  """Logs and returns the bytes of a full table, by estimate.

  It is a warning when they exceed the machine's memory.
  """
  size = estimate_bytes(signature, max_size)
  text = (
    f"Replay table {name!r}: up to {max_size:,} items, "
    f"{size / 2**30:.2f} GiB uncompressed when full"
  )
  total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  if size > total:
    logging.warning(
      "%s, but this machine has %.1f GiB. Lower max_replay_size to at most %s.",
      text,
      total / 2**30,
      f"{max_size * total // (2 * size):,}",
    )
  else:
    logging.info("%s.", text)
  return size
