"""How an actor takes actions from a policy: a sample, the mean, or weighted by the critic."""

import abc
from collections.abc import Sequence
import dataclasses
import math
from typing import Any, NamedTuple, Optional

from acme import specs
from acme import types
import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import boltzmann
from temper.agents.boltzmann import networks as boltzmann_networks
from temper.utils import checks
from temper.utils import distributions
from temper.utils.policy_kinds import PolicyKind

tfd = tfp.distributions


class Acted(NamedTuple):
  """What a policy does at B observations.

  Attributes:
    action: nest of `[B, *A]`.
    distribution: its `log_prob(action)`, `[B]`, is the log density of the action taken.
    next_state: nest of `[B, ...]`, for the observations that follow.
  """

  action: types.NestedTensor
  distribution: Any
  next_state: types.NestedTensor


class ActingPolicy(snt.Module, abc.ABC):
  """A policy as an actor calls it, whatever its networks are and however it takes actions."""

  def __init__(self, choice: "PolicyChoice"):
    """Keeps the choice."""
    super().__init__(name=f"{choice.kind.value}_policy")
    self._choice = choice

  @property
  def choice(self) -> "PolicyChoice":
    """How actions are taken."""
    return self._choice

  @abc.abstractmethod
  def initial_state(self, batch_size: int) -> types.NestedTensor:
    """Returns the state in which B episodes begin; it has no tensors if nothing is recurrent."""

  @abc.abstractmethod
  def __call__(
    self, observation: types.NestedTensor, state: types.NestedTensor, seed: distributions.Randomness
  ) -> Acted:
    """Acts.

    Args:
      observation: nest of `[B, ...]`.
      state: what the call before returned as `next_state`, or an initial state.
      seed: int32 `[2]`, or noise, decides what is random.
    """


@dataclasses.dataclass(frozen=True)
class PolicyChoice:
  """How actions are to be taken from a policy.

  Attributes:
    kind: RAW, MEAN or BOLTZMANN, or its value such as "mean".
    beta: temperature of the Boltzmann policy, in units of the critic's values; 0 takes the best
      sample.
    num_action_samples: samples among which the Boltzmann policy chooses.
  """

  kind: PolicyKind = PolicyKind.RAW
  beta: float = 1.0
  num_action_samples: int = 16

  def __post_init__(self) -> None:
    # A frozen dataclass allows no other way.
    object.__setattr__(self, "kind", checks.member("kind", self.kind, PolicyKind))
    checks.number("beta", self.beta, minimum=0)
    checks.integer("num_action_samples", self.num_action_samples, minimum=1)

  def __str__(self) -> str:
    """Says what a log should say."""
    if self.kind is not PolicyKind.BOLTZMANN:
      return self.kind.value
    return f"{self.kind.value} (beta {self.beta:g}, {self.num_action_samples} samples)"

  def make(
    self,
    policy_network: snt.Module,
    critic_network: Optional[snt.Module] = None,
    action_spec: Optional[types.NestedSpec] = None,
  ) -> ActingPolicy:
    """Makes the policy of networks.

    Args:
      policy_network: maps observations `[B, ...]`, and its state if it is recurrent, to a
        distribution over actions, and its next state. It is recurrent if it has `initial_state`.
      critic_network: values actions; the Boltzmann policy alone needs it.
      action_spec: of one action. Within its bounds the Boltzmann policy's critic sees samples; the
        actions themselves are not clipped.

    Raises:
      ValueError: if the critic is needed and missing.
    """
    if self.kind is not PolicyKind.BOLTZMANN:
      return _NetworkPolicy(policy_network, self)
    critic_network = _required(critic_network)
    return _BoltzmannPolicy(policy_network, critic_network, action_spec, self)

  def variables(
    self, policy_network: snt.Module, critic_network: Optional[snt.Module] = None
  ) -> dict[str, Sequence[tf.Variable]]:
    """Returns the variables that the policy depends on, by the names that learners serve them by.

    Args:
      policy_network: as for `make`.
      critic_network: as for `make`.

    Raises:
      ValueError: if the critic is needed and missing.
    """
    variables = {"policy": policy_network.variables}
    if self.kind is PolicyKind.BOLTZMANN:
      variables["critic"] = _required(critic_network).variables
    return variables


def _required(critic_network: Optional[snt.Module]) -> snt.Module:
  if critic_network is None:
    raise ValueError("A Boltzmann policy needs a critic network; critic_network is None.")
  return critic_network


RAW = PolicyChoice(PolicyKind.RAW)
MEAN = PolicyChoice(PolicyKind.MEAN)


def choice_of(deterministic: bool, choice: Optional[PolicyChoice]) -> PolicyChoice:
  """Returns the choice that Acme's flag and ours amount to.

  Raises:
    ValueError: if the flag is set and a choice is given too.
  """
  if choice is None:
    return MEAN if deterministic else RAW
  if deterministic:
    raise ValueError(f"deterministic_policy is True and choice is {choice}; give one of them.")
  return choice


class UniformPolicy(ActingPolicy):
  """Takes actions uniformly within their bounds, whatever it sees."""

  def __init__(self, action_spec: specs.BoundedArray):
    """Takes the bounds of an action spec."""
    super().__init__(RAW)
    low, high = (
      tf.constant(np.broadcast_to(x, action_spec.shape), action_spec.dtype)
      for x in (action_spec.minimum, action_spec.maximum)
    )
    self._rank = len(action_spec.shape)
    self._low, self._high = low, high

  def initial_state(self, batch_size: int) -> types.NestedTensor:
    """Returns an empty state."""
    del batch_size
    return ()

  def __call__(
    self, observation: types.NestedTensor, state: types.NestedTensor, seed: distributions.Randomness
  ) -> Acted:
    """Acts."""
    batch_size = tf.shape(tree.flatten(observation)[0])[0]
    repeated = lambda x: tf.repeat(x[None], batch_size, axis=0)
    uniform = tfd.Independent(tfd.Uniform(repeated(self._low), repeated(self._high)), self._rank)
    return Acted(distributions.sample(uniform, (), seed), uniform, state)


class _NetworkPolicy(ActingPolicy):
  """A sample or the mean of the distribution that a network returns."""

  def __init__(self, network: snt.Module, choice: PolicyChoice):
    super().__init__(choice)
    self._network = network

  def initial_state(self, batch_size: int) -> types.NestedTensor:
    return boltzmann_networks.initial_state(self._network, batch_size)

  def __call__(
    self, observation: types.NestedTensor, state: types.NestedTensor, seed: distributions.Randomness
  ) -> Acted:
    distribution, next_state = boltzmann_networks.step(self._network, (observation,), state)
    if self._choice.kind is PolicyKind.MEAN:
      action = distributions.mean(distribution)
    else:
      action = distributions.sample(distribution, (), seed)
    return Acted(action, distribution, next_state)


class _BoltzmannPolicy(ActingPolicy):
  """One of several samples, chosen by the critic; its state is that of policy and critic."""

  def __init__(
    self,
    policy_network: snt.Module,
    critic_network: snt.Module,
    action_spec: Optional[types.NestedSpec],
    choice: PolicyChoice,
  ):
    super().__init__(choice)
    self._sampler = boltzmann.BoltzmannSampler(
      policy_network,
      critic_network,
      choice.beta,
      choice.num_action_samples,
      action_spec=action_spec,
    )

  def initial_state(self, batch_size: int) -> boltzmann.PolicyCriticRNNState:
    return self._sampler.initial_state(batch_size)

  def __call__(
    self,
    observation: types.NestedTensor,
    state: boltzmann.PolicyCriticRNNState,
    seed: distributions.Randomness,
  ) -> Acted:
    draw = self._sampler(observation, state, seed)
    log_ratio = math.log(self._choice.num_action_samples) + draw.log_weight
    return Acted(draw.action, ChosenActionDensity(draw.distribution, log_ratio), draw.next_state)


class ChosenActionDensity:
  """The density of an action that was chosen among N samples, as far as it is known.

  The density of a chosen action is N times the policy's density times the mean, over the other
  N - 1 samples, of the weight that the action has among them. The weight that it had is taken for
  that mean: `log π(a) + log(N · weight)`. It is exact for N = 1; as N grows it becomes
  `log π(a) + Q(a) / beta - log E_π[exp(Q / beta)]`, the density of the policy that the sampler
  stands for. In between it is high on average, since what was chosen mostly had a high weight.
  """

  def __init__(self, distribution: Any, log_ratio: tf.Tensor):
    """Initialises the density.

    Args:
      distribution: the policy's; None if it is not known.
      log_ratio: `[B]`, the log of N times the chosen actions' weights.
    """
    self._distribution = distribution
    self._log_ratio = log_ratio

  def log_prob(self, action: types.NestedTensor) -> tf.Tensor:
    """Returns the log density `[B]` of the chosen actions; of others it would be wrong.

    Raises:
      TypeError: if the policy network returns actions, whose density nobody knows.
    """
    if self._distribution is None:
      raise TypeError(
        "The policy network returns actions, so their log density is not known. Let it return the "
        "distribution."
      )
    return self._distribution.log_prob(action) + self._log_ratio
