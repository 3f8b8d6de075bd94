"""Tests of `temper.utils.progress`."""

import io

import pytest

from temper.utils import progress


class _Terminal(io.StringIO):
  def isatty(self):
    return True


_RATES = {
  "environment_steps_per_second": 100.0,
  "acting_steps_per_second": 250.0,
  "learning_steps_per_second": 40.0,
}


def test_rates_by_hand():
  rates = progress.rates_per_second(
    environment_steps=1000, learner_steps=250, acting_seconds=2.0, learning_seconds=8.0
  )
  assert rates == {
    "acting_steps_per_second": 500.0,
    "learning_steps_per_second": 31.25,
    "environment_steps_per_second": 100.0,
  }


def test_the_acting_rate_does_not_fall_when_learning_begins():
  before, after = (
    progress.rates_per_second(
      environment_steps=10, learner_steps=10, acting_seconds=1.0, learning_seconds=seconds
    )
    for seconds in (0.0, 9.0)
  )
  assert before["acting_steps_per_second"] == after["acting_steps_per_second"] == 10.0
  assert before["learning_steps_per_second"] == 0.0
  assert after["environment_steps_per_second"] == 1.0


def test_the_bar_shows_step_return_losses_rates_and_time_left():
  stream = _Terminal()
  bar = progress.Progress(1000, initial=200, stream=stream)
  bar.summarise(
    episode_return=-123.4,
    metrics={"critic_loss": 0.5, "policy_loss": 1.25, "entropy": 9.0},
    rates=_RATES,
  )
  bar.advance(600)
  bar.close()
  text = stream.getvalue()
  assert "600/1000" in text and " left" in text
  assert "return -123.4" in text and "100 steps/s" in text
  last = text.split("\r")[-1]
  assert last.startswith(" 60%|")


def test_the_summary_holds_losses_only():
  stream = io.StringIO()
  lines = progress.Progress(10, stream=stream, quiet_seconds=0.0)
  lines.summarise(episode_return=None, metrics={"critic_loss": 0.5, "entropy": 9.0}, rates=_RATES)
  lines.advance(5)
  lines.close()
  assert stream.getvalue().startswith("step 5/10 · ")
  assert "loss critic 0.5 · act 250/s · learn 40/s" in stream.getvalue()
  assert "entropy" not in stream.getvalue() and "return" not in stream.getvalue()
  # The last line has been written already, so closing adds none.
  assert stream.getvalue().count("\n") == 1


def test_the_summary_shows_the_temperature_and_the_goal():
  stream = io.StringIO()
  lines = progress.Progress(10, stream=stream, quiet_seconds=0.0)
  metrics = {"critic_loss": 0.5, "temperature_loss": -0.25, "alpha": 0.123456, "entropy": 9.0}
  lines.summarise(episode_return=1.0, metrics=metrics, rates=_RATES, goal="stops at 7")
  lines.advance(5)
  lines.close()
  assert "return 1 · stops at 7 · 100 steps/s" in stream.getvalue()
  assert "loss critic 0.5 temperature -0.25 · alpha 0.123 · act" in stream.getvalue()
  assert "entropy" not in stream.getvalue()


def test_without_a_terminal_lines_are_few():
  stream = io.StringIO()
  lines = progress.Progress(1000, stream=stream, quiet_seconds=3600.0)
  for step in range(1, 1001):
    lines.advance(step)
  assert stream.getvalue() == ""
  lines.note("something happened")
  lines.close()
  lines.close()
  assert stream.getvalue().splitlines() == ["something happened", "step 1,000/1,000 · 00:00 left"]


@pytest.mark.parametrize("stream", [_Terminal(), io.StringIO()])
def test_a_note_is_a_line_of_its_own(stream):
  shown = progress.Progress(10, stream=stream)
  shown.note("step 3: saved")
  shown.close()
  assert any(line.strip("\r ") == "step 3: saved" for line in stream.getvalue().splitlines())
