"""Derives the root BUILD file from the sources: the one implementation behind test and command.

    python tests/conformance/build_file.py           shows what is stale, and exits 1 if anything is
    python tests/conformance/build_file.py --write   writes BUILD anew

Standard library only, so that it runs before anything is installed.
"""

import ast
from collections.abc import Iterable, Sequence
import dataclasses
import difflib
import pathlib
import subprocess
import sys
from typing import Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("agents", "launchers", "utils")
_FOLDERS = (*PACKAGES, "tests")

_HEADER = '''"""One target a module, so that a change shows what rests on it.

Written by `make build-file`; tests/conformance/build_test.py keeps it true. The conventions:

- A module's target is its path with `_` for `/`; a folder's `__init__.py` bears the folder's name.
- `deps` are the project's own modules that the source imports by name, wherever in it. Python also
  runs the `__init__.py` of the folders above them; those are not repeated, since one that gathers
  its folder's modules would then depend on itself.
- Packages from elsewhere are no targets: requirements/ locks them, and setup.py names them.
- The packages `temper.agents`, `temper.launchers` and `temper.utils` are the folders of those names
  (setup.py maps them).
"""

package(default_visibility = ["//visibility:public"])

licenses(["notice"])
'''


@dataclasses.dataclass(frozen=True)
class Target:
  """One rule of a BUILD file.

  Attributes:
    rule: `py_library`, `py_binary` or `py_test`.
    name: the target's name, without a colon.
    source: its one source, relative to the root.
    deps: names of the targets that the source imports.
    data: other files that it reads, relative to the root.
  """

  rule: str
  name: str
  source: str
  deps: tuple[str, ...] = ()
  data: tuple[str, ...] = ()


def source_files(root: pathlib.Path = ROOT) -> list[str]:
  """Returns every file that belongs in BUILD: setup.py, and what lies in the four source folders.

  Git knows which files are the project's; without it, all but hidden files and caches counts.
  """
  try:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
      listing, cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
  except (OSError, subprocess.CalledProcessError):
    paths = (path for folder in _FOLDERS for path in (root / folder).rglob("*"))
    names = ["setup.py", *(path.relative_to(root).as_posix() for path in paths)]
  return sorted(name for name in names if _is_source(root, name))


def target_name(source: str) -> str:
  """Returns the name of a source's target: `agents/sac/losses.py` is `agents_sac_losses`."""
  parts = source[: -len(".py")].split("/")
  if parts[-1] == "__init__":
    parts.pop()
  return "_".join(parts)


def imported_sources(source: str, text: str, sources: Iterable[str]) -> list[str]:
  """Returns the project's own sources that a source imports by name.

  Args:
    source: path of the importing file, relative to the root.
    text: its content.
    sources: all Python files of the project, relative to the root.
  """
  known = set(sources)
  found = set()
  for node in ast.walk(ast.parse(text)):
    if isinstance(node, ast.Import):
      found.update(_resolve(alias.name, source, known) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      for alias in node.names:
        # `from temper.utils import startup` names a module, `from temper.agents.sac import SAC`
        # an object of one.
        deeper = _resolve(f"{node.module}.{alias.name}", source, known)
        found.add(deeper or _resolve(node.module or "", source, known))
  return sorted(name for name in found if name and name != source)


def targets(root: pathlib.Path = ROOT) -> list[Target]:
  """Returns the targets that the sources call for, in the order of their names.

  Raises:
    ValueError: a data file under tests/ that no test names: it is unused, or its name is put
      together at run time.
  """
  files = source_files(root)
  sources = [name for name in files if name.endswith(".py")]
  texts = {name: (root / name).read_text(encoding="utf-8") for name in sources}
  owners = {name: _owners(name, texts) for name in files if name not in texts}
  result = []
  for source, text in texts.items():
    result.append(
      Target(
        rule=_rule(source, text),
        name=target_name(source),
        source=source,
        deps=tuple(sorted(map(target_name, imported_sources(source, text, sources)))),
        data=tuple(name for name, users in owners.items() if source in users),
      )
    )
  return sorted(result, key=lambda target: target.name)


def render(rules: Sequence[Target]) -> str:
  """Returns the text of the BUILD file that holds these targets."""
  return _HEADER + "".join(_render(rule) for rule in rules)


def parse(text: str) -> list[Target]:
  """Reads the targets of a BUILD file back, which has Python's syntax.

  Raises:
    ValueError: a rule of another kind than the three, or one that has not exactly one source.
  """
  result = []
  for node in ast.parse(text).body:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
      continue
    rule = node.value.func.id if isinstance(node.value.func, ast.Name) else ""
    if rule in ("package", "licenses"):
      continue
    fields = {word.arg: ast.literal_eval(word.value) for word in node.value.keywords}
    if not rule.startswith("py_") or len(fields.get("srcs", ())) != 1:
      raise ValueError(
        f"BUILD line {node.lineno}: {rule} is not a py_ rule of one source. Let "
        "`make build-file` write the file."
      )
    deps = tuple(label[1:] for label in fields.get("deps", ()))
    data = tuple(fields.get("data", ()))
    result.append(Target(rule, fields["name"], fields["srcs"][0], deps, data))
  return result


def main(argv: Sequence[str]) -> int:
  """Compares BUILD with the sources, or writes it; returns the exit code."""
  path = ROOT / "BUILD"
  wanted = render(targets())
  if "--write" in argv:
    path.write_text(wanted, encoding="utf-8")
    return 0
  written = path.read_text(encoding="utf-8") if path.exists() else ""
  rows = difflib.unified_diff(written.splitlines(), wanted.splitlines(), "BUILD", "sources", "", "")
  difference = "\n".join(rows)
  if difference:
    print(f"{difference}\nBUILD is stale: run `make build-file`.")
  return 1 if difference else 0


def _is_source(root: pathlib.Path, name: str) -> bool:
  parts = name.split("/")
  hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
  inside = parts[0] in _FOLDERS or name == "setup.py"
  return inside and not hidden and (root / name).is_file()


def _resolve(module: str, source: str, known: set[str]) -> Optional[str]:
  """Returns the source of a module's dotted name, or None for a module from elsewhere."""
  if module.startswith("temper."):
    stem = module[len("temper.") :].replace(".", "/")
  elif source.startswith("tests/") and "." not in module:
    # pytest's `pythonpath` lets a conformance test import what stands beside it.
    stem = f"{source.rpartition('/')[0]}/{module}"
  else:
    return None
  return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in known), None)


def _owners(data: str, texts: dict[str, str]) -> list[str]:
  """Returns the sources that a data file belongs to."""
  folder, _, base = data.rpartition("/")
  if folder.startswith("tests"):
    users = [name for name, text in texts.items() if name.startswith("tests/") and base in text]
    if not users:
      raise ValueError(
        f"{data} is named in no test: remove it, or write its name out where it is read."
      )
    return users
  while folder and f"{folder}/__init__.py" not in texts:
    folder = folder.rpartition("/")[0]
  return [f"{folder}/__init__.py"]


def _rule(source: str, text: str) -> str:
  if source.startswith("tests/") and source.endswith("_test.py"):
    return "py_test"
  is_program = source == "setup.py" or 'if __name__ == "__main__":' in text
  return "py_binary" if is_program else "py_library"


def _render(target: Target) -> str:
  rows = [f'    name = "{target.name}",', f'    srcs = ["{target.source}"],']
  if target.rule != "py_library":
    rows.append(f'    main = "{target.source}",')
  elif target.source.startswith("tests/"):
    rows.append("    testonly = True,")
  rows += _render_list("data", target.data)
  rows += _render_list("deps", [f":{name}" for name in target.deps])
  return "\n".join(["", f"{target.rule}(", *rows, ")", ""])


def _render_list(field: str, values: Sequence[str]) -> list[str]:
  if len(values) <= 1:
    return [f'    {field} = ["{value}"],' for value in values]
  return [f"    {field} = [", *(f'        "{value}",' for value in values), "    ],"]


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
