"""Four consecutive updates of each variant against vectors from the originals' mathematics."""

import pathlib

from acme import types
import numpy as np
import pytest
import reverb
import tensorflow as tf

from temper.agents.sac import learning
from temper.agents.sac import networks as networks_lib
from temper.utils import optimizers
from temper.utils import prioritised_replay
from temper.utils import squashed_gaussian
from temper.utils import temperature
from temper.utils.temperature_config import TemperatureConfig

_FOLDER = pathlib.Path(__file__).parent / "golden"
_PRECISION = [(tf.float64, 1e-9), (tf.float32, 1e-4)]
_SIZES = (8, 8)


class NoisyPolicy(networks_lib.PolicyNetwork):
  """Draws the noise that it is given, in the order in which an update calls the policy."""

  def __init__(self, **options):
    super().__init__(lambda x: x, _SIZES, (2,), **options)
    self.noises = []

  def __call__(self, observation):
    made = super().__call__(observation)
    noise = self.noises.pop(0)

    class Given(squashed_gaussian.SquashedGaussian):
      def experimental_sample_and_log_prob(self, sample_shape=(), seed=None, **unused):
        return self.sample_and_log_prob(noise)

    return Given(*(made.parameters[key] for key in ("loc", "log_scale")), offset=made.offset)


def _layers(body):
  return {"l1": body._hidden[0], "l2": body._hidden[1], "out0": body._output}


def _load(data, moment, name, body, dtype):
  for layer, module in _layers(body).items():
    for part in ("w", "b"):
      value = data[f"{moment}/{name}/{layer}.{part}"]
      if name == "policy" and layer == "out0":
        value = np.concatenate([value, data[f"{moment}/policy/out1.{part}"]], axis=-1)
      yield getattr(module, part), tf.cast(value, dtype)


def _bodies(networks, target):
  bodies = {"policy": networks.policy_network._body}
  bodies.update(zip(("q1", "q2"), networks.critic_network._bodies))
  if networks.value_network is None:
    bodies.update(zip(("target_q1", "target_q2"), target._bodies))
  else:
    bodies.update({"value": networks.value_network._body, "target_value": target._body})
  return bodies


class Replica:
  """The networks of a reference, with its weights, and learners that share them."""

  def __init__(self, name, dtype, *, temperature_config, learning_rate, **policy_options):
    self.data, self.dtype = np.load(_FOLDER / name), dtype
    with_value = name == "sac_value_network.npz"
    identity = lambda x: x
    self.policy = NoisyPolicy(seed=0, **policy_options)
    self.networks = networks_lib.SACNetworks(
      self.policy,
      networks_lib.TwinCritic([identity], _SIZES, seed=0),
      networks_lib.ValueNetwork(identity, _SIZES, seed=0) if with_value else None,
    )
    observation, action = (tf.zeros([1, size], dtype) for size in (3, 2))
    self.policy.noises = [tf.zeros([1, 2], dtype)]
    self.policy(observation)
    self.networks.critic_network(observation, action)
    target = self.networks.critic_network
    if with_value:
      self.networks.value_network(observation)
      target = self.networks.value_network
    self.target = networks_lib.target_of(target)
    self.bodies = _bodies(self.networks, self.target)
    for key, body in self.bodies.items():
      for variable, value in _load(self.data, "before", key, body, dtype):
        variable.assign(value)
    self.temperature = temperature.make_temperature(temperature_config, _action_spec(), dtype=dtype)
    names = ["policy", "critic"] + ["value"] * with_value
    self.optimizers = {f"{n}_optimizer": optimizers.Adam(learning_rate) for n in names}

  def update(self, index, phase=0, weights=None, **options):
    """Does update number `index` with a learner of these options; returns its metrics."""
    learner = learning.SACLearner(
      self.networks,
      self.target,
      iter(()),
      self.temperature,
      **self.optimizers,
      **options,
    )
    if weights is not None:
      learner._importance_weights = lambda *_: tf.cast(weights, self.dtype)
    cast = lambda key: tf.cast(self.data[key][index], self.dtype)
    self.policy.noises = [cast("noise")]
    if self.networks.value_network is None:
      self.policy.noises.insert(0, cast("next_noise"))
    data = types.Transition(
      observation=cast("observation"),
      action=cast("action"),
      reward=cast("reward"),
      discount=1.0 - cast("terminal"),
      next_observation=cast("next_observation"),
    )
    sample = reverb.ReplaySample(info=None, data=data)
    step = tf.function(
      lambda: learner._update(sample, tf.zeros([2], tf.int32), phase), autograph=False
    )
    update = step()
    self.td_errors = update.priorities
    return {key: value.numpy() for key, value in update.metrics.items()}

  def reference(self, index):
    return dict(zip(self.data["loss_names"], self.data["losses"][index]))

  def check_weights(self, tolerance):
    for key, body in self.bodies.items():
      for variable, value in _load(self.data, "after", key, body, self.dtype):
        np.testing.assert_allclose(
          variable.numpy(), value, rtol=tolerance, atol=tolerance, err_msg=key
        )


def _action_spec():
  from acme import specs

  return specs.BoundedArray((2,), np.float32, -1.0, 1.0)


@pytest.mark.parametrize("dtype,tolerance", _PRECISION, ids=["float64", "float32"])
def test_four_updates_with_a_value_network(dtype, tolerance):
  config = TemperatureConfig(initial_alpha=1.0, learning_rate=3e-4, loss="alpha")
  replica = Replica(
    "sac_value_network.npz",
    dtype,
    temperature_config=config,
    learning_rate=3e-4,
    squash_mean=True,
    density_offset=1e-7,
  )
  for index in range(4):
    metrics = replica.update(index, index % 2, policy_update_period=2)
    expected = replica.reference(index)
    near = lambda value, wanted: np.testing.assert_allclose(value, wanted, rtol=tolerance)
    near(metrics["temperature_loss"], expected["alpha_loss"])
    near(metrics["critic_loss"], expected["q1_loss"] + expected["q2_loss"])
    near(metrics["value_loss"], expected["value_loss"])
    near(metrics["alpha"], expected["alpha_after"])
    near(-metrics["entropy"], expected["mean_log_prob"])
    assert ("policy_loss" in metrics) == (index % 2 == 1)
    if index % 2:
      near(metrics["policy_loss"], expected["policy_loss"])
  replica.check_weights(tolerance)


@pytest.mark.parametrize("dtype,tolerance", _PRECISION, ids=["float64", "float32"])
def test_four_updates_with_twin_targets_weights_and_clipping(dtype, tolerance):
  config = TemperatureConfig(initial_alpha=0.2, learning_rate=1e-3, loss="log_alpha")
  replica = Replica("sac_twin_target.npz", dtype, temperature_config=config, learning_rate=1e-3)
  prioritised = prioritised_replay.PrioritisedReplay(min_priority=1e-12)
  for index in range(4):
    options = {}
    if index >= 2:
      options.update(
        weights=replica.data["importance_weights"][index], prioritised_replay=prioritised
      )
    if index == 3:
      options["max_critic_gradient_norm"] = 0.2
    metrics = replica.update(index, **options)
    expected = replica.reference(index)
    near = lambda value, wanted: np.testing.assert_allclose(value, wanted, rtol=tolerance)
    near(metrics["critic_loss"], expected["q_loss"])
    near(metrics["policy_loss"], expected["policy_loss"])
    near(metrics["temperature_loss"], expected["alpha_loss"])
    near(metrics["q_mean"], expected["mean_q1"])
    near(metrics["alpha"], expected["alpha_after"])
    near(-metrics["entropy"], expected["mean_log_prob"])
    if index == 3:
      near(metrics["critic_gradient_norm"], expected["critic_grad_norm_before_clip"])
    if index >= 2:
      wanted = np.abs(replica.data["td_errors"][index])
      np.testing.assert_allclose(replica.td_errors, wanted, rtol=tolerance, atol=tolerance)
  replica.check_weights(tolerance)
