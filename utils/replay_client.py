"""A Reverb client that dm-acme's adders can use, and the wait of a writer for its server."""

from typing import Optional

import reverb

from temper.utils import replay_watch

# How long an adder waits for confirmations before it asks whether the server is alive, in
# milliseconds.
_CONFIRM_TIMEOUT_MS = 1_000


class Client(reverb.Client):
  """A client that ignores an argument of dm-acme's adders which Reverb no longer has."""

  def trajectory_writer(
    self,
    num_keep_alive_refs: int,
    *,
    validate_items: bool = True,
    get_signature_timeout_ms: Optional[int] = None,
  ) -> reverb.TrajectoryWriter:
    """As `reverb.Client.trajectory_writer`; `get_signature_timeout_ms` has no effect."""
    del get_signature_timeout_ms
    return super().trajectory_writer(num_keep_alive_refs, validate_items=validate_items)


def adapt_client(client: reverb.Client) -> Client:
  """Returns a client of the same server that dm-acme's adders can use."""
  return client if isinstance(client, Client) else Client(client.server_address)


def wait_for_confirmation(
  writer: reverb.TrajectoryWriter, client: reverb.Client, max_unconfirmed: int
) -> None:
  """Waits until few items of a writer are unconfirmed: for ever, while the server lives.

  Args:
    writer: what wrote the items.
    client: client of the same server.
    max_unconfirmed: items that may stay unconfirmed.

  Raises:
    ReplayLostError: if the server is gone, after at most 20 s.
  """
  while True:
    try:
      writer.flush(max_unconfirmed, timeout_ms=_CONFIRM_TIMEOUT_MS)
      return
    except reverb.DeadlineExceededError:
      # The rate limiter may keep a writer waiting; a server that is gone may not.
      replay_watch.check_server(client)
