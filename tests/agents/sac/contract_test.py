"""SAC keeps the contract of agents, in both variants."""

import pytest

pytest.register_assert_rewrite("agent_contract")

import agent_contract  # noqa: E402
import sac_cases  # noqa: E402

from temper.agents import sac  # noqa: E402


class TestTwinTarget(agent_contract.AgentContract):
  def make_builder(self):
    return sac.SACBuilder(sac_cases.make_config("twin_target"))


class TestValueNetwork(agent_contract.AgentContract):
  def make_builder(self):
    return sac.SACBuilder(sac_cases.make_config("value_network", encoder_sharing="all"))

  @pytest.mark.parametrize("kinds", [("dict", "scalar"), ("pixels", "matrix")], ids=str)
  def test_acts_and_learns_on_every_kind(self, kinds):
    # The kinds are the business of torsos and heads, which both variants share: two will do.
    super().test_acts_and_learns_on_every_kind(*kinds)
