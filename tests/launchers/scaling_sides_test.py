"""Tests of what the sides of benchmark_distributed share."""

import time

from acme import specs
import dm_env
from dm_env import test_utils
import launchpad as lp
import pytest

from temper.launchers import scaling_program_worker
from temper.launchers import scaling_server_worker
from temper.launchers import scaling_sides
from temper.launchers import scaling_sizes


def _size(tmp_path, **changes):
  fields = dict(side="temper", num_actors=2, environment_seconds=0.0, limited=True)
  return scaling_sizes.ProgramSize(**{**fields, "folder": str(tmp_path), **changes})


class SlowEnvironmentTest(test_utils.EnvironmentTestMixin):
  """The environment keeps dm_env's rules."""

  @pytest.fixture(autouse=True)
  def _folder(self, tmp_path):
    self._file = str(tmp_path / "actor-0.count")
    self.setUp()

  def make_object_under_test(self):
    return scaling_sides.SlowEnvironment(0.0, self._file)


def test_steps_of_actors_alone_are_counted(tmp_path):
  make = scaling_sides.environment_factory(_size(tmp_path))
  environments = [make(False), make(False), make(True)]
  for count, environment in zip((3, 1, 7), environments):
    environment.reset()
    for _ in range(count):
      environment.step(None)
  assert sorted(scaling_sides.actor_steps(str(tmp_path))) == [1, 3]


def test_an_episode_ends_without_a_terminal_state(tmp_path):
  environment = scaling_sides.environment_factory(_size(tmp_path))(True)
  environment.reset()
  steps = [environment.step(None) for _ in range(scaling_sizes.EPISODE_STEPS)]
  assert [step.step_type for step in steps[:-1]] == [dm_env.StepType.MID] * (len(steps) - 1)
  assert steps[-1].last() and steps[-1].discount == 1


def test_a_step_sleeps(tmp_path):
  environment = scaling_sides.environment_factory(_size(tmp_path, environment_seconds=0.05))(True)
  environment.reset()
  begun = time.monotonic()
  environment.step(None)
  assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("side", ["temper", "dm-acme"])
def test_the_programs_of_both_sides_have_the_same_nodes(tmp_path, side):
  program = scaling_sides.make_agent(_size(tmp_path, side=side)).build()
  counts = {label: len(nodes) for label, nodes in program.groups.items()}
  assert isinstance(program, lp.Program)
  assert counts == {"replay": 1, "counter": 1, "learner": 1, "evaluator": 1, "actor": 2}


def test_the_limiters_of_both_sides_ask_for_the_same_ratio(tmp_path):
  ratios = set()
  for side in ("temper", "dm-acme"):
    (table,) = scaling_sides.make_agent(_size(tmp_path, side=side)).replay()
    ratios.add(table.info.rate_limiter_info.samples_per_insert)
    assert table.info.rate_limiter_info.min_size_to_sample == scaling_sizes.MIN_REPLAY_ITEMS
  assert ratios == {16.0}


def test_the_parameters_are_about_those_of_the_policy(tmp_path):
  policy = scaling_sides.make_networks("temper")["policy"]
  size = _size(tmp_path)
  environment = scaling_sides.environment_factory(size)(True)
  environment_spec = specs.make_environment_spec(environment)
  policy(environment_spec.observations.generate_value()[None])
  count = sum(variable.shape.num_elements() for variable in policy.variables)
  assert count == pytest.approx(scaling_sizes.POLICY_PARAMETERS, rel=0.1)


def test_sizes_come_back_from_their_text(tmp_path):
  size = _size(tmp_path, side="dm-acme")
  assert scaling_sizes.ProgramSize.from_text(size.to_text()) == size


@pytest.mark.parametrize(
  "changes", [{"side": "theirs"}, {"num_actors": 0}, {"environment_seconds": -1.0}]
)
def test_an_impossible_size_is_refused(tmp_path, changes):
  with pytest.raises(ValueError, match=next(iter(changes))):
    _size(tmp_path, **changes)


def test_a_count_that_is_told_late_is_rated_from_change_to_change():
  # 10 a second, told at 1 s and at 3 s.
  times, counts = [0.0, 1.0, 2.0, 3.0, 4.0], [5, 10, 10, 30, 30]
  assert scaling_program_worker.slope(times, counts) == 10.0
  assert scaling_program_worker.slope(times, [5, 5, 5, 5, 7]) == 0.0


@pytest.mark.parametrize("item_bytes, expected", [(1_400, 31), (140_000, 3_181), (1, 1)])
def test_items_have_about_the_size_that_is_asked_for(item_bytes, expected):
  assert scaling_server_worker.step_shape(item_bytes) == (expected,)
