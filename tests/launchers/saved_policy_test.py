"""Tests of `temper.launchers.saved_policy`: exported policies act as the networks do."""

import json

from acme import specs
import numpy as np
import pytest

from temper.agents import batch_actor
from temper.agents import crr
from temper.agents import exported_policies
from temper.agents import policies
from temper.launchers import saved_policy
from temper.utils import exporting
from temper.utils.environment_actions import ActionMapping
from temper.utils.exporting import ExportFormat

_ACTIONS = ActionMapping(specs.BoundedArray((2,), np.float32, -3.0, 5.0))
_SPEC = specs.EnvironmentSpec(
  observations={"a": specs.Array((3,), np.float32), "b": specs.Array((), np.float32)},
  actions=_ACTIONS.canonical_spec,
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)
_BOLTZMANN = policies.PolicyChoice("boltzmann", beta=0.5, num_action_samples=3)


def _networks():
  builder = crr.CRRBuilder(
    crr.CRRConfig(policy_layer_sizes=(8,), critic_layer_sizes=(8,), lstm_size=4)
  )
  return builder.make_networks(_SPEC, seed=2)


def _export(networks, folder, export_format=ExportFormat.SAVEDMODEL):
  exported = exported_policies.ExportedNetworks(
    networks.policy_network, _SPEC, _ACTIONS, networks.critic_network
  )
  choices = [policies.MEAN, policies.RAW, _BOLTZMANN]
  functions = exported_policies.make_functions(exported, choices, export_format)
  facts = {"agent": "crr", "environment": "gym:X-v0", "environment_options": {}, "seed": 4}
  exporting.write(functions, str(folder), export_format, {**facts, **exported.facts()})
  return str(folder)


@pytest.fixture(scope="module", name="networks")
def _shared_networks():
  return _networks()


@pytest.fixture(scope="module", name="exported")
def _exported(networks, tmp_path_factory):
  return _export(networks, tmp_path_factory.mktemp("exported") / "policy")


def _observations(step, rows=3):
  random = np.random.default_rng(step)
  return {
    "a": random.normal(size=(rows, 3)).astype(np.float32),
    "b": random.normal(size=rows).astype(np.float32),
  }


def test_what_it_says_of_itself(exported):
  saved = saved_policy.open_saved(exported)
  assert saved.title == "CRR" and saved.seed == 4 and saved.step is None
  assert saved.folder == exported and saved.source.maker == "gym:X-v0"
  other = saved_policy.open_saved(exported, environment="gym:Y-v0")
  assert other.source.maker == "gym:Y-v0"


def test_states_of_rows_are_carried_on_and_begun_anew(networks, exported):
  loaded = saved_policy.open_saved(exported).load(_SPEC)
  actor = loaded.make_batch_actor(policies.MEAN, 3)
  expected = batch_actor.BatchActor(policies.MEAN.make(networks.policy_network), 3)
  for step in range(5):
    for one in (actor, expected):
      for row in ((0, 1, 2), (), (1,), (0, 2), ())[step]:
        one.begin(row)
    np.testing.assert_allclose(
      actor.select_actions(_observations(step)),
      expected.select_actions(_observations(step)),
      atol=1e-5,
    )


@pytest.mark.parametrize("choice", [policies.RAW, _BOLTZMANN])
def test_draws_follow_the_seed(choice, exported):
  loaded = saved_policy.open_saved(exported).load(_SPEC)
  actors = [loaded.make_batch_actor(choice, 3, seed=seed) for seed in (1, 1, 2)]
  first, second, other = (actor.select_actions(_observations(0)) for actor in actors)
  np.testing.assert_array_equal(first, second)
  assert np.abs(first - other).max() > 1e-3
  assert np.abs(actors[0].select_actions(_observations(0)) - first).max() > 1e-3
  actors[0].restart()
  np.testing.assert_array_equal(actors[0].select_actions(_observations(0)), first)


def test_a_format_without_random_numbers_is_given_them(networks, tmp_path):
  path = _export(networks, tmp_path / "policy", ExportFormat.TFLITE)
  loaded = saved_policy.open_saved(path).load(_SPEC)
  drawn = []
  actor = loaded.make_batch_actor(policies.RAW, 3, seed=1)
  for _ in range(300):
    for row in range(3):
      actor.begin(row)
    drawn.append(actor.select_actions(_observations(0)))
  mean = batch_actor.BatchActor(policies.MEAN.make(networks.policy_network), 3)
  error = np.std(drawn, axis=0) / np.sqrt(300)
  difference = np.mean(drawn, axis=0) - mean.select_actions(_observations(0))
  assert (np.abs(difference) < 4.5 * error).all() and error.min() > 0.005


def test_a_boltzmann_policy_is_the_one_that_was_exported(exported):
  loaded = saved_policy.open_saved(exported).load(_SPEC)
  other = policies.PolicyChoice("boltzmann", beta=0.1, num_action_samples=3)
  with pytest.raises(ValueError, match=r"act as boltzmann \(beta 0.5, 3 samples\), which cannot"):
    loaded.make_batch_actor(other, 1)


def test_another_environment_is_refused(exported):
  spec = _SPEC._replace(observations=specs.Array((3,), np.float32))
  with pytest.raises(ValueError, match=r"takes observation_a float32 \[3\].*has observation flo"):
    saved_policy.open_saved(exported).load(spec)
  spec = _SPEC._replace(actions=specs.BoundedArray((1,), np.float32, -1, 1))
  with pytest.raises(ValueError, match=r"acts in \[2\].*and \[1\]"):
    saved_policy.open_saved(exported).load(spec)


def test_metadata_of_another_version_is_refused(tmp_path):
  (tmp_path / "metadata.json").write_text(json.dumps({"agent": "svg0"}))
  with pytest.raises(ValueError, match="Export the policy again"):
    saved_policy.open_saved(str(tmp_path))
