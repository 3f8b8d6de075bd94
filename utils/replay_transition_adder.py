"""An adder of n-step transitions that costs little time a step and never waits for ever."""

import collections
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

from absl import logging
from acme import adders
from acme import types
import dm_env
import numpy as np
import reverb

from temper.utils import checks
from temper.utils import replay_client
from temper.utils import replay_row_store
from temper.utils import replay_rows

# Items that the server may not have confirmed yet, while the adder goes on.
_MAX_IN_FLIGHT_ITEMS = 5

# How long an adder that is dropped waits for the server to confirm what it wrote, in milliseconds.
_LAST_WAIT_MS = 5_000


class _Step(NamedTuple):
  """A step of the newest n, as flat lists; its observation is that before the action."""

  observation: list[np.ndarray]
  large: list[reverb.TrajectoryColumn]
  action: list[np.ndarray]
  reward: float
  discount: float
  extras: list[np.ndarray]


class TransitionAdder(adders.Adder):
  """Adds n-step transitions, the same ones as `acme.adders.reverb.NStepTransitionAdder`.

  With the discount `g` and the environment's rewards `r` and discounts `d`, that of step `t` is

      observation s_t, action a_t and extras of step t, next observation s_{t+n},
      reward   r_t + g d_t r_{t+1} + ... + g^{n-1} d_t ... d_{t+n-2} r_{t+n-1},
      discount g^{n-1} d_t ... d_{t+n-1},

  so the learner multiplies the value of the next observation by `g` once more. Each environment
  step makes one transition, which ends with it and begins at most n steps before; the end of an
  episode makes the n - 1 further ones that end there too.

  A truncated episode bootstraps from its last observation, since its last step's discount is not 0;
  a terminated one's is 0. An episode that is left half-way counts as truncated.
  """

  def __init__(
    self,
    client: reverb.Client,
    n_step: int,
    discount: float,
    table: str,
    priority: Optional[Callable[[], float]] = None,
    *,
    bootstrap_on_truncation: bool = True,
    row_store: Optional[replay_row_store.RowStore] = None,
  ):
    """Initialises the adder.

    Args:
      client: client of the server that holds the table.
      n_step: steps of a transition, at least 1.
      discount: discount of the agent, in [0, 1].
      table: name of the table, which `temper.utils.replay_tables.transition_table` made.
      priority: returns the priority of a new item; None gives each 1, which only prioritised tables
        read.
      bootstrap_on_truncation: False gives a truncated episode's last step the discount 0, as if it
        had terminated. A step that is already in replay when its episode is left half-way keeps
        its discount.
      row_store: gets a copy of each row.

    Raises:
      ValueError: if a number is out of its range, or the table does not hold transitions.
    """
    self._gave_up = True  # There is nothing to wait for if this fails.
    checks.integer("n_step", n_step, minimum=1)
    checks.number("discount", discount, minimum=0, maximum=1)
    self._client = client
    self._n_step = n_step
    self._discount = float(discount)
    self._table = table
    self._priority = priority
    self._bootstrap_on_truncation = bootstrap_on_truncation
    self._row_store = row_store
    self._rows = replay_rows.TransitionRows.of_table(client, table)
    # The rows were checked when they were packed; the writer's own checks take long.
    self._writer = client.trajectory_writer(n_step + 1, validate_items=False)
    # An item is one row, so a longer chunk would only be unpacked in vain.
    self._writer.configure(("row",), num_keep_alive_refs=1, max_chunk_length=1)
    self._gave_up = False
    self._steps: collections.deque[_Step] = collections.deque(maxlen=n_step)
    self._observation: list[np.ndarray] = []
    self._large: list[reverb.TrajectoryColumn] = []
    self._in_episode = False

  def __del__(self) -> None:
    if self._gave_up:
      return
    try:
      self._writer.flush(0, timeout_ms=_LAST_WAIT_MS)
    except (reverb.ReverbError, RuntimeError) as error:
      logging.warning("Replay did not confirm the newest steps of an adder: %s", error)

  def reset(self) -> None:
    """Forgets the steps of the episode that are not in replay; the next call is `add_first`."""
    self._steps.clear()
    self._in_episode = False

  def add_first(self, timestep: dm_env.TimeStep) -> None:
    """Records the first observation of an episode.

    An episode that was left half-way counts as truncated.

    Raises:
      ValueError: if the time step is not the first of an episode.
    """
    if not timestep.first():
      raise ValueError(
        f"add_first got a time step of type {timestep.step_type!r}; an episode must begin with "
        "that of environment.reset()."
      )
    if self._in_episode:
      if self._steps and not self._bootstrap_on_truncation:
        self._steps[-1] = self._steps[-1]._replace(discount=0.0)
      self._write_shorter()
    self._observation = self._rows.leaves("observation", timestep.observation)
    self._large = self._append({}, self._observation)
    self._in_episode = True

  def add(
    self, action: types.NestedArray, next_timestep: dm_env.TimeStep, extras: types.NestedArray = ()
  ) -> None:
    """Records an action and the time step that follows it.

    Raises:
      ReplayLostError: if the server is gone, after at most 20 s.
      ValueError: if no episode was begun, or something has another shape or dtype than the table.
    """
    if not self._in_episode:
      raise ValueError("add was called outside of an episode; call add_first before.")
    discount = float(next_timestep.discount)
    if next_timestep.last() and not self._bootstrap_on_truncation:
      discount = 0.0
    leaves = self._rows.leaves
    self._steps.append(
      _Step(
        observation=self._observation,
        large=self._large,
        action=leaves("action", action),
        reward=float(next_timestep.reward),
        discount=discount,
        extras=leaves("extras", extras),
      )
    )
    self._observation = leaves("observation", next_timestep.observation)
    self._write()
    if next_timestep.last():
      self._write_shorter()

  def _write_shorter(self) -> None:
    """Ends the episode: writes the transitions that begin later than the newest one."""
    self._in_episode = False
    while len(self._steps) > 1:
      self._steps.popleft()
      self._write(large_is_written=True)
    self._steps.clear()

  def _write(self, large_is_written: bool = False) -> None:
    """Writes the transition from the oldest step that is kept to the newest observation."""
    first = self._steps[0]
    reward, discount, factor = first.reward, first.discount, 1.0
    for step in list(self._steps)[1:]:
      factor = discount * self._discount
      reward += factor * step.reward
      discount = factor * step.discount
    row = self._rows.pack(
      [*first.observation, *first.action, reward, discount, *self._observation, *first.extras]
    )
    if self._row_store is not None:
      self._row_store.append(row)
    if large_is_written:
      self._append({"row": row}, [])
    else:
      self._large = self._append({"row": row}, self._observation)
    priority = 1.0 if self._priority is None else self._priority()
    self._writer.create_item(
      self._table, priority, (self._writer.history["row"][-1], *first.large, *self._large)
    )
    self._wait_for_server()

  def _append(
    self, data: dict[str, np.ndarray], observation: Sequence[np.ndarray]
  ) -> list[reverb.TrajectoryColumn]:
    """Appends a row and the large leaves of an observation; returns what refers to the leaves."""
    large = self._rows.large_leaves(observation) if observation else []
    names = [f"large_{i}" for i in range(len(large))]
    data = {**data, **dict(zip(names, large))}
    if data:
      self._writer.append(data)
    return [self._writer.history[name][-1] for name in names]

  def _wait_for_server(self) -> None:
    # While the wait lasts, or after it has failed, there is nothing more to wait for at the end.
    self._gave_up = True
    replay_client.wait_for_confirmation(self._writer, self._client, _MAX_IN_FLIGHT_ITEMS)
    self._gave_up = False

  def flush(self, timeout_ms: int = 5_000) -> None:
    """Waits until the server has confirmed all that was written.

    The newest n - 1 steps of an episode that goes on begin transitions of their own only later.

    Args:
      timeout_ms: bound of the wait, milliseconds.

    Raises:
      reverb.DeadlineExceededError: if the server does not confirm in time; the steps stay queued.
    """
    self._gave_up = True
    self._writer.flush(block_until_num_items=0, timeout_ms=timeout_ms)
    self._gave_up = False
