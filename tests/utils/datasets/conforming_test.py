from acme import specs as acme_specs
import dm_env
from dm_env import specs
import numpy as np
import pytest
import tree

from temper.utils import datasets
from temper.utils import environments
from temper.utils.datasets import DatasetError
from temper.utils.environment_observations import ObservationMapping


def _spec(observations, low=(0.0, -10.0), high=(4.0, -2.0)):
  return acme_specs.EnvironmentSpec(
    observations=observations,
    actions=specs.BoundedArray((2,), np.float64, low, high, name="torque"),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


def _dataset(*episodes, notes=()):
  return datasets.InMemoryDataset(
    episodes, path="some/file.npz", format=datasets.DatasetFormat.NPZ, notes=notes
  )


def _episode(observation, action=((0.0, -10.0), (3.0, -8.0), (4.0, -2.0))):
  action = np.asarray(action)
  discount = np.ones((len(action),), np.float32)
  return datasets.Episode(observation, action, np.arange(len(action), dtype=np.float32), discount)


class _Lazy(datasets.EpisodeDataset):
  """Hands out the episodes of a dataset in memory as if it read them from disk."""

  def __init__(self, dataset):
    super().__init__(
      path=dataset.path,
      format=dataset.format,
      lengths=dataset.lengths,
      returns=dataset.returns,
      terminated=dataset.terminated,
      nbytes=dataset.nbytes,
      in_memory=False,
      notes=dataset.notes,
    )
    self._dataset = dataset

  def read(self, index):
    return self._dataset.read(index)


_FLAT = specs.Array((2,), np.float64)
_OBSERVATIONS = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_actions_become_canonical_by_hand_numbers():
  conformed = datasets.conform(_dataset(_episode(_OBSERVATIONS)), _spec(_FLAT))
  # Centres 2 and -6, half widths 2 and 4.
  np.testing.assert_array_equal(conformed.read(0).action, [[-1, -1], [0.5, -0.5], [1, 1]])
  assert conformed.read(0).action.dtype == np.float32
  assert conformed.notes == []


def test_rounding_beyond_the_bounds_is_clipped_and_said():
  action = [[np.float32(4.0) + 2e-5, -10.00001], [0.0, -2.0], [0.0, -2.0]]
  dataset = _dataset(_episode(_OBSERVATIONS, action), notes=["from before"])
  conformed = datasets.conform(dataset, _spec(_FLAT))
  np.testing.assert_array_equal(conformed.read(0).action[0], [1, -1])
  assert conformed.notes == ["from before", "actions beyond the bounds by rounding were clipped"]
  assert dataset.notes == ["from before"]


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("value", [4.1, -0.1, 1e6])
def test_actions_outside_the_bounds_are_refused(value, in_memory):
  action = [[0.0, -10.0], [0.0, -2.0], [value, -2.0]]
  dataset = _dataset(_episode(_OBSERVATIONS), _episode(_OBSERVATIONS, action))
  with pytest.raises(DatasetError) as raised:
    datasets.conform(dataset if in_memory else _Lazy(dataset), _spec(_FLAT)).read(1)
  for part in ("some/file.npz", "episode 1", "action[2, 0]", str(value), "[0, 4]"):
    assert part in str(raised.value)


def test_actions_of_another_size_are_refused():
  episode = _episode(_OBSERVATIONS, np.zeros((3, 3)))
  with pytest.raises(
    DatasetError, match=r"some/file.npz: episode 0: action has \[3\].*takes \[2\]"
  ):
    datasets.conform(_dataset(episode), _spec(_FLAT))


def test_observations_become_what_the_environment_shows():
  spec = {
    "sensors": (specs.Array((2,), np.float64), [specs.Array((), np.int32)]),
    "gear": specs.DiscreteArray(3),
    "camera": specs.BoundedArray((4, 4, 3), np.uint8, 0, 255),
    "bytes": specs.Array((2,), np.uint8),
    "touch": specs.Array((), bool),
  }
  rng = np.random.default_rng(0)
  own = {
    "sensors": (rng.normal(size=(4, 2)), [np.arange(4)]),
    "gear": np.array([0, 2, 1, 2]),
    "camera": rng.integers(0, 256, (4, 4, 4, 3), np.uint8),
    "bytes": rng.integers(0, 256, (4, 2), np.uint8),
    "touch": np.array([True, False, True, True]),
  }
  observation = datasets.conform(_dataset(_episode(own)), _spec(spec)).read(0).observation
  # The same, row by row, as what an environment's wrapper makes of it.
  mapping = ObservationMapping(spec)
  for row in range(4):
    one = tree.map_structure(lambda array: array[row], own)  # noqa: B023
    expected = mapping(one)
    tree.assert_same_structure(observation, expected)
    actual = tree.map_structure(lambda array: array[row], observation)  # noqa: B023
    for a, e in zip(tree.flatten(actual), tree.flatten(expected)):
      assert a.dtype == e.dtype
      np.testing.assert_array_equal(a, e)


_PICTURE = specs.BoundedArray((4, 4, 3), np.uint8, 0, 255)


@pytest.mark.parametrize(
  "spec, observation, message",
  [
    (_FLAT, np.zeros((4, 3)), r"episode 0: observation has the shape \[3\].*\[2\]"),
    ({"a": _FLAT}, np.zeros((4, 2)), r"observation is one array .*a dict of \['a'\]"),
    ({"a": _FLAT}, {"b": np.zeros((4, 2))}, r"a dict of \['b'\].*a dict of \['a'\]"),
    ((_FLAT, _FLAT), (np.zeros((4, 2)),), "a sequence of 1; .*a sequence of 2"),
    (_FLAT, {"a": np.zeros((4, 2))}, r"a dict of \['a'\]; .*one array of shape \[2\]"),
    ({"a": (_FLAT,)}, {"a": (np.zeros((4, 1)),)}, "observation/a/_index_0 has the shape"),
    (specs.DiscreteArray(3), np.array([0, 1, 3, 0]), r"observation\[2\] is 3; .*0 to 2"),
    (specs.DiscreteArray(3), np.array([0.0, 0.5, 1, 0]), r"observation\[1\] is 0.5"),
    (_PICTURE, np.zeros((4, 4, 4, 3)), "dtype float64; .*pictures are uint8"),
  ],
)
def test_observations_that_the_environment_does_not_show_are_refused(spec, observation, message):
  with pytest.raises(DatasetError, match=f"some/file.npz: .*{message}"):
    datasets.conform(_dataset(_episode(observation)), _spec(spec))


def test_lazy_datasets_stay_lazy_and_equal():
  dataset = _dataset(_episode(_OBSERVATIONS), _episode(_OBSERVATIONS + 1))
  held, lazy = (datasets.conform(d, _spec(_FLAT)) for d in (dataset, _Lazy(dataset)))
  assert held.in_memory and not lazy.in_memory
  np.testing.assert_array_equal(held.lengths, lazy.lengths)
  assert held.nbytes == lazy.nbytes
  for a, b in zip(held, lazy):
    np.testing.assert_array_equal(a.action, b.action)
    np.testing.assert_array_equal(a.observation, b.observation)


def test_episodes_of_an_environment_conform_to_what_an_agent_saw(tmp_path):
  """Collects in the environment's own numbers and compares with what the agent acted on."""
  environment = environments.make_environment("gym:Pendulum-v1", seed=0, max_episode_steps=5)
  inner = environment.environment
  timestep = environment.reset()
  seen, acted, own_actions = [timestep.observation], [], []
  rng = np.random.default_rng(0)
  rewards = []
  while not timestep.last():
    action = rng.uniform(-1, 1, (1,)).astype(np.float32)
    timestep = environment.step(action)
    seen.append(timestep.observation)
    acted.append(action)
    own_actions.append(environment.action_mapping.to_environment(action))
    rewards.append(timestep.reward)
  assert isinstance(inner, dm_env.Environment)
  episode = datasets.Episode(
    np.stack(seen), np.stack(own_actions), np.stack(rewards), np.ones((5,), np.float32)
  )
  datasets.write_dataset(tmp_path / "a", "hdf5", [episode])
  conformed = datasets.conform(datasets.open_dataset(tmp_path / "a"), environment).read(0)
  np.testing.assert_array_equal(conformed.observation, seen)
  np.testing.assert_allclose(conformed.action, acted, atol=1e-6)
  assert np.abs(own_actions).max() > 1  # Pendulum's own actions reach 2.
