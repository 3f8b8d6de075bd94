"""What SVG0's learner makes of a batch's masks and of extreme numbers; resuming."""

import hypothesis
from hypothesis import strategies as st
import learner_probes
import numpy as np
import pytest
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents.svg0_prior import learning
from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers


def _own_networks(prior=True):
  return svg0_cases.make_networks(networks_lib.make_network_with_prior, prior)


class Feed:
  """An iterator of whatever sample it holds, so that one traced learner serves many batches."""

  def __init__(self, sample):
    self.sample = sample

  def __iter__(self):
    return self

  def __next__(self):
    return self.sample


class Frozen:
  """A learner whose optimizers change nothing, and what it computed."""

  def __init__(self, networks, sample, **options):
    self._feed, self._log, self._made = Feed(sample), learner_probes.Log(), []

    def make():
      self._made.append(learner_probes.RecordingOptimizer(snt.optimizers.SGD(0.0)))
      return self._made[-1]

    self._learner = svg0_cases.make_learner(
      networks, self._feed, optimizer=make, log=self._log, **options
    )

  def __call__(self, sample=None):
    """Returns losses and gradients of a batch."""
    self._feed.sample = self._feed.sample if sample is None else sample
    self._learner.step()
    losses = {name: value for name, value in self._log.rows[-1].items() if name.endswith("_loss")}
    return losses, [update.numpy() for optimizer in self._made for update in optimizer.updates]


def _replace(sample, **changes):
  """Replaces fields of a sample; `log_prob` stands for that of the extras."""
  if "log_prob" in changes:
    changes["extras"] = {"log_prob": changes.pop("log_prob")}
  return sample._replace(data=sample.data._replace(**changes))


def _assert_same(ours, theirs, factor=1.0):
  for name, value in theirs[0].items():
    assert ours[0][name] == pytest.approx(factor * value, rel=1e-5, abs=1e-7), name
  for mine, other in zip(ours[1], theirs[1]):
    np.testing.assert_allclose(mine, factor * other, rtol=1e-4, atol=1e-6)


# Masks.


@pytest.fixture(name="frozen", scope="module")
def _frozen():
  return Frozen(
    _own_networks(), svg0_cases.make_sample(), distillation_cost=0.1, entropy_regularizer_cost=0.2
  )


def test_masked_entries_change_nothing(frozen):
  sample = svg0_cases.make_sample()
  data = sample.data
  action, reward, discount, log_prob = (
    x.copy() for x in (data.action, data.reward, data.discount, data.extras["log_prob"])
  )
  for row, last in ((1, 2), (2, 1)):
    action[row, last], reward[row, last], discount[row, last], log_prob[row, last] = (
      0.7,
      50.0,
      1.0,
      -9e3,
    )
  perturbed = _replace(sample, action=action, reward=reward, discount=discount, log_prob=log_prob)
  _assert_same(frozen(perturbed), frozen(sample))


def test_the_observation_at_a_termination_is_never_seen_but_at_a_truncation_bootstraps(frozen):
  sample = svg0_cases.make_sample()
  results = {}
  for row, last in ((1, 2), (2, 1)):
    observation = {name: x.copy() for name, x in sample.data.observation.items()}
    observation["arm"][row, last] += 1.0
    results[row] = frozen(_replace(sample, observation=observation))[0]["critic_loss"]
  plain = frozen(sample)[0]["critic_loss"]
  assert results[1] == pytest.approx(plain, rel=1e-6)
  assert results[2] != pytest.approx(plain, rel=1e-4)


def test_masked_entries_count_in_the_denominator(frozen):
  sample = svg0_cases.make_sample()
  start = sample.data.start_of_episode.copy()
  start[2:] = True
  half = _replace(sample, start_of_episode=start)

  def swap(x):
    return np.concatenate([x[:2], x[:2]])

  twice = sample._replace(data=tf.nest.map_structure(swap, sample.data))
  # The two first rows, once beside two masked rows and once beside themselves.
  _assert_same(frozen(half), frozen(twice), 0.5)


def test_a_batch_of_nothing_but_episode_starts_gives_zero(frozen):
  sample = svg0_cases.make_sample()
  losses, gradients = frozen(
    _replace(sample, start_of_episode=np.ones_like(sample.data.start_of_episode))
  )
  assert set(losses.values()) == {0.0}
  assert not any(gradient.any() for gradient in gradients)


_SHAPE = (svg0_cases.BATCH_SIZE, svg0_cases.NUM_PAIRS + 1)
_SIZE = _SHAPE[0] * _SHAPE[1]


def _arrays(elements, dtype):
  return st.lists(elements, min_size=_SIZE, max_size=_SIZE).map(
    lambda x: np.reshape(np.array(x, dtype), _SHAPE)
  )


@hypothesis.settings(max_examples=30, deadline=None, derandomize=True)
@hypothesis.given(
  log_prob=_arrays(st.floats(-1e4, 1e4, width=32), np.float32),
  reward=_arrays(st.floats(-1e6, 1e6, width=32), np.float32),
  discount=_arrays(st.sampled_from([0.0, 1.0]), np.float32),
  start=_arrays(st.booleans(), bool),
  scale=st.sampled_from([1.0, 1e-6, 1e6]),
)
@hypothesis.example(
  log_prob=np.full(_SHAPE, -1e4, np.float32),
  reward=np.full(_SHAPE, 1e6, np.float32),
  discount=np.ones(_SHAPE, np.float32),
  start=np.ones(_SHAPE, bool),
  scale=1e6,
)
def test_losses_and_gradients_stay_finite(frozen, log_prob, reward, discount, start, scale):
  sample = svg0_cases.make_sample()
  observation = {name: np.float32(scale) * x for name, x in sample.data.observation.items()}
  batch = _replace(
    sample,
    observation=observation,
    log_prob=log_prob,
    reward=reward,
    discount=discount,
    start_of_episode=start,
  )
  losses, gradients = frozen(batch)
  assert np.isfinite(list(losses.values())).all()
  assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_learner_restored_from_its_directory_goes_on_bit_for_bit(tmp_path):
  def run(networks, steps, skip=0, **options):
    data = svg0_cases.make_dataset(6).skip(skip)

    def adam():
      return optimizers.Adam(1e-2)

    learner = svg0_cases.make_learner(networks, data, _Checkpointed, adam, **options)
    for _ in range(steps):
      learner.step()
    return learner

  start = _own_networks()
  whole, first, second = (svg0_cases.copy_networks(start) for _ in range(3))
  run(whole, 5)
  run(first, 3, directory=str(tmp_path)).save_checkpoint()
  assert run(second, 2, skip=3, directory=str(tmp_path)).num_steps == 5
  ours, theirs = svg0_cases.values(second), svg0_cases.values(whole)
  for name, value in theirs.items():
    np.testing.assert_array_equal(ours[name], value, err_msg=name)


def _Checkpointed(**options):  # noqa: N802 Stands for a class.
  return learning.SVG0Learner(**{**options, "checkpoint": True})
