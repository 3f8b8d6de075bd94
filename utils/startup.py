"""Checks the installed stack before native code is loaded, and keeps start-up quiet.

TensorFlow, Reverb and Launchpad link to each other's C++ symbols, so a wrong pair dies inside the
dynamic loader with an `undefined symbol` that names neither of them. Comparing the installed
versions first turns that into one message with the command that mends it. Only the standard library
is imported here.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import sys
from typing import Optional

SKIP_VARIABLE = "TEMPER_SKIP_STACK_CHECK"
SUPPORTED_PYTHONS = ((3, 9), (3, 10))
_DISTRIBUTION = "temper-rl"


class UnsupportedStackError(ImportError):
  """The installed TensorFlow, Reverb, Launchpad or Python are not a combination that loads."""


@dataclasses.dataclass(frozen=True)
class Component:
  """One native part of the stack.

  Attributes:
    name: the distribution that the lock files install, first of its family.
    version: the version that the lock files install.
    series: versions that load: `version` itself, or every version in `series.*`.
    module: the import name that all distributions of the family provide.
    variants: other distributions that install the same module. One that is left over beside `name`
      has overwritten its files, or will be overwritten by it.
    companions: requirements of the same release that a lone reinstallation would leave behind.
  """

  name: str
  version: str
  series: str
  module: str
  variants: tuple[str, ...] = ()
  companions: tuple[str, ...] = ()

  @property
  def family(self) -> tuple[str, ...]:
    """All distributions that provide the module, the supported one first."""
    return (self.name, *self.variants)

  @property
  def requirement(self) -> str:
    """What to give pip."""
    return " ".join((f"{self.name}=={self.version}", *self.companions))

  @property
  def allowed(self) -> str:
    """The supported versions in words."""
    return self.version if self.series == self.version else f"{self.series}.*"

  def supports(self, version: str) -> bool:
    """Whether `version` loads; a local suffix such as `+nv23` is ignored."""
    public = version.split("+", 1)[0]
    return public == self.series or public.startswith(f"{self.series}.")


STACK = (
  Component(
    "tensorflow",
    "2.12.1",
    "2.12",
    "tensorflow",
    ("tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "intel-tensorflow", "tf-nightly"),
    ("keras==2.12.0", "tensorflow-estimator==2.12.0", "tensorflow-probability==0.20.1"),
  ),
  Component("dm-reverb", "0.11.0", "0.11.0", "reverb", ("dm-reverb-nightly",)),
  Component(
    "dm-launchpad-nightly",
    "0.5.2.dev20230301",
    "0.5.2.dev20230301",
    "launchpad",
    ("dm-launchpad",),
  ),
)


def installed_version(distribution: str) -> Optional[str]:
  """Returns an installed distribution's version from its metadata, or None; imports nothing."""
  try:
    return importlib.metadata.version(distribution)
  except importlib.metadata.PackageNotFoundError:
    return None


def version() -> str:
  """Returns Temper's own version, `unknown` when it runs from a folder that was never installed."""
  return installed_version(_DISTRIBUTION) or "unknown"


def stack_versions() -> dict[str, str]:
  """Returns {distribution: version} of Python and of every installed distribution of the stack.

  A part of which no distribution is installed is listed as `not installed`.
  """
  versions = {"python": platform.python_version()}
  for component in STACK:
    found = _installed(component)
    versions.update(found or {component.name: "not installed"})
  return versions


def check_stack() -> None:
  """Compares the installed stack with the supported combination, without importing any of it.

  The environment variable `TEMPER_SKIP_STACK_CHECK=1` skips it, for builds of one's own.

  Raises:
    UnsupportedStackError: a part is missing or has another version. The message names each
      version found, each version supported, and one command that mends all of them.
  """
  if os.environ.get(SKIP_VARIABLE, "") == "1":
    return
  if sys.version_info[:2] not in SUPPORTED_PYTHONS:
    raise UnsupportedStackError(
      f"Temper runs on Python 3.9 and 3.10, and this is Python {platform.python_version()}: "
      "Launchpad, which dm-acme imports, has no build for another one. Make an environment with "
      "Python 3.10 (`make setup` in a clone finds or fetches one), or set "
      f"{SKIP_VARIABLE}=1 to try all the same."
    )
  problems, mends = [], []
  for component in STACK:
    found = _installed(component)
    wrong = {name: number for name, number in found.items() if not component.supports(number)}
    if wrong:
      listed = " and ".join(f"{name} {number}" for name, number in wrong.items())
      problems.append(f"{listed} found, {component.name} {component.allowed} supported")
      mends.append((component, tuple(wrong)))
    elif not found and importlib.util.find_spec(component.module) is None:
      # A module without metadata is somebody's own build, whose version nothing tells beforehand.
      problems.append(f"{component.name} not found, {component.name} {component.allowed} supported")
      mends.append((component, ()))
  if problems:
    raise UnsupportedStackError(_message(problems, mends))


def silence_gym() -> None:
  """Empties the notices that the old `gym` prints when dm-acme's wrappers import it.

  No agent here uses that package, so its advice to move to Gymnasium would only mislead.
  """
  try:
    from gym_notices import notices
  except ImportError:
    return
  notices.notices.clear()


def quiet() -> None:
  """For command-line tools, to be called before TensorFlow is imported: leaves no trace of it.

  Its banner lines are hidden: `TF_CPP_MIN_LOG_LEVEL` becomes 2 (errors only) unless the user has
  set it. And Keras, at its import, makes no folder in the user's home that was not there.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  if not os.path.exists(os.path.join(os.path.expanduser("~"), ".keras")):
    os.environ.setdefault("KERAS_HOME", os.devnull)  # No folder can be made under it.
  silence_gym()


def _installed(component: Component) -> dict[str, str]:
  """Returns {distribution: version} for those of the component's family that are installed."""
  versions = {name: installed_version(name) for name in component.family}
  return {name: number for name, number in versions.items() if number is not None}


def _message(problems: Sequence[str], mends: Iterable[tuple[Component, Sequence[str]]]) -> str:
  """Words the refusal: what was found, what is supported, and the command that mends it."""
  components: list[Component] = []
  leftovers: list[str] = []
  for component, wrong in mends:
    components.append(component)
    leftovers += wrong
  python = shlex.quote(sys.executable or "python")
  requirements = " ".join(component.requirement for component in components)
  # Distributions of one family own the same files: removing the wrong one also breaks the right
  # one, hence the reinstallation. --no-deps, as dm-acme's pin would bring the wrong Launchpad back.
  install = f"{python} -m pip install --no-deps --force-reinstall {requirements}"
  if leftovers:
    install = f"{python} -m pip uninstall -y {' '.join(leftovers)} && {install}"
  return (
    "The installed packages do not load together:\n  "
    + "\n  ".join(problems)
    + f"\nMend it with\n  {install}\nor with `make setup` in a clone. "
    f"{SKIP_VARIABLE}=1 skips this check."
  )
