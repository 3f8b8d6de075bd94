"""What two agents share, one topic a module.

Importing this package compares the installed stack with the supported one before any native code is
loaded (see `temper.utils.startup`). The other two packages import it first for that reason.
"""

from temper.utils import startup

startup.check_stack()
startup.silence_gym()
