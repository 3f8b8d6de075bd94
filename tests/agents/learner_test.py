import gc
import tracemalloc

from acme.adders import reverb as reverb_adders
from acme.utils import counting
import learner_probes
import numpy as np
import pytest
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import learner as learner_lib
from temper.agents import learner_steps
from temper.agents import target_copies
from temper.utils import optimizers

_BATCH_SIZE = 4


class Linear(snt.Module):
  def __init__(self, size=2):
    super().__init__()
    self.w = tf.Variable(tf.ones([size, 1]), name="w")

  def __call__(self, x):
    return x @ self.w


class Regression(learner_lib.Learner):
  """Fits the reward by a linear function of the observation, with some noise on its value."""

  def __init__(
    self, dataset, network=None, target=None, optimizer=None, prioritised=False, **options
  ):
    self.network = network or Linear()
    self.seeds = []
    self.last_phase, self.prioritised = options.get("num_phases", 1) - 1, prioritised
    options = {"target_update_period": 2, "logger": Log(), **options}
    super().__init__(
      dataset=dataset,
      networks={"critic": self.network},
      target_networks={"critic": target} if target is not None else {},
      optimizers={"critic": optimizer or optimizers.Adam(0.1)},
      **options,
    )

  def _update(self, sample, seed, phase):
    noise = tf.random.stateless_normal(tf.shape(sample.data.reward), seed)
    with tf.GradientTape() as tape:
      error = self.network(sample.data.observation)[:, 0] + 0.1 * noise - sample.data.reward
      loss = tf.reduce_mean(tf.square(error))
    norm = self._apply_gradients("critic", tape.gradient(loss, self.network.trainable_variables))
    metrics = {"critic_loss": loss, "critic_gradient_norm": norm, "noise": noise[0]}
    if phase == self.last_phase:
      metrics["late_loss"] = loss
    return learner_steps.Update(metrics, tf.abs(error) if self.prioritised else None)


class Log:
  def __init__(self):
    self.rows = []

  def write(self, values):
    self.rows.append(dict(values))

  def close(self):
    pass


def _sample(seed=0, batch_size=_BATCH_SIZE, **replaced):
  random = np.random.RandomState(seed)
  step = reverb_adders.Step(
    observation=random.normal(size=(batch_size, 2)).astype(np.float32),
    action=np.zeros((batch_size, 1), np.float32),
    reward=random.normal(size=batch_size).astype(np.float32),
    discount=np.ones(batch_size, np.float32),
    start_of_episode=np.zeros(batch_size, bool),
    extras={"log_prob": np.zeros(batch_size, np.float32)},
  )
  return reverb.ReplaySample(info=(), data=step._replace(**replaced))


def _dataset(count, first=0, **options):
  samples = [_sample(seed, **options) for seed in range(first, first + count)]
  stacked = tf.nest.map_structure(lambda *x: np.stack(x), *samples)
  return tf.data.Dataset.from_tensor_slices(stacked).with_options(learner_probes.untuned())


def test_a_step_counts_logs_and_moves_the_weights():
  log, counter = Log(), counting.Counter()
  learner = Regression(_dataset(3), logger=log, counter=counter)
  assert learner.metrics == {}
  before = learner.network.w.numpy()
  for _ in range(3):
    learner.step()
  assert learner.num_steps == 3
  assert counter.get_counts()["steps"] == 3
  assert [row["steps"] for row in log.rows] == [1, 2, 3]
  assert learner.metrics == log.rows[-1]
  assert {"critic_loss", "critic_gradient_norm", "steps", "walltime"} <= set(learner.metrics)
  assert np.all(before != learner.network.w.numpy())


@pytest.mark.parametrize("kind", ["dataset", "iterator", "generator"])
def test_every_kind_of_data_gives_the_same_steps_and_its_end_is_reported(kind):
  data = {
    "dataset": lambda: _dataset(2),
    "iterator": lambda: iter(_dataset(2)),
    "generator": lambda: (_sample(seed) for seed in range(2)),
  }[kind]()
  learner, reference = Regression(data), Regression(_dataset(2))
  for _ in range(2):
    learner.step()
    reference.step()
  np.testing.assert_allclose(learner.network.w, reference.network.w, rtol=1e-6)
  for _ in range(2):
    with pytest.raises(learner_lib.DataExhaustedError, match="no batch for learner step 3"):
      learner.step()
  assert learner.num_steps == 2


@pytest.mark.parametrize("target_update", target_copies.TargetUpdate)
def test_without_a_batch_nothing_changes_but_targets_copied_before_it(target_update):
  learner = Regression(
    _dataset(1), Linear(), Linear(), target_update_period=1, target_update=target_update
  )
  learner.step()
  learner.network.w.assign([[7.0], [7.0]])
  objects = learner.checkpointables()
  if target_update is target_copies.TargetUpdate.BEFORE_GRADIENTS:
    del objects["target_critic"]
  state = tf.nest.map_structure(_variables, objects)
  before = [v.numpy() for v in tf.nest.flatten(state)]
  with pytest.raises(learner_lib.DataExhaustedError):
    learner.step()
  for variable, value in zip(tf.nest.flatten(state), before):
    np.testing.assert_array_equal(variable.numpy(), value)


def test_something_that_is_no_data_is_refused():
  with pytest.raises(ValueError, match="dataset is a list"):
    Regression([1, 2])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_named(value):
  reward = np.array([1, value, 2, 3], np.float32)
  learner = Regression(iter([_sample(), _sample(1, reward=reward)]))
  learner.step()
  with pytest.raises(learner_lib.NonFiniteError) as error:
    learner.step()
  message = str(error.value)
  assert "critic_loss = " in message
  assert "In the batch, reward held NaN or infinity" in message
  assert "observation" not in message
  assert "the environment or the data" in message
  assert "learning rate" not in message
  assert learner.metrics["steps"] == 1  # The bad step was not logged.


def test_divergence_on_a_sound_batch_is_told_apart():
  learner = Regression(_dataset(1))
  learner.network.w.assign([[np.inf], [0.0]])
  with pytest.raises(
    learner_lib.NonFiniteError, match="Every tensor of the batch was finite.*lower learning rate"
  ):
    learner.step()


def test_a_network_that_its_loss_does_not_depend_on_is_named():
  class Ignored(Linear):
    def __call__(self, x):
      return tf.zeros_like(x[:, :1])

  with pytest.raises(ValueError, match="loss of the critic depends on none of its 1 trainable"):
    Regression(_dataset(1), Ignored()).step()


@pytest.mark.parametrize("name, value", [("target_update_period", 0), ("max_gradient_norm", -1.0)])
def test_a_bad_number_is_named(name, value):
  with pytest.raises(ValueError, match=f"{name} is {value}; it must be"):
    Regression(_dataset(1), **{name: value})


def test_extras_are_named_by_their_path():
  learner = Regression(
    iter([_sample(reward=np.full(4, np.nan, np.float32), extras={"log_prob": np.full(4, np.nan)})])
  )
  with pytest.raises(learner_lib.NonFiniteError, match="reward, extras/log_prob held NaN"):
    learner.step()


def test_targets_follow_at_the_period():
  network, target = Linear(), Linear()
  target.w.assign([[5.0], [5.0]])
  learner = Regression(_dataset(4), network, target, target_update_period=3)
  seen = []
  for _ in range(4):
    before = network.w.numpy()
    learner.step()
    seen.append((before, target.w.numpy()))
  for step in (0, 1, 2):
    np.testing.assert_array_equal(seen[step][1], seen[0][0])
  np.testing.assert_array_equal(seen[3][1], seen[3][0])


def test_targets_can_follow_after_the_gradients():
  network, target = Linear(), Linear()
  learner = Regression(
    _dataset(4),
    network,
    target,
    target_update_period=3,
    target_update=target_copies.TargetUpdate.AFTER_GRADIENTS,
  )
  seen = []
  for _ in range(4):
    learner.step()
    seen.append((network.w.numpy(), target.w.numpy()))
  for step in (0, 1, 2):
    np.testing.assert_array_equal(seen[step][1], seen[0][0])
  np.testing.assert_array_equal(seen[3][1], seen[3][0])


def test_targets_follow_the_count_of_a_checkpoint_restored_from_outside():
  learner = Regression(_dataset(2), Linear(), target := Linear(), target_update_period=2)
  learner.step()
  learner.checkpointables()["num_steps"].assign(4)
  target.w.assign([[5.0], [5.0]])
  before = learner.network.w.numpy()
  learner.step()
  np.testing.assert_array_equal(target.w, before)


def test_target_networks_must_pair():
  with pytest.raises(ValueError, match="has shape"):
    Regression(_dataset(1), Linear(2), Linear(3))


def test_gradients_are_clipped_and_their_norm_before_is_reported():
  log = Log()
  learner = Regression(
    _dataset(1), optimizer=snt.optimizers.SGD(1.0), max_gradient_norm=0.01, logger=log
  )
  before = learner.network.w.numpy()
  learner.step()
  assert log.rows[0]["critic_gradient_norm"] > 0.1
  assert np.linalg.norm(learner.network.w.numpy() - before) == pytest.approx(0.01, rel=1e-3)


def test_the_seed_decides_the_draws_of_each_step():
  def noise(seed):
    learner = Regression(_dataset(3), seed=seed)
    result = []
    for _ in range(3):
      learner.step()
      result.append(learner.metrics["noise"])
    return result

  assert noise(1) == noise(1)
  assert len(set(noise(1) + noise(2))) == 6


def test_variables_are_served_by_name():
  learner = Regression(_dataset(1))
  (weights,), (steps,) = learner.get_variables(["critic", "num_steps"])
  np.testing.assert_array_equal(weights, np.ones((2, 1)))
  assert steps == 0
  with pytest.raises(KeyError, match=r"\['actor'\].*\['critic', 'num_steps', 'served_at'\]"):
    learner.get_variables(["critic", "actor"])


def test_a_thousand_fetches_of_variables_keep_no_memory():
  learner = Regression(_dataset(1))
  tracemalloc.start()
  try:
    kept = []
    for _ in range(3):
      for _ in range(1000):
        learner.get_variables(["critic"])
      gc.collect()
      kept.append(tracemalloc.get_traced_memory()[0])
  finally:
    tracemalloc.stop()
  # The first thousand fill caches. Kept weights would be 100 bytes a fetch and more.
  assert kept[2] - kept[1] < 20_000


@pytest.mark.parametrize(
  "make_optimizer", [lambda: optimizers.Adam(0.1), lambda: snt.optimizers.Adam(0.1)]
)
def test_a_restored_learner_goes_on_bit_for_bit(tmp_path, make_optimizer):
  def make(dataset, directory=None):
    return Regression(
      dataset, Linear(), Linear(), make_optimizer(), directory=directory, counter=counting.Counter()
    )

  whole = make(_dataset(6))
  for _ in range(6):
    whole.step()
  first = make(_dataset(3), str(tmp_path))
  for _ in range(3):
    first.step()
  assert first.save_checkpoint().startswith(str(tmp_path))
  second = make(_dataset(3, first=3), str(tmp_path))
  assert second.num_steps == 3
  for _ in range(3):
    second.step()
  assert second.num_steps == 6
  assert second.metrics["steps"] == 6
  assert second.metrics["critic_loss"] == whole.metrics["critic_loss"]
  ours, theirs = (
    tf.nest.flatten(tf.nest.map_structure(_variables, x.checkpointables())) for x in (second, whole)
  )
  assert (
    len(ours) == len(theirs) == 1 + 1 + 1 + 3
  )  # num_steps, two networks, Adam's count and two moments.
  for mine, other in zip(ours, theirs):
    np.testing.assert_array_equal(mine.numpy(), other.numpy())


def _variables(trackable):
  return [trackable] if isinstance(trackable, tf.Variable) else list(trackable.variables)


def test_without_a_directory_nothing_is_saved(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  learner = Regression(_dataset(1))
  learner.step()
  assert learner.save_checkpoint() is None
  assert not list(tmp_path.iterdir())


# Several updates a step, turns, priorities.


def test_several_updates_a_step_equal_as_many_steps():
  one = Regression(_dataset(4), Linear(), Linear(), num_phases=2)
  logs = [Log(), Log()]
  counter = counting.Counter()
  several = Regression(
    _dataset(4),
    Linear(),
    target := Linear(),
    num_phases=2,
    updates_per_step=2,
    logger=logs[1],
    counter=counter,
  )
  for _ in range(4):
    one.step()
    logs[0].write(one.metrics)
  for _ in range(2):
    several.step()
  np.testing.assert_allclose(several.network.w, one.network.w, rtol=1e-6)
  assert several.num_steps == counter.get_counts()["steps"] == 4
  assert several.updates_per_step == 2 and one.updates_per_step == 1
  for name in ("critic_loss", "noise"):
    means = [np.mean([row[name] for row in logs[0].rows[i : i + 2]]) for i in (0, 2)]
    assert [row[name] for row in logs[1].rows] == pytest.approx(means, rel=1e-5)
  # What only the second turn tells is not a mean with nothing.
  told = [logs[0].rows[i]["late_loss"] for i in (1, 3)]
  assert [row["late_loss"] for row in logs[1].rows] == pytest.approx(told, rel=1e-5)
  # The target was copied before the third update.
  assert not np.array_equal(target.w, several.network.w) and not np.array_equal(
    target.w, [[1], [1]]
  )


def test_what_is_not_finite_in_the_last_of_several_batches_is_named():
  def data(bad):
    rewards = [np.full(4, np.nan if i == bad else 1.0, np.float32) for i in range(3)]
    return tf.data.Dataset.from_tensor_slices(
      tf.nest.map_structure(lambda *x: np.stack(x), *(_sample(reward=r) for r in rewards))
    ).with_options(learner_probes.untuned())

  with pytest.raises(learner_lib.NonFiniteError, match="In the batch, reward held"):
    Regression(data(2), updates_per_step=3, target_update_period=None).step()
  with pytest.raises(learner_lib.NonFiniteError, match="last batch was finite; the ones before"):
    Regression(data(0), updates_per_step=3, target_update_period=None).step()


def test_what_one_turn_tells_stays_until_it_is_told_anew():
  learner = Regression(_dataset(5), num_phases=3)
  rows = []
  for _ in range(5):
    learner.step()
    rows.append(learner.metrics)
  assert ["late_loss" in row for row in rows] == [False, False, True, True, True]
  assert rows[2]["late_loss"] == rows[2]["critic_loss"] == rows[3]["late_loss"]
  assert rows[3]["critic_loss"] != rows[3]["late_loss"]


def test_targets_that_would_be_copied_within_a_step_are_refused():
  with pytest.raises(
    ValueError, match="target_update_period is 3 and updates_per_step 2.*multiple"
  ):
    Regression(_dataset(1), Linear(), Linear(), target_update_period=3, updates_per_step=2)
  with pytest.raises(ValueError, match="updates_per_step is 0"):
    Regression(_dataset(1), updates_per_step=0)


class _Writer:
  max_priority = 7.0

  def __init__(self):
    self.written = []

  def write(self, keys, priorities):
    self.written.append((keys, priorities))


@pytest.mark.parametrize("at_once", [1, 2])
def test_priorities_are_written_with_their_keys(at_once):
  def with_keys(index, sample):
    keys = tf.cast(10 * index + tf.range(_BATCH_SIZE, dtype=tf.int64), tf.uint64)
    size = tf.ones([_BATCH_SIZE], tf.int64)
    info = reverb.SampleInfo(keys, tf.cast(size, tf.float64), size, size, size)
    return reverb.ReplaySample(info=info, data=sample.data)

  writer = _Writer()
  learner = Regression(
    _dataset(4).enumerate().map(with_keys),
    prioritised=True,
    priority_writer=writer,
    updates_per_step=at_once,
  )
  for _ in range(4 // at_once):
    learner.step()
  assert len(writer.written) == 4 // at_once
  keys, priorities = (np.concatenate(parts) for parts in zip(*writer.written))
  assert keys.dtype == np.uint64
  np.testing.assert_array_equal(keys, [10 * i + k for i in range(4) for k in range(_BATCH_SIZE)])
  assert len(np.unique(priorities)) == 16 and np.all(priorities > 0)
  losses = np.mean(priorities.reshape(4, -1) ** 2, axis=1)
  assert np.mean(losses[-at_once:]) == pytest.approx(learner.metrics["critic_loss"], rel=1e-5)
  assert learner.max_priority == 7.0 and Regression(_dataset(1)).max_priority == 1.0


def test_one_networks_gradient_can_be_clipped_alone():
  for limits, moved in (({"critic": 0.01}, 0.01), ({"policy": 0.01}, None)):
    learner = Regression(_dataset(1), optimizer=snt.optimizers.SGD(1.0), max_gradient_norm=limits)
    before = learner.network.w.numpy()
    learner.step()
    distance = np.linalg.norm(learner.network.w.numpy() - before)
    assert distance == pytest.approx(moved or learner.metrics["critic_gradient_norm"], rel=1e-3)


def test_other_modules_are_served_and_saved():
  module = Linear(3)
  learner = Regression(_dataset(1), modules={"extra": module}, target_update_period=None)
  (served,) = learner.get_variables(["extra"])
  np.testing.assert_array_equal(served[0], module.w)
  assert learner.checkpointables()["extra"] is module


# Several replicas.


def _two():
  return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _replicated(strategy, dataset, **options):
  with strategy.scope():
    network, optimizer = Linear(), optimizers.Adam(0.1)
  return Regression(dataset, network, optimizer=optimizer, strategy=strategy, **options)


def test_an_uneven_batch_is_refused():
  with pytest.raises(ValueError, match="A batch of 3 cannot be shared equally by 2 replicas"):
    _replicated(_two(), _dataset(1, batch_size=3))


@pytest.mark.parametrize(
  "make", [lambda: iter(_dataset(1)), lambda: iter([_sample()])], ids=["dataset", "list"]
)
def test_a_plain_iterator_cannot_feed_two_replicas(make):
  with pytest.raises(ValueError, match="cannot feed 2 replicas. Pass the tf.data.Dataset itself"):
    _replicated(_two(), make())


def test_an_iterator_that_the_strategy_made_is_taken():
  strategy = _two()
  learner = _replicated(strategy, iter(strategy.experimental_distribute_dataset(_dataset(1))))
  learner.step()
  assert learner.num_steps == 1
  assert learner.strategy is strategy


@pytest.mark.parametrize("outside", ["critic", "critic_optimizer"])
def test_what_was_made_outside_of_the_strategy_is_refused(outside):
  strategy = _two()
  with strategy.scope():
    network, optimizer = Linear(), optimizers.Adam(0.1)
  if outside == "critic":
    network = Linear()
  else:
    optimizer = optimizers.Adam(0.1)
  with pytest.raises(ValueError, match=f"of {outside} was not made under the strategy"):
    Regression(_dataset(1), network, optimizer=optimizer, strategy=strategy)


def test_an_optimizer_without_variables_is_fine_under_a_strategy():
  strategy = snt.distribute.Replicator(["CPU:0", "CPU:1"])
  with strategy.scope():
    network = Linear()
  learner = Regression(_dataset(1), network, optimizer=snt.optimizers.SGD(0.1), strategy=strategy)
  learner.step()
  assert np.all(learner.network.w.numpy() != 1)


def test_what_is_not_finite_on_one_replica_alone_is_named():
  reward = np.array([0, 0, 0, np.nan], np.float32)  # The second replica has it.
  stacked = tf.nest.map_structure(lambda x: x[None], _sample(reward=reward))
  learner = _replicated(_two(), tf.data.Dataset.from_tensor_slices(stacked))
  with pytest.raises(learner_lib.NonFiniteError, match="In the batch, reward held"):
    learner.step()


def test_the_strategy_of_the_scope_is_the_default():
  strategy = tf.distribute.OneDeviceStrategy("CPU:0")
  with strategy.scope():
    learner = Regression(_dataset(1), Linear(), optimizer=optimizers.Adam(0.1))
  learner.step()
  assert learner.strategy is strategy
