"""Small datasets whose numbers say where they belong."""

import h5py
import numpy as np
import pytest

from temper.utils import datasets


@pytest.fixture
def flat_arrays():
  """Episodes of 3 steps (terminated) and 4 (truncated): row i has observation 10 i and reward i."""
  rows = np.arange(7, dtype=np.float32)
  return {
    "observations": np.stack([10 * rows, rows + 0.5], axis=1),
    # Where the first episode ends, the next row's observation is another one.
    "next_observations": np.stack([10 * (rows + 1) - (rows == 2), rows + 1.5], axis=1),
    "actions": rows[:, np.newaxis] / 10,
    "rewards": rows,
    "terminals": rows == 2,
    "timeouts": rows == 6,
  }


@pytest.fixture(params=["npz", "hdf5"])
def save_flat(request, tmp_path):
  """Writes arrays by their names, without Temper, to a file whose ending says nothing."""

  def save(arrays):
    path = str(tmp_path / "some.data")
    if request.param == "npz":
      with open(path, "wb") as file:
        np.savez(file, **arrays)
    else:
      with h5py.File(path, "w") as file:
        for name, array in arrays.items():
          text = np.asarray(array).dtype.kind in "OU"
          file.create_dataset(name, data=np.asarray(array, "S") if text else array)
    return path

  return save


@pytest.fixture
def make_episode():
  """Makes an episode whose numbers depend on `seed`; observations as `form` says."""

  def make(length, *, seed=0, terminated=False, form="array", extras=True):
    rng = np.random.default_rng(seed)

    def vector(*shape):
      return rng.normal(size=(length + 1, *shape)).astype(np.float32)

    observation = {
      "array": lambda: vector(3),
      "scalar": lambda: vector(),
      "matrix": lambda: vector(2, 3),
      "integers": lambda: rng.integers(0, 5, (length + 1, 2)),
      "dict": lambda: {
        "arm": {"pose": vector(2), "on": rng.random(length + 1) < 0.5},
        "at": vector(),
      },
      "tuple": lambda: (vector(2), {"deep": (vector(1), vector(4))}),
      "pixels": lambda: {
        "pixels": rng.integers(0, 256, (length + 1, 4, 5, 3), np.uint8),
        "speed": vector(1),
      },
    }[form]()
    discount = np.ones((length,), np.float32)
    discount[-1] = 0.0 if terminated else 1.0
    return datasets.Episode(
      observation=observation,
      action=rng.uniform(-2, 2, (length, 2)).astype(np.float32),
      reward=rng.normal(size=(length,)).astype(np.float32),
      discount=discount,
      extras={"log_prob": rng.normal(size=(length,)).astype(np.float32)} if extras else {},
    )

  return make


@pytest.fixture
def assert_same():
  """Compares two episodes exactly, dtypes and structure too."""

  def compare(actual, expected):
    if isinstance(expected, (dict, tuple)):
      assert type(actual) is type(expected)
      assert len(actual) == len(expected)
      for key in expected if isinstance(expected, dict) else range(len(expected)):
        compare(actual[key], expected[key])
      return
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)

  def assert_same(actual, expected):
    for field in ("observation", "action", "reward", "discount", "extras"):
      compare(getattr(actual, field), getattr(expected, field))

  return assert_same
