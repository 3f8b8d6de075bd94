"""Tests of `temper.launchers.run_directory`."""

import dataclasses
import enum
import json
import os

import numpy as np
import pytest

from temper.launchers import run_directory


class _Mode(enum.Enum):
  FAST = "fast"


@dataclasses.dataclass(frozen=True)
class _Config:
  sizes: tuple = (8, 8)
  mode: _Mode = _Mode.FAST
  rate: float = 1e-3
  thing: object = None


def _record(**changes):
  record = {
    "agent": "svg0",
    "environment": "gym:Pendulum-v1",
    "environment_options": {},
    "seed": 0,
    "config": _Config(),
    "run": {"steps": 100},
    "command": "train",
  }
  return {**record, **changes}


def test_a_record_survives_the_file(tmp_path):
  directory = run_directory.RunDirectory(str(tmp_path / "run"))
  directory.open(_record(config=_Config(thing=object(), rate=np.float32(0.5))))
  with open(directory.config, encoding="utf-8") as file:
    written = json.load(file)
  assert written["config"] == {"sizes": [8, 8], "mode": "fast", "rate": 0.5, "thing": "object"}
  assert os.listdir(directory.path) == ["config.json"]


def test_the_same_run_may_be_opened_again_with_more_steps_and_another_command(tmp_path):
  directory = run_directory.RunDirectory(str(tmp_path / "run"))
  directory.open(_record())
  directory.open(_record(run={"steps": 200}, command="train again"))
  with open(directory.config, encoding="utf-8") as file:
    assert json.load(file)["run"] == {"steps": 200}


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"agent": "sac"}, r"agent: 'svg0' there, 'sac' asked for"),
    ({"environment": "gym:Hopper-v5"}, r"environment: "),
    ({"environment_options": {"max_episode_steps": 9}}, r"environment_options.max_episode_steps"),
    ({"seed": 1}, r"seed: 0 there, 1 asked for"),
    ({"config": _Config(sizes=(9,))}, r"config.sizes: \[8, 8\] there, \[9\] asked for"),
  ],
)
def test_another_run_is_refused_by_name_and_the_folder_is_left_alone(tmp_path, changes, message):
  directory = run_directory.RunDirectory(str(tmp_path / "run"))
  directory.open(_record())
  before = open(directory.config, encoding="utf-8").read()
  with pytest.raises(run_directory.DirectoryError, match=message):
    directory.open(_record(**changes))
  assert open(directory.config, encoding="utf-8").read() == before


def test_only_what_differs_is_named():
  lines = run_directory.differences(_record(), _record(config=_Config(rate=1.0), seed=3))
  assert lines == ["config.rate: 0.001 there, 1.0 asked for", "seed: 0 there, 3 asked for"]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
  (tmp_path / "thesis.txt").write_text("precious")
  with pytest.raises(run_directory.DirectoryError, match="holds no run"):
    run_directory.RunDirectory(str(tmp_path)).open(_record())
  with pytest.raises(run_directory.DirectoryError, match="holds no run"):
    run_directory.RunDirectory(str(tmp_path / "thesis.txt")).open(_record())
  assert os.listdir(tmp_path) == ["thesis.txt"]


def test_an_empty_folder_will_do(tmp_path):
  run_directory.RunDirectory(str(tmp_path)).open(_record())
  assert os.listdir(tmp_path) == ["config.json"]


@pytest.mark.parametrize("text, message", [("[]", "holds a list"), ("\udc80", "cannot be read")])
def test_a_record_of_another_kind_is_refused(tmp_path, text, message):
  (tmp_path / "config.json").write_text(text, errors="surrogateescape")
  with pytest.raises(run_directory.DirectoryError, match=message):
    run_directory.RunDirectory(str(tmp_path)).check(_record())


@pytest.mark.parametrize("name", ["checkpoints", "logs", "policy"])
def test_a_file_where_a_folder_belongs_is_refused(tmp_path, name):
  directory = run_directory.RunDirectory(str(tmp_path))
  directory.open(_record())
  (tmp_path / name).write_text("x")
  with pytest.raises(run_directory.DirectoryError, match=f"{name} is no folder"):
    directory.check(_record())


def test_a_folder_where_a_file_belongs_and_a_parent_that_is_a_file_are_refused(tmp_path):
  directory = run_directory.RunDirectory(str(tmp_path / "run"))
  directory.open(_record())
  os.mkdir(directory.result)
  with pytest.raises(run_directory.DirectoryError, match="result.json is no file"):
    directory.check(_record())
  (tmp_path / "file").write_text("x")
  below = run_directory.RunDirectory(str(tmp_path / "file" / "run"))
  with pytest.raises(run_directory.DirectoryError, match="cannot be made"):
    below.claim()


def test_two_claims_of_one_folder_exclude_each_other_and_leave_nothing(tmp_path):
  directory = run_directory.RunDirectory(str(tmp_path / "run"))
  claim = directory.claim()
  with pytest.raises(run_directory.DirectoryError, match="Another process is running in"):
    directory.claim()
  claim.release()
  assert not os.path.exists(directory.path)
  claim = directory.claim()
  directory.open(_record())
  claim.release()
  assert os.listdir(directory.path) == ["config.json"]
  directory.claim().release()


def test_an_unreadable_record_is_refused(tmp_path):
  directory = run_directory.RunDirectory(str(tmp_path))
  (tmp_path / "config.json").write_text("{")
  with pytest.raises(run_directory.DirectoryError, match="cannot be read"):
    directory.check(_record())


def test_a_record_from_before_fixed_starts_is_of_a_run_without_one():
  assert not run_directory.differences(_record(), _record(fixed_start=False))
  assert run_directory.differences(_record(), _record(fixed_start=True)) == [
    "fixed_start: False there, True asked for"
  ]
