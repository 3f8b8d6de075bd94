"""Tests of `temper.launchers.experiment`: whole runs on a trivial environment."""

import dataclasses
import json
import os
import signal

from acme import specs
import numpy as np
from PIL import Image
import pytest
import tensorflow as tf

from temper.agents import policies
from temper.agents import svg0_prior
from temper.launchers import evaluating
from temper.launchers import experiment
from temper.launchers import outcomes
from temper.launchers import stopping
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing
from temper.utils import fakes
from temper.utils import run_loggers

_CONFIG = svg0_prior.SVG0Config(
  batch_size=8,
  sequence_length=4,
  samples_per_insert=1.0,
  min_replay_size=40,
  max_replay_size=1_000,
  policy_layer_sizes=(16,),
  critic_layer_sizes=(16,),
  prior_layer_sizes=(8,),
  use_prior=True,
  policy_learning_rate=1e-3,
  critic_learning_rate=1e-3,
)


class DrawnPointMass(fakes.PointMass):
  """A point mass with a picture."""

  def render(self):
    return np.full((48, 64, 3), 90, np.uint8)


def _experiment(directory, **changes):
  settings = {
    "builder": svg0_prior.SVG0Builder(_CONFIG),
    "environment": DrawnPointMass,
    "environment_name": "point mass",
    "steps": 210,
    "directory": str(directory),
    "eval_every": 100,
    "eval_episodes": 4,
    "eval_episodes_training": 2,
    "log_every": 20,
    "checkpoint_every": 100,
  }
  return experiment.ExperimentConfig(**{**settings, **changes})


def _column(directory, name, column):
  rows = run_loggers.read_csv(os.path.join(RunDirectory(str(directory)).logs, f"{name}.csv"))
  return [float(row[column]) for row in rows]


def _weights(checkpoint):
  reader = tf.train.load_checkpoint(os.path.join(checkpoint, "tensors"))
  names = [name for name in reader.get_variable_to_shape_map() if "policy/" in name]
  assert names
  return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory):
  directory = tmp_path_factory.mktemp("runs") / "run"
  return directory, experiment.run_experiment(_experiment(directory))


def test_a_run_stops_at_its_exact_step_and_leaves_a_checkpoint_of_it(finished):
  directory, result = finished
  assert result.steps == 210 and result.stop is None
  assert os.path.basename(result.checkpoint) == "step_210"
  assert sorted(os.listdir(os.path.join(directory, "checkpoints"))) == ["step_200", "step_210"]


def test_a_run_leaves_every_artefact_where_it_was_told_to(finished):
  directory, result = finished
  assert sorted(os.listdir(directory)) == [
    "best",
    "checkpoints",
    "config.json",
    "episode.gif",
    "learning_curve.png",
    "logs",
    "policy",
    "result.json",
  ]
  paths = result.summary["artefacts"]
  assert list(paths)[0] == "checkpoint" and all(os.path.exists(path) for path in paths.values())
  with open(paths["config"], encoding="utf-8") as file:
    config = json.load(file)
  assert config["agent"] == "SVG0Builder" and config["environment"] == "point mass"
  assert config["config"]["policy_layer_sizes"] == [16] and config["run"]["steps"] == 210
  assert "tensorflow" in config["versions"]
  with open(paths["result"], encoding="utf-8") as file:
    assert json.load(file) == json.loads(json.dumps(result.summary))
  with Image.open(paths["episode"]) as film:
    assert film.width == 160  # Widened, so that the caption fits.


def test_the_logs_agree_with_the_counts(finished):
  directory, result = finished
  # 210 steps are ten whole episodes of 20 steps, and half a one that is not reported.
  assert _column(directory, "train", "step") == [20.0 * i for i in range(1, 11)]
  assert _column(directory, "train", "episode") == [float(i) for i in range(1, 11)]
  assert _column(directory, "evaluation", "step") == [0, 100, 200, 210, 210]
  assert _column(directory, "speed", "step") == [20.0 * i for i in range(1, 11)]
  learner_steps = _column(directory, "learner", "learner_steps")
  assert learner_steps == sorted(set(learner_steps))
  assert _column(directory, "speed", "learning_steps_per_second")[0] == 0.0
  assert result.summary["learner_steps"] >= learner_steps[-1] > 0
  assert result.summary["acting_steps_per_second"] > 0
  final = result.evaluations["deterministic"]
  assert final.low <= final.mean <= final.high and len(final.returns) == 4


def test_the_exported_policy_acts_as_the_agent_does(finished):
  _, result = finished
  policy = tf.saved_model.load(result.summary["artefacts"]["policy"]).signatures["deterministic"]
  environment = fakes.PointMass()
  from temper.utils import evaluation

  for seed, expected in zip(evaluation.start_seeds(4), result.evaluations["deterministic"].returns):
    environment.seed(seed)
    timestep, total = environment.reset(), 0.0
    while not timestep.last():
      outputs = policy(observation=tf.constant(timestep.observation[None]))
      timestep = environment.step(outputs["action"].numpy()[0])
      total += timestep.reward
    assert total == pytest.approx(expected, rel=1e-4)


def test_asking_again_for_a_finished_run_only_evaluates(finished, capfd):
  directory, result = finished
  before = _weights(result.checkpoint)
  again = experiment.run_experiment(_experiment(directory))
  assert "has done its 210 steps" in capfd.readouterr().err
  assert again.steps == 210 and again.summary["learner_steps"] == result.summary["learner_steps"]
  assert again.evaluations["deterministic"].returns == pytest.approx(
    result.evaluations["deterministic"].returns
  )
  assert _column(directory, "evaluation", "step") == [0, 100, 200, 210, 210]
  for name, value in _weights(again.checkpoint).items():
    np.testing.assert_array_equal(value, before[name])


def test_other_settings_are_refused_by_name_and_change_nothing(finished):
  directory, _ = finished
  before = sorted(os.walk(directory))
  other = svg0_prior.SVG0Builder(dataclasses.replace(_CONFIG, batch_size=16))
  with pytest.raises(outcomes.SettingsError, match="config.batch_size: 8 there, 16 asked for"):
    experiment.run_experiment(_experiment(directory, builder=other))
  with pytest.raises(outcomes.SettingsError, match="seed: 0 there, 5 asked for"):
    experiment.run_experiment(_experiment(directory, seed=5))
  assert sorted(os.walk(directory)) == before


class _Interrupted(DrawnPointMass):
  """Sends the process a signal during its 130th step."""

  steps = 0

  def step(self, action):
    type(self).steps += 1
    if type(self).steps == 130:
      os.kill(os.getpid(), signal.SIGINT)
    return super().step(action)


def test_ctrl_c_saves_at_the_step_and_the_same_call_resumes(tmp_path, capfd):
  config = _experiment(tmp_path, environment=_Interrupted, eval_every=0, steps=200, gif=False)
  stopped = experiment.run_experiment(config)
  assert stopped.stop.exit_code == 130 and stopped.steps == 130 and not stopped.evaluations
  assert os.path.basename(stopped.checkpoint) == "step_130"
  saved = checkpointing.read_state(stopped.checkpoint)["state"]
  assert saved["run"]["steps"] == 130 and saved["run"]["episodes"] == 6

  result = experiment.run_experiment(config)
  assert "Resuming from" in capfd.readouterr().err
  assert result.stop is None and result.steps == 200
  # The half episode before the stop is not reported; nothing is reported twice.
  assert _column(tmp_path, "train", "step") == [20, 40, 60, 80, 100, 120, 150, 170, 190]
  assert _column(tmp_path, "train", "episode") == list(range(1, 10))
  assert _column(tmp_path, "speed", "step") == list(range(20, 201, 20))
  # One update every eight steps, before and after: replay and the schedule were restored.
  assert result.summary["learner_steps"] == 200 // 8 - 40 // 8 + 1


class _Poisoned(fakes.PointMass):
  """Rewards turn NaN after 150 steps."""

  steps = 0

  def step(self, action):
    type(self).steps += 1
    timestep = super().step(action)
    return timestep._replace(reward=np.float32("nan")) if type(self).steps > 150 else timestep


def test_a_faulty_environment_is_named_and_the_last_good_checkpoint_stays(tmp_path):
  config = _experiment(tmp_path, environment=_Poisoned, eval_every=0, steps=1_000)
  with pytest.raises(outcomes.TrainingFailed, match="step 11 of its episode 9: .*reward nan") as e:
    experiment.run_experiment(config)
  assert os.path.join("checkpoints", "step_100") in str(e.value)
  assert os.listdir(tmp_path / "checkpoints") == ["step_100"]


def test_nan_names_the_tensors_and_keeps_the_last_good_checkpoint(tmp_path):
  made = []

  class Spoiler(fakes.PointMass):
    """Puts NaN into the critic after 150 steps."""

    steps = 0

    def step(self, action):
      Spoiler.steps += 1
      if Spoiler.steps == 150:
        variable = made[0].critic_network.trainable_variables[0]
        variable.assign(np.full(variable.shape, np.nan))
      return super().step(action)

  builder = svg0_prior.SVG0Builder(_CONFIG)

  def make_networks(spec):
    made.append(builder.make_networks(spec, seed=0))
    return made[0]

  config = _experiment(
    tmp_path, environment=Spoiler, networks_factory=make_networks, eval_every=0, steps=1_000
  )
  with pytest.raises(outcomes.TrainingFailed, match="critic_loss = nan") as caught:
    experiment.run_experiment(config)
  assert os.path.join("checkpoints", "step_100") in str(caught.value)
  assert os.listdir(tmp_path / "checkpoints") == ["step_100"]
  for value in _weights(str(tmp_path / "checkpoints" / "step_100")).values():
    assert np.all(np.isfinite(value))


def test_an_episode_without_end_stops_the_evaluation(tmp_path, monkeypatch, capfd):
  monkeypatch.setattr(experiment.evaluation, "MAX_EPISODE_STEPS", 12)
  monkeypatch.setattr(evaluating, "_LONG_EPISODE", 5)
  with pytest.raises(outcomes.TrainingFailed, match="max_episode_steps"):
    experiment.run_experiment(_experiment(tmp_path))
  assert "has run for 10 steps; the limit is 12" in capfd.readouterr().err


def test_a_run_may_act_and_be_evaluated_by_the_boltzmann_policy(tmp_path, capfd):
  choice = policies.PolicyChoice("boltzmann", beta=0.2, num_action_samples=4)
  config = _experiment(
    tmp_path, behaviour_policy=choice, eval_policy=choice, steps=120, gif=False, checkpoint_every=0
  )
  result = experiment.run_experiment(config)
  assert list(result.evaluations) == ["deterministic", "stochastic", "boltzmann"]
  evaluations = result.summary["evaluations"]
  assert [e["policy"] for e in evaluations.values()] == ["mean", "raw", "boltzmann"]
  assert evaluations["boltzmann"]["returns"] != evaluations["stochastic"]["returns"]
  said = str(choice)
  assert f"Acting while training: {said}; in evaluations: {said}." in capfd.readouterr().err
  rows = run_loggers.read_csv(os.path.join(RunDirectory(str(tmp_path)).logs, "evaluation.csv"))
  assert [row["mode"] for row in rows[:2]] == ["boltzmann"] * 2
  with open(os.path.join(tmp_path, "config.json"), encoding="utf-8") as file:
    recorded = json.load(file)["run"]
  wanted = {"kind": "boltzmann", "beta": 0.2, "num_action_samples": 4}
  assert recorded["behaviour_policy"] == recorded["eval_policy"] == wanted


def test_a_run_in_which_nothing_can_be_learnt_is_noted(tmp_path, capfd):
  result = experiment.run_experiment(_experiment(tmp_path, steps=30, eval_every=0, gif=False))
  assert result.summary["learner_steps"] == 0
  noted = capfd.readouterr().err
  assert "first learner step is due after 40 environment steps, and the run has 30" in noted


def test_a_stop_before_training_changes_nothing(tmp_path):
  directory = tmp_path / "run"
  with stopping.StopSignal() as stop:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(stopping.StopRequested) as caught:
      experiment.run_experiment(_experiment(directory), stop)
  assert caught.value.exit_code == 143 and not directory.exists()


def test_own_networks_are_used_and_missing_pictures_are_only_noted(tmp_path, capfd, monkeypatch):
  made = []

  def no_matplotlib(*unused, **unused_options):
    raise ImportError("install the plots extra")

  monkeypatch.setattr(experiment.plotting, "plot_learning_curve", no_matplotlib)

  def make_networks(spec):
    networks = svg0_prior.SVG0Networks(
      **{
        f"{name}_network": network
        for name, network in svg0_prior.make_default_networks(
          spec.actions, policy_layer_sizes=(8,), critic_layer_sizes=(8,)
        ).items()
        if name in ("policy", "critic")
      }
    )
    networks.init(spec)
    made.append(networks)
    return networks

  result = experiment.run_experiment(
    _experiment(
      tmp_path,
      environment=lambda: fakes.FakeEnvironment(
        specs.Array((2,), np.float32), specs.BoundedArray((1,), np.float32, -1, 1)
      ),
      networks_factory=make_networks,
      steps=45,
      eval_every=0,
    )
  )
  assert len(made) == 1 and result.steps == 45
  noted = capfd.readouterr().err
  assert "No GIF of an episode" in noted and "No learning curve: install the plots extra" in noted
  assert not os.path.exists(tmp_path / "episode.gif")
  assert "learning curve" not in result.summary["artefacts"]
  assert os.path.exists(tmp_path / "result.json")


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"steps": 0}, "steps is 0"),
    ({"log_every": -1}, "log_every is -1"),
    ({"eval_episodes": 0}, "eval_episodes is 0"),
    ({"seed": -1}, "seed is -1"),
    ({"directory": ""}, "directory is empty"),
  ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, changes, message):
  with pytest.raises(ValueError, match=message):
    _experiment(**{"directory": tmp_path, **changes})


def test_an_environment_that_is_refused_leaves_no_folder(tmp_path):
  directory = tmp_path / "run"
  with pytest.raises(outcomes.SettingsError, match="there is no environment"):
    experiment.run_experiment(_experiment(directory, environment="nonsense"))
  assert not directory.exists()
