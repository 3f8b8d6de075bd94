"""Whole runs under strategies: on two logical processors, and resumed on another number of them."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

from temper.agents import crr
from temper.agents import sac
from temper.agents import svg0_prior
from temper.launchers import experiment
from temper.launchers import offline_experiment
from temper.launchers import outcomes
from temper.launchers import train
from temper.launchers.offline_experiment_config import OfflineExperimentConfig
from temper.utils import checkpointing
from temper.utils import fakes

_REPLICAS = len(tf.config.list_physical_devices("GPU")) or 2
pytestmark = pytest.mark.skipif(
  _REPLICAS not in (2, 4), reason=f"{_REPLICAS} GPUs cannot share a batch of 4"
)
_SHARED = f"{4 // _REPLICAS} of a batch of 4 on each."

_SVG0 = svg0_prior.SVG0Config(
  batch_size=4,
  sequence_length=3,
  samples_per_insert=1.0,
  min_replay_size=20,
  policy_layer_sizes=(8,),
  critic_layer_sizes=(8,),
  prior_layer_sizes=(8,),
  use_prior=True,
)
_SAC = sac.SACConfig(
  batch_size=4,
  policy_layer_sizes=(8,),
  critic_layer_sizes=(8,),
  warm_up_steps=10,
  min_replay_size=20,
  max_replay_size=100,
  sample_in_memory=True,
)


def _experiment(directory, **changes):
  settings = {
    "builder": svg0_prior.SVG0Builder(_SVG0),
    "environment": fakes.PointMass,
    "environment_name": "point mass",
    "steps": 60,
    "directory": str(directory),
    "eval_every": 0,
    "eval_episodes": 1,
    "log_every": 20,
    "gif": False,
    "strategy": "mirrored",
  }
  return experiment.ExperimentConfig(**{**settings, **changes})


def _weights(checkpoint):
  reader = tf.train.load_checkpoint(os.path.join(checkpoint, "tensors"))
  names = [name for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name]
  return {name: reader.get_tensor(name) for name in names}


@pytest.mark.parametrize(
  "builder", [svg0_prior.SVG0Builder(_SVG0), sac.SACBuilder(_SAC)], ids=["svg0", "sac"]
)
def test_a_run_on_two_replicas_is_whole_and_goes_on_on_one(builder, tmp_path, capsys):
  first = experiment.run_experiment(_experiment(tmp_path, builder=builder))
  told = capsys.readouterr().err
  assert f"Learning on {_REPLICAS} replicas, " in told and _SHARED in told
  assert first.summary["learner_steps"] > 5
  assert "policy" in first.summary["artefacts"]
  with open(tmp_path / "config.json", encoding="utf-8") as file:
    assert json.load(file)["run"]["strategy"] == "mirrored"
  before = _weights(first.checkpoint)

  one = experiment.run_experiment(
    _experiment(tmp_path, builder=builder, steps=80, strategy="one_device")
  )
  assert re.search(r"Learning on one device, .PU:0: 4 a batch\.", capsys.readouterr().err)
  assert one.summary["learner_steps"] > first.summary["learner_steps"]
  after = _weights(one.checkpoint)
  # Nothing was lost on the way, and nothing stands still.
  assert before.keys() == after.keys()
  assert any(not np.array_equal(before[name], after[name]) for name in before)
  state = checkpointing.read_state(one.checkpoint)["state"]
  assert (
    state["run"]["steps"] == 80
    and state["counter"]["counts"]["steps"] == (one.summary["learner_steps"])
  )
  # And back.
  two = experiment.run_experiment(_experiment(tmp_path, builder=builder, steps=100))
  assert two.summary["learner_steps"] > one.summary["learner_steps"]


def test_networks_of_ones_own_are_made_under_the_strategy(tmp_path):
  builder = svg0_prior.SVG0Builder(_SVG0)
  made = []

  def networks(spec):
    made.append(builder.make_networks(spec, seed=3))
    return made[0]

  result = experiment.run_experiment(_experiment(tmp_path, networks_factory=networks))
  assert result.summary["learner_steps"] > 5
  variable = made[0].policy_network.trainable_variables[0]
  strategy = variable.distribute_strategy
  assert len(strategy.experimental_local_results(variable)) == _REPLICAS


def test_a_batch_that_cannot_be_shared_is_refused_before_there_is_a_folder(tmp_path):
  builder = sac.SACBuilder(sac.SACConfig(batch_size=5))
  with pytest.raises(outcomes.SettingsError, match=f"A batch of 5 .* multiple of {_REPLICAS}"):
    experiment.run_experiment(_experiment(tmp_path / "run", builder=builder))
  assert not os.path.exists(tmp_path / "run")


def test_the_flag_is_read_and_what_it_needs_is_asked_for(tmp_path, monkeypatch, capsys):
  for name in ("TPU_NAME", "TPU_CONFIG", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
    monkeypatch.delenv(name, raising=False)
  words = ["temper train", f"--directory={tmp_path / 'run'}"]
  assert train.run([*words, "--strategy=tpu"]) == 2
  assert "strategy is 'tpu' and no TPU can be used: TPU_NAME is not set" in capsys.readouterr().err
  assert train.run([*words, "--strategy=both"]) == 2
  assert "auto|one_device|mirrored|tpu" in capsys.readouterr().err
  assert not os.path.exists(tmp_path / "run")


def test_an_offline_run_shares_its_batches(point_mass_file, tmp_path, capsys):
  config = crr.CRRConfig(
    batch_size=4,
    sequence_length=3,
    lstm_size=None,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
  )
  asked = {
    "builder_class": crr.CRRBuilder,
    "config": config,
    "dataset": point_mass_file,
    "environment": None,
    "directory": str(tmp_path / "run"),
  }
  done = offline_experiment.run_offline_experiment(
    OfflineExperimentConfig(**asked, steps=3, strategy="mirrored")
  )
  assert _SHARED in capsys.readouterr().err and done.steps == 3
  done = offline_experiment.run_offline_experiment(
    OfflineExperimentConfig(**asked, steps=5, strategy="one_device")
  )
  assert "Learning on one device" in capsys.readouterr().err and done.steps == 5
  with pytest.raises(ValueError, match="strategy is 'many'"):
    OfflineExperimentConfig(**asked, steps=5, strategy="many")
