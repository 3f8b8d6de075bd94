"""A Reverb server in this process, whose contents can be saved, checked and restored."""

from collections.abc import Sequence
import json
import os
import shutil
import tempfile
from typing import NamedTuple, Optional

import reverb

from temper.utils import replay_client
from temper.utils.checkpointing import CheckpointError

# Written beside Reverb's own files: what must be found there again.
_MANIFEST = "manifest.json"
# An actor's last items may still be on their way when a checkpoint begins.
_SAVE_ATTEMPTS = 5


class InProcessServer(NamedTuple):
  """A Reverb server of this process, and a client of it."""

  server: reverb.Server
  client: replay_client.Client
  tables: Sequence[reverb.Table]
  scratch: str

  def sizes(self) -> dict[str, int]:
    """Returns the number of items by table."""
    return table_sizes(self.client)

  def save(self, directory: str) -> None:
    """Writes all tables into `directory`, which must not exist yet."""
    save_tables(self.client, directory)

  def stop(self) -> None:
    """Stops the server and removes its scratch folder."""
    self.server.stop()
    shutil.rmtree(self.scratch, ignore_errors=True)


def start_server(
  tables: Sequence[reverb.Table],
  restore_from: Optional[str] = None,
  *,
  scratch: Optional[str] = None,
) -> InProcessServer:
  """Starts a Reverb server in this process.

  Args:
    tables: its tables.
    restore_from: folder that `InProcessServer.save` wrote, to fill the tables from.
    scratch: folder for what the server writes while it saves; whatever a killed process left in it
      is removed. None makes one in the system's folder for temporary files.

  Raises:
    CheckpointError: if `restore_from` is given and is not, whole, what was saved.
  """
  items = saved_items(restore_from) if restore_from is not None else None
  if scratch is None:
    scratch = tempfile.mkdtemp(prefix="temper_replay_")
  else:
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
  server = None
  try:
    checkpointer = reverb.checkpointers.DefaultCheckpointer(scratch, "", restore_from)
    try:
      server = reverb.Server(tables, port=None, checkpointer=checkpointer)
    except (RuntimeError, ValueError) as error:
      if restore_from is None:
        raise
      raise CheckpointError(f"The replay in {restore_from} cannot be read: {error}.") from error
    started = InProcessServer(
      server, replay_client.Client(f"localhost:{server.port}"), tuple(tables), scratch
    )
    if items is not None and started.sizes() != items:
      raise CheckpointError(
        f"The replay in {restore_from} held {items} items by table; {started.sizes()} were read."
      )
    return started
  except BaseException:
    if server is not None:
      server.stop()
    shutil.rmtree(scratch, ignore_errors=True)
    raise


def table_sizes(client: reverb.Client) -> dict[str, int]:
  """Returns the number of items by table of a server."""
  # Asked over the wire: a restore makes new tables in the server, and those given to it stay empty
  # for ever.
  return {name: info.current_size for name, info in client.server_info(timeout=30).items()}


def save_tables(client: reverb.Client, directory: str) -> None:
  """Writes all tables of a server on this machine into `directory`, which must not exist yet.

  Args:
    client: client of the server.
    directory: the folder.

  Raises:
    RuntimeError: if items are added all the time, so that nobody can say how many were saved.
  """
  for _ in range(_SAVE_ATTEMPTS):
    sizes = table_sizes(client)
    written = client.checkpoint()
    if table_sizes(client) == sizes:
      break
    shutil.rmtree(written, ignore_errors=True)
  else:
    raise RuntimeError(f"Replay at {client.server_address} changes while it is saved.")
  shutil.move(written, directory)
  files = {name: os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory)}
  with open(os.path.join(directory, _MANIFEST), "w", encoding="utf-8") as file:
    json.dump({"items": sizes, "files": files}, file, indent=1)


def saved_items(directory: str) -> dict[str, int]:
  """Returns the number of items by table that `InProcessServer.save` wrote.

  All files must be there at their full size: Reverb itself takes a missing or shortened one for the
  end of the data, or ends the process.

  Raises:
    CheckpointError: if `directory` is not, whole, what was saved.
  """
  try:
    with open(os.path.join(directory, _MANIFEST), encoding="utf-8") as file:
      manifest = json.load(file)
    items, files = dict(manifest["items"]), dict(manifest["files"])
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise CheckpointError(f"There is no whole replay in {directory}: {error!r}.") from error
  for name, size in files.items():
    path = os.path.join(directory, name)
    found = os.path.getsize(path) if os.path.isfile(path) else None
    if found != size:
      what = "is missing" if found is None else f"has {found} bytes"
      raise CheckpointError(
        f"The replay in {directory} is damaged: {name} {what} where {size} bytes were saved."
      )
  return items
