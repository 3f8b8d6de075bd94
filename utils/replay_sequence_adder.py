"""An adder of sequences that go on over episode ends, and that loses no step."""

import operator
from typing import Callable, Optional

from acme import types
from acme.adders import reverb as reverb_adders
from acme.adders.reverb import base as adder_base
import dm_env
import numpy as np
import reverb
import tree

from temper.utils import replay_client


class SequenceAdder(reverb_adders.SequenceAdder):
  """Adds sequences that go on over episode ends, and can write what is left at the end of a run.

  Acme's adder loses the steps after the last full period. `flush` writes them as one more sequence
  that overlaps the one before, so that every sequence has the full length and no step is lost once
  there are enough for one sequence.
  """

  def __init__(
    self,
    client: reverb.Client,
    sequence_length: int,
    period: int,
    table: str,
    priority: Optional[Callable[[], float]] = None,
  ):
    """Initialises the adder.

    Args:
      client: client of the server that holds the table.
      sequence_length: steps of a sequence, its last (bootstrap) step included; at least 2.
      period: steps between the starts of two sequences.
      table: name of the table.
      priority: returns the priority of a new item; None gives each 1, which only prioritised tables
        read.
    """
    super().__init__(
      client=replay_client.adapt_client(client),
      sequence_length=sequence_length,
      period=period,
      # Not used: the items are made here.
      priority_fns={table: None},
      end_of_episode_behavior=reverb_adders.EndBehavior.CONTINUE,
    )
    self._table = table
    self._priority = priority
    self._steps_since_item = 0
    self._steps = 0
    # Whether the newest row of the writer still waits for the action that follows its observation.
    self._row_is_open = False
    self._no_action: types.NestedArray = None
    self._gave_up = False

  def __del__(self) -> None:
    # Acme's adder waits ten seconds more, for what the server did not confirm when it was asked.
    if not self._gave_up:
      super().__del__()

  def add_first(self, timestep: dm_env.TimeStep) -> None:
    """Records the first observation of an episode.

    An episode that was left half-way counts as truncated.

    Raises:
      ValueError: if the very first episode is begun twice without an action.
    """
    if self._row_is_open:
      if self._no_action is None:
        raise ValueError(
          "The first episode was begun twice without an action between. Make a new adder (or "
          "agent) instead."
        )
      self._writer.append(self._no_action)
      self._write_last()
    super().add_first(timestep)
    self._row_is_open = True

  def add(
    self, action: types.NestedArray, next_timestep: dm_env.TimeStep, extras: types.NestedArray = ()
  ) -> None:
    """Records an action and the time step that follows it.

    Raises:
      ReplayLostError: if the server is gone, after at most 20 s.
    """
    if self._no_action is None:
      row = dict(action=action, reward=next_timestep.reward, discount=next_timestep.discount)
      self._no_action = tree.map_structure(
        np.zeros_like, {**row, "extras": extras} if extras else row
      )
    self._steps += 1
    self._steps_since_item += 1
    super().add(action, next_timestep, extras)

  def _write_last(self) -> None:
    # The closing entry of an episode, which has an observation but no action, is a step of the
    # sequence too.
    self._steps += 1
    self._steps_since_item += 1
    self._row_is_open = False
    super()._write_last()

  def _maybe_create_item(
    self, sequence_length: int, *, end_of_episode: bool = False, force: bool = False
  ) -> None:
    del force  # Acme's other ways to end an episode use it.
    steps = self._steps
    if steps == sequence_length or (
      steps > sequence_length and (steps - sequence_length) % self._period == 0
    ):
      self._create_item(end_of_episode)
      self._wait_for_server()

  def _create_item(self, end_of_episode: bool) -> None:
    """Makes an item of the newest complete rows.

    Unless an episode has just ended, one more row is open.
    """
    rows = (
      slice(-self._sequence_length, None)
      if end_of_episode
      else slice(-self._sequence_length - 1, -1)
    )
    columns = tree.map_structure(operator.itemgetter(rows), self._writer.history)
    priority = 1.0 if self._priority is None else self._priority()
    self._writer.create_item(self._table, priority, adder_base.Trajectory(**columns))
    self._steps_since_item = 0

  def _wait_for_server(self) -> None:
    # While the wait lasts, or after it has failed, there is nothing more to wait for at the end.
    self._gave_up = True
    replay_client.wait_for_confirmation(self._writer, self._client, self._max_in_flight_items)
    self._gave_up = False

  def flush(self, timeout_ms: int = 5_000) -> None:
    """Writes the steps that no sequence holds yet, and waits until the server has confirmed all.

    Args:
      timeout_ms: bound of the wait, milliseconds.

    Raises:
      reverb.DeadlineExceededError: if the server does not confirm in time; the steps stay queued.
    """
    if not self._steps:
      return
    if self._steps_since_item and self._steps >= self._sequence_length:
      self._create_item(end_of_episode=not self._row_is_open)
    self._gave_up = True
    self._writer.flush(block_until_num_items=0, timeout_ms=timeout_ms)
    self._gave_up = False
