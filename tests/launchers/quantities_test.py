"""Tests of `temper.launchers.quantities`."""

import pytest

from temper.launchers import quantities


@pytest.mark.parametrize(
  "seconds, text",
  [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")],
)
def test_durations(seconds, text):
  assert quantities.duration(seconds) == text


@pytest.mark.parametrize(
  "count, text",
  [
    (0, "0 B"),
    (1023, "1,023 B"),
    (1024, "1.0 KiB"),
    (3.2 * 2**20, "3.2 MiB"),
    (5000 * 2**30, "5,000.0 GiB"),
  ],
)
def test_sizes(count, text):
  assert quantities.size(count) == text
