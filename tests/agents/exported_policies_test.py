"""Exported policies act as the agents' actors do, in every format, where Temper is not."""

import importlib.util
import sys

from acme import specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from temper.agents import actor as actor_lib
from temper.agents import exported_policies
from temper.agents import policies
from temper.launchers import export_cases
from temper.launchers import export_check
from temper.launchers import export_references
from temper.utils import exporting
from temper.utils.environment_actions import ActionMapping
from temper.utils.exporting import ExportFormat
from temper.utils.exporting import InputKind

tfd = tfp.distributions

FORMATS = [
  pytest.param(
    export_format,
    marks=pytest.mark.skipif(
      export_format is ExportFormat.ONNX
      and not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
      reason="the packages of the extra onnx are not installed",
    ),
    id=export_format.value,
  )
  for export_format in ExportFormat
]
# Of each agent what is peculiar to it; `temper export-check` compares everything.
_CASES = {
  "svg0, dict observations": (policies.MEAN, policies.RAW),
  "crr, recurrent mixture": (export_cases.BOLTZMANN,),
  "sac, twin target": (policies.RAW,),
}

# Makes an import fail as if the package were not installed.
_REFUSE = """
import sys
class Refuse:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in {refused!r}:
      raise ImportError(f"{{name}} is not here")
sys.meta_path.insert(0, Refuse())
"""


def _one_case(name="crr, recurrent"):
  return export_cases.CASES[name]()


def _export(networks, choices, directory, export_format=ExportFormat.SAVEDMODEL):
  functions = exported_policies.make_functions(networks, choices, export_format)
  exporting.write(functions, str(directory), export_format, networks.facts())
  return exporting.LoadedPolicy(str(directory))


def _spec(observations):
  return specs.EnvironmentSpec(
    observations=observations,
    actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


@pytest.mark.parametrize("export_format", FORMATS)
def test_they_match_the_actor_on_1000_observations_where_nothing_else_is(export_format, tmp_path):
  folders = []
  for number, (name, choices) in enumerate(_CASES.items()):
    folders.append(str(tmp_path / str(number)))
    export_references.export_with_references(
      _one_case(name), choices, export_format, folders[-1], count=1000, singles=50
    )
  refused = set(export_check.FOREIGN)
  if export_format is ExportFormat.ONNX:
    refused.add("tensorflow")
  report = export_check.run_worker(sys.executable, folders, _REFUSE.format(refused=refused))
  assert not refused & set(report["modules"])
  for folder, choices in zip(folders, _CASES.values()):
    differences = report["differences"][folder]
    assert set(differences) == {
      f"{exported_policies.NAMES[choice.kind]}/{mode}"
      for choice in choices
      for mode in ("batched", "single")
    }
    assert max(differences.values()) <= 1e-5, differences


def test_a_recurrent_policy_carries_its_state_through_an_episode(tmp_path):
  networks = _one_case()
  loaded = _export(networks, [policies.MEAN], tmp_path / "policy")
  actor = actor_lib.Actor(policies.MEAN.make(networks.policy_network))
  state = loaded.initial_state("deterministic", 1)
  random = np.random.default_rng(0)
  for _ in range(20):
    observation = random.normal(size=4).astype(np.float32)
    outputs = loaded.functions["deterministic"](observation=observation[None], **state)
    expected = actor.select_action(observation)
    np.testing.assert_allclose(outputs["canonical_action"][0], expected, atol=1e-5)
    np.testing.assert_allclose(
      outputs["action"][0], networks.actions.to_environment(expected), atol=1e-3
    )
    state = {name: outputs[f"next_{name}"] for name in state}


@pytest.mark.parametrize("choice", [policies.RAW, export_cases.BOLTZMANN], ids=str)
def test_a_seed_draws_what_the_actor_of_that_seed_draws_first(choice, tmp_path):
  networks = _one_case("sac, twin target")
  loaded = _export(networks, [choice], tmp_path / "policy")
  function = loaded.functions[exported_policies.NAMES[choice.kind]]
  observation = np.array([0.3, -2.0, 1.0, 0.0], np.float32)
  drawn = []
  for seed in (0, 5):
    policy = choice.make(
      networks.policy_network, networks.critic_network, networks.environment_spec.actions
    )
    expected = actor_lib.Actor(policy, seed=seed).select_action(observation)
    drawn.append(function(observation=observation[None], seed=np.int32(seed)))
    np.testing.assert_allclose(drawn[-1]["canonical_action"][0], expected, atol=1e-5)
  assert drawn[0]["canonical_action"] != drawn[1]["canonical_action"]


@pytest.mark.parametrize("case", ["sac, twin target", "sac, value network"])
def test_the_density_of_saturated_actions_is_exact(case, tmp_path):
  networks = _one_case(case)
  policy = networks.policy_network
  last = [variable for variable in policy.trainable_variables if variable.shape == [2]][-1]
  last.assign([30.0, -1.0] if case == "sac, twin target" else [9.0, 0.0])
  loaded = _export(networks, [policies.RAW], tmp_path / "policy")
  observation = np.zeros((50, 4), np.float32)
  outputs = loaded.functions["sample"](observation=observation, seed=np.int32(3))
  expected, log_prob = policy(observation).experimental_sample_and_log_prob(
    seed=tf.constant([3, 0])
  )
  np.testing.assert_allclose(outputs["canonical_action"], expected, atol=1e-6)
  np.testing.assert_allclose(outputs["log_prob"], log_prob, rtol=1e-4, atol=1e-4)
  assert np.isfinite(outputs["log_prob"]).all()
  if case == "sac, twin target":
    np.testing.assert_array_equal(outputs["canonical_action"], np.ones(50))
    np.testing.assert_array_equal(outputs["action"], np.ones(50))


def test_boltzmann_without_temperature_takes_the_proposal_of_the_highest_value():
  networks = _one_case("sac, twin target")
  greedy = policies.PolicyChoice("boltzmann", beta=0.0, num_action_samples=6)
  (function,) = exported_policies.make_functions(networks, [greedy], ExportFormat.TFLITE)
  random = np.random.default_rng(1)
  observation = tf.constant(random.normal(size=(8, 4)), tf.float32)
  noise = tf.constant(random.normal(size=(8, 6)), tf.float32)
  outputs = function.concrete(
    observation=observation, noise=noise, choice_uniform=tf.constant(random.random(8), tf.float32)
  )
  for row in range(8):
    tiled = tf.repeat(observation[row : row + 1], 6, axis=0)
    proposals, _ = networks.policy_network(tiled).sample_and_log_prob(noise[row])
    best = tf.argmax(networks.critic_network(tiled, proposals))
    np.testing.assert_allclose(outputs["canonical_action"][row], proposals[best], atol=1e-6)


@pytest.mark.parametrize("export_format", list(ExportFormat))
def test_inputs_are_named_and_described(export_format):
  networks = _one_case("crr, recurrent mixture")
  functions = exported_policies.make_functions(networks, export_cases.CHOICES, export_format)
  found = {
    function.name: {name: (x.kind.value, x.shape) for name, x in function.inputs.items()}
    for function in functions
  }
  observation = {"observation": ("observation", (4,))}
  state = {f"state_{name}": ("state", (16,)) for name in ("hidden", "cell")}
  both = {f"state_{of}_{name}": ("state", (16,))
          for of in ("policy", "critic") for name in ("hidden", "cell")}  # fmt: skip
  of_sample = {"noise": ("standard_normal", (3,)), "component_uniform": ("uniform", ())}
  of_boltzmann = {
    "noise": ("standard_normal", (5, 3)),
    "component_uniform": ("uniform", (5,)),
    "choice_uniform": ("uniform", ()),
  }
  if export_format is ExportFormat.SAVEDMODEL:
    of_sample = of_boltzmann = {"seed": ("seed", ())}
  assert found == {
    "deterministic": {**observation, **state},
    "sample": {**observation, **state, **of_sample},
    "boltzmann": {**observation, **both, **of_boltzmann},
  }
  assert functions[2].facts == {"policy": "boltzmann", "beta": 0.05, "num_action_samples": 5}
  assert all(x.initial is not None for x in functions[0].inputs.values() if x.kind.value == "state")


def test_where_there_is_no_float64_inputs_and_actions_are_float32():
  mapping = ActionMapping(specs.BoundedArray((2,), np.float64, 0.1, 0.3))
  network = snt.Sequential([lambda x: tfd.MultivariateNormalDiag(10.0 * tf.cast(x, tf.float32))])
  networks = exported_policies.ExportedNetworks(
    network, _spec(specs.Array((2,), np.float64)), mapping
  )
  for export_format, dtype in ((ExportFormat.TFLITE, np.float32), (ExportFormat.ONNX, np.float64)):
    (function,) = exported_policies.make_functions(networks, [policies.MEAN], export_format)
    assert function.inputs["observation"].dtype == dtype
    action = function.concrete(observation=tf.constant([[-1.0, 1.0]], dtype))["action"].numpy()
    assert action.dtype == dtype
    assert (action.astype(np.float64) >= 0.1).all() and (action.astype(np.float64) <= 0.3).all()
    np.testing.assert_allclose(action, [[0.1, 0.3]], rtol=1e-6)


def test_a_policy_of_an_unknown_distribution_is_exported_only_where_it_draws_by_itself(tmp_path):
  uniform = lambda x: tfd.Independent(tfd.Uniform(x - 1.0, x + 1.0), 1)
  networks = exported_policies.ExportedNetworks(
    snt.Sequential([uniform]),
    _spec(specs.Array((2,), np.float32)),
    ActionMapping(specs.BoundedArray((2,), np.float32, -1.0, 1.0)),
  )
  with pytest.raises(exporting.ExportError, match="Independent.*savedmodel"):
    exported_policies.make_functions(networks, [policies.RAW], ExportFormat.ONNX)
  loaded = _export(networks, [policies.RAW], tmp_path / "policy")
  outputs = loaded.functions["sample"](observation=np.zeros((3, 2), np.float32), seed=np.int32(0))
  np.testing.assert_allclose(outputs["log_prob"], [-np.log(4.0)] * 3, rtol=1e-6)


def test_what_cannot_be_exported_is_refused():
  networks = _one_case()
  with pytest.raises(exporting.ExportError, match="sample.*each once"):
    exported_policies.make_functions(networks, [policies.RAW] * 2, ExportFormat.ONNX)
  with pytest.raises(exporting.ExportError, match="at least one"):
    exported_policies.make_functions(networks, [], ExportFormat.ONNX)
  with pytest.raises(ValueError, match="critic"):
    exported_policies.make_functions(
      networks._replace(critic_network=None), [export_cases.BOLTZMANN], ExportFormat.ONNX
    )
  tensors = exported_policies.ExportedNetworks(
    snt.Linear(2), _spec(specs.Array((2,), np.float32)), networks.actions
  )
  with pytest.raises(exporting.ExportError, match="distribution is needed"):
    exported_policies.make_functions(tensors, [policies.MEAN], ExportFormat.SAVEDMODEL)


def test_kinds_cover_every_input():
  assert {kind.value for kind in InputKind} == {
    "observation",
    "state",
    "seed",
    "standard_normal",
    "uniform",
  }
