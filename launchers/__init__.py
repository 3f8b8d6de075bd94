"""The programs: what `temper` and `python -m temper.launchers.…` run."""

from temper import utils as _utils  # noqa: F401  Checks the stack before a program loads native code.
