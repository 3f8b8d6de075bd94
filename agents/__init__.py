"""The agents, and the contract that a runner needs of any of them."""

from temper import utils as _utils  # noqa: F401  Checks the stack before an agent loads native code.
