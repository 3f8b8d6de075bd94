"""Tests of `temper.utils.replay_tables`: signatures, samplers, and the memory they can take."""

import logging as std_logging

from acme import specs
import numpy as np
import reverb
import tensorflow as tf

from temper.utils import replay_tables


def test_the_memory_estimate_by_hand(sequences):
  table = sequences.serve(4, max_size=10).tables[0]
  # observation, action, reward, discount, log_prob: 5 float32; start_of_episode: 1 byte.
  assert replay_tables.estimate_bytes(table.info.signature, 10) == 10 * 4 * (5 * 4 + 1)


def test_the_estimate_is_logged_and_too_much_is_a_warning(caplog):
  signature = {"x": tf.TensorSpec([1000], tf.float32)}
  with caplog.at_level(std_logging.INFO, logger="absl"):
    assert replay_tables.report_memory("small", signature, 268_435) == 268_435 * 4000
  assert "'small': up to 268,435 items, 1.00 GiB" in caplog.text
  assert not [r for r in caplog.records if r.levelno >= std_logging.WARNING]
  caplog.clear()
  replay_tables.report_memory("huge", signature, 10**12)
  (record,) = caplog.records
  assert record.levelno == std_logging.WARNING and "Lower max_replay_size" in record.message


_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((3,), np.float32),
  actions=specs.BoundedArray((2,), np.float32, -1, 1),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0, 1),
)
_EXTRAS = {"version": specs.Array((), np.int32)}


def test_a_transition_takes_one_row_and_its_memory_is_told(caplog):
  with caplog.at_level(std_logging.INFO, logger="absl"):
    table = replay_tables.transition_table(
      "pairs", _SPEC, _EXTRAS, 7, reverb.rate_limiters.MinSize(1)
    )
  (row,) = table.info.signature
  # Two observations of 3, action of 2, reward, discount and version, 4 bytes each.
  assert row.shape == [4 * (3 + 3 + 2 + 1 + 1 + 1)] and row.dtype == tf.uint8
  assert replay_tables.estimate_bytes(table.info.signature, 7) == 7 * 44
  assert "'pairs': up to 7 items, 0.00 GiB" in caplog.text


def test_the_sampler_is_uniform_unless_an_exponent_is_given():
  limiter = reverb.rate_limiters.MinSize(1)
  for make in (
    lambda exponent: replay_tables.transition_table("t", _SPEC, _EXTRAS, 7, limiter, exponent),
    lambda exponent: replay_tables.sequence_table("t", _SPEC, _EXTRAS, 3, 7, limiter, exponent),
  ):
    assert make(None).info.sampler_options.uniform
    assert not make(None).info.sampler_options.HasField("prioritized")
    for exponent in (0.0, 0.6):
      options = make(exponent).info.sampler_options
      assert options.prioritized.priority_exponent == exponent
    assert make(0.6).info.remover_options.fifo
