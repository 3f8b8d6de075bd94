"""Scripts for `acme.agents.tf.svg0_prior` work after changing their import alone."""

import dataclasses
import functools
import inspect

from absl import flags
import acme
from acme import specs
from acme.agents.tf import svg0_prior as acme_svg0
from acme.agents.tf.svg0_prior import acting as acme_acting
from acme.agents.tf.svg0_prior import agent as acme_agent
from acme.agents.tf.svg0_prior import utils as acme_utils
from acme.testing import fakes
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
from acme.utils import loggers
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.agents import svg0_prior
from temper.utils import svg0_utils

_PUBLIC = [
  "SVG0",
  "SVG0Actor",
  "SVG0Learner",
  "DistributedSVG0",
  "make_default_networks",
  "make_network_with_prior",
]
_OF_AGENT_MODULE = ["SVG0Config", "SVG0Networks", "SVG0Builder"]
_BUILDER_METHODS = [
  "make_replay_tables",
  "make_dataset_iterator",
  "make_adder",
  "make_actor",
  "make_learner",
]


def _assert_takes_the_arguments_of(ours, theirs):
  """Checks that every call of `theirs` is a call of `ours` with the same meaning."""
  mine = list(inspect.signature(ours).parameters.values())
  other = list(inspect.signature(theirs).parameters.values())
  assert [p.name for p in mine[: len(other)]] == [p.name for p in other]
  for a, b in zip(mine, other):
    assert a.kind == b.kind, a
    # An argument that was required may have a default; a default stays as it was.
    assert b.default in (inspect.Parameter.empty, a.default), a
  for extra in mine[len(other) :]:
    positional = extra.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert not positional, f"{extra} could take a further positional argument."
    variadic = extra.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert variadic or extra.default is not inspect.Parameter.empty, (
      f"{extra} would be a new required argument."
    )


@pytest.mark.parametrize("name", _PUBLIC)
def test_public_names_take_acmes_arguments(name):
  _assert_takes_the_arguments_of(
    getattr(svg0_prior, name), getattr(acme_svg0, name, None) or acme_acting.SVG0Actor
  )


def test_nothing_that_acme_exports_is_missing():
  exported = {name for name in vars(acme_svg0) if name[0].isupper() or name.startswith("make")}
  assert exported <= {*_PUBLIC, *_OF_AGENT_MODULE}


@pytest.mark.parametrize("name", _OF_AGENT_MODULE)
def test_names_of_the_agent_module_take_acmes_arguments(name):
  ours, theirs = getattr(svg0_prior, name), getattr(acme_agent, name)
  if name != "SVG0Config":
    _assert_takes_the_arguments_of(ours, theirs)


def test_config_has_acmes_fields_first_with_their_defaults():
  ours, theirs = (dataclasses.fields(c) for c in (svg0_prior.SVG0Config, acme_agent.SVG0Config))
  assert [(f.name, f.default) for f in ours[: len(theirs)]] == [(f.name, f.default) for f in theirs]
  assert all(f.default is not dataclasses.MISSING for f in ours)


@pytest.mark.parametrize("name", _BUILDER_METHODS)
def test_builder_methods_take_acmes_arguments(name):
  ours = getattr(svg0_prior.SVG0Builder, name)
  theirs = getattr(acme_agent.SVG0Builder, name)
  mine, other = (list(inspect.signature(f).parameters) for f in (ours, theirs))
  # One argument may be called otherwise: it is passed by position there.
  assert len(mine) >= len(other)
  if name != "make_dataset_iterator":
    _assert_takes_the_arguments_of(ours, theirs)


@pytest.mark.parametrize("name", ["make_policy", "make_prior", "init"])
def test_networks_methods_take_acmes_arguments(name):
  _assert_takes_the_arguments_of(
    getattr(svg0_prior.SVG0Networks, name), getattr(acme_agent.SVG0Networks, name)
  )


@pytest.mark.parametrize(
  "name", ["static_rnn", "mask_out_restarting", "OnlineTargetPiQ", "batch_concat_selection"]
)
def test_utilities_take_acmes_arguments(name):
  _assert_takes_the_arguments_of(getattr(svg0_utils, name), getattr(acme_utils, name))


# The agent in a loop, with networks as Acme's users write them.


def _policy(sizes, num_dimensions):
  head = functools.partial(acme_networks.MultivariateNormalDiagHead, num_dimensions)
  options = {"init_scale": 0.7, "min_scale": 0.3, "tanh_mean": True, "use_tfd_independent": False}
  body = acme_networks.LayerNormMLP(sizes, activate_final=True)
  return snt.Sequential([tf2_utils.batch_concat, body, head(**options)])


def _critic(sizes):
  layers = [
    acme_networks.LayerNormMLP(sizes, activate_final=True),
    acme_networks.NearZeroInitializedLinear(1),
  ]
  return snt.Sequential([acme_networks.CriticMultiplexer(), *layers])


def _values(network):
  return [v.numpy() for v in network.variables]


@pytest.mark.parametrize("prior", [False, True])
def test_an_agent_of_acmes_networks_runs_in_acmes_loop(prior, tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  monkeypatch.chdir(tmp_path)
  environment = fakes.ContinuousEnvironment(episode_length=10)
  spec = specs.make_environment_spec(environment)
  size = int(np.prod(spec.actions.shape))
  policy, critic = _policy((10, 10), size), _critic((10, 10))
  agent = svg0_prior.SVG0(
    environment_spec=spec,
    policy_network=policy,
    critic_network=critic,
    prior_network=_policy((10,), size) if prior else None,
    batch_size=10,
    samples_per_insert=2,
    min_replay_size=10,
  )
  # Acme's loop asks Launchpad, whose flags a script would have parsed.
  flags.FLAGS.mark_as_parsed()
  with agent:
    before = [_values(policy), _values(critic)]
    acme.EnvironmentLoop(environment, agent, logger=loggers.NoOpLogger()).run(num_episodes=4)
    # 40 steps, of which the first ten fill replay, at 2 sequences a step in batches of 10.
    assert 5 <= agent.learner.num_steps <= 8
    for old, network in zip(before, (policy, critic)):
      assert any(np.abs(a - b).max() > 0 for a, b in zip(old, _values(network)))
    assert len(agent.get_variables(["policy"])[0]) == len(policy.variables)
  assert not list(tmp_path.iterdir())  # Acme would have written below the home directory.


def test_the_actor_alone_stores_the_log_density_of_its_action():
  policy = _policy((10,), 2)
  tf2_utils.create_variables(policy, [specs.Array((3,), np.float32)])
  observation = np.ones(3, np.float32)
  actor = svg0_prior.SVG0Actor(policy)
  first, second = actor.select_action(observation), actor.select_action(observation)
  assert first.shape == (2,)
  assert not np.array_equal(first, second)
  mean = svg0_prior.SVG0Actor(policy, deterministic_policy=True).select_action(observation)
  np.testing.assert_allclose(mean, policy(tf.constant(observation[None])).mean()[0], rtol=1e-5)
