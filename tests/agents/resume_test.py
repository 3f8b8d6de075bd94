"""A learner that is interrupted anywhere and resumed learns bit for bit as if it never had been."""

from acme import specs
from acme import types
from acme.adders import reverb as reverb_adders
from acme.utils import counting
from learner_probes import Log
import numpy as np
import pytest
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import crr
from temper.agents import sac
from temper.agents import svg0_prior
from temper.utils import checkpointing
from temper.utils import prioritised_replay
from temper.utils import temperature_config

_NUM_STEPS = 200
_INTERRUPTIONS = (199, 100, 7, 1, 0)
_NUM_BATCHES = 23  # Prime, so that no period of the learner's meets the same batch each time.
_BATCH_SIZE, _LENGTH = 3, 4

_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((3,), np.float32),
  actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)
_SIZES = {"policy_layer_sizes": (6,), "critic_layer_sizes": (6,), "batch_size": _BATCH_SIZE}
_RATES = {"policy_learning_rate": 1e-2, "critic_learning_rate": 1e-2}
_GRADIENT = temperature_config.TemperatureConfig("gradient", learning_rate=1e-2)
_THREE_STAGE = temperature_config.TemperatureConfig("three_stage", average_window=5)
# A target that is met and left within 200 steps.
_SCHEDULED = temperature_config.TemperatureConfig(
  "scheduled", average_window=3, target_schedule=((0, 1.0), (60, -1.0), (150, 2.0))
)
_PRIORITISED = prioritised_replay.PrioritisedReplay(anneal_steps=150)


def _sac(variant, **options):
  config = sac.SACConfig(variant=variant, **_SIZES, **_RATES, **options)
  return sac.SACBuilder(config), _transitions


def _svg0(**options):
  config = svg0_prior.SVG0Config(
    **_SIZES,
    **_RATES,
    prior_layer_sizes=(4,),
    prior_learning_rate=1e-2,
    use_prior=True,
    sequence_length=_LENGTH,
    num_action_samples=3,
    target_update_period=7,
    **options,
  )
  return svg0_prior.SVG0Builder(config), lambda seed: _sequences(seed, _LENGTH + 1)


def _crr(**options):
  config = crr.CRRConfig(
    **_SIZES,
    **_RATES,
    lstm_size=5,
    sequence_length=_LENGTH,
    burn_in_length=1,
    target_update_period=7,
    num_atoms=5,
    vmin=-3.0,
    vmax=3.0,
    **options,
  )
  return crr.CRRBuilder(config), lambda seed: _sequences(seed, _LENGTH + 1)


_CASES = {
  "svg0": lambda: _svg0(max_gradient_norm=1.0),
  "svg0, three stages, prioritised": lambda: _svg0(
    entropy_estimator="pathwise", temperature=_THREE_STAGE, prioritised_replay=_PRIORITISED
  ),
  "crr, recurrent, gradient": lambda: _crr(temperature=_GRADIENT),
  "sac, twin target, gradient, prioritised": lambda: _sac(
    "twin_target",
    temperature=_GRADIENT,
    policy_update_period=3,
    learning_rate_decay_period=150,
    prioritised_replay=_PRIORITISED,
  ),
  "sac, twin target, scheduled": lambda: _sac("twin_target", temperature=_SCHEDULED),
  "sac, value network, gradient": lambda: _sac("value_network", temperature=_GRADIENT),
  "sac, value network, three stages": lambda: _sac(
    "value_network",
    temperature=_THREE_STAGE,
    policy_update_period=2,
    learning_rate_decay_period=150,
  ),
}


def _info(seed):
  random = np.random.RandomState(seed)
  return reverb.SampleInfo(
    key=(100 * seed + np.arange(_BATCH_SIZE)).astype(np.uint64),
    probability=random.uniform(0.01, 0.1, size=_BATCH_SIZE),
    table_size=np.full(_BATCH_SIZE, 50, np.int64),
    priority=np.ones(_BATCH_SIZE),
    times_sampled=np.ones(_BATCH_SIZE, np.int32),
  )


def _transitions(seed):
  random = np.random.RandomState(seed)
  normal = lambda *shape: random.normal(size=(_BATCH_SIZE, *shape)).astype(np.float32)
  data = types.Transition(
    observation=normal(3),
    action=np.tanh(normal(2)),
    reward=normal(),
    discount=np.float32([1.0] * (_BATCH_SIZE - 1) + [0.0]),
    next_observation=normal(3),
    extras={"policy_version": np.zeros(_BATCH_SIZE, np.int32)},
  )
  return reverb.ReplaySample(info=_info(seed), data=data)


def _sequences(seed, length):
  random = np.random.RandomState(seed)
  normal = lambda *shape: random.normal(size=(_BATCH_SIZE, length, *shape)).astype(np.float32)
  data = reverb_adders.Step(
    observation=normal(3),
    action=np.tanh(normal(2)),
    reward=normal(),
    discount=np.ones((_BATCH_SIZE, length), np.float32),
    start_of_episode=np.zeros((_BATCH_SIZE, length), bool),
    extras={"log_prob": normal() - 2.0},
  )
  return reverb.ReplaySample(info=_info(seed), data=data)


class _Batches:
  """An endless iterator over a few batches, which can be put to any learner step."""

  def __init__(self, make_batch):
    self._batches = [make_batch(seed) for seed in range(_NUM_BATCHES)]
    self.step = 0

  def __iter__(self):
    return self

  def __next__(self):
    self.step += 1
    return self._batches[(self.step - 1) % _NUM_BATCHES]


class _Client:
  """A replay server that takes all priorities."""

  server_address = "nowhere"

  def mutate_priorities(self, table, updates):
    pass


def _make(case, seed):
  """Makes a learner with the counter, batches and rows of its log."""
  builder, make_batch = _CASES[case]()
  batches, log, counter = _Batches(make_batch), Log(), counting.Counter()
  prioritised = getattr(builder.config, "prioritised_replay", None) is not None
  learner = builder.make_learner(
    builder.make_networks(_SPEC, seed=seed),
    batches,
    counter,
    log,
    environment_spec=_SPEC,
    replay_client=_Client() if prioritised else None,
    seed=1,
  )
  return learner, batches, log


def _values(learner):
  """Returns the values of all variables of the checkpoint by name."""
  result = {}
  for name, item in learner.checkpointables().items():
    variables = [item] if isinstance(item, tf.Variable) else None
    for i, variable in enumerate(variables or snt.allow_empty_variables(item).variables):
      result[f"{name}/{i}/{variable.name}"] = variable.numpy()
  return result


@pytest.fixture(name="runs", scope="module", params=_CASES)
def _runs(request, tmp_path_factory):
  """An uninterrupted run with the checkpoints that it left on its way, and a learner to resume.

  Its seed of the networks is another, and it has done steps before, so that whatever is not
  restored shows.
  """
  directory = tmp_path_factory.mktemp("resume")
  checkpointer = checkpointing.Checkpointer(directory, keep=len(_INTERRUPTIONS))
  learner, _, log = _make(request.param, seed=1)
  paths, metrics = {}, []
  for step in range(_NUM_STEPS):
    if step in _INTERRUPTIONS:
      paths[step] = checkpointer.save(step, learner.checkpointables(), learner.state())
    learner.step()
    metrics.append(log.rows[-1])
  return checkpointer, paths, metrics, learner, _make(request.param, seed=2)


_TIMES = ("walltime", "steps")


@pytest.mark.parametrize("interrupted", _INTERRUPTIONS)
def test_a_resumed_learner_ends_bit_for_bit_where_an_uninterrupted_one_does(runs, interrupted):
  checkpointer, paths, metrics, whole, (resumed, batches, log) = runs
  state = checkpointer.restore(paths[interrupted], resumed.checkpointables())
  resumed.load_state(state)
  batches.step = interrupted
  for step in range(interrupted, _NUM_STEPS):
    resumed.step()
    ours, theirs = log.rows[-1], metrics[step]
    for name in set(theirs) & set(ours) - set(_TIMES):
      # What a delayed policy told last is not in a checkpoint; it is told anew.
      if step >= interrupted + 3:
        assert ours[name] == theirs[name], f"{name} at step {step}"
  assert resumed.num_steps == whole.num_steps == _NUM_STEPS
  ours, theirs = _values(resumed), _values(whole)
  assert ours.keys() == theirs.keys()
  for name, value in theirs.items():
    np.testing.assert_array_equal(ours[name], value, err_msg=name)
  assert resumed.max_priority == whole.max_priority
