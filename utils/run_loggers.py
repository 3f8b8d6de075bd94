"""What a run writes down as it goes: CSV files and TensorBoard events that survive a resume."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import csv
import io
import math
import os
import time
from typing import Any, Optional, Protocol

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto import summary_pb2
from tensorboard.summary.writer import event_file_writer

from temper.utils import evaluation


def read_csv(path: str) -> list[dict[str, str]]:
  """Reads the whole rows of a CSV file; a missing file has none, a torn last line is left out.

  Raises:
    ValueError: if it is not UTF-8.
  """
  if not os.path.exists(path):
    return []
  try:
    with open(path, encoding="utf-8", newline="") as file:
      text = file.read()
  except UnicodeDecodeError as error:
    raise ValueError(f"{path} is no CSV file in UTF-8: {error}. Move it away.") from error
  # A row is only whole once its newline is there: a process killed while writing leaves a stump.
  whole = text[: text.rfind("\n") + 1]
  rows = list(csv.reader(io.StringIO(whole)))
  if not rows:
    return []
  header = rows[0]
  return [dict(zip(header, row)) for row in rows[1:] if len(row) == len(header)]


def _header(path: str) -> Optional[list[str]]:
  """Returns the header of a CSV file, None if there is no whole first line."""
  if not os.path.exists(path):
    return None
  with open(path, encoding="utf-8", newline="") as file:
    line = file.readline()
  return next(csv.reader([line])) if line.endswith("\n") else None


@contextlib.contextmanager
def _errors_naming(path: str) -> Iterator[None]:
  """Names the file in an error of writing, such as that of a full disk, which does not itself."""
  try:
    yield
  except OSError as error:
    raise OSError(error.errno, error.strerror, path) from error


class CsvLog:
  """A CSV file with a header that never changes and one row a write, flushed at once.

  The first column is `step`, the number of environment steps of the whole run when the row was
  written. `step` is what makes resuming exact: rows later than the restored step are dropped when
  the file is opened, since the resumed run will write them again.
  """

  def __init__(self, path: str, *, resume_step: int, fields: Optional[Sequence[str]] = None):
    """Opens the file.

    Args:
      path: the file; its folder exists.
      resume_step: rows with a larger `step` are dropped; 0 for a new run starts the file anew.
      fields: the columns after `step`; None takes those of the file, else of the first row.

    Raises:
      ValueError: if the file holds other columns than `fields`, or is no log at all.
    """
    self._path = path
    self._fields = ["step", *fields] if fields is not None else None
    kept = read_csv(path) if resume_step > 0 else []
    found = _header(path) if resume_step > 0 else None
    if found and self._fields and found != self._fields:
      raise ValueError(
        f"{path} has the columns {found}, this version writes {self._fields}: move the file away "
        "or start in a new directory."
      )
    self._fields = self._fields or found
    try:
      kept = [row for row in kept if int(float(row["step"])) <= resume_step]
    except (KeyError, ValueError, OverflowError) as error:
      raise ValueError(
        f"{path} is no log of a run ({error!r} in the column 'step'): move the file away."
      ) from error
    self._rewrite(kept)
    self._file = open(path, "a", encoding="utf-8", newline="")

  def _rewrite(self, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replaces the file by header and `rows`, in one rename so that no moment has half of it."""
    scratch = self._path + ".new"
    with _errors_naming(scratch), open(scratch, "w", encoding="utf-8", newline="") as file:
      if self._fields:
        writer = csv.DictWriter(file, self._fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(scratch, self._path)

  def write(self, step: int, row: Mapping[str, Any]) -> None:
    """Appends one row.

    Args:
      step: environment steps so far.
      row: values by column. Columns without a value stay empty.

    Raises:
      ValueError: if `row` has a column that the header lacks.
    """
    if self._fields is None:
      self._fields = ["step", *row]
      csv.DictWriter(self._file, self._fields, lineterminator="\n").writeheader()
    unknown = sorted(set(row) - set(self._fields))
    if unknown:
      raise ValueError(f"{self._path} has the columns {self._fields}, not {unknown}.")
    formatted = {name: _format(value) for name, value in row.items()}
    line = io.StringIO()
    csv.DictWriter(line, self._fields, lineterminator="\n").writerow({**formatted, "step": step})
    # One write call a row, so that a kill can tear at most the last one.
    with _errors_naming(self._path):
      self._file.write(line.getvalue())
      self._file.flush()

  @property
  def fields(self) -> Optional[Sequence[str]]:
    """The columns, `step` first; None before the first row of a file without given columns."""
    return self._fields

  def close(self) -> None:
    """Closes the file; a row that could not be written was reported by `write`."""
    with contextlib.suppress(OSError):
      self._file.close()


def _format(value: Any) -> str:
  """Writes a float with seven digits, which is what float32 carries, and anything else as is."""
  if isinstance(value, str) or isinstance(value, int):
    return str(value)
  return f"{float(value):.7g}"


class Sink(Protocol):
  """Where the numbers of all files go, beside the CSV files."""

  def write(self, step: int, prefix: str, row: Mapping[str, Any]) -> None:
    """Takes a row's numbers as `prefix/name`."""

  def flush(self) -> None:
    """Puts what was written where it stays."""

  def close(self) -> None:
    """Ends it."""


class TensorBoardLog:
  """Scalars for TensorBoard, against environment steps."""

  def __init__(self, directory: str, *, resume_step: int):
    """Opens a new event file in `directory`.

    Args:
      directory: where the event files of this run lie.
      resume_step: TensorBoard is told to forget what earlier processes wrote after this step.
    """
    self._writer = event_file_writer.EventFileWriter(directory)
    if resume_step > 0:
      start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
      self._writer.add_event(
        event_pb2.Event(wall_time=time.time(), step=resume_step + 1, session_log=start)
      )

  def write(self, step: int, prefix: str, row: Mapping[str, Any]) -> None:
    """Writes the finite numbers of `row` as `prefix/name`; text is left to the CSV files."""
    values = [
      summary_pb2.Summary.Value(tag=f"{prefix}/{name}", simple_value=float(value))
      for name, value in row.items()
      if not isinstance(value, str) and math.isfinite(float(value))
    ]
    event = event_pb2.Event(
      wall_time=time.time(), step=step, summary=summary_pb2.Summary(value=values)
    )
    self._writer.add_event(event)

  def flush(self) -> None:
    """Puts everything written so far on the disk."""
    self._writer.flush()

  def close(self) -> None:
    """Writes what is left and closes the file."""
    self._writer.close()


_EVALUATION = ("mode", "return_mean", "return_low", "return_high", "episodes", "wall_seconds")

# The files of a run that acts and learns, with their columns; None takes those of the first row.
ONLINE_FILES: Mapping[str, Optional[Sequence[str]]] = {
  "train": ("episode", "episode_return", "episode_length", "wall_seconds"),
  "evaluation": _EVALUATION,
  "speed": (
    "acting_steps_per_second",
    "learning_steps_per_second",
    "environment_steps_per_second",
  ),
  "learner": None,
}

# Those of a run that learns from a dataset.
OFFLINE_FILES: Mapping[str, Optional[Sequence[str]]] = {
  "evaluation": _EVALUATION,
  "speed": ("learning_steps_per_second", "wall_seconds"),
  "learner": None,
}


class RunLog:
  """All logs of one run: a CSV file each, and TensorBoard events with the same numbers.

  `train.csv` has a row an episode, `evaluation.csv` a row an evaluation; `learner.csv` (losses and
  other metrics of the learner, as its columns say) and `speed.csv` have one every so many steps.
  Steps are those of the run: environment steps, or learner steps where nothing acts.
  """

  def __init__(
    self,
    directory: str,
    *,
    resume_step: int,
    evaluate_again: bool = False,
    files: Mapping[str, Optional[Sequence[str]]] = ONLINE_FILES,
  ):
    """Opens the files in `directory`, made if absent.

    Args:
      directory: the folder of the logs.
      resume_step: steps that the restored checkpoint had done, 0 for a new run.
      evaluate_again: whether evaluations at exactly `resume_step` will be written once more.
      files: the files without ".csv", each with its columns after `step`.
    """
    os.makedirs(directory, exist_ok=True)
    self._fields = dict(files)
    self._files = {}
    for name, fields in files.items():
      last_step = resume_step - 1 if name == "evaluation" and evaluate_again else resume_step
      path = os.path.join(directory, f"{name}.csv")
      self._files[name] = CsvLog(path, resume_step=last_step, fields=fields)
    self._sinks: list[Sink] = [TensorBoardLog(directory, resume_step=resume_step)]

  def add_sink(self, sink: "Sink") -> None:
    """Sends everything that TensorBoard gets to one more place, which is closed with the rest."""
    self._sinks.append(sink)

  def write(self, name: str, step: int, row: Mapping[str, Any]) -> None:
    """Writes `row` to the CSV file `name`, to TensorBoard and to the other sinks.

    Args:
      name: one of the files.
      step: steps of the run so far.
      row: values by column.
    """
    file = self._files[name]
    if self._fields[name] is None and file.fields is not None:
      # A run that was begun by another version keeps its columns; TensorBoard gets what is new.
      file.write(step, {key: value for key, value in row.items() if key in file.fields})
    else:
      file.write(step, row)
    prefix = f"{name}/{row['mode']}" if "mode" in row else name
    for sink in self._sinks:
      sink.write(step, prefix, row)

  def write_evaluation(
    self, step: int, result: evaluation.EvaluationResult, wall_seconds: float
  ) -> None:
    """Writes a row of the file "evaluation".

    Args:
      step: steps of the run so far.
      result: the evaluation.
      wall_seconds: time that the run has taken so far, seconds.
    """
    row = {
      "mode": result.mode,
      "return_mean": result.mean,
      "return_low": result.low,
      "return_high": result.high,
      "episodes": len(result.returns),
      "wall_seconds": wall_seconds,
    }
    self.write("evaluation", step, row)

  def flush(self) -> None:
    """Puts everything written so far on the disk."""
    for sink in self._sinks:
      sink.flush()

  def close(self) -> None:
    """Closes all files."""
    for file in self._files.values():
      file.close()
    for sink in self._sinks:
      sink.close()
