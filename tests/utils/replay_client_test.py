"""Tests of `temper.utils.replay_client`."""

import reverb

from temper.utils import replay_client


def test_a_client_is_adapted_once(sequences):
  client = sequences.serve(3).client
  assert replay_client.adapt_client(client) is client
  plain = reverb.Client(client.server_address)
  assert replay_client.adapt_client(plain).server_address == client.server_address
  writer = replay_client.adapt_client(plain).trajectory_writer(2, get_signature_timeout_ms=5)
  assert isinstance(writer, reverb.TrajectoryWriter)
