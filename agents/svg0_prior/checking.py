"""What SVG0 asks of the networks and the data that it is given, checked before they are used."""

from collections.abc import Callable, Mapping
from typing import Any, Optional

from acme import specs
import numpy as np
import reverb
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import distributions

# More than one, so that a network which adds up over the batch is noticed.
_BATCH_SIZE = 2
_DISTRIBUTION = "such as tfd.Independent(tfd.Normal(mean, scale), 1) for actions of rank 1"
_STEP_FIELDS = ("observation", "action", "reward", "discount", "start_of_episode", "extras")


def check_action_spec(action_spec: specs.BoundedArray) -> None:
  """Raises ValueError unless the action is one bounded array of floats."""
  if not isinstance(action_spec, specs.BoundedArray) or isinstance(
    action_spec, specs.DiscreteArray
  ):
    raise ValueError(
      f"The action spec is {action_spec!r}; the default networks need one BoundedArray of "
      "continuous actions. Wrap the environment with temper.utils.environments.wrap, or pass "
      "networks of your own."
    )
  bounds = (action_spec.minimum, action_spec.maximum)
  if not np.issubdtype(action_spec.dtype, np.floating) or not all(
    np.isfinite(b).all() for b in bounds
  ):
    raise ValueError(
      f"The action has dtype {action_spec.dtype} and bounds {bounds[0]} to {bounds[1]}; floats "
      "with finite bounds are needed. Wrap the environment with temper.utils.environments.wrap."
    )


def check_modules(networks: Mapping[str, Any]) -> None:
  """Checks that networks can be copied and trained apart from each other.

  Args:
    networks: modules by the name that a message gives them; the prior may be None.

  Raises:
    TypeError: if a network is no Sonnet module, such as a policy loaded from a SavedModel.
    ValueError: if the prior is the policy itself.
  """
  for name, network in networks.items():
    if not isinstance(network, snt.Module) and not (name == "prior_network" and network is None):
      raise TypeError(
        f"{name} is a {type(network).__name__}; a snt.Module is needed, since the agent copies it "
        "to make its target. Wrap a function with acme.tf.utils.to_sonnet_module; rebuild a saved "
        "policy's module and restore its checkpoint."
      )
  if networks["prior_network"] is networks["policy_network"]:
    raise ValueError(
      "prior_network is the same module as policy_network: their KL is always 0, and each would "
      "undo the other's training. Make two modules, for instance with make_network_with_prior."
    )


def check_outputs(
  environment_spec: specs.EnvironmentSpec,
  policy: snt.Module,
  critic: snt.Module,
  prior: Optional[snt.Module],
  needs_entropy: bool,
) -> None:
  """Calls each network on a batch of zeros and checks what it returns.

  TensorFlow's global generator is left as it was, except by a distribution whose `sample` takes no
  seed.

  Args:
    environment_spec: specs of observations and actions.
    policy: policy network; its variables exist, as those of the others.
    critic: critic network.
    prior: behaviour prior, if there is one.
    needs_entropy: whether the policy's analytic entropy will be asked for.

  Raises:
    ValueError: if an output lacks a method, or is not of the shape or dtype that is needed; names
      the network, what came and what is needed.
  """
  zeros = lambda spec: tf.zeros([_BATCH_SIZE, *spec.shape], spec.dtype)
  observation = tree.map_structure(zeros, environment_spec.observations)
  action = tree.map_structure(zeros, environment_spec.actions)
  distribution = policy(observation)
  _check_policy(distribution, environment_spec.actions)
  if needs_entropy:
    _check_analytic(
      "policy_network",
      "entropy()",
      lambda: distribution.entropy(),
      "Choose another entropy_estimator, or a distribution that knows its entropy",
    )
  if prior is not None:
    other = prior(observation)
    _check_analytic(
      "prior_network",
      "policy.kl_divergence(prior)",
      lambda: distribution.kl_divergence(other),
      "Give policy and prior one kind of distribution with a known KL",
    )
  value = critic(observation, action)
  floats = tf.is_tensor(value) and value.dtype.is_floating
  if not floats or value.shape.as_list() not in ([_BATCH_SIZE], [_BATCH_SIZE, 1]):
    raise ValueError(
      f"critic_network returned {_describe(value)} for a batch of {_BATCH_SIZE}; floats of shape "
      f"[{_BATCH_SIZE}] or [{_BATCH_SIZE}, 1] are needed. End it with snt.Linear(1); of a "
      "distribution over values, return the mean."
    )


def _check_policy(distribution: Any, action_spec: specs.BoundedArray) -> None:
  missing = [name for name in ("sample", "log_prob") if not hasattr(distribution, name)]
  if missing:
    raise ValueError(
      f"policy_network returned {_describe(distribution)}, which has no {' and no '.join(missing)};"
      f" a distribution over actions is needed, {_DISTRIBUTION}."
    )
  sample = distributions.sample(distribution, 1, tf.zeros([2], tf.int32))[0]
  wanted = [_BATCH_SIZE, *action_spec.shape]
  if sample.shape.as_list() != wanted or sample.dtype != tf.float32:
    raise ValueError(
      f"policy_network's sample is {_describe(sample)} for a batch of {_BATCH_SIZE}; float32 of "
      f"shape {wanted} is needed, as the action is {action_spec.shape}. Give the last layer the "
      "action's size and its inputs float32."
    )
  log_prob = distribution.log_prob(sample)
  if log_prob.shape.as_list() != [_BATCH_SIZE]:
    raise ValueError(
      f"policy_network's log_prob is {_describe(log_prob)} for a batch of {_BATCH_SIZE}; one "
      f"number per action, shape [{_BATCH_SIZE}], is needed. Make the action's axes one event, "
      f"{_DISTRIBUTION}."
    )


def _check_analytic(name: str, call: str, evaluate: Callable[[], tf.Tensor], mend: str) -> None:
  try:
    value = evaluate()
  except (AttributeError, NotImplementedError) as error:
    raise ValueError(f"{name}: {call} is needed, but there is none ({error}). {mend}.") from error
  if value.shape.as_list() != [_BATCH_SIZE]:
    raise ValueError(
      f"{name}: {call} is {_describe(value)} for a batch of {_BATCH_SIZE}; one number per "
      f"observation, shape [{_BATCH_SIZE}], is needed. Make the action's axes one event of both "
      f"distributions, {_DISTRIBUTION}."
    )


def _describe(value: Any) -> str:
  if tf.is_tensor(value):
    return f"a {value.dtype.name} tensor of shape {value.shape.as_list()}"
  return f"a {type(value).__name__}"


def check_dataset(dataset: Any) -> None:
  """Checks a dataset's elements, where its spec tells them before one is fetched.

  Args:
    dataset: a `tf.data.Dataset` or an iterator. Nothing is known of a Python iterator, and a
      distributed one has specs of replicas: the first sample of those is for `check_sample`.

  Raises:
    ValueError: as `check_sample`.
  """
  if isinstance(dataset, (tf.data.Dataset, tf.data.Iterator)):
    check_sample(dataset.element_spec)


def check_sample(sample: reverb.ReplaySample) -> None:
  """Checks that a batch, or the spec of one, is what SVG0 learns from.

  Args:
    sample: tensors or their specs, batch-major.

  Raises:
    ValueError: if a field or `log_prob` is missing, if there are not at least two steps, or if a
      shape or dtype is wrong; names the field, what came and how to get what is needed.
  """
  data: Any = getattr(sample, "data", None)
  missing = [name for name in _STEP_FIELDS if not hasattr(data, name)]
  if missing:
    raise ValueError(
      f"The dataset's elements are of type {type(sample).__name__}, without data.{missing[0]}; "
      "reverb.ReplaySample with data of acme.adders.reverb.Step is needed, such as "
      "temper.utils.replay.make_dataset gives."
    )
  if not isinstance(data.extras, Mapping) or "log_prob" not in data.extras:
    has = f"{sorted(data.extras)}" if isinstance(data.extras, Mapping) else f"{data.extras!r}"
    raise ValueError(
      f"The dataset's extras are {has}; a mapping with log_prob, the log density of each stored "
      "action under the policy that chose it, is needed. Let SVG0Actor collect the data: it "
      "writes log_prob."
    )
  reward = data.reward.shape
  if reward.rank != 2 or reward[1] is None or reward[1] < 2:
    raise ValueError(
      f"The dataset's rewards have shape {reward}; [B, T+1] is needed, T+1 at least 2 and known "
      "when the graph is made. Batch whole sequences, for instance of SVG0Config.sequence_length."
    )
  per_step = {name: getattr(data, name) for name in ("discount", "start_of_episode")}
  for name, value in {**per_step, "log_prob": data.extras["log_prob"]}.items():
    if not value.shape.is_compatible_with(reward):
      raise ValueError(
        f"The dataset's {name} has shape {value.shape}; that of the rewards, {reward}, is needed: "
        "one number per step."
      )
  if data.start_of_episode.dtype != tf.bool:
    raise ValueError(
      f"The dataset's start_of_episode has dtype {data.start_of_episode.dtype.name}; bool is "
      "needed: whether the step is the first of an episode, as Acme's adders write it."
    )
