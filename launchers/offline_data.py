"""What an offline run learns from: the dataset in canonical form, and what is derived from it."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, Optional

from acme import specs
import numpy as np

from temper.utils import environment_wrappers
from temper.utils import evaluation
from temper.utils import torsos
from temper.utils.datasets import conforming
from temper.utils.datasets import episodes
from temper.utils.datasets import inferred_spec
from temper.utils.datasets import statistics
from temper.utils.datasets import summary
from temper.utils.datasets import value_range
from temper.utils.environment_actions import ActionMapping
from temper.utils.environment_observations import ObservationMapping

# With more, the normal interval is as good as the bootstrap's, whose memory grows with them.
_MOST_BOOTSTRAPPED = 1_000


@dataclasses.dataclass(frozen=True)
class OfflineData:
  """A dataset that is ready to learn from.

  Attributes:
    episodes: the dataset in canonical form.
    spec: canonical specs.
    actions: maps canonical actions to the environment's own.
    statistics: of the observations, if those are to be normalised.
    summary: what the dataset holds.
    interval: 95 % interval of the mean return of its episodes.
  """

  episodes: episodes.EpisodeDataset
  spec: specs.EnvironmentSpec
  actions: ActionMapping
  statistics: Optional[torsos.ObservationStatistics]
  summary: summary.DatasetSummary
  interval: tuple[float, float]

  def identity(self) -> dict[str, Any]:
    """Returns what tells the dataset, and how it is used, from others."""
    return {
      "episodes": self.summary.episodes,
      "steps": self.summary.steps,
      "mean_return": self.summary.mean_return,
      "normalise_observations": self.statistics is not None,
    }

  def as_dict(self) -> dict[str, Any]:
    """Returns the summary and the mean return's interval as `json.dump` accepts them."""
    low, high = self.interval
    return {**self.summary.as_dict(), "mean_return_low": low, "mean_return_high": high}


def prepare(
  dataset: episodes.EpisodeDataset,
  environment: Optional[environment_wrappers.CanonicalEnvironment],
  *,
  sequence_length: int,
  normalise: bool,
) -> OfflineData:
  """Checks a dataset and makes it ready.

  Args:
    dataset: holds the environment's own observations and actions.
    environment: what it must fit; None takes specs from the data.
    sequence_length: of the windows that will be cut, for the summary.
    normalise: whether the observations' statistics are needed.

  Raises:
    DatasetError: if the dataset is malformed or does not fit; names file, key and index.
  """
  if environment is None:
    found = inferred_spec.infer_spec(dataset)
    conformed = conforming.conform(dataset, found)
    actions = ActionMapping(found.actions)
    spec = found._replace(
      observations=ObservationMapping(found.observations).spec, actions=actions.canonical_spec
    )
  else:
    conformed = conforming.conform(dataset, environment)
    actions, spec = environment.action_mapping, specs.make_environment_spec(environment)
  found_statistics = None
  if normalise:
    found_statistics = torsos.ObservationStatistics(*statistics.observation_statistics(conformed))
  return OfflineData(
    episodes=conformed,
    spec=spec,
    actions=actions,
    statistics=found_statistics,
    summary=summary.summarise(
      conformed,
      sequence_length=sequence_length,
      normalisation="normalised by the data's mean and deviation" if normalise else None,
    ),
    interval=mean_interval(dataset.returns),
  )


def mean_interval(returns: np.ndarray) -> tuple[float, float]:
  """Returns the 95 % interval of the mean of episodes' returns, `[E]`."""
  if len(returns) <= _MOST_BOOTSTRAPPED:
    return evaluation.bootstrap_interval(returns.tolist())
  half = 1.96 * float(np.std(returns, ddof=1)) / len(returns) ** 0.5
  return float(np.mean(returns)) - half, float(np.mean(returns)) + half


def with_value_range(
  config: Any, names: Sequence[str], dataset: episodes.EpisodeDataset
) -> tuple[Any, Mapping[str, float]]:
  """Sets the ends of the critic's support in a config by the data's discounted returns.

  Args:
    config: the agent's config, with `discount`.
    names: the fields to set, "vmin" and "vmax" or one of them; those that it lacks are left out.
    dataset: the episodes.

  Returns:
    The config, and what was set.

  Raises:
    ValueError: if the config refuses the values.
  """
  fields = {field.name for field in dataclasses.fields(config)}
  names = [name for name in names if name in fields]
  if not names:
    return config, {}
  ends = value_range.value_range(
    dataset, discount=config.discount, reward_scale=getattr(config, "reward_scale", 1.0)
  )
  found = {name: end for name, end in zip(("vmin", "vmax"), ends) if name in names}
  return dataclasses.replace(config, **found), found
