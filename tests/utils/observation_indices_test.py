"""An agent is shown some numbers of a vector of observations, wherever it meets the environment."""

import acme
from dm_env import specs
import numpy as np
import pytest

from temper.utils import datasets
from temper.utils import environments
from temper.utils import fakes
from temper.utils.environment_observations import ObservationMapping

_VECTOR = specs.Array((3,), np.float64, name="state")
_ACTION = specs.BoundedArray((1,), np.float32, -1.0, 1.0)


def _environment(**options):
  return environments.wrap(fakes.FakeEnvironment(_VECTOR, _ACTION, seed=0), **options)


def test_the_chosen_numbers_are_shown_in_their_order():
  mapping = ObservationMapping(_VECTOR, indices=[2, 0])
  shown = mapping(np.array([1.0, 2.0, 3.0]))
  assert shown.dtype == np.float32 and shown.tolist() == [3.0, 1.0]
  assert mapping.spec.shape == (2,) and mapping.full_spec.shape == (3,)
  assert mapping.environment_spec is _VECTOR and mapping.indices == (2, 0)


def test_without_indices_all_is_shown():
  mapping = ObservationMapping(_VECTOR)
  assert mapping.indices is None and mapping.spec.shape == (3,)
  assert mapping(np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("indices", [(), (3,), (-1,), (0, 0), (0.5,), ("a",)])
def test_what_is_no_choice_is_refused(indices):
  with pytest.raises(ValueError, match=r"observation_indices is .* from 0 to 2"):
    ObservationMapping(_VECTOR, indices=indices)


@pytest.mark.parametrize(
  "spec", [{"a": _VECTOR}, specs.Array((2, 2), np.float32), specs.Array((), np.float32)]
)
def test_observations_that_are_no_vector_are_refused(spec):
  with pytest.raises(ValueError, match="not one vector"):
    ObservationMapping(spec, indices=(0,))


def test_an_environment_shows_the_same_episodes_with_less():
  full, part = _environment(), _environment(observation_indices=(0, 2))
  assert acme.make_environment_spec(part).observations.shape == (2,)
  a, b = full.reset(), part.reset()
  for _ in range(3):
    assert a.observation[[0, 2]].tolist() == b.observation.tolist()
    a, b = (environment.step(np.zeros((1,), np.float32)) for environment in (full, part))


def test_wrapping_again_keeps_or_replaces_the_choice():
  part = _environment(observation_indices=(0, 2))
  assert environments.wrap(part) is part
  assert environments.wrap(part, max_episode_steps=5).observation_spec().shape == (2,)
  other = environments.wrap(part, observation_indices=(1,))
  assert other.observation_mapping.indices == (1,)


def test_named_environments_take_it():
  environment = environments.make_environment("gym:Pendulum-v1", observation_indices=(0, 1), seed=0)
  assert environment.observation_spec().shape == (2,)
  shown = environment.reset().observation
  assert np.hypot(*shown) == pytest.approx(1.0, abs=1e-6)  # Cosine and sine.


def test_a_dataset_of_the_full_observations_conforms_to_what_is_shown():
  observation = np.arange(9, dtype=np.float32).reshape(3, 3)
  episode = datasets.Episode(
    observation=observation,
    action=np.zeros((2, 1), np.float32),
    reward=np.zeros((2,), np.float32),
    discount=np.ones((2,), np.float32),
  )
  dataset = datasets.InMemoryDataset([episode], path="x", format=datasets.DatasetFormat.NPZ)
  conformed = datasets.conform(dataset, _environment(observation_indices=(2, 0)))
  np.testing.assert_array_equal(conformed.read(0).observation, observation[:, [2, 0]])
  np.testing.assert_array_equal(
    datasets.conform(dataset, _environment()).read(0).observation, observation
  )
  short = datasets.Episode(
    observation[:, :2], episode.action, episode.reward, episode.discount, episode.extras
  )
  masked = datasets.InMemoryDataset([short], path="x", format=datasets.DatasetFormat.NPZ)
  with pytest.raises(datasets.DatasetError, match="observation"):
    datasets.conform(masked, _environment(observation_indices=(2, 0)))
