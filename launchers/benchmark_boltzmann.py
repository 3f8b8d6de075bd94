"""The two sides of the benchmark of the recurrent Boltzmann action, each through its own actor."""

from typing import Any, Callable

from acme.agents.tf import actors as acme_actors
from acme.tf import networks as acme_networks
from acme.tf.networks import recurrence as acme_recurrence
import numpy as np
import sonnet as snt

from temper.agents import actor
from temper.agents import crr
from temper.agents import policies
from temper.launchers import benchmark_case
from temper.launchers import benchmark_crr

_NUM_ACTION_SAMPLES = 16


def make_actor_step(side: str) -> Callable[[], Any]:
  """Makes an actor of one side; returns a function that takes one action and carries the state.

  Both sides compile the policy: dm-acme's `RecurrentActor` by `tf.function`. Its sampler needs a
  policy that returns actions.
  """
  size = benchmark_crr.LearnerSize()
  spec = benchmark_crr.environment_spec(size)
  made: Any
  if side == benchmark_case.OURS:
    networks = crr.make_networks(
      spec,
      policy_layer_sizes=size.layer_sizes,
      critic_layer_sizes=size.layer_sizes,
      lstm_size=size.lstm_size,
      vmin=size.vmin,
      vmax=size.vmax,
      num_atoms=size.num_atoms,
    )
    choice = policies.PolicyChoice(
      policies.PolicyKind.BOLTZMANN, num_action_samples=_NUM_ACTION_SAMPLES
    )
    made = actor.Actor(choice.make(networks.policy_network, networks.critic_network))
  else:
    policy, critic = benchmark_crr.make_acme_networks(size)
    made = acme_actors.RecurrentActor(
      acme_recurrence.RecurrentExpQWeightedPolicy(
        snt.DeepRNN([policy, acme_networks.StochasticSamplingHead()]),
        critic,
        num_action_samples=_NUM_ACTION_SAMPLES,
      )
    )
  observation = np.zeros(spec.observations.shape, spec.observations.dtype)
  return lambda: made.select_action(observation)


CASES = {
  "boltzmann_action": benchmark_case.Case(
    "recurrent Boltzmann action, 16 samples, LayerNormMLP(256, 256) + LSTM(256), batch 1",
    3.0,
    make_actor_step,
    calls=100,
    threads=1,
  ),
}
