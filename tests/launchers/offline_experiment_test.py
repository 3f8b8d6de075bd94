"""Tests of `temper.launchers.offline_experiment`: whole runs on a trivial dataset."""

import json
import os
import signal

import numpy as np
from PIL import Image
import pytest
import tensorflow as tf

from temper.agents import crr
from temper.agents import policies
from temper.launchers import offline_experiment
from temper.launchers import outcomes
from temper.launchers import stopping
from temper.launchers.offline_experiment_config import OfflineExperimentConfig
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils import environments
from temper.utils import evaluation
from temper.utils import exporting
from temper.utils import fakes
from temper.utils import run_loggers
from temper.utils.datasets import episodes
from temper.utils.datasets import opening
from temper.utils.datasets import writing

_CONFIG = crr.CRRConfig(
  batch_size=16,
  sequence_length=5,
  lstm_size=None,
  policy_layer_sizes=(16,),
  critic_layer_sizes=(16,),
  policy_learning_rate=3e-3,
  critic_learning_rate=3e-3,
  target_update_period=10,
)


def _experiment(file, directory, config=_CONFIG, **changes):
  settings = {
    "builder_class": crr.CRRBuilder,
    "config": config,
    "dataset": file,
    "environment": fakes.PointMass,
    "environment_name": "point mass",
    "steps": 110,
    "directory": str(directory),
    "eval_every": 40,
    "eval_episodes": 4,
    "eval_episodes_training": 2,
    "log_every": 20,
    "checkpoint_every": 50,
    "gif": False,
  }
  return OfflineExperimentConfig(**{**settings, **changes})


def _run(*args, **changes):
  return offline_experiment.run_offline_experiment(_experiment(*args, **changes))


def _rows(directory, name):
  return run_loggers.read_csv(os.path.join(RunDirectory(str(directory)).logs, f"{name}.csv"))


def _tensors(checkpoint):
  reader = tf.train.load_checkpoint(os.path.join(checkpoint, "tensors"))
  names = [name for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name]
  return {name: reader.get_tensor(name) for name in names if reader.get_tensor(name).dtype != "O"}


def _assert_equal(one, other):
  assert one.keys() == other.keys()
  for name, value in one.items():
    np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory, point_mass_file):
  directory = tmp_path_factory.mktemp("runs") / "run"
  return directory, _run(point_mass_file, directory, gif=True)


def test_a_run_leaves_every_artefact_where_it_was_told_to(finished, point_mass_file):
  directory, result = finished
  assert result.steps == 110 and result.stop is None
  assert sorted(os.listdir(directory)) == [
    "best",
    "checkpoints",
    "config.json",
    "episode.gif",
    "learning_curve.png",
    "logs",
    "policy",
    "result.json",
    "snapshots",
  ]
  assert sorted(os.listdir(directory / "checkpoints")) == ["step_100", "step_110"]
  paths = result.summary["artefacts"]
  assert all(os.path.exists(path) for path in paths.values())
  with open(paths["config"], encoding="utf-8") as file:
    record = json.load(file)
  data = opening.open_dataset(point_mass_file)
  assert record["dataset"]["episodes"] == 30 and record["dataset"]["steps"] == 600
  assert record["dataset"]["mean_return"] == pytest.approx(data.returns.mean())
  assert [p["kind"] for p in record["run"]["policies"]] == ["mean", "raw", "boltzmann"]
  with open(paths["result"], encoding="utf-8") as file:
    assert json.load(file) == json.loads(json.dumps(result.summary))
  with Image.open(paths["episode"]) as film:
    assert film.width == 160  # Widened, so that the caption fits.


def test_the_support_is_set_from_the_data_and_kept_in_the_config(finished):
  directory, _ = finished
  with open(directory / "config.json", encoding="utf-8") as file:
    config = json.load(file)["config"]
  # Squared distances are at most 2 a step, and nothing is worth more than 0.
  assert -200 <= config["vmin"] < -3 and config["vmax"] == 0
  assert (config["vmin"], config["vmax"]) != (_CONFIG.vmin, _CONFIG.vmax)


def test_the_logs_have_a_row_where_they_should(finished):
  directory, result = finished
  modes = ["deterministic", "stochastic", "boltzmann"]
  expected = [(str(step), mode) for step in (0, 40, 80, 110) for mode in modes]
  evaluations = _rows(directory, "evaluation")
  assert [(row["step"], row["mode"]) for row in evaluations] == expected
  assert [row["episodes"] for row in evaluations[-4:]] == ["2", "4", "4", "4"]
  learner = _rows(directory, "learner")
  assert [row["step"] for row in learner] == ["20", "40", "60", "80", "100"]
  assert {"critic_loss", "policy_loss", "target_outside_support_share"} <= set(learner[0])
  assert all(float(row["learning_steps_per_second"]) > 0 for row in _rows(directory, "speed"))
  assert list(result.evaluations) == modes


def test_the_best_is_never_worse_than_the_last_and_its_checkpoint_stays(finished):
  directory, result = finished
  assert list(result.best) == list(result.evaluations)
  for mode, best in result.best.items():
    assert best.result.mean >= result.evaluations[mode].mean
    kept = os.listdir(directory / "best" / mode)
    evaluated = {
      int(row["step"]): float(row["return_mean"])
      for row in _rows(directory, "evaluation")
      if row["mode"] == mode and row["step"] in ("40", "80")
    }
    assert kept == [f"step_{max(evaluated, key=evaluated.get)}"]


def test_evaluating_the_best_leaves_the_last_networks(finished, point_mass_file, tmp_path):
  directory, result = finished
  signature = tf.saved_model.load(str(directory / "policy")).signatures["deterministic"]
  environment = environments.wrap(fakes.PointMass())
  final = result.evaluations["deterministic"]
  for seed, expected in zip(evaluation.start_seeds(4), final.returns):
    environment.seed(seed)
    timestep, total = environment.reset(), 0.0
    while not timestep.last():
      outputs = signature(observation=tf.constant(timestep.observation[np.newaxis]))
      timestep = environment.step(outputs["canonical_action"].numpy()[0])
      total += timestep.reward
    assert total == pytest.approx(expected, rel=1e-4)


def test_a_run_in_two_parts_is_the_run_in_one(finished, point_mass_file, tmp_path):
  _, whole = finished
  first = _run(point_mass_file, tmp_path / "run", steps=60)
  assert os.path.basename(first.checkpoint) == "step_60"
  second = _run(point_mass_file, tmp_path / "run")
  # Same batches, same draws: the very same weights, optimizers included.
  _assert_equal(_tensors(whole.checkpoint), _tensors(second.checkpoint))
  assert second.evaluations["boltzmann"].returns == whole.evaluations["boltzmann"].returns
  steps = [row["step"] for row in _rows(tmp_path / "run", "learner")]
  assert steps == ["20", "40", "60", "80", "100"]


def test_asking_again_for_a_finished_run_only_evaluates(finished, point_mass_file, capfd):
  directory, result = finished
  before = _tensors(result.checkpoint)
  again = _run(point_mass_file, directory)
  assert "has done its 110 steps" in capfd.readouterr().err
  _assert_equal(before, _tensors(again.checkpoint))
  for mode, evaluated in result.evaluations.items():
    assert again.evaluations[mode].returns == evaluated.returns
    assert again.best[mode].step == result.best[mode].step
  assert len(_rows(directory, "evaluation")) == 12


def test_a_stop_saves_and_the_same_settings_resume(point_mass_file, tmp_path):
  class StopAtThirty(stopping.StopSignal):
    calls = 0

    def check(self):
      self.calls += 1
      if self.calls == 30:
        raise stopping.StopRequested(signal.SIGTERM)

  asked = _experiment(point_mass_file, tmp_path / "run", eval_every=0)
  with StopAtThirty() as stop:
    stopped = offline_experiment.run_offline_experiment(asked, stop)
  assert stopped.stop.exit_code == 143 and not stopped.evaluations
  assert 0 < stopped.steps < 30
  assert os.path.basename(stopped.checkpoint) == f"step_{stopped.steps}"
  result = offline_experiment.run_offline_experiment(asked)
  assert result.steps == 110 and result.stop is None


def test_other_data_or_settings_do_not_resume_a_run(finished, point_mass_file):
  directory, _ = finished
  data = opening.open_dataset(point_mass_file)
  fewer = episodes.InMemoryDataset(list(data)[:-1], path="fewer.npz", format=data.format)
  with pytest.raises(outcomes.SettingsError, match="dataset.episodes: 30 there, 29 asked for"):
    _run(fewer, directory)
  with pytest.raises(outcomes.SettingsError, match="normalise_observations: False there"):
    _run(point_mass_file, directory, normalise_observations=True)
  with pytest.raises(outcomes.SettingsError, match="config.vmax"):
    _run(point_mass_file, directory, values_from_data=("vmin",))


def test_normalised_observations_have_mean_zero_and_deviation_one(point_mass_file, tmp_path):
  data = opening.open_dataset(point_mass_file)
  shifted = [
    episodes.Episode(100 + 9 * e.observation, e.action, e.reward, e.discount) for e in data
  ]
  path = str(tmp_path / "shifted.npz")
  writing.write_dataset(path, "npz", shifted)
  plain, normalised = (
    _run(path, tmp_path / str(n), environment=None, steps=60, normalise_observations=n)
    for n in (False, True)
  )
  variables = _tensors(normalised.checkpoint).items()
  means = [value for name, value in variables if "policy" in name and value.shape == (2,)]
  assert any(np.allclose(value, 100, atol=2) for value in means)
  losses = [float(_rows(tmp_path / str(n), "learner")[-1]["policy_loss"]) for n in (False, True)]
  assert losses[1] < losses[0]
  assert plain.steps == normalised.steps == 60


def test_without_an_environment_the_specs_come_from_the_data(point_mass_file, tmp_path, capfd):
  result = _run(point_mass_file, tmp_path / "run", environment=None)
  err = capfd.readouterr().err
  assert "nothing is evaluated" in err and "[-1.0, -1.0] and [1.0, 1.0]" in err
  assert not result.evaluations and not result.best and result.steps == 110
  assert not _rows(tmp_path / "run", "evaluation")
  with pytest.raises(outcomes.SettingsError, match="max_episode_steps.*no environment"):
    _run(
      point_mass_file,
      tmp_path / "other",
      environment=None,
      environment_options={"max_episode_steps": 3},
    )


def test_a_recurrent_policy_trains_and_is_exported_with_its_state(point_mass_file, tmp_path):
  config = crr.CRRConfig(**{**vars(_CONFIG), "lstm_size": 8, "burn_in_length": 2})
  result = _run(point_mass_file, tmp_path / "run", config, steps=20, eval_every=0)
  exported = exporting.LoadedPolicy(result.summary["artefacts"]["policy"])
  state = exported.initial_state("deterministic", 2)
  assert {name: value.shape for name, value in state.items()} == {
    "state_hidden": (2, 8),
    "state_cell": (2, 8),
  }
  assert set(result.evaluations) == {"deterministic", "stochastic", "boltzmann"}


def test_chosen_policies_alone_are_evaluated(point_mass_file, tmp_path):
  choice = policies.PolicyChoice(policies.PolicyKind.BOLTZMANN, beta=0.0, num_action_samples=3)
  result = _run(point_mass_file, tmp_path / "run", steps=40, eval_policies=(choice,))
  assert list(result.evaluations) == ["boltzmann"]
  assert {row["mode"] for row in _rows(tmp_path / "run", "evaluation")} == {"boltzmann"}
  with pytest.raises(ValueError, match="each kind once"):
    _experiment(point_mass_file, tmp_path, eval_policies=(choice, choice))


def test_a_dataset_of_another_environment_is_refused_and_no_folder_is_made(
  point_mass_file, tmp_path
):
  with pytest.raises(outcomes.SettingsError, match=r"point_mass.npz: episode 0: .*\[2\].*\[3\]"):
    _run(point_mass_file, tmp_path / "run", environment=lambda: fakes.PointMass(dimensions=3))
  assert not (tmp_path / "run").exists()


def test_a_diverged_run_names_the_last_good_checkpoint(point_mass_file, tmp_path):
  config = crr.CRRConfig(**{**vars(_CONFIG), "critic_learning_rate": float("1e38")})
  with pytest.raises(outcomes.TrainingFailed, match="Last good checkpoint: none yet"):
    _run(point_mass_file, tmp_path / "run", config, eval_every=0)
  assert not (tmp_path / "run" / "checkpoints").exists()


def test_learning_beats_the_data(point_mass_file, tmp_path):
  result = _run(point_mass_file, tmp_path / "run", steps=600, eval_every=0, eval_episodes=10)
  data = opening.open_dataset(point_mass_file)
  assert result.evaluations["deterministic"].mean > data.returns.mean() / 2


def test_a_damaged_best_checkpoint_is_named(finished, point_mass_file, tmp_path):
  _run(point_mass_file, tmp_path / "run", steps=50)
  folder = tmp_path / "run" / "best" / "stochastic"
  state = folder / os.listdir(folder)[0] / "state.json"
  document = json.loads(state.read_text())
  del document["state"]["mean_return"]
  state.write_text(json.dumps(document))
  with pytest.raises(checkpointing.CheckpointError, match="best.*Delete"):
    _run(point_mass_file, tmp_path / "run")
