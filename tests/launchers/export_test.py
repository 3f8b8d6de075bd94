"""Tests of `temper.launchers.export`."""

import os
import shutil

import numpy as np
import pytest

from temper.agents import actor as actor_lib
from temper.agents import policies
from temper.launchers import export
from temper.launchers import run_loading
from temper.utils import exporting
from temper.utils.exporting import metadata as metadata_lib


@pytest.fixture(name="run", scope="module")
def _run(pendulum_run, tmp_path_factory):
  folder = str(tmp_path_factory.mktemp("own") / "run")
  shutil.copytree(pendulum_run, folder)
  return folder


@pytest.mark.parametrize("export_format", ["savedmodel", "tflite"])
def test_a_runs_policy_is_exported_and_acts_as_the_run_does(run, export_format, capsys):
  assert export.run(["temper export", run, f"--format={export_format}"]) == 0
  folder = os.path.join(run, "exported", export_format)
  printed = capsys.readouterr().out
  assert f"SVG0, step 60, as {export_format} in {folder}:" in printed
  assert "deterministic: observation -> action, canonical_action" in printed
  loaded = exporting.LoadedPolicy(folder)
  assert set(loaded.functions) == {"deterministic", "sample"}
  metadata = loaded.metadata
  assert metadata["agent"] == "svg0" and metadata["step"] == 60
  assert metadata["environment"] == "gym:Pendulum-v1" and "critic_layer_sizes" in metadata["config"]
  assert metadata["action"]["maximum"] in (2.0, [2.0])
  actor = actor_lib.Actor(run_loading.open_run(run).load().make_policy(policies.MEAN))
  observation = np.array([0.1, -0.9, 2.0], np.float32)
  outputs = loaded.functions["deterministic"](observation=observation[None])
  expected = actor.select_action(observation)
  np.testing.assert_allclose(outputs["canonical_action"][0], expected, atol=1e-5)
  np.testing.assert_allclose(outputs["action"][0], 2.0 * expected, atol=1e-5)


def test_what_is_asked_for_is_exported(run, tmp_path):
  folder = str(tmp_path / "policy")
  flags = ["--policy=boltzmann", "--beta=0.5", "--num_action_samples=3", "--checkpoint=30"]
  assert export.run(["temper export", f"--directory={run}", f"--output={folder}", *flags]) == 0
  metadata = metadata_lib.read(folder)
  assert metadata["step"] == 30
  facts = metadata["functions"]["boltzmann"]
  assert facts["beta"] == 0.5 and facts["num_action_samples"] == 3
  assert list(metadata["functions"]) == ["boltzmann"]


@pytest.mark.parametrize(
  "words, message",
  [
    ([], "One folder"),
    (["RUN", "RUN"], "one RUN too many"),
    (["RUN", "--policy=mean"], "some of deterministic, sample, boltzmann"),
    (["RUN", "--policy=sample,sample"], "each once"),
    (["RUN", "--beta=1"], "--beta is for boltzmann"),
    (["RUN", "--format=pickle"], "pickle"),
    (["RUN", "--checkpoint=17"], "no checkpoint of step 17"),
    (["nowhere"], "nowhere holds no run"),
  ],
)
def test_what_cannot_be_is_refused(words, message, run, capsys):
  words = [run if word == "RUN" else word for word in words]
  assert export.run(["temper export", *words]) == 2
  assert message in capsys.readouterr().err


def test_help_has_defaults_and_an_example(capsys):
  assert export.run(["temper export", "--help"]) == 0
  printed = capsys.readouterr().out
  assert "[savedmodel]" in printed and "temper export runs/pendulum --format=onnx" in printed
