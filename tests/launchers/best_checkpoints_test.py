"""Tests of `temper.launchers.best_checkpoints`."""

import os

import tensorflow as tf

from temper.launchers import best_checkpoints


def _offers(keeper, *offers, mode="raw"):
  return [
    keeper.offer(mode, step, mean, lambda step=step: {"v": tf.Variable(step)})
    for step, mean in offers
  ]


def test_only_what_is_better_replaces_the_best(tmp_path):
  keeper = best_checkpoints.BestCheckpoints(str(tmp_path / "best"), resume_step=0)
  assert keeper.of("raw") is None
  assert _offers(keeper, (10, -5.0), (20, -7.0), (30, -5.0), (40, -2.0)) == [
    True,
    False,
    False,
    True,
  ]
  best = keeper.of("raw")
  assert (best.step, best.mean_return) == (40, -2.0)
  assert os.listdir(tmp_path / "best" / "raw") == ["step_40"]


def test_each_mode_has_its_own(tmp_path):
  keeper = best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=0)
  _offers(keeper, (10, -5.0), mode="raw")
  _offers(keeper, (10, 1.0), (20, 0.5), mode="mean")
  assert keeper.of("raw").mean_return == -5.0 and keeper.of("mean").step == 10


def test_a_resumed_run_knows_the_best_of_before_and_a_new_one_does_not(tmp_path):
  _offers(best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=0), (50, 3.0))
  resumed = best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=40)
  assert resumed.of("raw").step == 50
  assert best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=0).of("raw") is None


def test_a_better_one_at_an_earlier_step_replaces_a_later_one(tmp_path):
  # A killed run had kept step 50, and was resumed from step 20.
  _offers(best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=0), (50, 3.0))
  resumed = best_checkpoints.BestCheckpoints(str(tmp_path), resume_step=20)
  assert _offers(resumed, (30, 4.0)) == [True]
  assert resumed.of("raw").step == 30
  assert os.listdir(tmp_path / "raw") == ["step_30"]
