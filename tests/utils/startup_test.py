"""The stack check refuses in one message, before it is loaded, what would die in the loader."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from temper.utils import startup

_GOOD = {
  "tensorflow": "2.12.1",
  "dm-reverb": "0.11.0",
  "dm-launchpad-nightly": "0.5.2.dev20230301",
}


@pytest.fixture(name="install")
def _install(monkeypatch):
  """Returns a function that makes the check see these distributions, and no other module."""

  def install(**changes):
    versions = dict(_GOOD)
    for name, version in changes.items():
      versions[name.replace("_", "-")] = version
    monkeypatch.setattr(startup, "installed_version", lambda name: versions.get(name))
    monkeypatch.setattr(startup.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv(startup.SKIP_VARIABLE, raising=False)

  return install


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"tensorflow": "2.12.0"},
    {"tensorflow": "2.12.1+nv23.6"},
    {"tensorflow": None, "tensorflow_cpu": "2.12.1"},
    {"tensorflow_cpu": "2.12.0"},
  ],
)
def test_accepts_every_tensorflow_of_the_series(install, changes):
  install(**changes)
  startup.check_stack()


@pytest.mark.parametrize(
  ("changes", "named"),
  [
    ({"tensorflow": "2.8.0"}, ["tensorflow 2.8.0 found", "tensorflow 2.12.* supported"]),
    ({"tensorflow": "2.120.0"}, ["tensorflow 2.120.0 found"]),
    ({"tensorflow": None, "tensorflow_cpu": "2.16.1"}, ["tensorflow-cpu 2.16.1 found"]),
    ({"tf_nightly": "2.13.0.dev20230401"}, ["tf-nightly 2.13.0.dev20230401 found"]),
    ({"dm_reverb": "0.7.0"}, ["dm-reverb 0.7.0 found", "dm-reverb 0.11.0 supported"]),
    ({"dm_launchpad": "0.5.0"}, ["dm-launchpad 0.5.0 found", "pip uninstall -y dm-launchpad"]),
    ({"dm_launchpad_nightly": "0.5.2.dev20230310"}, ["dm-launchpad-nightly 0.5.2.dev20230310"]),
    ({"dm_reverb": None}, ["dm-reverb not found", "dm-reverb==0.11.0"]),
    (
      {"tensorflow": "2.8.0", "dm_reverb": "0.7.0"},
      ["tensorflow 2.8.0", "dm-reverb 0.7.0", "pip uninstall -y tensorflow dm-reverb"],
    ),
  ],
)
def test_refuses_and_names_found_supported_and_mend(install, changes, named):
  install(**changes)
  with pytest.raises(startup.UnsupportedStackError) as caught:
    startup.check_stack()
  for words in named:
    assert words in str(caught.value)
  assert f"{sys.executable} -m pip install --no-deps" in str(caught.value)
  assert isinstance(caught.value, ImportError)


def test_mend_leaves_alone_what_is_right(install):
  install(dm_reverb="0.7.0")
  with pytest.raises(startup.UnsupportedStackError) as caught:
    startup.check_stack()
  assert "tensorflow" not in str(caught.value)
  assert "launchpad" not in str(caught.value)


def test_accepts_a_module_whose_version_nobody_recorded(install, monkeypatch):
  install(dm_reverb=None)
  monkeypatch.setattr(startup.importlib.util, "find_spec", lambda name: name == "reverb" or None)
  startup.check_stack()


def test_refuses_another_python(install, monkeypatch):
  install()
  monkeypatch.setattr(startup.sys, "version_info", (3, 11, 7))
  with pytest.raises(startup.UnsupportedStackError, match="Python 3.9 and 3.10"):
    startup.check_stack()


def test_variable_skips_the_check(install, monkeypatch):
  install(tensorflow="2.8.0")
  monkeypatch.setenv(startup.SKIP_VARIABLE, "1")
  startup.check_stack()


def test_stack_versions_list_what_is_and_what_is_not_there(install):
  install(dm_reverb=None, dm_launchpad="0.5.0")
  versions = startup.stack_versions()
  assert versions.pop("python").count(".") == 2
  assert versions == {
    "tensorflow": "2.12.1",
    "dm-reverb": "not installed",
    "dm-launchpad-nightly": "0.5.2.dev20230301",
    "dm-launchpad": "0.5.0",
  }


def test_table_equals_the_lock():
  lock = pathlib.Path(__file__).parents[2] / "requirements" / "runtime.txt"
  locked = {line.split(" ")[0] for line in lock.read_text().splitlines() if "==" in line}
  for component in startup.STACK:
    assert set(component.requirement.split()) <= locked
    assert component.supports(component.version)


@pytest.mark.parametrize("package", ["temper.agents", "temper.launchers", "temper.utils"])
def test_import_fails_before_native_code_is_loaded(tmp_path, package):
  (tmp_path / "tensorflow").mkdir()
  (tmp_path / "tensorflow" / "__init__.py").write_text("raise SystemExit('native code loaded')\n")
  metadata = tmp_path / "tensorflow-2.8.0.dist-info" / "METADATA"
  metadata.parent.mkdir()
  metadata.write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.8.0\n")
  environment = dict(os.environ, PYTHONPATH=str(tmp_path))
  environment.pop(startup.SKIP_VARIABLE, None)
  answer = subprocess.run(
    [sys.executable, "-c", f"import {package}"],
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )
  assert answer.returncode == 1
  assert "tensorflow 2.8.0 found, tensorflow 2.12.* supported" in answer.stderr
  assert "native code loaded" not in answer.stderr


def test_import_is_light_and_gym_stays_silent():
  code = """
    import sys
    import temper.utils, temper.launchers.main
    for module in ("tensorflow", "reverb", "launchpad", "numpy", "gym"):
      assert module not in sys.modules, module
    import gym
  """
  answer = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
    capture_output=True,
    text=True,
    check=False,
  )
  assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_quiet_keeps_what_the_user_has_set(monkeypatch):
  monkeypatch.setenv("KERAS_HOME", "elsewhere")
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
  startup.quiet()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
  startup.quiet()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"
  assert os.environ["KERAS_HOME"] == "elsewhere"
