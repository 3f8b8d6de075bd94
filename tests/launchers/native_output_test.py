import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys
from temper.launchers import native_output
try:
  with native_output.held_back():
    os.write(2, b"native line\\n")
    print("python line", file=sys.stderr)
    {body}
except {caught}:
  pass
os.write(2, b"after\\n")
print("python after", file=sys.stderr)
"""


@pytest.mark.parametrize(
  "body, shown",
  [
    ("pass", ["python line", "after", "python after"]),
    ("raise OSError('x')", ["python line", "native line", "after", "python after"]),
  ],
)
def test_native_lines_are_shown_only_when_something_goes_wrong(body, shown):
  program = _PROGRAM.format(body=body, caught="OSError")
  answer = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, check=True
  )
  assert answer.stderr.splitlines() == shown
