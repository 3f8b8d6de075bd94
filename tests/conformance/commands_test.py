"""Every command that README and the other pages show is run, shortened where it would take long."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

import build_file
import docs_test
import pytest

# What makes a command short. A later flag of the same name wins.
_TINY_RUN = (
  "--steps=12 --log_every=4 --checkpoint_every=6 --eval_every=6 --eval_episodes=1 --nogif "
  "--max_episode_steps=5"
)
_SHORTER = {
  # No more than acts; compiling a learner takes longest.
  "train": f"{_TINY_RUN} --config.min_replay_size=1000",
  "train --directory=runs/first": (
    f"{_TINY_RUN} --config.batch_size=4 --config.min_replay_size=6 --config.warm_up_steps=6"
  ),
  "train-offline": (
    "--steps=2 --eval_every=0 --eval_episodes=1 --nogif --max_episode_steps=5 "
    "--config.policy_layer_sizes=8 --config.critic_layer_sizes=8 --config.sequence_length=3 "
    "--config.batch_size=4 --config.num_atoms=5"
  ),
  "collect --policy": "--episodes=2",
  "collect --agent": "--steps=400",
  "collect --run": "--episodes=1",
  "evaluate": "--episodes=2",
  "benchmark-export": "--rounds=1 --formats=tflite",
}

# What takes minutes however short it is made: the test that runs it in its place, by its launcher.
_RUN_BY = {
  "make setup": ".ci/run",
  "make check": ".ci/run",
  "make test": ".ci/run",
  "make offline": "tests/launchers/offline_test.py",
  "temper export-check": "tests/launchers/export_check_test.py",
  "temper check-resume": "tests/launchers/check_resume_test.py",
  "temper check-distributed": "tests/launchers/check_distributed_test.py",
  "temper benchmark-distributed": "tests/launchers/benchmark_distributed_test.py",
}

# These change the sources of the checkout, or ask a package index.
_FOR_DEVELOPERS = ("make format", "make build-file", "make lock")

# What the pages take for granted, and what was made before that serves as it.
_GIVEN = {"runs/pendulum": "runs/first", "data.hdf5": "data/mixed.hdf5"}

# Pages that make what others use.
_FIRST = ("docs/tools.md", "docs/offline.md")

_RUNNER = """
  import ast, sys
  from temper.launchers import main

  for page, words in ast.literal_eval(sys.stdin.read()):
    print("$", " ".join(words), flush=True)
    try:
      code = main.run(words)
    except SystemExit as end:
      code = end.code
    if code:
      sys.exit(f"{page}: {' '.join(words)}: exit code {code}")
"""


def _pages() -> list[str]:
  # README's own run is in the folder that the page of offline learning names.
  return ["README.md", *_FIRST, *(p for p in docs_test.PAGES if p not in ("README.md", *_FIRST))]


def _shown() -> list[tuple[str, list[str]]]:
  """Returns the commands of all pages with their pages, in the order in which they are run."""
  shown = [(page, words) for page in _pages() for words in docs_test.commands(docs_test.read(page))]
  # README's second one learns from a file of the reader's, here one of those recorded later.
  return sorted(shown, key=lambda each: "--dataset=data.hdf5" in each[1])


def _name(words: list[str]) -> str:
  return " ".join(words[:2])


def _expanded(words: list[str]) -> list[str]:
  """Returns a command as words of `temper`, by way of the Makefile if it is one of make's."""
  if words[0] != "make":
    return docs_test.temper_words(words)
  recipe = subprocess.run(
    ["make", "-n", *words[1:]], cwd=build_file.ROOT, capture_output=True, text=True, check=True
  )
  for line in recipe.stdout.splitlines():
    found = docs_test.temper_words(shlex.split(line))
    if found:
      return [found[0], found[1].replace("_", "-"), *found[2:]]
  raise AssertionError(f"{shlex.join(words)} runs no program of Temper's:\n{recipe.stdout}")


def _shortened(words: list[str]) -> list[str]:
  if "--helpfull" in words:
    return words
  line = " ".join(words[1:])
  fitting = [key for key in _SHORTER if _fits(key.split(), line.split())]
  return [*words, *(_SHORTER[max(fitting, key=len)].split() if fitting else ())]


def _fits(key: list[str], line: list[str]) -> bool:
  return key[0] == line[0] and all(any(word.startswith(k) for word in line) for k in key[1:])


def test_what_others_run_is_run_by_them():
  for command, path in _RUN_BY.items():
    text = (build_file.ROOT / path).read_text(encoding="utf-8")
    program, word = command.split()
    module = word.replace("-", "_")
    assert (command in text) if path == ".ci/run" else re.search(rf"\b{module}\b.*run", text, re.S)


def test_make_help_lists_the_targets_of_the_pages():
  answer = subprocess.run(
    ["make", "help"], cwd=build_file.ROOT, capture_output=True, text=True, check=True
  )
  targets = {words[1] for _, words in _shown() if words[0] == "make"}
  assert targets <= set(answer.stdout.split())


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
  """A folder in which every command of the pages was run, one after the other."""
  folder = tmp_path_factory.mktemp("reader")
  batches: list[list[tuple[str, list[str]]]] = [[]]
  for page, words in _shown():
    if _name(words) in (*_RUN_BY, *_FOR_DEVELOPERS) or words == ["make", "help"]:
      continue
    if any(given in word for given in _GIVEN for word in words):
      batches.append([])
    batches[-1].append((page, _shortened(_expanded(words))))
  for batch in batches:
    for given, made in _GIVEN.items():
      source, target = folder / made, folder / given
      if source.exists() and not target.exists():
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    _run(batch, folder)
  return folder


def _run(batch: list[tuple[str, list[str]]], folder: os.PathLike) -> None:
  answer = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", textwrap.dedent(_RUNNER)],
    input=repr(batch),
    cwd=folder,
    env=dict(os.environ, HOME=str(folder), TF_CPP_MIN_LOG_LEVEL="2"),
    capture_output=True,
    text=True,
    check=False,
  )
  assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]


@pytest.mark.parametrize(
  "made",
  [
    "runs/svg0-gym-Pendulum-v1-seed0/result.json",
    "runs/first.gif",
    "runs/curve.png",
    "runs/binary/result.json",
    "data/random.npz",
    "data/noisy.npz",
    "data/random",
    "policies/pendulum",
  ],
)
def test_every_command_runs_and_leaves_what_the_page_says(folder, made):
  assert (folder / made).exists()
