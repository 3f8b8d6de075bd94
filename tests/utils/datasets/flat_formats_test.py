"""Files of flat arrays (`.npz` and HDF5), sound and malformed, made here without Temper."""

import re

import h5py
import numpy as np
import pytest

from temper.utils import datasets


def test_episodes_are_cut_at_terminals_and_timeouts(save_flat, flat_arrays):
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  np.testing.assert_array_equal(dataset.lengths, [3, 4])
  np.testing.assert_array_equal(dataset.returns, [0 + 1 + 2, 3 + 4 + 5 + 6])
  np.testing.assert_array_equal(dataset.terminated, [True, False])
  first, second = dataset
  np.testing.assert_array_equal(first.observation[:, 0], [0, 10, 20, 29])
  np.testing.assert_array_equal(first.discount, [1, 1, 0])
  np.testing.assert_array_equal(second.observation[:, 0], [30, 40, 50, 60, 70])
  np.testing.assert_array_equal(second.action[:, 0], np.float32([0.3, 0.4, 0.5, 0.6]))
  np.testing.assert_array_equal(second.reward, [3, 4, 5, 6])
  np.testing.assert_array_equal(second.discount, [1, 1, 1, 1])
  assert dataset.notes == []
  assert second.reward.dtype == second.discount.dtype == second.observation.dtype == np.float32


def test_without_next_observations_what_a_truncation_led_to_is_unknown(save_flat, flat_arrays):
  del flat_arrays["next_observations"]
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  terminated, truncated = dataset
  # The terminated episode is whole; its last observation is never read.
  np.testing.assert_array_equal(terminated.observation[:, 0], [0, 10, 20, 20])
  np.testing.assert_array_equal(terminated.discount, [1, 1, 0])
  np.testing.assert_array_equal(truncated.observation[:, 0], [30, 40, 50, 60])
  np.testing.assert_array_equal(truncated.reward, [3, 4, 5])
  np.testing.assert_array_equal(truncated.discount, [1, 1, 1])
  np.testing.assert_array_equal(dataset.returns, [3, 12])
  assert "last transition of 1 truncated episodes" in dataset.notes[0]


def test_a_truncated_episode_of_one_step_without_its_next_observation_is_left_out(
  save_flat, flat_arrays
):
  del flat_arrays["next_observations"]
  flat_arrays["timeouts"] = np.isin(np.arange(7), [3, 6])
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  np.testing.assert_array_equal(dataset.lengths, [3, 2])
  assert any("1 episodes with no transition left" in n and "row 3" in n for n in dataset.notes)


def test_an_episode_of_one_step(save_flat, flat_arrays):
  flat_arrays["terminals"] = np.isin(np.arange(7), [0, 2])
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  np.testing.assert_array_equal(dataset.lengths, [1, 2, 4])
  np.testing.assert_array_equal(dataset.read(0).observation[:, 0], [0, 10])
  np.testing.assert_array_equal(dataset.read(0).discount, [0])


def test_terminal_wins_over_timeout(save_flat, flat_arrays):
  flat_arrays["timeouts"] = np.isin(np.arange(7), [2, 6])
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  np.testing.assert_array_equal(dataset.terminated, [True, False])
  assert any("1 rows, the first 2, are both" in n for n in dataset.notes)


def test_missing_timeouts_are_found_where_observations_break(save_flat, flat_arrays):
  del flat_arrays["timeouts"]
  flat_arrays["terminals"][:] = False
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  np.testing.assert_array_equal(dataset.lengths, [3, 4])
  np.testing.assert_array_equal(dataset.terminated, [False, False])
  np.testing.assert_array_equal(dataset.read(0).observation[:, 0], [0, 10, 20, 29])
  assert any("there is no 'timeouts'" in n and "1 truncations" in n for n in dataset.notes)
  assert any("row 6, the last, ends no episode" in n for n in dataset.notes)


def test_other_names_are_understood_and_said(save_flat, flat_arrays):
  names = {
    "observations": "obs",
    "next_observations": "next_obs",
    "actions": "acts",
    "rewards": "rews",
    "terminals": "Dones",
    "timeouts": "truncations",
  }
  arrays = {names[key]: array for key, array in flat_arrays.items()}
  dataset = datasets.open_dataset(save_flat({**arrays, "infos/qpos": np.zeros((7, 2))}))
  np.testing.assert_array_equal(dataset.lengths, [3, 4])
  assert "'obs' read as 'observations'" in dataset.notes
  assert "'Dones' read as 'terminals'" in dataset.notes
  assert "not used: infos" in dataset.notes


def test_the_standard_name_is_preferred(save_flat, flat_arrays):
  dataset = datasets.open_dataset(save_flat({**flat_arrays, "dones": np.ones((7,), bool)}))
  np.testing.assert_array_equal(dataset.lengths, [3, 4])
  assert "not used: dones" in dataset.notes


def test_dtypes_are_converted_and_said(save_flat, flat_arrays):
  flat_arrays["observations"] = flat_arrays["observations"].astype(np.float64)
  flat_arrays["actions"] = flat_arrays["actions"].astype(np.float16)
  flat_arrays["rewards"] = flat_arrays["rewards"].astype(np.int64)[:, np.newaxis]
  flat_arrays["terminals"] = flat_arrays["terminals"].astype(np.float32)
  dataset = datasets.open_dataset(save_flat(flat_arrays))
  episode = dataset.read(1)
  assert episode.observation.dtype == episode.action.dtype == episode.reward.dtype == np.float32
  np.testing.assert_array_equal(episode.reward, [3, 4, 5, 6])
  for line in (
    "observations: float64 converted to float32",
    "actions: float16 converted to float32",
    "rewards: int64 converted to float32",
    "rewards: shape [N, 1] read as [N]",
    "terminals: float32 converted to bool",
  ):
    assert line in dataset.notes


def test_nested_observations_and_extras(save_flat, flat_arrays):
  for name in ("observations", "next_observations"):
    array = flat_arrays.pop(name)
    flat_arrays[f"{name}/place/x"] = array[:, 0]
    flat_arrays[f"{name}/pair/_index_0"] = array[:, 1]
    flat_arrays[f"{name}/pair/_index_1"] = array
  flat_arrays["extras/log_prob"] = -np.arange(7.0, dtype=np.float32)
  episode = datasets.open_dataset(save_flat(flat_arrays)).read(0)
  np.testing.assert_array_equal(episode.observation["place"]["x"], [0, 10, 20, 29])
  assert isinstance(episode.observation["pair"], tuple)
  np.testing.assert_array_equal(episode.observation["pair"][1][:, 0], [0, 10, 20, 29])
  np.testing.assert_array_equal(episode.extras["log_prob"], [0, -1, -2])


def _without(key):
  return lambda arrays: arrays.pop(key)


def _with(key, array):
  return lambda arrays: arrays.update({key: array})


def _value(key, index, value):
  def change(arrays):
    arrays[key] = arrays[key].astype(np.float64)
    arrays[key][index] = value

  return change


def _no_ends(arrays):
  for key in ("timeouts", "next_observations"):
    del arrays[key]


def _no_rows(arrays):
  for key in arrays:
    arrays[key] = arrays[key][:0]


# Each: how the sound arrays are spoilt, and what the message says beside the file's name.
_MALFORMED = {
  "NaN reward": (_value("rewards", 4, np.nan), ["rewards[4] is nan"]),
  "infinite reward": (_value("rewards", 5, -np.inf), ["rewards[5] is -inf"]),
  "reward beyond float32": (_value("rewards", 1, 1e300), ["rewards[1] is 1e+300"]),
  "NaN observation": (_value("observations", (5, 1), np.nan), ["observations[5, 1] is nan"]),
  "infinite observation": (_value("observations", (3, 0), np.inf), ["observations[3, 0] is inf"]),
  "NaN next observation": (
    _value("next_observations", (6, 1), np.nan),
    ["next_observations[6, 1] is nan"],
  ),
  "NaN action": (_value("actions", (6, 0), np.nan), ["actions[6, 0] is nan"]),
  "no rewards": (_without("rewards"), ["no 'rewards'", "actions", "reward"]),
  "no actions": (_without("actions"), ["no 'actions'"]),
  "no observations": (_without("observations"), ["no 'observations'"]),
  "no terminals": (_without("terminals"), ["no 'terminals'", "all False if none ever does"]),
  "nothing says where episodes end": (_no_ends, ["no 'timeouts'", "Add 'timeouts'"]),
  "short rewards": (_with("rewards", np.zeros(6)), ["rewards has 6 rows; it must have 7"]),
  "long flags": (_with("timeouts", np.zeros(8, bool)), ["timeouts has 8 rows; it must have 7"]),
  "a single number": (_with("rewards", np.float32(1)), ["rewards is one number"]),
  "text as observations": (
    _with("observations", np.array([["a", "b"]] * 7)),
    ["observations has dtype text"],
  ),
  "text as rewards": (_with("rewards", np.array(["a"] * 7)), ["rewards has dtype text"]),
  "several rewards": (_with("rewards", np.zeros((7, 2))), ["rewards has shape [7, 2]"]),
  "flag of 2": (_value("terminals", 3, 2), ["terminals[3] is 2", "0 or 1"]),
  "NaN flag": (_value("timeouts", 3, np.nan), ["timeouts[3] is nan", "0 or 1"]),
  "text as flag": (_with("timeouts", np.array(["no"] * 7)), ["timeouts has dtype text"]),
  "no rows": (_no_rows, ["there is no episode"]),
  "next observations of another size": (
    _with("next_observations", np.zeros((7, 3))),
    ["next_observations has the shape [7, 3]", "[7, 2]"],
  ),
  "nested actions": (
    lambda arrays: arrays.update({"actions/arm": arrays.pop("actions")}),
    ["'actions' must be one array"],
  ),
  "two that could be the rewards": (
    lambda arrays: arrays.update({"rew": arrays["rewards"], "reward": arrays.pop("rewards")}),
    ["'rew'", "'reward'", "Name the right one 'rewards'"],
  ),
}


@pytest.mark.parametrize("case", _MALFORMED)
def test_malformed_arrays_are_refused_with_file_key_and_index(case, save_flat, flat_arrays):
  spoil, messages = _MALFORMED[case]
  spoil(flat_arrays)
  path = save_flat(flat_arrays)
  with pytest.raises(datasets.DatasetError) as raised:
    datasets.open_dataset(path)
  for message in [path, *messages]:
    assert message in str(raised.value)


def test_a_big_file_is_checked_when_an_episode_is_read(tmp_path, flat_arrays):
  flat_arrays["observations"][5, 1] = np.nan
  path = str(tmp_path / "big.hdf5")
  with h5py.File(path, "w") as file:
    for name, array in flat_arrays.items():
      file[name] = array
  dataset = datasets.open_dataset(path, in_memory=False)
  assert not dataset.in_memory
  assert dataset.read(0).num_steps == 3
  with pytest.raises(datasets.DatasetError, match=re.escape("observations[5, 1] is nan")):
    dataset.read(1)
  with pytest.raises(IndexError, match="episodes 0 to 1"):
    dataset.read(2)


@pytest.mark.parametrize("keep", [1, 60, 300, 1500])
def test_truncated_files_are_refused(save_flat, flat_arrays, keep):
  path = save_flat(flat_arrays)
  with open(path, "rb") as file:
    content = file.read()
  with open(path, "wb") as file:
    file.write(content[:keep])
  with pytest.raises(datasets.DatasetError, match=re.escape(path)):
    datasets.open_dataset(path)


def test_a_damaged_archive_is_refused(tmp_path, flat_arrays):
  path = tmp_path / "a.npz"
  np.savez(path, **flat_arrays)
  content = bytearray(path.read_bytes())
  at = content.index(flat_arrays["rewards"].tobytes())
  content[at : at + 4] = b"\x07\x07\x07\x07"
  path.write_bytes(content)
  with pytest.raises(datasets.DatasetError, match="truncated or damaged"):
    datasets.open_dataset(path)


def test_python_objects_are_refused(tmp_path, flat_arrays):
  path = tmp_path / "a.npz"
  flat_arrays["rewards"] = np.array([{"r": 1}] * 7, dtype=object)
  np.savez(path, **flat_arrays)
  with pytest.raises(datasets.DatasetError, match="rewards cannot be read as an array of numbers"):
    datasets.open_dataset(path)
