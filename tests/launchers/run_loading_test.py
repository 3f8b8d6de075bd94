"""Tests of `temper.launchers.run_loading` and `temper.launchers.run_reading`."""

import contextlib
import os
import shutil

from acme import specs
import numpy as np
import pytest

from temper.agents import actor as actor_lib
from temper.agents import crr
from temper.agents import local
from temper.agents import policies
from temper.agents import sac
from temper.agents import svg0_prior
from temper.launchers import run_directory
from temper.launchers import run_loading
from temper.launchers import run_reading
from temper.utils import checkpointing
from temper.utils import environments
from temper.utils import fakes
from temper.utils import torsos
from temper.utils.datasets import writing
from temper.utils.datasets.episodes import Episode
from temper.utils.policy_kinds import PolicyKind

_SIZES = {"policy_layer_sizes": (8,), "critic_layer_sizes": (8,)}
_BUILDERS = {
  "svg0": svg0_prior.SVG0Builder(
    svg0_prior.SVG0Config(prior_layer_sizes=(8,), entropy_estimator="analytic", **_SIZES)
  ),
  "crr": crr.CRRBuilder(crr.CRRConfig(lstm_size=8, **_SIZES)),
  "SACBuilder": sac.SACBuilder(sac.SACConfig(**_SIZES)),
  "sac": sac.SACBuilder(sac.SACConfig(variant="value_network", temperature="two_stage", **_SIZES)),
}


def _environment(seed=None):
  return environments.wrap(fakes.PointMass(seed=seed))


def _spec():
  return specs.make_environment_spec(_environment())


def _write(folder, agent, builder, checkpoints, **record):
  directory = run_directory.RunDirectory(str(folder))
  directory.open(
    run_directory.plain(
      {"agent": agent, "environment": "_environment", "config": builder.config, "seed": 2, **record}
    )
  )
  for name, (step, objects, state) in checkpoints.items():
    checkpointing.Checkpointer(os.path.join(directory.path, name), keep=9).save(
      step, objects, state
    )
  return directory.path


@pytest.mark.parametrize("agent", _BUILDERS)
def test_a_loaded_agent_acts_as_the_one_that_was_saved(agent, tmp_path):
  builder = _BUILDERS[agent]
  with local.LocalAgent(builder, _spec(), seed=1) as trained:
    objects = trained.checkpointables()
    path = _write(tmp_path, agent, builder, {"checkpoints": (7, objects, {})})
  run = run_loading.open_run(path, environment=_environment)
  assert run.step == 7 and run.builder.config == builder.config and run.seed == 2
  loaded = run.load()
  observation = _environment(seed=3).reset().observation
  for choice in (
    policies.MEAN,
    policies.RAW,
    policies.PolicyChoice("boltzmann", num_action_samples=4),
  ):
    expected = trained.make_evaluation_actor(choice, seed=5).select_action(observation)
    actor = actor_lib.Actor(loaded.make_policy(choice), seed=5)
    np.testing.assert_array_equal(actor.select_action(observation), expected)
  # All networks that learn, not those that act alone.
  names = set(objects) & {"policy", "critic", "prior", "value"}
  assert {name[:-8] for name, network in vars(loaded.networks).items() if network} == names


def _crr_run(tmp_path, **record):
  builder = crr.CRRBuilder(crr.CRRConfig(lstm_size=None, **_SIZES))
  spec = _spec()
  objects = lambda seed: {
    name[: -len("_network")]: network
    for name, network in vars(builder.make_networks(spec, seed=seed)).items()
  }
  checkpoints = {
    "checkpoints": (5, objects(5), {}),
    "best/deterministic": (3, objects(3), {"mean_return": -1.0}),
    "best/boltzmann": (4, objects(4), {"mean_return": -2.0}),
  }
  path = _write(tmp_path / "run", "crr", builder, checkpoints, **record)
  checkpointing.Checkpointer(f"{path}/checkpoints", keep=9).save(10, objects(10), {})
  return path


@pytest.mark.parametrize(
  "checkpoint, kind, folder",
  [
    (None, PolicyKind.MEAN, "checkpoints/step_10"),
    ("latest", PolicyKind.RAW, "checkpoints/step_10"),
    ("best", PolicyKind.MEAN, "best/deterministic/step_3"),
    ("best", PolicyKind.BOLTZMANN, "best/boltzmann/step_4"),
    (5, PolicyKind.MEAN, "checkpoints/step_5"),
    ("4", PolicyKind.MEAN, "best/boltzmann/step_4"),
  ],
)
def test_checkpoints_are_found(checkpoint, kind, folder, tmp_path):
  path = _crr_run(tmp_path)
  run = run_loading.open_run(path, checkpoint, kind=kind)
  assert run.checkpoint == os.path.join(path, folder) and run.step == int(folder.split("_")[-1])
  # A folder of one, beside its run or by itself.
  assert run_loading.open_run(path, run.checkpoint).checkpoint == run.checkpoint
  by_itself = run_loading.open_run(run.checkpoint)
  assert by_itself.checkpoint == run.checkpoint and by_itself.directory.path == path


def test_the_chosen_checkpoint_is_what_is_loaded(tmp_path):
  path = _crr_run(tmp_path)
  weights = []
  for step in (5, 10):
    networks = run_loading.open_run(path, step).load(_spec()).networks
    variables = networks.policy_network.variables
    weights.append(np.concatenate([variable.numpy().ravel() for variable in variables]))
  assert np.abs(weights[0] - weights[1]).max() > 0.01


@pytest.mark.parametrize(
  "checkpoint, kind, message",
  [
    ("best", PolicyKind.RAW, r"modes \['boltzmann', 'deterministic'\], none of 'stochastic'"),
    (6, PolicyKind.MEAN, r"no checkpoint of step 6, only of the steps \[3, 4, 5, 10\]"),
    ("newest", PolicyKind.MEAN, "'newest'; it must be latest, best, a number of steps"),
  ],
)
def test_checkpoints_that_are_not_there_are_refused(checkpoint, kind, message, tmp_path):
  with pytest.raises(ValueError, match=message):
    run_loading.open_run(_crr_run(tmp_path), checkpoint, kind=kind)


def test_a_run_without_checkpoints_is_refused(tmp_path):
  path = _crr_run(tmp_path)
  shutil.rmtree(f"{path}/best")
  with pytest.raises(ValueError, match="no best checkpoint: it was not evaluated"):
    run_loading.open_run(path, "best")
  shutil.rmtree(f"{path}/checkpoints")
  with pytest.raises(ValueError, match="no checkpoint yet"):
    run_loading.open_run(path)


def test_what_is_no_run_is_refused(tmp_path):
  path = _crr_run(tmp_path)
  with pytest.raises(ValueError, match=f"holds no run.*Runs inside it: {path}"):
    run_loading.open_run(str(tmp_path))
  lone = shutil.copytree(f"{path}/checkpoints/step_5", tmp_path / "step_5")
  with pytest.raises(ValueError, match="a checkpoint outside of a run"):
    run_loading.open_run(str(lone))
  with pytest.raises(ValueError, match="a checkpoint already"):
    run_loading.open_run(f"{path}/checkpoints/step_5", "best")
  run_directory.write_json(
    f"{path}/config.json", {"agent": "dqn", "environment": "x", "config": {}}
  )
  with pytest.raises(ValueError, match="agent 'dqn'; those of"):
    run_loading.open_run(path)
  run_directory.write_json(f"{path}/config.json", ["no", "run"])
  with pytest.raises(ValueError, match="no valid agent, environment, config"):
    run_reading.read_record(run_directory.RunDirectory(path))


def test_another_environment_does_not_fit_the_checkpoint(tmp_path):
  maker = lambda: fakes.PointMass(dimensions=3)
  run = run_loading.open_run(_crr_run(tmp_path), environment=maker)
  with pytest.raises(checkpointing.CheckpointError, match="networks do not fit the checkpoint"):
    run.load()


def test_opening_and_loading_change_nothing_on_disk(tmp_path):
  path = _crr_run(tmp_path)
  os.makedirs(f"{path}/checkpoints/.saving_11_x")
  everything = lambda: sorted(
    (parent, name, os.stat(os.path.join(parent, name)).st_mtime_ns)
    for parent, folders, files in os.walk(path)
    for name in [*folders, *files]
  )
  before = everything()
  run_loading.open_run(path, environment=_environment).load()
  assert everything() == before


def test_options_of_the_run_hold_unless_others_are_given(tmp_path):
  path = _crr_run(tmp_path, environment_options={"max_episode_steps": 6, "render": False})
  run = run_loading.open_run(path, environment_options={"max_episode_steps": 4})
  assert run.source.options == {"max_episode_steps": 4, "render": False}
  assert run.source.maker == "_environment"


def test_a_run_on_data_alone_takes_its_specs_from_the_data(tmp_path):
  data = str(tmp_path / "data.npz")
  episode = Episode(
    observation=np.zeros((4, 2), np.float32),
    action=np.full((3, 2), 2.0, np.float32) * np.array([[1.0], [-1.0], [0.5]], np.float32),
    reward=np.zeros(3, np.float32),
    discount=np.ones(3, np.float32),
  )
  writing.write_dataset(data, "npz", [episode])
  builder = crr.CRRBuilder(crr.CRRConfig(lstm_size=None, **_SIZES))
  spec = _spec()
  statistics = torsos.ObservationStatistics(np.full(2, 3.0), np.full(2, 0.5))
  networks = builder.make_networks(spec, observation_statistics=statistics)
  objects = {"policy": networks.policy_network, "critic": networks.critic_network}
  path = _write(
    tmp_path / "run",
    "crr",
    builder,
    {"checkpoints": (1, objects, {})},
    environment="none",
    dataset={"normalise_observations": True},
    dataset_path=data,
  )
  run = run_loading.open_run(path)
  assert run.source is None
  interface = run.make_interface()
  assert interface.environment_spec.observations.shape == (2,)
  np.testing.assert_array_equal(interface.action_mapping.to_environment(np.ones(2)), [2.0, 2.0])
  loaded = run.load(interface.environment_spec)
  observation = np.array([3.5, 2.0], np.float32)
  act = lambda network: network(observation[None], network.initial_state(1))[0].mean().numpy()
  np.testing.assert_array_equal(act(loaded.networks.policy_network), act(networks.policy_network))
  os.remove(data)
  with pytest.raises(ValueError, match="which is not there.*Give --env"):
    run_loading.open_run(path).load()
  with contextlib.closing(_environment()) as environment:
    run_loading.open_run(path, environment=_environment).load(
      specs.make_environment_spec(environment)
    )
