"""What the replay node of a distributed run serves, and what it is filled from."""

import os
import shutil

import reverb

from temper.launchers.distributed.settings import RunSettings
from temper.utils.checkpointing import Checkpointer


def make_tables(settings: RunSettings) -> list[reverb.Table]:
  """Makes the tables of the replay node."""
  return settings.config.builder.make_replay_tables(settings.environment_spec)


def make_replay_checkpointer(settings: RunSettings) -> reverb.checkpointers.CheckpointerBase:
  """Makes what saves replay, and what it is filled from at the start: the newest checkpoint."""
  scratch = settings.directory.replay_scratch
  shutil.rmtree(scratch, ignore_errors=True)
  os.makedirs(scratch)
  newest = Checkpointer(settings.directory.checkpoints).latest()
  restore_from = os.path.join(newest, "replay") if newest else None
  return reverb.checkpointers.DefaultCheckpointer(scratch, "", restore_from)
