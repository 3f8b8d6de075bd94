"""Tests of the monitor: steps are leased exactly, rows written once, the run ends as it should."""

import os
import threading

from acme import specs
import pytest

from temper.agents import svg0_prior
from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed import monitor as monitor_lib
from temper.launchers.distributed import settings as settings_lib
from temper.launchers.distributed import step_leases
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.early_stop import EarlyStop
from temper.launchers.experiment_config import ExperimentConfig
from temper.utils import evaluation
from temper.utils import fakes
from temper.utils import run_loggers
from temper.utils.policy_kinds import PolicyKind


class _Replay:
  """A client of no server."""

  def server_info(self, timeout):
    return {}


def _monitor(tmp_path, num_actors=2, **changes):
  config = ExperimentConfig(
    builder=svg0_prior.SVG0Builder(svg0_prior.SVG0Config()),
    environment=fakes.PointMass,
    directory=str(tmp_path / "run"),
    **{"steps": 1_000, "log_every": 100, "eval_every": 300, "checkpoint_every": 400, **changes},
  )
  settings = settings_lib.RunSettings(
    config,
    LaunchConfig(num_actors=num_actors),
    specs.make_environment_spec(fakes.PointMass()),
    config.record(),
  )
  board_lib.Board(settings.board).clear()
  return monitor_lib.Monitor(settings, _Replay()), settings


def _report(monitor, actor_id, steps=0, seconds=0.0, version=0, *episodes, age=(0.0, 0.0)):
  report = step_leases.Report(steps, seconds, version, step_leases.Age(*age), episodes)
  return monitor.actor_report(actor_id, report)


def _act(monitor, actor_id, *, episode_length=7):
  """Acts like an actor until the run ends; returns its steps."""
  done = in_episode = unreported = 0
  episodes = []
  while True:
    answer = _report(monitor, actor_id, unreported, 1e-4 * unreported, 0, *episodes)
    if answer["end"]:
      monitor.actor_ended(actor_id)
      return done
    episodes, unreported = [], 0
    for _ in range(answer["lease"]):
      done, in_episode, unreported = done + 1, in_episode + 1, unreported + 1
      if in_episode == episode_length:
        episodes.append(step_leases.Episode(float(done), episode_length, unreported))
        in_episode = 0
        break


def _rows(settings, name):
  return run_loggers.read_csv(os.path.join(settings.directory.logs, f"{name}.csv"))


def test_actors_together_do_exactly_the_steps_asked_for(tmp_path):
  monitor, settings = _monitor(tmp_path, num_actors=4)
  steps = [0] * 4

  def act(actor_id):
    monitor.actor_started(actor_id)
    steps[actor_id] = _act(monitor, actor_id)

  threads = [threading.Thread(target=act, args=(i,)) for i in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(30)
  assert sum(steps) == 1_000
  train = _rows(settings, "train")
  assert [int(row["episode"]) for row in train] == list(range(1, len(train) + 1))
  at = [int(row["step"]) for row in train]
  assert at == sorted(set(at)) and sum(step // 7 for step in steps) == len(train)
  assert [int(row["step"]) for row in _rows(settings, "speed")] == list(range(100, 1_001, 100))


def test_what_a_killed_actor_did_not_report_is_done_again(tmp_path):
  monitor, _ = _monitor(tmp_path, steps=5)
  assert monitor.actor_started(0) == {"steps": 0}
  assert _report(monitor, 0, 0, 0.0, 0)["lease"] == 1
  assert _report(monitor, 0, 1, 1e-4, 0)["lease"] == 4
  # All that is left is leased to actor 0, which is killed and comes back.
  assert _report(monitor, 1, 0, 0.0, 0) == {"lease": 0, "end": False}
  assert monitor.actor_started(0) == {"steps": 1}
  assert _report(monitor, 1, 0, 0.0, 0)["lease"] == 1
  assert _report(monitor, 1, 1, 1e-4, 0)["lease"] == 3


def test_a_checkpoint_holds_the_actors_until_it_is_written(tmp_path):
  monitor, _ = _monitor(tmp_path)
  monitor.learner_started(0, "Learning on one device.")
  _report(monitor, 0, 399, 0.1, 0)
  assert monitor.learner_report(5, 0.1, {}) == {"save": False, "end": False}
  _report(monitor, 0, 1, 0.1, 0)
  assert monitor.learner_report(5, 0.1, {})["save"]
  state = monitor.pause()
  assert state["steps"] == 400
  assert _report(monitor, 0, 0, 0.0, 0) == {"lease": 0, "end": False}
  monitor.saved("there", 400)
  assert _report(monitor, 0, 0, 0.0, 0)["lease"] > 0
  assert not monitor.learner_report(6, 0.1, {})["save"]


def test_a_learner_killed_while_it_saves_lets_the_actors_go_on(tmp_path):
  monitor, _ = _monitor(tmp_path)
  _report(monitor, 0, 400, 0.1, 0)
  monitor.pause()
  assert _report(monitor, 0, 0, 0.0, 0)["lease"] == 0
  monitor.learner_started(0, "Learning on one device.")
  assert _report(monitor, 0, 0, 0.0, 0)["lease"] > 0


def test_evaluations_are_played_once_and_written_with_their_step(tmp_path):
  monitor, settings = _monitor(tmp_path)
  assert monitor.evaluation_due() == {"due": True, "steps": 0, "end": False}
  assert not monitor.evaluation_due()["due"]  # Another evaluator plays it.
  outcomes = [evaluation.Outcome(x, 5, evaluation.EpisodeEnd.TRUNCATION) for x in (1.0, 3.0)]
  monitor.evaluated(0, evaluation.summarise([1, 2], outcomes, PolicyKind.MEAN))
  assert not monitor.evaluation_due()["due"]
  _report(monitor, 0, 310, 0.1, 0)
  assert monitor.evaluation_due() == {"due": True, "steps": 310, "end": False}
  monitor.evaluator_started()  # It was killed: the next one is played when it is due.
  assert not monitor.evaluation_due()["due"]
  (row,) = _rows(settings, "evaluation")
  assert (row["step"], row["mode"], float(row["return_mean"])) == ("0", "deterministic", 2.0)


def test_an_early_stop_ends_the_run(tmp_path):
  monitor, _ = _monitor(tmp_path, early_stop=EarlyStop(10.0, patience=2))
  assert not _report(monitor, 0, 20, 0.1, 0, step_leases.Episode(11.0, 20, 20))["end"]
  assert _report(monitor, 0, 20, 0.1, 0, step_leases.Episode(12.0, 20, 20))["end"]


def test_the_age_of_the_oldest_variables_is_told(tmp_path):
  monitor, settings = _monitor(tmp_path)
  monitor.learner_report(50, 0.1, {"policy_loss": 1.0})
  _report(monitor, 0, 0, 0.0, 48, age=(35.0, 0.5))
  _report(monitor, 0, 0, 0.0, 49, age=(1.0, 2.5))
  _report(monitor, 1, 100, 0.1, 20)
  _report(monitor, 1, 100, 0.1, 49)
  first, second = _rows(settings, "program")
  # Of actor 0 it is what it says, of actor 1 that its version is behind; then the row begins anew.
  assert (float(first["variable_age_steps"]), float(first["variable_age_seconds"])) == (35.0, 2.5)
  assert (float(second["variable_age_steps"]), float(second["variable_age_seconds"])) == (1.0, 0.0)
  assert first["actors"] == "2"


def test_episodes_that_end_in_one_round_have_steps_of_their_own(tmp_path):
  monitor, settings = _monitor(tmp_path)
  _report(monitor, 0, 30, 0.1)
  episodes = [step_leases.Episode(float(at), 10, at) for at in (28, 29, 30)]
  _report(monitor, 1, 30, 0.1, 0, *episodes)
  at = [(int(row["step"]), float(row["episode_return"])) for row in _rows(settings, "train")]
  assert at == [(58, 28.0), (59, 29.0), (60, 30.0)]


@pytest.mark.parametrize("alone", [True, False])
def test_a_run_without_actors_fails(tmp_path, alone):
  monitor, settings = _monitor(tmp_path, num_actors=1 if alone else 2)
  board = board_lib.Board(settings.board)
  board.post_node(board_lib.Node("actor_0", board_lib.NodeState.LOST, 1, 1, reason="killed"))
  monitor.actor_started(0)
  monitor._hear_of_nodes()
  assert monitor.evaluation_due()["end"] == alone
