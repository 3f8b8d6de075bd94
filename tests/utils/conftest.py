"""Replay of sequences whose every number tells where it comes from."""

from acme import specs
import dm_env
import numpy as np
import pytest
import reverb

from temper.utils import replay_datasets
from temper.utils import replay_sequence_adder
from temper.utils import replay_server
from temper.utils import replay_tables

_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((), np.float32),
  actions=specs.BoundedArray((), np.float32, -1e9, 1e9),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0, 1),
)


class SequenceReplay:
  """Servers with a table of sequences, and what goes in and comes out."""

  table = "steps"

  def __init__(self):
    self._servers = []

  def make_table(self, length, max_size=1000, limiter=None, priority_exponent=None):
    return replay_tables.sequence_table(
      self.table,
      _SPEC,
      {"log_prob": specs.Array((), np.float32)},
      length,
      max_size,
      limiter or reverb.rate_limiters.MinSize(1),
      priority_exponent,
    )

  def serve(self, length, *, restore_from=None, **options):
    server = replay_server.start_server([self.make_table(length, **options)], restore_from)
    self._servers.append(server)
    return server

  def make_adder(self, server, length, period):
    return replay_sequence_adder.SequenceAdder(server.client, length, period, self.table)

  def make_dataset(self, server, batch_size=1, prefetch_size=0, timeout_ms=20_000):
    return replay_datasets.make_dataset(
      server.client.server_address, self.table, batch_size, prefetch_size, timeout_ms
    )

  def step(self, reward, observation, last=False):
    make = dm_env.truncation if last else dm_env.transition
    return make(np.float32(reward), np.float32(observation), np.float32(1))

  def feed(self, adder, lengths, begun=0):
    """Adds whole episodes; step i has observation i, action 10 i, reward 100 i."""
    i = begun
    for length in lengths:
      adder.add_first(dm_env.restart(np.float32(i)))
      for step in range(1, length + 1):
        next_timestep = self.step(100 * i, i + 1, last=step == length)
        adder.add(np.float32(10 * i), next_timestep, {"log_prob": np.float32(-i)})
        i += 1
      i += 1
    return i

  def items(self, server):
    """Returns the items of the table in the order of their insertion, as dicts of arrays."""
    # So many draws that each of a handful of items is among them.
    dataset = self.make_dataset(server, timeout_ms=2000)
    found = {int(sample.info.key.numpy()[0]): sample.data for sample in dataset.take(400)}
    items = [
      {
        "observation": d.observation[0].numpy(),
        "action": d.action[0].numpy(),
        "reward": d.reward[0].numpy(),
        "discount": d.discount[0].numpy(),
        "start_of_episode": d.start_of_episode[0].numpy(),
        "log_prob": d.extras["log_prob"][0].numpy(),
      }
      for d in found.values()
    ]
    return sorted(items, key=lambda item: (item["observation"][0], item["observation"][-1]))

  def assert_same_items(self, ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
      for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)

  def stop(self):
    for server in self._servers:
      server.stop()


@pytest.fixture(name="sequences")
def _sequences():
  replay = SequenceReplay()
  yield replay
  replay.stop()
