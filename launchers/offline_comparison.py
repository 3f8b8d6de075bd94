"""What the runs of a study come to, side by side: intervals, claims, table and files."""

from collections.abc import Mapping, Sequence
import csv
import dataclasses
import os
from typing import Any, Optional

import numpy as np

from temper.launchers import offline_studies
from temper.launchers.run_directory import write_json
from temper.utils.policy_kinds import PolicyKind

_RESAMPLES = 10_000
_DATA = "the data"
_FINAL, _BEST = "final", "best"

# Of each seed, the returns of its episodes.
Samples = Sequence[Sequence[float]]


@dataclasses.dataclass(frozen=True)
class Entry:
  """One way to act of one arm, over all seeds.

  Attributes:
    arm: name of the arm, or that of the data.
    policy: how actions were taken, such as "raw"; empty for the data.
    networks: "final" or "best"; empty for the data.
    samples: returns.
    low, high: 95 % interval of the mean, over seeds and start states.
  """

  arm: str
  policy: str
  networks: str
  samples: Samples
  low: float
  high: float

  @classmethod
  def of(cls, arm: str, policy: str, networks: str, samples: Samples) -> "Entry":
    """Returns the entry with its interval."""
    low, high = np.percentile(bootstrap_means(samples, seed=0), [2.5, 97.5])
    return cls(arm, policy, networks, samples, float(low), float(high))

  @property
  def seed_means(self) -> list[float]:
    """The mean return of each seed."""
    return [float(np.mean(returns)) for returns in self.samples]

  @property
  def mean(self) -> float:
    """The mean over seeds."""
    return float(np.mean(self.seed_means))

  def as_dict(self) -> dict[str, Any]:
    """Returns plain values that `json.dump` accepts."""
    return {
      "arm": self.arm,
      "policy": self.policy,
      "networks": self.networks,
      "mean": self.mean,
      "low": self.low,
      "high": self.high,
      "seed_means": self.seed_means,
      "episodes": sum(len(returns) for returns in self.samples),
    }


@dataclasses.dataclass(frozen=True)
class Verdict:
  """What came of a claim.

  Attributes:
    text: who was to end above whom.
    difference: of the mean returns of the final networks.
    low, high: its 95 % interval.
  """

  text: str
  difference: float
  low: float
  high: float

  @property
  def word(self) -> str:
    """Which side is ahead."""
    return "above" if self.low > 0 else "BELOW" if self.high < 0 else "equal within the interval"


@dataclasses.dataclass(frozen=True)
class Comparison:
  """All entries of a study, the data's first, and the verdicts on its claims."""

  title: str
  seeds: tuple[int, ...]
  entries: tuple[Entry, ...]
  verdicts: tuple[Verdict, ...]

  @property
  def data(self) -> Entry:
    """The data's own episodes."""
    return self.entries[0]

  def write(self, stem: str) -> list[str]:
    """Writes `<stem>.json` and `<stem>.csv`; returns their paths."""
    rows = [entry.as_dict() for entry in self.entries]
    write_json(
      f"{stem}.json",
      {
        "title": self.title,
        "seeds": list(self.seeds),
        "entries": rows,
        "verdicts": [
          {**dataclasses.asdict(verdict), "word": verdict.word} for verdict in self.verdicts
        ],
      },
    )
    scratch = f"{stem}.csv.new"
    with open(scratch, "w", encoding="utf-8", newline="") as file:
      columns = [name for name in rows[0] if name != "seed_means"]
      writer = csv.DictWriter(file, columns, extrasaction="ignore")
      writer.writeheader()
      writer.writerows(rows)
    os.replace(scratch, f"{stem}.csv")
    return [f"{stem}.json", f"{stem}.csv"]


def compare(
  study: offline_studies.Study,
  results: Mapping[str, Mapping[int, Mapping[str, Any]]],
  data_returns: Sequence[float],
) -> Comparison:
  """Puts the results of a study's runs together.

  Args:
    study: what was run.
    results: what the runs' result.json hold, by arm and by seed.
    data_returns: returns of the data's episodes.
  """
  entries = [Entry.of(_DATA, "", "", [list(data_returns)])]
  for arm in study.arms:
    by_seed = list(results[arm.name].values())
    for key, networks in (("evaluations", _FINAL), ("best", _BEST)):
      for mode, found in by_seed[0][key].items():
        samples = [result[key][mode]["returns"] for result in by_seed]
        entries.append(Entry.of(arm.name, found["policy"], networks, samples))
  return Comparison(
    title=study.title,
    seeds=tuple(next(iter(results.values()))),
    entries=tuple(entries),
    verdicts=tuple(_judge(claim, entries) for claim in study.claims),
  )


def bootstrap_means(samples: Samples, *, seed: int) -> np.ndarray:
  """Returns means of samples that were drawn again, [10000].

  Seeds are drawn with replacement, then episodes within each. One seed alone leaves the spread of
  its episodes.

  Args:
    samples: returns of the episodes of each seed, as many in each.
    seed: of the redraws.
  """
  values = np.asarray(samples, np.float64)  # [S, E]
  rng = np.random.default_rng(seed)
  num_seeds, num_episodes = values.shape
  means = np.zeros((_RESAMPLES,))
  for _ in range(num_seeds):
    chosen = rng.integers(num_seeds, size=(_RESAMPLES, 1))
    means += values[chosen, rng.integers(num_episodes, size=(_RESAMPLES, num_episodes))].mean(1)
  return means / num_seeds


def table(comparison: Comparison, facts: Sequence[tuple[str, str]]) -> str:
  """Returns the table of a comparison.

  Args:
    comparison: what to show.
    facts: names and values to end with.
  """
  rows = [("", "policy", "networks", "mean return", "95 % interval", "of each seed")]
  for entry in comparison.entries:
    each = " ".join(f"{mean:.1f}" for mean in entry.seed_means)
    interval = f"[{entry.low:.1f}, {entry.high:.1f}]"
    rows.append((entry.arm, entry.policy, entry.networks, f"{entry.mean:.1f}", interval, each))
  widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
  lines = [
    "  ".join(
      cell.ljust(width) if i < 3 else cell.rjust(width)
      for i, (cell, width) in enumerate(zip(row, widths))
    )
    for row in rows
  ]
  lines.append("")
  width = max(len(verdict.text) for verdict in comparison.verdicts)
  for verdict in comparison.verdicts:
    interval = f"[{verdict.low:+.1f}, {verdict.high:+.1f}]"
    lines.append(f"{verdict.text:<{width}}  {verdict.difference:+.1f} {interval}: {verdict.word}")
  if facts:
    width = max(len(name) for name, _ in facts)
    lines += ["", *(f"{name:<{width}}  {value}" for name, value in facts)]
  seeds = ", ".join(map(str, comparison.seeds))
  title = f"{comparison.title}, seed{'' if len(comparison.seeds) == 1 else 's'} {seeds}"
  rule = "─" * max(len(line) for line in [title, *lines])
  return "\n".join([rule, title, rule, *lines, rule])


def _judge(claim: offline_studies.Claim, entries: Sequence[Entry]) -> Verdict:
  """Compares final networks."""
  better, worse = _find(claim.better, entries), _find(claim.worse, entries)
  means = [bootstrap_means(entry.samples, seed=i) for i, entry in enumerate((better, worse))]
  low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
  text = " over ".join(f"{entry.arm} {entry.policy}".strip() for entry in (better, worse))
  return Verdict(text, better.mean - worse.mean, float(low), float(high))


def _find(wanted: Optional[tuple[str, PolicyKind]], entries: Sequence[Entry]) -> Entry:
  if wanted is None:
    return entries[0]
  name, kind = wanted
  return next(
    entry
    for entry in entries
    if (entry.arm, entry.policy, entry.networks) == (name, kind.value, _FINAL)
  )
