"""Tests of `temper.launchers.sac_peer_worker`, without the peers."""

import io
import json
import subprocess
import sys

from temper.launchers import sac_peer_worker


def test_a_job_survives_its_text():
  job = sac_peer_worker.Job("sbx", "loop", 2, True)
  assert sac_peer_worker.Job.from_text(job.to_text()) == job


def test_units_are_done_as_told_and_the_first_one_before_the_first_answer():
  done, answers = [], io.StringIO()
  sac_peer_worker.serve(lambda: done.append(1), {"a": "1"}, io.StringIO("2\n3\n"), answers)
  first, *rest = [json.loads(line) for line in answers.getvalue().splitlines()]
  assert len(done) == 1 + 2 + 3
  assert first == {"versions": {"a": "1"}}
  assert len(rest) == 2 and all(set(answer) == {"seconds"} for answer in rest)


def test_what_libraries_print_does_not_come_between_the_answers_and_one_cpu_is_left():
  program = (
    "import os, sys\n"
    f"sys.path.insert(0, {repr(sac_peer_worker.__file__.rpartition('/')[0])})\n"
    "import sac_peer_worker as worker\n"
    "answers = worker.take_output()\n"
    "print('a banner', flush=True)\n"
    "os.system('echo of a child')\n"
    "worker.restrict(worker.Job('sbx', 'updates', 1, True))\n"
    "print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], file=answers, flush=True)\n"
    "assert not {'temper', 'tensorflow', 'numpy'} & set(sys.modules)\n"
  )
  done = subprocess.run(
    [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
  )
  assert done.stdout == "1 1\n"
  assert done.stderr == "a banner\nof a child\n"
