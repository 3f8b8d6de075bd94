"""Policies of every agent, small and untrained, that exported ones are tried with."""

from collections.abc import Mapping
from typing import Any, Callable

from acme import specs
import numpy as np
import tensorflow as tf

from temper.agents import builder as builder_lib
from temper.agents import crr
from temper.agents import policies
from temper.agents import sac
from temper.agents import svg0_prior
from temper.agents.exported_policies import ExportedNetworks
from temper.utils.environment_actions import ActionMapping

# A temperature at which several of the proposals have a chance.
BOLTZMANN = policies.PolicyChoice(policies.PolicyKind.BOLTZMANN, beta=0.05, num_action_samples=5)
CHOICES = (policies.MEAN, policies.RAW, BOLTZMANN)

_LAYERS: dict[str, Any] = {"policy_layer_sizes": (32, 32), "critic_layer_sizes": (32, 32)}
_VECTOR = specs.Array((4,), np.float32)
_DICT = {"arm": _VECTOR, "to target": specs.Array((2, 1), np.float32)}
_PIXELS = {"pixels": specs.BoundedArray((16, 16, 3), np.uint8, 0, 255), "speed": _VECTOR}


def _make(
  builder: builder_lib.AgentBuilder, observations: Any, actions: specs.BoundedArray
) -> ExportedNetworks:
  mapping = ActionMapping(actions)
  spec = specs.EnvironmentSpec(
    observations=observations,
    actions=mapping.canonical_spec,
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )
  networks = builder.make_networks(spec, seed=1)
  policy, critic = builder.make_policy(networks), builder.make_critic(networks)
  random = np.random.default_rng(2)
  for variable in (*policy.variables, *critic.variables):
    # Last layers begin near zero, which would hide what is wrong before them.
    variable.assign_add(tf.constant(0.2 * random.normal(size=variable.shape), variable.dtype))
  return ExportedNetworks(policy, spec, mapping, critic)


def _svg0() -> ExportedNetworks:
  config = svg0_prior.SVG0Config(**_LAYERS, policy_keys=("to target",))
  actions = specs.BoundedArray((2, 2), np.float64, [[-2.0, 0.0]] * 2, [[2.0, 10.0]] * 2)
  return _make(svg0_prior.SVG0Builder(config), _DICT, actions)


def _crr(**config: Any) -> ExportedNetworks:
  builder = crr.CRRBuilder(crr.CRRConfig(**{**_LAYERS, "vmin": -5.0, "vmax": 5.0, **config}))
  return _make(builder, _VECTOR, specs.BoundedArray((3,), np.float32, -100.0, 100.0))


def _sac(variant: str, observations: Any) -> ExportedNetworks:
  builder = sac.SACBuilder(sac.SACConfig(variant=sac.SACVariant(variant), **_LAYERS))
  return _make(builder, observations, specs.BoundedArray((), np.float32, 0.0, 1.0))


def _integer_actions() -> ExportedNetworks:
  builder = crr.CRRBuilder(crr.CRRConfig(**_LAYERS, lstm_size=None))
  return _make(builder, _DICT, specs.BoundedArray((2,), np.int32, -3, 40))


CASES: Mapping[str, Callable[[], ExportedNetworks]] = {
  "svg0, dict observations": _svg0,
  "crr, recurrent": lambda: _crr(lstm_size=16),
  "crr, recurrent mixture": lambda: _crr(lstm_size=16, policy_head="mixture"),
  "crr, feed-forward mixture": lambda: _crr(lstm_size=None, policy_head="mixture"),
  "crr, integer actions": _integer_actions,
  "sac, twin target": lambda: _sac("twin_target", _VECTOR),
  "sac, value network": lambda: _sac("value_network", _VECTOR),
  "sac, pixels": lambda: _sac("twin_target", _PIXELS),
}

_TIMED_LAYERS: dict[str, Any] = {"policy_layer_sizes": (256,) * 2, "critic_layer_sizes": (256,) * 2}
_TIMED_OBSERVATION = specs.Array((17,), np.float32)
_TIMED_ACTION = specs.BoundedArray((6,), np.float32, -1.0, 1.0)


def _timed_sac() -> ExportedNetworks:
  builder = sac.SACBuilder(sac.SACConfig(**_TIMED_LAYERS))
  return _make(builder, _TIMED_OBSERVATION, _TIMED_ACTION)


def _timed_crr() -> ExportedNetworks:
  builder = crr.CRRBuilder(crr.CRRConfig(**_TIMED_LAYERS, lstm_size=256))
  return _make(builder, _TIMED_OBSERVATION, _TIMED_ACTION)


# Policies whose exported forms are timed, and how they act: the sizes of common tasks.
TIMED: Mapping[str, tuple[Callable[[], ExportedNetworks], policies.PolicyChoice]] = {
  "SAC, 256-256, deterministic": (_timed_sac, policies.MEAN),
  "SAC, 256-256, sample": (_timed_sac, policies.RAW),
  "CRR, 256-256 and LSTM 256, deterministic": (_timed_crr, policies.MEAN),
  "CRR, 256-256 and LSTM 256, Boltzmann of 16": (
    _timed_crr,
    policies.PolicyChoice(policies.PolicyKind.BOLTZMANN),
  ),
}
