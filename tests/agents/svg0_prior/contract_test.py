"""SVG0 keeps the contract of agents, with and without a prior."""

import pytest

pytest.register_assert_rewrite("agent_contract")

import agent_contract  # noqa: E402

from temper.agents import svg0_prior  # noqa: E402


def _builder(**options):
  return svg0_prior.SVG0Builder(
    svg0_prior.SVG0Config(
      batch_size=4,
      sequence_length=3,
      samples_per_insert=4.0,
      min_replay_size=8,
      max_replay_size=200,
      target_update_period=3,
      num_action_samples=2,
      policy_layer_sizes=(8,),
      critic_layer_sizes=(8,),
      prior_layer_sizes=(8,),
      policy_learning_rate=1e-2,
      critic_learning_rate=1e-2,
      prior_learning_rate=1e-2,
      **options,
    )
  )


class TestSVG0(agent_contract.AgentContract):
  def make_builder(self):
    return _builder()


class TestSVG0WithPrior(agent_contract.AgentContract):
  def make_builder(self):
    return _builder(use_prior=True)

  @pytest.mark.parametrize("kinds", [("dict", "scalar"), ("pixels", "matrix")], ids=str)
  def test_acts_and_learns_on_every_kind(self, kinds):
    # The kinds are the business of torsos and heads, which policy and prior share: two will do.
    super().test_acts_and_learns_on_every_kind(*kinds)

  def test_a_prior_that_sees_less(self):
    environment = agent_contract.make_environment("dict")
    self.make_builder = lambda: _builder(use_prior=True, prior_keys=("load",))
    with self.agent(environment) as agent:
      agent_contract.act(agent, environment, 20)
      assert agent.learner.num_steps > 5
    self.make_builder = lambda: _builder(use_prior=True, prior_keys=("absent",))
    with pytest.raises((KeyError, ValueError), match="absent"):
      with self.agent(environment):
        pass
