"""Scripts for `acme.agents.tf.crr` work after changing their import alone."""

import inspect

import acme
from acme import specs
from acme.agents.tf import crr as acme_crr
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
from acme.utils import counting
import crr_cases
import learner_probes
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.agents import crr


def test_nothing_that_acme_exports_is_missing():
  exported = {name for name in vars(acme_crr) if name[0].isupper()}
  assert exported == {"RCRRLearner"}
  assert exported <= set(vars(crr))


def test_the_constructor_takes_acmes_arguments_in_their_order():
  mine = list(inspect.signature(crr.RCRRLearner).parameters.values())
  other = list(inspect.signature(acme_crr.RCRRLearner).parameters.values())
  assert [p.name for p in mine[: len(other)]] == [p.name for p in other]
  for a, b in zip(mine, other):
    assert a.kind == b.kind, a
    default = getattr(a.default, "value", a.default)  # A member stands for its string.
    assert default == b.default and type(default) is type(b.default), a
  for extra in mine[len(other) :]:
    assert extra.kind is inspect.Parameter.KEYWORD_ONLY, extra
    assert extra.default is not inspect.Parameter.empty, extra


def test_methods_take_acmes_arguments():
  for name in ("step", "get_variables"):
    mine, other = (
      list(inspect.signature(getattr(c, name)).parameters)
      for c in (crr.RCRRLearner, acme_crr.RCRRLearner)
    )
    assert mine == other


def test_the_default_arguments_work_with_networks_as_acmes_users_write_them(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  monkeypatch.chdir(tmp_path)
  observation = {"a": specs.Array((2,), np.float32), "b": specs.Array((1,), np.float32)}
  action = crr_cases.ACTION

  def policy():
    head = acme_networks.MultivariateNormalDiagHead(*action.shape, tanh_mean=True)
    torso = acme_networks.LayerNormMLP((8,), activate_final=True)
    return snt.DeepRNN([tf2_utils.batch_concat, torso, snt.LSTM(4), head])

  def critic():
    torso = acme_networks.LayerNormMLP((8,), activate_final=True)
    head = acme_networks.DiscreteValuedHead(-5.0, 5.0, 21)
    return acme_networks.CriticDeepRNN(
      [acme_networks.CriticMultiplexer(), torso, snt.LSTM(4), head]
    )

  networks = [policy(), critic(), policy(), critic()]
  for network, inputs in zip(networks, [[observation], [observation, action]] * 2):
    tf2_utils.create_variables(network, inputs)
  step = crr_cases.make_step()
  split = {"a": step.observation[..., :2], "b": step.observation[..., 2:]}
  counter, log = counting.Counter(), learner_probes.Log()
  learner = crr.RCRRLearner(
    *networks,
    crr_cases.as_dataset(step._replace(observation=split)).repeat(),
    counter=counter,
    logger=log,
  )
  before = [v.numpy() for v in networks[0].trainable_variables]
  for _ in range(3):
    learner.step()
  assert isinstance(learner, acme.Learner)
  assert counter.get_counts()["steps"] == 3
  assert len(log.rows) == 3
  assert {"critic_loss", "policy_loss", "policy_loss_coef", "steps"} <= log.rows[0].keys()
  assert any(
    np.abs(a - b.numpy()).max() > 1e-6 for a, b in zip(before, networks[0].trainable_variables)
  )
  assert not list(tmp_path.iterdir())  # Acme would have written below the home directory.


def test_get_variables_serves_the_target_networks():
  networks = crr_cases.make_networks(core=crr_cases.stateless)
  steps = [crr_cases.make_step(seed) for seed in range(2)]
  learner = crr_cases.make_learner(networks, crr_cases.as_dataset(*steps), target_update_period=100)
  for _ in range(2):
    learner.step()
  policy, critic = learner.get_variables(["policy", "critic"])
  for served, target, online in (
    (policy, networks.target_policy, networks.policy),
    (critic, networks.target_critic, networks.critic),
  ):
    for value, variable in zip(served, target.variables):
      np.testing.assert_array_equal(value, variable.numpy())
    assert any(np.any(v != o.numpy()) for v, o in zip(served, online.variables))
  with pytest.raises(KeyError, match="no variables named"):
    learner.get_variables(["value"])


def test_the_dataset_is_not_drawn_from_before_the_first_step():
  def generate():
    drawn.append(1)
    yield next(iter(data))

  drawn, data = [], crr_cases.as_dataset(crr_cases.make_step())
  dataset = tf.data.Dataset.from_generator(generate, output_signature=data.element_spec)
  learner = crr_cases.make_learner(crr_cases.make_networks(core=crr_cases.stateless), dataset)
  assert not drawn
  learner.step()
  assert drawn


def test_a_learner_goes_on_from_its_checkpoint(tmp_path):
  steps = [crr_cases.make_step(seed) for seed in range(4)]

  def make(first):
    networks = crr_cases.make_networks(core=crr_cases.stateless, noise=False)
    learner = crr_cases.make_learner(
      networks,
      crr_cases.as_dataset(*steps[first:]),
      make_optimizer=lambda: snt.optimizers.Adam(1e-2),
      checkpoint=True,
      directory=str(tmp_path),
    )
    return learner, networks

  whole, expected = make(0)
  for step in range(4):
    whole.step()
    if step == 1:
      whole.save_checkpoint()
  rest, networks = make(2)
  assert rest.num_steps == 2
  for _ in range(2):
    rest.step()
  crr_cases.assert_equal(crr_cases.values(networks), crr_cases.values(expected), 1e-6, 1e-7)
