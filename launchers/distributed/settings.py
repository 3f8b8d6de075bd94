"""What every node of a distributed run is given."""

from collections.abc import Mapping
import dataclasses
import os
from typing import Any

from acme import specs

from temper.launchers import experiment_config
from temper.launchers.distributed.launch_config import LaunchConfig
from temper.launchers.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class RunSettings:
  """A distributed run.

  Attributes:
    config: what to run.
    launch: its nodes.
    environment_spec: of its environment.
    record: what config.json holds.
  """

  config: experiment_config.ExperimentConfig
  launch: LaunchConfig
  environment_spec: specs.EnvironmentSpec
  record: Mapping[str, Any]

  @property
  def directory(self) -> RunDirectory:
    """The folder of the run."""
    return RunDirectory(self.config.directory)

  @property
  def name(self) -> str:
    """Name of the run's folder."""
    return os.path.basename(os.path.abspath(self.config.directory))

  @property
  def board(self) -> str:
    """Folder of the board, which exists while the program runs."""
    return os.path.join(self.config.directory, ".program")

  @property
  def node_logs(self) -> str:
    """Folder of the nodes' own logs."""
    return os.path.join(self.directory.logs, "nodes")
