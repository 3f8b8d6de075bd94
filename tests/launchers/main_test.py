"""The `temper` command answers at once, and hands a program its own words."""

import importlib.util
import subprocess
import sys
import types

import pytest

from temper.launchers import main
from temper.utils import startup


def test_version_names_the_stack(capsys):
  assert main.run(["temper", "--version"]) == 0
  rows = capsys.readouterr().out.splitlines()
  assert rows[0] == f"temper-rl {startup.version()}"
  assert [row.split() for row in rows[1:]] == [
    [name, number] for name, number in startup.stack_versions().items()
  ]
  assert len(rows) >= 5


def test_help_lists_every_command(capsys):
  assert main.run(["temper", "--help"]) == 0
  text = capsys.readouterr().out
  for name, (_, purpose) in main.COMMANDS.items():
    assert f"  {name}" in text
    assert purpose in text


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_every_command_has_its_module(name):
  assert importlib.util.find_spec(main.COMMANDS[name][0]) is not None


_LISTED = ", ".join(main.COMMANDS)


@pytest.mark.parametrize(
  ("words", "said"),
  [
    (["trian"], f"no command 'trian', only {_LISTED}. Did you mean train?"),
    (["xyzzy"], f"no command 'xyzzy', only {_LISTED}. `temper --help`"),
    ([], f"a command is needed, one of {_LISTED}."),
    (["--steps=3"], "no command '--steps=3'"),
  ],
)
def test_refuses_an_unknown_command_with_the_list(capsys, words, said):
  assert main.run(["temper", *words]) == 2
  captured = capsys.readouterr()
  assert said in captured.err
  assert captured.out == ""


def test_hands_the_rest_to_the_program(monkeypatch):
  seen = []

  def run(argv):
    seen.append(argv)
    return 7

  monkeypatch.setitem(sys.modules, "fake_program", types.SimpleNamespace(run=run))
  monkeypatch.setitem(main.COMMANDS, "go", ("fake_program", "test"))
  with pytest.raises(SystemExit) as caught:
    main.main(["temper", "go", "--steps=3", "--help"])
  assert caught.value.code == 7
  assert seen == [["temper go", "--steps=3", "--help"]]


def test_console_command_answers_without_loading_tensorflow():
  code = (
    "import sys; from temper.launchers import main; code = main.run(['temper', '--version']); "
    "sys.exit(code or 'tensorflow' in sys.modules)"
  )
  answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
  assert answer.returncode == 0, answer.stderr
  assert answer.stdout.startswith("temper-rl ")
  assert answer.stderr == ""
