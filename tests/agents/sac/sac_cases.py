"""What SAC's tests share: small networks, batches of transitions, learners made by the builder."""

from acme import specs
from acme import types
from learner_probes import Log
from learner_probes import untuned
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import sac
from temper.agents.sac import networks as networks_lib
from temper.utils import squashed_gaussian

VARIANTS = ("value_network", "twin_target")
BATCH_SIZE = 4
SPEC = specs.EnvironmentSpec(
  observations=specs.Array((3,), np.float32),
  actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)


def make_config(variant, **options):
  """Makes the configuration of a tiny agent that learns fast."""
  return sac.SACConfig(
    **{
      "variant": variant,
      "batch_size": BATCH_SIZE,
      "policy_layer_sizes": (8,),
      "critic_layer_sizes": (8,),
      "policy_learning_rate": 1e-2,
      "critic_learning_rate": 1e-2,
      "warm_up_steps": 0,
      "min_replay_size": 8,
      "max_replay_size": 200,
      **options,
    }
  )


def make_sample(seed=0, batch_size=BATCH_SIZE, **replaced):
  """Makes a batch of transitions, the last of which ends an episode."""
  random = np.random.RandomState(seed)
  normal = lambda *shape: random.normal(size=(batch_size, *shape)).astype(np.float32)
  data = types.Transition(
    observation=normal(3),
    action=np.tanh(normal(2)),
    reward=normal(),
    discount=np.float32([1.0] * (batch_size - 1) + [0.0]),
    next_observation=normal(3),
    extras={"policy_version": np.zeros(batch_size, np.int32)},
  )
  info = reverb.SampleInfo(
    key=(100 * seed + np.arange(batch_size)).astype(np.uint64),
    probability=random.uniform(0.01, 0.1, size=batch_size),
    table_size=np.full(batch_size, 50, np.int64),
    priority=np.ones(batch_size),
    times_sampled=np.ones(batch_size, np.int32),
  )
  return reverb.ReplaySample(info=info, data=data._replace(**replaced))


def make_dataset(count, first=0, **options):
  """Makes a dataset of that many different batches."""
  samples = [make_sample(seed, **options) for seed in range(first, first + count)]
  return dataset_of(samples)


def dataset_of(samples):
  """Makes a dataset of batches."""
  stacked = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *samples)
  return tf.data.Dataset.from_tensor_slices(stacked).with_options(untuned())


def make_learner(config, dataset, *, networks=None, log=None, seed=0, **options):
  """Makes a learner as the agent does."""
  builder = sac.SACBuilder(config)
  return builder.make_learner(
    networks or builder.make_networks(SPEC, seed=seed),
    dataset,
    logger=log or Log(),
    environment_spec=SPEC,
    seed=seed,
    **options,
  )


def steps(learner, count):
  """Does that many steps; returns the metrics after each."""
  rows = []
  for _ in range(count):
    learner.step()
    rows.append(learner.metrics)
  return rows


def values(learner):
  """Returns the values of everything that a checkpoint holds, by name."""
  result = {}
  for name, item in learner.checkpointables().items():
    # An optimizer without moments has no variables, which Sonnet takes for an error.
    module = isinstance(item, snt.Module)
    for i, variable in enumerate(snt.allow_empty_variables(item).variables if module else [item]):
      result[f"{name}/{i}/{variable.name}"] = variable.numpy()
  return result


def moved(before, after):
  """Returns the names of the checkpoint's objects, any of whose variables differ."""
  return {name.split("/")[0] for name in before if not np.array_equal(before[name], after[name])}


class FixedNoisePolicy(networks_lib.PolicyNetwork):
  """Draws the same noise in every row and at every call, however the batch is shared out."""

  def __call__(self, observation):
    made = super().__call__(observation)

    class Given(squashed_gaussian.SquashedGaussian):
      def experimental_sample_and_log_prob(self, sample_shape=(), seed=None, **unused):
        noise = tf.constant([0.3, -0.8]) + tf.zeros_like(made.parameters["loc"])
        return self.sample_and_log_prob(noise)

    return Given(made.parameters["loc"], made.parameters["log_scale"], offset=made.offset)
