"""Trains d3rlpy's CRR on a dataset and evaluates it as it goes: the peer of benchmark_d3rlpy.

python -I d3rlpy_worker.py JOB.json RESULT.json

Runs in d3rlpy's environment, where Temper is not installed: it imports nothing of the project.
Temper imports it for what both sides share, so that d3rlpy is imported only where it is used.
"""

from collections.abc import Sequence
import dataclasses
import json
import logging
import os
import sys
import time
from typing import Any, Callable

import numpy as np

# Beyond it an episode is taken for endless, as in utils/evaluation.py.
_MAX_EPISODE_STEPS = 100_000

# Maps observations [B, D] to the environment's own actions [B, A].
Act = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Config:
  """What both sides are trained with; names and meanings are those of Temper's `CRRConfig`.

  Attributes:
    discount: discount of the returns that are learnt.
    batch_size: transitions an update.
    target_update_period: updates between copies to the target networks.
    num_action_samples: for the baseline, and to choose from when the critic-weighted policy acts.
    baseline: how the values of these become one, "mean" or "max".
    mode: weight of a stored action, "exp" or "binary".
    ratio_upper_bound: largest weight of mode "exp".
    beta: temperature of mode "exp".
    max_gradient_norm: each network's gradient is clipped to it.
    reward_scale: factor of the rewards that are learnt from.
    learning_rate: Adam's, of policy and critic.
    layer_sizes: hidden layers of policy and critic.
    num_critics: critics of d3rlpy, the smallest of which is the target. Temper has one.
  """

  discount: float = 0.99
  batch_size: int = 256
  target_update_period: int = 100
  num_action_samples: int = 4
  baseline: str = "mean"
  mode: str = "exp"
  ratio_upper_bound: float = 20.0
  beta: float = 1.0
  max_gradient_norm: float = 40.0
  reward_scale: float = 1.0
  learning_rate: float = 3e-4
  layer_sizes: tuple[int, ...] = (256, 256)
  num_critics: int = 1

  def __post_init__(self) -> None:
    # JSON knows lists only.
    object.__setattr__(self, "layer_sizes", tuple(self.layer_sizes))
    for name, allowed in (("mode", ("exp", "binary")), ("baseline", ("mean", "max"))):
      if getattr(self, name) not in allowed:
        raise ValueError(f"{name} is {getattr(self, name)!r}; d3rlpy's CRR knows {allowed}.")


@dataclasses.dataclass(frozen=True)
class Job:
  """One run of the peer.

  Attributes:
    dataset: archive that `write_episodes` made.
    environment: id that Gymnasium knows.
    start_seeds: one for each evaluation episode.
    seed: seed of networks and batches.
    steps: updates, a multiple of `eval_every`.
    eval_every: updates between evaluations.
    normalise_observations: whether the networks see observations of mean 0 and deviation 1.
    threads: of one operation, 0 for torch's choice.
    config: see `Config`.
  """

  dataset: str
  environment: str
  start_seeds: tuple[int, ...]
  seed: int
  steps: int
  eval_every: int
  normalise_observations: bool
  threads: int
  config: Config

  def __post_init__(self) -> None:
    object.__setattr__(self, "start_seeds", tuple(self.start_seeds))
    if self.steps < 1 or self.eval_every < 1 or self.steps % self.eval_every:
      raise ValueError(
        f"steps is {self.steps} and eval_every {self.eval_every}; both must be at least 1, and "
        "steps a multiple of eval_every, so that training ends with an evaluation."
      )

  def to_json(self) -> dict[str, Any]:
    """Returns what JSON gives back unchanged."""
    return json.loads(json.dumps(dataclasses.asdict(self)))

  @classmethod
  def from_json(cls, entries: dict[str, Any]) -> "Job":
    """Returns the job that `to_json` wrote."""
    return cls(**{**entries, "config": Config(**entries["config"])})


def write_episodes(
  path: str, episodes: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]
) -> None:
  """Writes episodes in the form that `read_episodes` takes, which no other program knows.

  Args:
    path: the archive to write, ending in .npz.
    episodes: of each, observations [L + 1, D], actions [L, A] in the environment's own units,
      rewards [L], and whether it terminated.
  """
  columns = list(zip(*episodes))
  np.savez(
    path,
    lengths=[len(rewards) for rewards in columns[2]],
    observations=np.concatenate(columns[0]).astype(np.float32),
    actions=np.concatenate(columns[1]).astype(np.float32),
    rewards=np.concatenate(columns[2]).astype(np.float32),
    terminated=np.asarray(columns[3], bool),
  )


def read_episodes(path: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]:
  """Reads what `write_episodes` wrote."""
  with np.load(path) as archive:
    arrays = {name: archive[name] for name in archive.files}
  lengths = arrays["lengths"]
  ends, row_ends = np.cumsum(lengths)[:-1], np.cumsum(lengths + 1)[:-1]
  return list(
    zip(
      np.split(arrays["observations"], row_ends),
      np.split(arrays["actions"], ends),
      np.split(arrays["rewards"], ends),
      arrays["terminated"].tolist(),
    )
  )


def play(environments: Sequence[Any], start_seeds: Sequence[int], act: Act) -> list[float]:
  """Plays one episode in each environment, side by side, so that a policy is called once a step.

  Args:
    environments: Gymnasium environments with a box of actions.
    start_seeds: one for each environment.
    act: the policy; actions out of bounds are clipped.

  Returns:
    The undiscounted returns.

  Raises:
    RuntimeError: if an episode does not end.
  """
  space = environments[0].action_space
  running = {
    index: environment.reset(seed=seed)[0]
    for index, (environment, seed) in enumerate(zip(environments, start_seeds))
  }
  returns = [0.0] * len(running)
  for _ in range(_MAX_EPISODE_STEPS):
    if not running:
      return returns
    actions = act(np.stack(list(running.values())).astype(np.float32))
    for index, action in zip(list(running), np.clip(actions, space.low, space.high)):
      observation, reward, terminated, truncated, _ = environments[index].step(action)
      returns[index] += float(reward)
      running[index] = observation
      if terminated or truncated:
        del running[index]
  raise RuntimeError(f"An episode has not ended after {_MAX_EPISODE_STEPS:,} steps.")


def run(job: Job) -> dict[str, Any]:
  """Trains and evaluates.

  Args:
    job: the run.

  Returns:
    `evaluations`, a list with `step`, `policy` ("mean", "raw" or "boltzmann") and `returns`;
    `probe_return`, see `probe`; `updates_per_second`; `versions`.
  """
  import d3rlpy
  import gymnasium
  import structlog
  import torch

  # d3rlpy tells of every step of its set-up otherwise.
  structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
  if job.threads:
    torch.set_num_threads(job.threads)
  d3rlpy.seed(job.seed)
  environments = [gymnasium.make(job.environment) for _ in job.start_seeds]
  algorithm = _make_algorithm(job, environments[0].action_space)
  buffer = d3rlpy.dataset.create_infinite_replay_buffer(
    [_to_peer(*episode) for episode in read_episodes(job.dataset)]
  )
  evaluator = _Evaluator(job, algorithm, environments)
  algorithm.fit(
    buffer,
    n_steps=job.steps,
    n_steps_per_epoch=job.eval_every,
    logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    show_progress=False,
    epoch_callback=evaluator,
  )
  return {
    "evaluations": evaluator.evaluations,
    "probe_return": probe(environments[0], job.start_seeds[0]),
    "updates_per_second": job.steps / evaluator.training_seconds,
    "versions": {module.__name__: module.__version__ for module in (d3rlpy, torch, gymnasium)},
  }


class _Evaluator:
  """Called by d3rlpy after every `eval_every` updates; also counts the time between its calls."""

  def __init__(self, job: Job, algorithm: Any, environments: Sequence[Any]):
    self.evaluations: list[dict[str, Any]] = []
    self.training_seconds = 0.0
    self._job = job
    self._environments = environments
    self._policies: dict[str, Act] = {
      "mean": lambda observations: _mean_action(algorithm, observations),
      "raw": algorithm.sample_action,
      "boltzmann": algorithm.predict,  # In CRR, this is the critic-weighted policy.
    }
    self._mark = time.perf_counter()

  def __call__(self, algorithm: Any, epoch: int, step: int) -> None:
    del algorithm, epoch
    self.training_seconds += time.perf_counter() - self._mark
    means = []
    for name, act in self._policies.items():
      returns = play(self._environments, self._job.start_seeds, act)
      self.evaluations.append({"step": step, "policy": name, "returns": returns})
      means.append(f"{name} {np.mean(returns):.1f}")
    print(f"d3rlpy, seed {self._job.seed}, update {step:,}: {', '.join(means)}", flush=True)
    self._mark = time.perf_counter()


def probe(environment: Any, seed: int) -> float:
  """Plays one episode by the middle of the action bounds: equal where environments are equal.

  Args:
    environment: a Gymnasium environment.
    seed: chooses the start state.

  Returns:
    The undiscounted return.
  """
  space = environment.action_space
  return play([environment], [seed], lambda observations: (space.low + space.high)[None] / 2)[0]


def _make_algorithm(job: Job, action_space: Any) -> Any:
  """Returns d3rlpy's CRR, as much like Temper's as it can be made."""
  from d3rlpy import algos
  from d3rlpy import models
  from d3rlpy import optimizers
  from d3rlpy import preprocessing

  config = job.config
  encoder = models.VectorEncoderFactory(hidden_units=list(config.layer_sizes))
  optimizer = optimizers.AdamFactory(clip_grad_norm=config.max_gradient_norm)
  return algos.CRRConfig(
    observation_scaler=(
      preprocessing.StandardObservationScaler() if job.normalise_observations else None
    ),
    action_scaler=preprocessing.MinMaxActionScaler(
      minimum=action_space.low, maximum=action_space.high
    ),
    reward_scaler=preprocessing.MultiplyRewardScaler(config.reward_scale),
    actor_learning_rate=config.learning_rate,
    critic_learning_rate=config.learning_rate,
    actor_optim_factory=optimizer,
    critic_optim_factory=optimizer,
    actor_encoder_factory=encoder,
    critic_encoder_factory=encoder,
    batch_size=config.batch_size,
    gamma=config.discount,
    beta=config.beta,
    n_action_samples=config.num_action_samples,
    advantage_type=config.baseline,
    weight_type=config.mode,
    max_weight=config.ratio_upper_bound,
    n_critics=config.num_critics,
    target_update_type="hard",
    target_update_interval=config.target_update_period,
  ).create(device="cpu:0")


def _to_peer(
  observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray, terminated: bool
) -> Any:
  """Returns d3rlpy's episode of exactly as many transitions."""
  import d3rlpy

  rewards = rewards[:, None]
  if terminated:
    observations = observations[:-1]
  else:
    # Of a truncated episode's last row, d3rlpy uses the observation alone.
    actions, rewards = (np.concatenate([a, np.zeros_like(a[:1])]) for a in (actions, rewards))
  return d3rlpy.dataset.Episode(observations, actions, rewards, terminated)


def _mean_action(algorithm: Any, observations: np.ndarray) -> np.ndarray:
  """Returns the mean of the policy, which d3rlpy has no method for."""
  import torch

  with torch.no_grad():
    inputs = torch.as_tensor(observations)
    if algorithm.observation_scaler is not None:
      inputs = algorithm.observation_scaler.transform(inputs)
    means = algorithm.impl.policy(inputs).squashed_mu
    return algorithm.action_scaler.reverse_transform(means).numpy()


def main(argv: Sequence[str]) -> None:
  """Reads the job, runs it, and writes the result, which is there only when it is whole."""
  job_path, result_path = argv[1:]
  with open(job_path, encoding="utf-8") as file:
    job = json.load(file)
  result = {"job": job, **run(Job.from_json(job))}
  scratch = result_path + ".new"
  with open(scratch, "w", encoding="utf-8") as file:
    json.dump(result, file)
  os.replace(scratch, result_path)


if __name__ == "__main__":
  main(sys.argv)
