"""BUILD holds every source once, with the dependencies that the source has."""

import collections
import graphlib
import pathlib
import shutil
import subprocess

import build_file
import pytest


@pytest.fixture(name="written", scope="module")
def _written() -> list[build_file.Target]:
  return build_file.parse((build_file.ROOT / "BUILD").read_text(encoding="utf-8"))


def test_every_source_belongs_to_exactly_one_target(written):
  counts = collections.Counter(target.source for target in written)
  sources = [name for name in build_file.source_files() if name.endswith(".py")]
  assert counts == collections.Counter(sources), "BUILD is stale: run `make build-file`."
  assert len({target.name for target in written}) == len(written)


def test_deps_equal_the_imports(written):
  wanted = {target.name: target for target in build_file.targets()}
  for target in written:
    assert target.deps == wanted[target.name].deps, f"{target.name}: run `make build-file`."


def test_rules_and_data_equal_the_sources(written):
  wanted = {target.name: (target.rule, target.data) for target in build_file.targets()}
  assert {target.name: (target.rule, target.data) for target in written} == wanted
  covered = {name for target in written for name in (target.source, *target.data)}
  assert covered == set(build_file.source_files())


def test_no_module_depends_on_itself(written):
  graph = {target.name: target.deps for target in written}
  order = list(graphlib.TopologicalSorter(graph).static_order())
  assert set(order) == set(graph)  # Also: every dependency is a target.


def test_packages_do_not_import_tests_and_utils_import_no_agent(written):
  for target in written:
    folder = target.source.split("/")[0]
    lower = {"utils": ("utils",), "agents": ("utils", "agents")}.get(folder)
    for name in target.deps if lower else ():
      assert name.split("_")[0] in lower, f"{target.name} reaches up to {name}."


def test_text_is_what_the_command_writes(written):
  assert build_file.main([]) == 0
  assert build_file.parse(build_file.render(written)) == written


def test_derives_targets_from_a_small_tree(tmp_path: pathlib.Path):
  files = {
    "setup.py": "import setuptools\n",
    "utils/__init__.py": "",
    "utils/a.py": "import numpy\n",
    "utils/b.py": "def f():\n  from temper.utils import a\n  return a\n",
    "agents/__init__.py": "from temper import utils\n",
    "agents/sac/__init__.py": "from temper.agents.sac.losses import loss\n",
    "agents/sac/losses.py": "import temper.utils.b\nfrom temper.utils.a import x, y\n",
    "agents/sac/README.md": "",
    "launchers/__init__.py": "",
    "launchers/go.py": 'from temper.agents.sac import loss\nif __name__ == "__main__":\n  loss()\n',
    "tests/agents/losses_test.py": "from temper.agents.sac import losses\nopen('golden.npz')\n",
    "tests/agents/golden.npz": "",
    "docs/conf.py": "",
  }
  for name, text in files.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
  found = {target.name: target for target in build_file.targets(tmp_path)}
  deps = {name: target.deps for name, target in found.items()}
  assert deps == {
    "setup": (),
    "utils": (),
    "utils_a": (),
    "utils_b": ("utils_a",),
    "agents": ("utils",),
    "agents_sac": ("agents_sac_losses",),
    "agents_sac_losses": ("utils_a", "utils_b"),
    "launchers": (),
    "launchers_go": ("agents_sac",),
    "tests_agents_losses_test": ("agents_sac_losses",),
  }
  assert found["launchers_go"].rule == found["setup"].rule == "py_binary"
  assert found["tests_agents_losses_test"].rule == "py_test"
  assert found["tests_agents_losses_test"].data == ("tests/agents/golden.npz",)
  assert found["agents_sac"].data == ("agents/sac/README.md",)


def test_refuses_test_data_that_nothing_names(tmp_path: pathlib.Path):
  (tmp_path / "tests").mkdir()
  (tmp_path / "tests" / "orphan.npz").touch()
  with pytest.raises(ValueError, match="tests/orphan.npz is named in no test"):
    build_file.targets(tmp_path)


def test_refuses_a_rule_of_another_kind():
  with pytest.raises(ValueError, match="BUILD line 1: genrule"):
    build_file.parse('genrule(name = "x", srcs = ["a.py"])')
  with pytest.raises(ValueError, match="BUILD line 1: py_library"):
    build_file.parse('py_library(name = "x", srcs = ["a.py", "b.py"])')


@pytest.mark.skipif(shutil.which("bazel") is None, reason="needs Debian's bazel-bootstrap")
def test_bazel_resolves_every_dependency(written, tmp_path: pathlib.Path):
  # A copy, because Bazel leaves links to its outputs in the tree that it reads.
  tree = tmp_path / "tree"
  shutil.copytree(build_file.ROOT / ".bazel", tree / ".bazel")
  for name in ("BUILD", "WORKSPACE", "WORKSPACE.bazel", ".bazelignore", *build_file.source_files()):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build_file.ROOT / name, tree / name)
  output = tmp_path / "output"
  command = ["bazel", f"--output_user_root={output}", "--batch", "query", "deps(//...)"]
  answer = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
  assert answer.returncode == 0, answer.stderr
  listed = set(answer.stdout.split())
  assert {f"//:{target.name}" for target in written} <= listed
