"""Tests of `temper.utils.replay_datasets`."""

import pytest


def test_a_dataset_has_full_batches_of_the_table_signature(sequences):
  server = sequences.serve(3)
  sequences.feed(sequences.make_adder(server, 3, 2), [9])
  dataset = sequences.make_dataset(server, 5, 1, 5000)
  assert dataset.element_spec.data.observation.shape == (5, 3)
  batch = next(iter(dataset))
  assert batch.data.extras["log_prob"].shape == (5, 3)
  assert (batch.data.extras["log_prob"].numpy() == -batch.data.observation.numpy()).all()


def test_a_dataset_of_an_empty_table_ends_after_its_timeout(sequences):
  dataset = sequences.make_dataset(sequences.serve(3), 1, 0, timeout_ms=300)
  with pytest.raises(StopIteration):
    next(iter(dataset))
