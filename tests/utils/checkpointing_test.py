"""Tests of `temper.utils.checkpointing`: whole or absent, whatever happens while it is written."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import checkpointing
from temper.utils import optimizers


def _objects(size=3, seed=0):
  """A small network that an optimizer has moved, with its moments."""
  network = snt.Linear(size, w_init=snt.initializers.Constant(0.1 * (seed + 1)))
  network(tf.ones([1, 2]))
  adam = optimizers.Adam(0.01)
  optimizers.initialise_slots(adam, network.trainable_variables)
  return {"network": network, "optimizer": adam, "count": tf.Variable(seed, dtype=tf.int32)}


def _train(objects, steps):
  for i in range(steps):
    variables = objects["network"].trainable_variables
    objects["optimizer"].apply([0.3 * v + i for v in variables], variables)
    objects["count"].assign_add(1)


def _values(objects):
  modules = [objects["network"], objects["optimizer"]]
  return [v.numpy() for m in modules for v in m.variables] + [objects["count"].numpy()]


def _assert_equal(one, other):
  assert len(one) == len(other) > 3
  for a, b in zip(one, other):
    np.testing.assert_array_equal(a, b)


def _names(path):
  return sorted(os.listdir(path))


def test_moments_and_counters_come_back_bit_for_bit_and_training_goes_on_alike(tmp_path):
  saved = _objects()
  _train(saved, 5)
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  state = {"episodes": 7, "mean": 0.1, "nested": {"rates": [1.5, None]}}
  path = checkpointer.save(5, saved, state)
  restored = _objects(seed=3)
  assert checkpointing.Checkpointer(str(tmp_path)).restore(path, restored) == state
  _assert_equal(_values(saved), _values(restored))
  for objects in (saved, restored):
    _train(objects, 3)
  _assert_equal(_values(saved), _values(restored))


def test_the_newest_few_are_kept_in_the_order_of_their_steps(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path), keep=2)
  assert checkpointer.latest() is None and checkpointer.paths() == []
  for step in (1, 9, 10, 100):
    checkpointer.save(step, {}, {"step": step})
  assert _names(tmp_path) == ["step_10", "step_100"]
  assert checkpointer.latest() == str(tmp_path / "step_100")
  assert [checkpointing.read_state(p)["step"] for p in checkpointer.paths()] == [10, 100]


def test_one_of_an_equal_step_is_replaced(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  for value in (1, 2):
    path = checkpointer.save(5, {"x": tf.Variable(value)}, {"value": value})
  assert _names(tmp_path) == ["step_5"]
  variable = tf.Variable(0)
  assert checkpointer.restore(path, {"x": variable}) == {"value": 2}
  assert variable.numpy() == 2


@pytest.mark.parametrize("step", [1, 2], ids=["same_step", "next_step"])
@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=repr)
def test_an_error_while_writing_leaves_the_previous_one_and_nothing_else(tmp_path, step, error):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  saved = _objects()
  checkpointer.save(1, saved, {})
  values = _values(saved)
  _train(saved, 2)

  def fail(folder):
    with open(os.path.join(folder, "half"), "w", encoding="utf-8") as file:
      file.write("x")
    raise error

  with pytest.raises(type(error)):
    checkpointer.save(step, saved, {}, extra=fail)
  assert _names(tmp_path) == ["step_1"]
  restored = _objects(seed=2)
  checkpointer.restore(checkpointer.latest(), restored)
  _assert_equal(values, _values(restored))


def test_a_full_disk_leaves_the_previous_one(tmp_path, monkeypatch):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  checkpointer.save(1, {"x": tf.Variable(1)}, {})

  def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr(os, "fsync", full)
  with pytest.raises(checkpointing.CheckpointError, match="step 2 .*No space left"):
    checkpointer.save(2, {"x": tf.Variable(2)}, {})
  monkeypatch.undo()
  assert _names(tmp_path) == ["step_1"]
  assert checkpointer.restore(checkpointer.latest(), {"x": tf.Variable(0)}) == {}


def test_what_else_a_checkpoint_holds_lies_beside_it(tmp_path):
  def write(folder):
    with open(os.path.join(folder, "more.txt"), "w", encoding="utf-8") as file:
      file.write("more")

  path = checkpointing.Checkpointer(str(tmp_path / "a" / "b")).save(3, {}, {}, extra=write)
  assert path == str(tmp_path / "a" / "b" / "step_3")
  assert (tmp_path / "a" / "b" / "step_3" / "more.txt").read_text() == "more"
  assert _names(tmp_path) == ["a"]


def test_folders_that_are_no_complete_checkpoints_are_ignored(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(4, {}, {})
  (tmp_path / "step_9").mkdir()  # Without its state file.
  (tmp_path / "step_x").mkdir()
  (tmp_path / "step_7.bak").mkdir()
  (tmp_path / "step_8").write_text("a file")
  assert checkpointer.paths() == [path]
  with pytest.raises(checkpointing.CheckpointError, match="not a complete checkpoint"):
    checkpointer.restore(str(tmp_path / "step_9"), {})


def test_a_newest_one_without_its_state_is_not_passed_over(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  (tmp_path / "step_3").mkdir()
  with pytest.raises(checkpointing.CheckpointError, match="step_3 is incomplete.* to start anew"):
    checkpointer.latest()
  path = checkpointer.save(4, {}, {})
  assert checkpointer.latest() == path  # What is older is not needed.
  (tmp_path / "step_10").mkdir()
  with pytest.raises(
    checkpointing.CheckpointError, match="Delete .*step_10 to go on from .*step_4"
  ):
    checkpointer.latest()


@pytest.mark.parametrize(
  "text, message",
  [("[1]", "holds a list"), ('{"format": 1, "step": 4, "state": 0}', "no valid trackables, state")],
)
def test_a_state_file_of_another_kind_is_refused(tmp_path, text, message):
  path = checkpointing.Checkpointer(str(tmp_path)).save(4, {}, {})
  (tmp_path / "step_4" / "state.json").write_text(text)
  with pytest.raises(checkpointing.CheckpointError, match=f"{message}.*Delete .*step_4"):
    checkpointing.read_state(path)


def test_leftovers_of_a_killed_process_are_removed_and_a_replaced_one_is_put_back(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(4, {"x": tf.Variable(4)}, {})
  # As if killed between the two renames of a replacement, and once in the middle of writing.
  (tmp_path / ".replaced_abc").mkdir()
  os.rename(path, tmp_path / ".replaced_abc" / "old")
  (tmp_path / ".replaced_half_removed" / "old").mkdir(parents=True)
  (tmp_path / ".saving_4_abc").mkdir()
  (tmp_path / ".saving_4_abc" / "tensors.index").write_text("half")
  fresh = checkpointing.Checkpointer(str(tmp_path))
  assert fresh.latest() == path
  fresh.save(5, {}, {})
  assert _names(tmp_path) == ["step_4", "step_5"]


# What does not fit.


def test_another_set_of_names_is_refused_and_changes_nothing(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(1, {"policy": tf.Variable(1), "critic": tf.Variable(2)}, {})
  variable = tf.Variable(0)
  with pytest.raises(checkpointing.CheckpointError, match=r"\['critic', 'policy'\].*\['policy'\]"):
    checkpointer.restore(path, {"policy": variable})
  assert variable.numpy() == 0


def test_other_shapes_and_missing_variables_are_refused(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(1, _objects(size=3), {})
  with pytest.raises(checkpointing.CheckpointError, match="does not fit"):
    checkpointer.restore(path, _objects(size=4))
  more = _objects()
  more["network"] = snt.nets.MLP([3, 3])
  more["network"](tf.ones([1, 2]))
  with pytest.raises(checkpointing.CheckpointError, match="does not fit"):
    checkpointer.restore(path, more)


def test_another_format_is_refused(tmp_path):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(1, {}, {})
  file = os.path.join(path, "state.json")
  with open(file, encoding="utf-8") as opened:
    document = json.load(opened)
  document["format"] = 99
  with open(file, "w", encoding="utf-8") as opened:
    json.dump(document, opened)
  with pytest.raises(checkpointing.CheckpointError, match="format 99; this version reads format 1"):
    checkpointer.restore(path, {})


@pytest.mark.parametrize("name", ["tensors.index", "tensors.data-00000-of-00001", "state.json"])
def test_a_damaged_file_is_named(tmp_path, name):
  checkpointer = checkpointing.Checkpointer(str(tmp_path))
  path = checkpointer.save(1, _objects(), {})
  size = os.path.getsize(os.path.join(path, name))
  os.truncate(os.path.join(path, name), size // 2)
  with pytest.raises(checkpointing.CheckpointError, match="step_1"):
    checkpointer.restore(path, _objects())


def test_wrong_arguments_are_refused(tmp_path):
  with pytest.raises(ValueError, match="keep is 0"):
    checkpointing.Checkpointer(str(tmp_path), keep=0)
  with pytest.raises(ValueError, match="directory is empty"):
    checkpointing.Checkpointer("")
  with pytest.raises(TypeError):
    checkpointing.Checkpointer(str(tmp_path)).save(1, {}, {"x": object()})
  assert _names(tmp_path) == []


# A process that is killed at any moment. TensorFlow is imported once: victims are forked.

_VICTIMS = """
import os, sys, time
import tensorflow as tf
from temper.utils import checkpointing

directory = sys.argv[1]
print("ready", flush=True)
for line in sys.stdin:
  reader, writer = os.pipe()
  victim = os.fork()
  if not victim:
    checkpointer = checkpointing.Checkpointer(directory, keep=2)
    newest = checkpointer.latest()
    step = checkpointing.read_state(newest)["step"] if newest else 0
    while True:
      step += 1
      # The second one replaces the first.
      numbers = tf.Variable(tf.fill([1000], float(step)))
      checkpointer.save(step, {"numbers": numbers}, {"step": step})
      checkpointer.save(step, {"numbers": numbers}, {"step": step})
      os.write(writer, b"x")
  os.read(reader, 1)  # It is warm: TensorFlow has started, and the first checkpoint is there.
  time.sleep(float(line))
  os.kill(victim, 9)
  os.waitpid(victim, 0)
  os.close(reader)
  os.close(writer)
  print("killed", flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_newest_checkpoint(tmp_path):
  process = subprocess.Popen(
    [sys.executable, "-c", _VICTIMS, str(tmp_path)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
  )
  try:
    assert process.stdout.readline() == "ready\n"
    before, random = 0, np.random.RandomState(0)
    for _ in range(8):
      process.stdin.write(f"{random.uniform(0.0, 0.1)}\n")
      process.stdin.flush()
      assert process.stdout.readline() == "killed\n"
      checkpointer = checkpointing.Checkpointer(str(tmp_path))
      newest = checkpointer.latest()
      numbers = tf.Variable(tf.zeros([1000]))
      step = checkpointer.restore(newest, {"numbers": numbers})["step"]
      assert step > before
      np.testing.assert_array_equal(numbers.numpy(), np.full([1000], step, np.float32))
      before = step
  finally:
    process.stdin.close()
    process.wait(timeout=30)
  assert process.returncode == 0
  checkpointing.Checkpointer(str(tmp_path)).save(10**6, {}, {})
  assert not [name for name in _names(tmp_path) if name.startswith(".")]
