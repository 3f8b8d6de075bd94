"""CRR keeps the contract of agents when it learns online, recurrent and feed-forward."""

import pytest

pytest.register_assert_rewrite("agent_contract")

import agent_contract  # noqa: E402

from temper.agents import crr  # noqa: E402


def _builder(**options):
  return crr.CRRBuilder(
    crr.CRRConfig(
      batch_size=4,
      sequence_length=4,
      samples_per_insert=4.0,
      min_replay_size=8,
      max_replay_size=200,
      target_update_period=3,
      num_action_samples_policy_weight=2,
      policy_layer_sizes=(8,),
      critic_layer_sizes=(8,),
      num_atoms=5,
      policy_learning_rate=1e-2,
      critic_learning_rate=1e-2,
      **options,
    )
  )


class TestRecurrent(agent_contract.AgentContract):
  def make_builder(self):
    return _builder(lstm_size=8, burn_in_length=2)

  # All kinds are the business of torsos and heads, which both sorts of networks share and the other
  # class runs; a recurrent learner takes several times as long to compile.
  @pytest.mark.parametrize(
    "kinds",
    [("vector", "integer"), ("dict", "scalar"), ("tuple", "asymmetric"), ("pixels", "matrix")],
    ids=str,
  )
  def test_acts_and_learns_on_every_kind(self, kinds):
    super().test_acts_and_learns_on_every_kind(*kinds)


class TestFeedForwardMixture(agent_contract.AgentContract):
  def make_builder(self):
    return _builder(lstm_size=None, policy_head="mixture", num_mixture_components=2)
