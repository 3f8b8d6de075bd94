"""Tests of `temper.utils.datasets.inferred_spec`."""

import numpy as np
import pytest

from temper.utils.datasets import conforming
from temper.utils.datasets import episodes
from temper.utils.datasets import inferred_spec


def _dataset(actions, observation=None):
  made = []
  for action in actions:
    action = np.asarray(action, np.float32)
    steps = len(action)
    observed = {"a": np.zeros((steps + 1, 3), np.float32), "b": np.zeros(steps + 1, np.float32)}
    made.append(
      episodes.Episode(
        observation=observed if observation is None else observation(steps + 1),
        action=action,
        reward=np.zeros(steps, np.float32),
        discount=np.ones(steps, np.float32),
      )
    )
  return episodes.InMemoryDataset(made, path="data.npz", format=episodes.DatasetFormat.NPZ)


def test_shapes_and_dtypes_are_the_datas():
  spec = inferred_spec.infer_spec(_dataset([[[0.5], [-0.25]]]))
  assert {k: (s.shape, s.dtype) for k, s in spec.observations.items()} == {
    "a": ((3,), np.float32),
    "b": ((), np.float32),
  }
  pictures = inferred_spec.infer_spec(
    _dataset([[[0.5]]], lambda rows: np.zeros((rows, 4, 4, 3), np.uint8))
  )
  assert pictures.observations.shape == (4, 4, 3) and pictures.observations.dtype == np.uint8


def test_actions_within_one_are_taken_to_be_bounded_by_it():
  spec = inferred_spec.infer_spec(_dataset([[[0.5, 0.1], [-0.25, 0.2]]]))
  np.testing.assert_array_equal(spec.actions.minimum, [-1, -1])
  np.testing.assert_array_equal(spec.actions.maximum, [1, 1])


def test_other_actions_are_bounded_by_the_extremes_of_all_episodes():
  data = _dataset([[[0.5, 10.0], [-0.25, 20.0]], [[-3.0, 12.0]]])
  spec = inferred_spec.infer_spec(data)
  np.testing.assert_array_equal(spec.actions.minimum, [-3, 10])
  np.testing.assert_array_equal(spec.actions.maximum, [0.5, 20])
  # So the dataset itself fits.
  conformed = conforming.conform(data, spec)
  np.testing.assert_allclose(conformed.read(1).action, [[-1.0, -0.6]], atol=1e-6)


def test_a_dimension_that_never_changes_is_no_obstacle():
  data = _dataset([[[2.0, 0.0], [2.0, 5.0]]])
  conformed = conforming.conform(data, inferred_spec.infer_spec(data))
  np.testing.assert_array_equal(conformed.read(0).action, [[0.0, -1.0], [0.0, 1.0]])


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_actions_may_have_any_shape(shape):
  spec = inferred_spec.infer_spec(_dataset([np.full((2, *shape), 0.5)]))
  assert spec.actions.shape == shape
