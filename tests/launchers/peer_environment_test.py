"""How a peer's environment is made, with pip and venv played by a stand-in."""

import pathlib
import re
import subprocess
import sys

import pytest

from temper.launchers import peer_environment

_LOCKS = pathlib.Path(peer_environment.__file__).resolve().parents[1] / "requirements"


class _Commands:
  """Plays `subprocess.run`: notes commands, and fails those that hold the given word."""

  def __init__(self, failing: str):
    self.failing = failing
    self.calls: list[list[str]] = []

  def __call__(self, command, **options):
    del options
    self.calls.append(command)
    failed = any(self.failing in word for word in command)
    return subprocess.CompletedProcess(command, int(failed), "", "no such file" if failed else "")

  def installed(self) -> list[str]:
    return [pathlib.Path(call[-1]).name for call in self.calls if "install" in call]


@pytest.fixture(name="play")
def _play(monkeypatch):
  def play(failing: str = "nothing") -> _Commands:
    commands = _Commands(failing)
    monkeypatch.setattr(subprocess, "run", commands)
    return commands

  return play


def _pins(name: str) -> dict[str, str]:
  rows = re.findall(r"^([a-zA-Z0-9-]+)==(\S+)", (_LOCKS / name).read_text(), re.MULTILINE)
  return dict(rows)


@pytest.mark.parametrize("name", ["d3rlpy", "sac_peers"])
def test_locks_agree(name):
  peer, cpu = _pins(f"peers/{name}.txt"), _pins("peers/torch_cpu.txt")
  assert cpu == {"torch": peer["torch"] + "+cpu"}
  # Both sides are evaluated on the same environment.
  assert peer["gymnasium"] == _pins("runtime.txt")["gymnasium"]


def test_without_torch_keeps_all_else_with_its_hashes():
  lock = (_LOCKS / "peers/d3rlpy.txt").read_text()
  text = peer_environment.without_torch(lock)
  names = set(re.findall(r"^([a-zA-Z0-9-]+)==", text, re.MULTILINE))
  assert {"d3rlpy", "gym", "gymnasium", "numpy", "typing-extensions", "sympy"} <= names
  dropped = set(_pins("peers/d3rlpy.txt")) - names
  assert {"torch", "triton", "nvidia-cudnn-cu13", "cuda-toolkit"} <= dropped
  assert all(re.match("torch$|triton$|nvidia-|cuda-", name) for name in dropped)
  assert text.count("==") == len(names)
  assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=[a-z])", text, flags=re.M)[1:])


def test_takes_torch_without_cuda_where_it_is_offered(play, tmp_path):
  commands = play()
  folder = tmp_path / "peer"
  python = peer_environment.prepare("d3rlpy", folder, sys.executable)
  assert python == str(folder / "bin" / "python")
  assert commands.calls[1] == [sys.executable, "-m", "venv", str(folder)]
  assert commands.installed() == ["build.txt", "torch_cpu.txt", "requirements.txt"]
  assert all("--require-hashes" in call for call in commands.calls if "install" in call)
  assert "nvidia" not in (folder / "requirements.txt").read_text()
  assert (folder / ".gitignore").read_text() == "*\n"


def test_takes_the_whole_lock_elsewhere(play, tmp_path, capsys):
  commands = play(failing="torch_cpu")
  peer_environment.prepare("d3rlpy", tmp_path / "peer", sys.executable)
  assert commands.installed() == ["build.txt", "torch_cpu.txt", "d3rlpy.txt"]
  assert "GB" in capsys.readouterr().out


def test_is_made_once(play, tmp_path):
  folder = tmp_path / "peer"
  first = play()
  python = peer_environment.prepare("d3rlpy", folder, sys.executable)
  second = play()
  assert peer_environment.prepare("d3rlpy", folder, sys.executable) == python
  assert first.calls and not second.calls


def test_what_failed_half_way_is_made_anew(play, tmp_path):
  folder = tmp_path / "peer"
  play(failing="requirements.txt")
  with pytest.raises(peer_environment.PeerError, match="no such file"):
    peer_environment.prepare("d3rlpy", folder, sys.executable)
  (folder / "left_over").touch()
  commands = play()
  peer_environment.prepare("d3rlpy", folder, sys.executable)
  assert len(commands.installed()) == 3
  assert not (folder / "left_over").exists()


def test_a_folder_of_somebody_else_is_left_alone(play, tmp_path):
  commands = play()
  (tmp_path / "mine").touch()
  with pytest.raises(peer_environment.PeerError, match="something else"):
    peer_environment.prepare("d3rlpy", tmp_path, sys.executable)
  assert (tmp_path / "mine").exists() and not commands.calls


def test_an_unknown_peer_is_refused(play, tmp_path):
  play()
  with pytest.raises(peer_environment.PeerError, match=r"peers/nobody\.txt.*checkout"):
    peer_environment.prepare("nobody", tmp_path / "peer", sys.executable)


def test_an_interpreter_that_cannot_be_run_is_named(tmp_path):
  with pytest.raises(peer_environment.PeerError, match="/nowhere/python"):
    peer_environment.prepare("d3rlpy", tmp_path / "peer", "/nowhere/python")


def test_a_python_that_is_too_old_is_named(tmp_path):
  with pytest.raises(peer_environment.PeerError, match="older than Python 99.8.*--peer_python"):
    peer_environment.prepare("d3rlpy", tmp_path / "peer", sys.executable, oldest=(99, 8))
  assert not (tmp_path / "peer").exists()


def test_find_python_gives_one_that_runs():
  python = peer_environment.find_python()
  result = subprocess.run([python, "-c", "import venv, ensurepip"], check=False)
  assert result.returncode == 0
