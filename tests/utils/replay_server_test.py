"""Tests of `temper.utils.replay_server`: what was saved comes back, or is refused."""

import json
import os

import pytest

from temper.utils import checkpointing
from temper.utils import replay_server


def test_a_saved_replay_is_full_again(sequences, tmp_path):
  server = sequences.serve(3)
  adder = sequences.make_adder(server, 3, 2)
  sequences.feed(adder, [4, 7])
  adder.flush()
  saved = str(tmp_path / "replay")
  server.save(saved)
  assert os.listdir(tmp_path) == ["replay"]
  restored = sequences.serve(3, restore_from=saved)
  sequences.assert_same_items(sequences.items(restored), sequences.items(server))
  # The saved one stays: it can be restored again.
  assert len(sequences.items(sequences.serve(3, restore_from=saved))) == 6


def test_restoring_from_nowhere_is_refused(sequences, tmp_path):
  with pytest.raises(checkpointing.CheckpointError, match="no whole replay in .*absent"):
    sequences.serve(3, restore_from=str(tmp_path / "absent"))


@pytest.mark.parametrize("name", ["tables.tfrecord", "chunks.tfrecord", "items.tfrecord", "DONE"])
def test_a_saved_replay_with_a_file_missing_or_cut_short_is_refused(sequences, tmp_path, name):
  server = sequences.serve(3)
  sequences.feed(sequences.make_adder(server, 3, 2), [12])
  saved = str(tmp_path / "replay")
  server.save(saved)
  size = os.path.getsize(os.path.join(saved, name))
  if size:
    os.truncate(os.path.join(saved, name), size // 2)
    with pytest.raises(checkpointing.CheckpointError, match=f"is damaged: {name} has"):
      sequences.serve(3, restore_from=saved)
  os.remove(os.path.join(saved, name))
  with pytest.raises(checkpointing.CheckpointError, match=f"is damaged: {name} is missing"):
    sequences.serve(3, restore_from=saved)


def test_a_saved_replay_with_spoilt_contents_is_refused(sequences, tmp_path):
  server = sequences.serve(3)
  sequences.feed(sequences.make_adder(server, 3, 2), [12])
  saved = str(tmp_path / "replay")
  server.save(saved)
  manifest = os.path.join(saved, "manifest.json")
  with open(manifest, encoding="utf-8") as file:
    document = json.load(file)
  document["items"][sequences.table] += 1
  with open(manifest, "w", encoding="utf-8") as file:
    json.dump(document, file)
  scratch = tmp_path / "scratch"
  table = sequences.make_table(3, max_size=9)
  with pytest.raises(checkpointing.CheckpointError, match="items by table; .* were read"):
    replay_server.start_server([table], saved, scratch=str(scratch))
  assert not scratch.exists()


def test_stopping_leaves_no_scratch_folder(sequences):
  server = sequences.serve(3)
  assert os.path.isdir(server.scratch)
  server.stop()
  assert not os.path.exists(server.scratch)
