"""Policies that propose several actions and choose one by the critic's values."""

from typing import Any, Callable, NamedTuple, Optional

from acme import types
from acme.tf.networks.recurrence import PolicyCriticRNNState
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents.boltzmann import sampling
from temper.utils import checks
from temper.utils import distributions
from temper.utils import noise

# From the chosen index `[B]` to what belongs to it.
_OfChosen = Callable[[tf.Tensor], types.NestedTensor]


class Draw(NamedTuple):
  """An action for each observation, and what is known of it.

  Attributes:
    action: nest of `[B, *A]`, as the policy proposed it.
    log_weight: `[B]`, log of the probability with which it was chosen among the N proposals.
    distribution: the policy's distribution for the B observations; None if the policy returns
      actions.
    next_state: policy and critic states after the chosen action.
  """

  action: types.NestedTensor
  log_weight: tf.Tensor
  distribution: Any
  next_state: PolicyCriticRNNState


def is_recurrent(network: Any) -> bool:
  """Whether a network takes a state as its last argument and returns the next one with its output.

  Such a network has a method `initial_state`, as `snt.RNNCore` has.
  """
  return callable(getattr(network, "initial_state", None))


def step(
  network: Any, inputs: tuple[Any, ...], state: types.NestedTensor
) -> tuple[Any, types.NestedTensor]:
  """Calls a recurrent or a feed-forward network; returns its output and its next state."""
  return network(*inputs, state) if is_recurrent(network) else (network(*inputs), ())


def initial_state(network: Any, batch_size: int) -> types.NestedTensor:
  """Returns the initial state `[B, ...]` of a network; the empty one if it is feed-forward."""
  return network.initial_state(batch_size) if is_recurrent(network) else ()


class BoltzmannSampler(snt.Module):
  """Draws N actions of a policy and chooses one with probability `softmax(Q / beta)` over the N.

  Each network may be recurrent or not, see `is_recurrent`.

  - A policy that returns a distribution is evaluated once per observation, and drawn from N times.
    One that returns actions, such as one that ends in a sampling head, is evaluated N times; its
    draws then do not depend on the seed given here.
  - A critic maps observations and actions, and its state, to values `[N·B]` or `[N·B, 1]`, or to a
    distribution over values with `mean`. One with a method `given` is asked for it, so that what
    does not depend on the actions is computed once: it takes B observations, and states if it is
    recurrent, and returns a function that maps actions `[N, B, *A]` to what the critic itself
    returns for N·B rows, all first proposals before all second ones.
  """

  def __init__(
    self,
    policy_network: snt.Module,
    critic_network: snt.Module,
    beta: Optional[sampling.Beta] = sampling.DEFAULT_BETA,
    num_action_samples: int = 16,
    *,
    temperature_beta: Optional[sampling.Beta] = None,
    action_spec: Optional[types.NestedSpec] = None,
    name: str = "boltzmann_sampler",
  ):
    """Initialises the sampler.

    Args:
      policy_network: maps a batch of observations to a distribution over actions, or to actions.
      critic_network: maps batches of observations and of actions to values.
      beta: temperature; 0 is the greedy choice.
      num_action_samples: N, at least 1.
      temperature_beta: another name of `beta`.
      action_spec: if its arrays are bounded, the critic sees the proposals clipped to them. The
        action that is returned is not clipped, so that its density is the policy's.
      name: module name.

    Raises:
      TypeError: if the temperature is no number and no scalar variable.
      ValueError: if both names of the temperature are given, it is negative or NaN, or N is not a
        positive integer.
    """
    super().__init__(name=name)
    checks.integer("num_action_samples", num_action_samples, minimum=1)
    self._policy = policy_network
    self._critic = critic_network
    self._beta = sampling.resolve_beta(beta, temperature_beta)
    self._num_samples = int(num_action_samples)
    self._clip = sampling.make_clipper(action_spec)
    # Known after the first call.
    self._policy_gives_distributions = False

  def initial_state(self, batch_size: int) -> PolicyCriticRNNState:
    """Returns the initial states of policy and critic; a feed-forward network's is empty."""
    return PolicyCriticRNNState(
      initial_state(self._policy, batch_size), initial_state(self._critic, batch_size)
    )

  def __call__(
    self,
    observation: types.NestedTensor,
    prev_state: PolicyCriticRNNState,
    seed: Optional[distributions.Randomness] = None,
  ) -> Draw:
    """Draws an action for each observation.

    Args:
      observation: nest of `[B, ...]`.
      prev_state: states of policy and critic, `[B, ...]`.
      seed: int32 `[2]`, equal seeds give equal draws; or noise, with `normal` `[N, B, *A]` and
        `choice` `[B]`. None takes TensorFlow's global generator.

    Returns:
      The actions and what is known of them.

    Raises:
      ValueError: if the critic's values are not one per action.
      InvalidArgumentError: if one is NaN or infinite, or a variable temperature is negative or NaN.
    """
    if not isinstance(seed, noise.Noise):
      seed = sampling.fresh_seed() if seed is None else tf.convert_to_tensor(seed, tf.int32)
    actions, distribution, policy_state = self._propose(observation, prev_state.policy, seed)
    merged = sampling.merge(actions)
    values, critic_state = self._evaluate(observation, actions, merged, prev_state.critic)
    index, log_weight = sampling.choose(values, self._beta, seed)
    return Draw(
      sampling.take(merged, index),
      log_weight,
      distribution,
      PolicyCriticRNNState(policy_state(index), critic_state(index)),
    )

  def _propose(
    self,
    observation: types.NestedTensor,
    state: types.NestedTensor,
    seed: distributions.Randomness,
  ) -> tuple[types.NestedTensor, Any, _OfChosen]:
    """Returns actions `[N, B, *A]`, their distribution if known, and the policy's next state."""
    count = self._num_samples
    if not self._policy_gives_distributions:
      tiled, tiled_state = sampling.tile((observation, state), count)
      output, states = step(self._policy, (tiled,), tiled_state)
      # What was computed in vain the first time is not even run in a compiled function.
      self._policy_gives_distributions = hasattr(output, "sample")
      if not self._policy_gives_distributions:
        actions = tree.map_structure(lambda x: sampling.split(x, count), output)
        return actions, None, lambda index: sampling.take(states, index)
    distribution, next_state = step(self._policy, (observation,), state)
    actions = distributions.sample(distribution, count, seed)
    return actions, distribution, lambda index: next_state

  def _evaluate(
    self,
    observation: types.NestedTensor,
    actions: types.NestedTensor,
    merged: types.NestedTensor,
    state: types.NestedTensor,
  ) -> tuple[tf.Tensor, _OfChosen]:
    """Returns the values `[N, B]` of actions `[N, B, *A]`, and the critic's next state."""
    first = tree.flatten(actions)[0]
    shape = [self._num_samples, first.shape[1] or tf.shape(first)[1]]
    if hasattr(self._critic, "given"):
      given = (observation, state) if is_recurrent(self._critic) else (observation,)
      result = self._critic.given(*given)(self._clip(actions))
      output, states = result if is_recurrent(self._critic) else (result, ())
    else:
      tiled, tiled_state = sampling.tile((observation, state), self._num_samples)
      output, states = step(self._critic, (tiled, self._clip(merged)), tiled_state)
    return sampling.as_values(output, shape), lambda index: sampling.take(states, index)


class ExpQWeightedPolicy(snt.Module):
  """Feed-forward policy that chooses among its samples by the critic; see `BoltzmannSampler`."""

  def __init__(
    self,
    actor_network: snt.Module,
    critic_network: snt.Module,
    beta: sampling.Beta = sampling.DEFAULT_BETA,
    num_action_samples: int = 16,
    *,
    temperature_beta: Optional[sampling.Beta] = None,
    action_spec: Optional[types.NestedSpec] = None,
  ):
    """Initialises the policy; see `BoltzmannSampler`.

    Raises:
      TypeError: if a network is recurrent, or the temperature is no number and no scalar variable.
      ValueError: see `BoltzmannSampler`.
    """
    super().__init__(name="exp_q_weighted_policy")
    for name, network in (("actor_network", actor_network), ("critic_network", critic_network)):
      if is_recurrent(network):
        raise TypeError(f"{name} is recurrent: use RecurrentExpQWeightedPolicy.")
    self._sampler = BoltzmannSampler(
      actor_network,
      critic_network,
      beta,
      num_action_samples,
      temperature_beta=temperature_beta,
      action_spec=action_spec,
    )

  def __call__(
    self, inputs: types.NestedTensor, seed: Optional[tf.Tensor] = None
  ) -> types.NestedTensor:
    """Maps observations `[B, ...]` to actions `[B, *A]`; `seed`, int32 `[2]`, decides the draw."""
    return self._sampler(inputs, PolicyCriticRNNState((), ()), seed).action


class RecurrentExpQWeightedPolicy(snt.RNNCore):
  """Recurrent policy that chooses among its samples by the critic; see `BoltzmannSampler`."""

  def __init__(
    self,
    policy_network: snt.Module,
    critic_network: snt.Module,
    temperature_beta: sampling.Beta = sampling.DEFAULT_BETA,
    num_action_samples: int = 16,
    *,
    beta: Optional[sampling.Beta] = None,
    action_spec: Optional[types.NestedSpec] = None,
  ):
    """Initialises the policy; see `BoltzmannSampler` also for what it raises."""
    super().__init__(name="recurrent_exp_q_weighted_policy")
    self._sampler = BoltzmannSampler(
      policy_network,
      critic_network,
      beta,
      num_action_samples,
      temperature_beta=temperature_beta,
      action_spec=action_spec,
    )

  def __call__(
    self,
    observation: types.NestedTensor,
    prev_state: PolicyCriticRNNState,
    seed: Optional[tf.Tensor] = None,
  ) -> tuple[types.NestedTensor, PolicyCriticRNNState]:
    """Maps observations `[B, ...]` and states to actions `[B, *A]` and the chosen ones' states.

    `seed`, int32 `[2]`, decides the draw.
    """
    draw = self._sampler(observation, prev_state, seed)
    return draw.action, draw.next_state

  def initial_state(self, batch_size: int) -> PolicyCriticRNNState:
    """Returns the initial states of policy and critic."""
    return self._sampler.initial_state(batch_size)
