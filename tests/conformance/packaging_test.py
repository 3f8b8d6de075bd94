"""The wheel holds every module under `temper` and nothing else, and runs without the extras."""

import ast
import configparser
import email
import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import textwrap
import zipfile

import build_file
from packaging import requirements
import pytest

# Ours, and a package that only the old gym brings and that startup.py can do without.
# The workers of benchmarks with peers run in environments of their own, which have the peers.
_PEERS = {"d3rlpy", "sbx", "stable_baselines3", "structlog", "torch"}
# imageio looks for the one that writes MP4; without it only GIFs can be made, which is said.
# Vertex AI's launch asks for xmanager, and says so where it is missing.
_UNDECLARED = {"temper", "gym_notices", "imageio_ffmpeg", "xmanager", *_PEERS}
_TREE_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def _run(*command: str, **options) -> str:
  answer = subprocess.run(command, capture_output=True, text=True, check=False, **options)
  assert answer.returncode == 0, answer.stdout + answer.stderr
  return answer.stdout


def _module_name(source: str) -> str:
  return "temper." + source[: -len(".py")].replace("/", ".").removesuffix(".__init__")


def _top_level_imports(tree: ast.AST) -> set[str]:
  names = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names.update(alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      names.add((node.module or "").split(".")[0])
  return names


@pytest.fixture(name="sources", scope="module")
def _sources() -> list[str]:
  """Every file of the three packages, relative to the root."""
  return [name for name in build_file.source_files() if name.split("/")[0] in build_file.PACKAGES]


@pytest.fixture(name="wheel", scope="module")
def _wheel(tmp_path_factory, sources) -> pathlib.Path:
  # Built from a copy: a build/ left in the tree by an earlier one would be packed as well.
  tree = tmp_path_factory.mktemp("tree")
  for name in (*_TREE_FILES, *sources):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build_file.ROOT / name, tree / name)
  target = tmp_path_factory.mktemp("wheel")
  options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(target))
  _run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=tree)
  (wheel,) = target.glob("*.whl")
  return wheel


def test_wheel_holds_every_module_under_temper(wheel, sources):
  names = zipfile.ZipFile(wheel).namelist()
  packed = {name for name in names if ".dist-info/" not in name}
  assert packed == {f"temper/{name}" for name in sources}


def test_wheel_metadata(wheel):
  archive = zipfile.ZipFile(wheel)
  (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
  metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
  assert metadata["Name"] == "temper-rl"
  assert metadata["License"] == "Apache-2.0"
  assert set(metadata["Requires-Python"].split(",")) == {">=3.9", "<3.11"}
  assert set(metadata.get_all("Provides-Extra")) == {
    "gym",
    "dm-control",
    "plots",
    "video",
    "datasets",
    "onnx",
    "all",
  }
  needed = metadata.get_all("Requires-Dist")
  assert "dm-acme==0.4.0" in needed
  assert any("gymnasium" in row and 'extra == "gym"' in row for row in needed)
  entries = configparser.ConfigParser()
  entries.read_string(archive.read(f"{folder}/entry_points.txt").decode())
  assert dict(entries["console_scripts"]) == {"temper": "temper.launchers.main:main"}


def test_every_requirement_of_the_wheel_is_locked_at_an_allowed_version(wheel):
  lock = (build_file.ROOT / "requirements" / "runtime.txt").read_text()
  rows = (line.split(" ")[0] for line in lock.splitlines() if "==" in line)
  locked = dict(row.split("==") for row in rows)
  archive = zipfile.ZipFile(wheel)
  (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
  metadata = email.message_from_bytes(archive.read(name))
  for row in metadata.get_all("Requires-Dist"):
    requirement = requirements.Requirement(row)
    assert requirement.specifier.contains(locked[requirement.name]), row


def test_every_import_is_a_declared_requirement(wheel, sources):
  archive = zipfile.ZipFile(wheel)
  (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
  metadata = email.message_from_bytes(archive.read(name))
  declared = {requirements.Requirement(row).name for row in metadata.get_all("Requires-Dist")}
  provided = {path.parts[0] for name in declared for path in importlib.metadata.files(name) or ()}
  provided |= {name.partition(".")[0] for name in provided}  # A module of one file.
  missing = {}
  for source in sources:
    if source.endswith(".py"):
      tree = ast.parse((build_file.ROOT / source).read_text(encoding="utf-8"))
      foreign = _top_level_imports(tree) - sys.stdlib_module_names - _UNDECLARED
      missing.update({module: source for module in foreign - provided})
  assert not missing, "setup.py does not require what these import."


def test_every_module_imports_from_the_wheel_without_the_extras(wheel, sources, tmp_path):
  options = ("--no-deps", "--no-index", "--no-compile", "--target", str(tmp_path))
  _run(sys.executable, "-m", "pip", "install", *options, str(wheel))
  assert {path.name for path in tmp_path.iterdir() if path.suffix != ".dist-info"} <= {
    "temper",
    "bin",
  }
  modules = [_module_name(name) for name in sources if name.endswith(".py")]
  code = f"""
    import importlib, sys
    # None makes an import fail as if the package were not installed.
    for extra in ("gymnasium", "dm_control", "mujoco", "matplotlib", "imageio"):
      sys.modules[extra] = None
    for name in {modules!r}:
      module = importlib.import_module(name)
      assert module.__file__.startswith({str(tmp_path)!r}), module.__file__
  """
  environment = {"PYTHONPATH": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2", "PATH": ""}
  _run(sys.executable, "-c", textwrap.dedent(code), env=environment, cwd=tmp_path)


def test_installed_package_hides_the_folders_bare_names(tmp_path):
  code = """
    import importlib.util, sys, temper.agents, temper.launchers, temper.utils
    for name in ("agents", "launchers", "utils", "tests"):
      # tf2onnx installs its own tests under that name.
      found = importlib.util.find_spec(name)
      places = list(found.submodule_search_locations or [found.origin]) if found else []
      assert not any(place == f"{sys.argv[1]}/{name}" for place in places), places
      assert not places or name == "tests", places
  """
  _run(sys.executable, "-c", textwrap.dedent(code), str(build_file.ROOT), cwd=tmp_path)


def test_an_agent_needs_no_other_agent():
  graph = {target.name: target for target in build_file.targets()}
  folders = {
    name.split("/")[1]
    for name in build_file.source_files()
    if name.startswith("agents/") and name.count("/") > 1
  }
  for folder in folders:
    start = [
      name for name, target in graph.items() if target.source.startswith(f"agents/{folder}/")
    ]
    reached, waiting = set(), start
    while waiting:
      name = waiting.pop()
      if name not in reached:
        reached.add(name)
        waiting.extend(graph[name].deps)
    # Every agent's actor can act by the sampler, which is no agent of its own.
    others = folders - {folder, "boltzmann"}
    for name in reached:
      parts = graph[name].source.split("/")
      assert parts[0] != "agents" or parts[1] not in others, f"{folder} imports {name}"
