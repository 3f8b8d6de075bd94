"""What README and the other pages show can be run: every Python block, every command."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import build_file
import pytest

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELLS = ("bash", "sh", "console", "shell")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")

PAGES = sorted(
  path.relative_to(build_file.ROOT).as_posix()
  for pattern in ("*.md", "docs/**/*.md", "agents/**/README.md", "launchers/**/*.md")
  for path in build_file.ROOT.glob(pattern)
)


def blocks(text: str, languages: tuple[str, ...]) -> list[str]:
  """Returns the contents of a page's fenced blocks in any of these languages."""
  return [body for language, body in _BLOCK.findall(text) if language in languages]


def commands(text: str) -> list[list[str]]:
  """Returns the commands of a page's shell blocks as words, without prompts and settings before.

  In a `console` block only lines with a prompt are commands; the others are what they print.
  """
  found = []
  for language, body in _BLOCK.findall(text):
    if language not in _SHELLS:
      continue
    for line in body.replace("\\\n", " ").splitlines():
      if language == "console" and not line.startswith("$ "):
        continue
      for part in re.split(r"\s(?:&&|\|\||[|;])\s", line.removeprefix("$ ")):
        words = shlex.split(part, comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
          words.pop(0)
        if words:
          found.append(words)
  return found


def temper_words(words: list[str]) -> list[str]:
  """Returns a command's words as `temper NAME …`, or nothing if it is no command of Temper's."""
  program = pathlib.PurePath(words[0]).name
  if program == "temper":
    return ["temper", *words[1:]]
  is_module = re.fullmatch(r"python[\d.]*", program) and words[1:2] == ["-m"]
  if is_module and len(words) > 2 and words[2].startswith("temper."):
    return ["temper", words[2].rpartition(".")[2], *words[3:]]
  return []


def read(page: str) -> str:
  """Returns the text of a page."""
  return (build_file.ROOT / page).read_text(encoding="utf-8")


def test_reads_commands_off_a_page():
  page = textwrap.dedent("""
    ```bash
    make train ENV=gym:Pendulum-v1 ARGS='--config.x=1 --y'   # a comment
    cd here && CUDA=0 .venv/bin/python -m temper.launchers.train \\
      --steps=3
    ```
    ```console
    $ temper --version
    temper-rl 0.1.0
    ```
    ```python
    make = 1
    ```
  """)
  assert commands(page) == [
    ["make", "train", "ENV=gym:Pendulum-v1", "ARGS=--config.x=1 --y"],
    ["cd", "here"],
    [".venv/bin/python", "-m", "temper.launchers.train", "--steps=3"],
    ["temper", "--version"],
  ]
  assert [temper_words(words) for words in commands(page)] == [
    [],
    [],
    ["temper", "train", "--steps=3"],
    ["temper", "--version"],
  ]
  assert blocks(page, ("python",)) == ["make = 1\n"]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(read(page), ("python",))])
def test_python_blocks_run(page, tmp_path):
  # Blocks of one page build on each other, as a reader's session would.
  code = "\n".join(blocks(read(page), ("python",)))
  script = tmp_path / "page.py"
  script.write_text(code, encoding="utf-8")
  answer = subprocess.run(
    [sys.executable, "-W", "ignore", str(script)],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
    env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2"),
  )
  assert answer.returncode == 0, f"{page}:\n{answer.stdout}{answer.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
  folder = (build_file.ROOT / page).parent
  for target in _LINK.findall(_BLOCK.sub("", read(page))):
    assert (folder / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page):
  makefile = (build_file.ROOT / "Makefile").read_text(encoding="utf-8")
  targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
  variables = {"PYTHON", *re.findall(r"\b[A-Z]{3,}\b", makefile)}
  for words in commands(read(page)):
    if words[0] != "make":
      continue
    for word in words[1:]:
      name, is_variable, _ = word.partition("=")
      assert name in (variables if is_variable else targets), f"{page}: {shlex.join(words)}"


def test_commands_parse(tmp_path):
  environment = dict(os.environ, HOME=str(tmp_path))
  shown = [(page, temper_words(words)) for page in PAGES for words in commands(read(page))]
  shown += [("README.md", ["temper", "--help"]), ("README.md", ["temper", "train", "--steps=7"])]
  # `train` gets as far as the library function that would run; the others say their help.
  code = """
    import ast, sys
    from temper.utils import startup
    startup.quiet()
    from temper.launchers import experiment, launch_flags, main

    class Reached(BaseException):
      pass

    def stop(*_):
      raise Reached

    experiment.run_experiment = launch_flags.run = stop
    for page, words in ast.literal_eval(sys.stdin.read()):
      if not words:
        continue
      try:
        code = main.run(words if words[1:2] in (["train"], []) else [*words, "--help"])
        reached = False
      except Reached:
        code, reached = 0, True
      asks_help = {"--help", "--helpfull"} & set(words)
      if code or (words[1:2] == ["train"] and not reached and not asks_help):
        sys.exit(f"{page}: {' '.join(words)}: exit code {code}")
  """
  answer = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
    input=repr(shown),
    cwd=tmp_path,
    env={name: value for name, value in environment.items() if name != "KERAS_HOME"},
    capture_output=True,
    text=True,
    check=False,
  )
  assert answer.returncode == 0, answer.stdout + answer.stderr
  assert list(tmp_path.iterdir()) == [], (
    "Neither the folder nor the home is where files may appear."
  )
