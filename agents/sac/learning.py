"""The SAC learner: a batch of transitions in, updated networks and temperature out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from acme.utils import counting
from acme.utils import loggers
import reverb
import sonnet as snt
import tensorflow as tf

from temper.agents import learner as learner_lib
from temper.agents import learner_data
from temper.agents import learner_steps
from temper.agents.sac import batches
from temper.agents.sac import losses
from temper.agents.sac.networks import SACNetworks
from temper.utils import checks
from temper.utils import distributions
from temper.utils import learning_rate_decay
from temper.utils import optimizers
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report
from temper.utils import variables as variable_utils


class _Actions(NamedTuple):
  """The policy's actions at a batch's observations, with what their gradient needs."""

  action: tf.Tensor  # [B, *A]
  log_prob: tf.Tensor  # [B]
  tape: tf.GradientTape


class SACLearner(learner_lib.Learner):
  """Learner of both variants of SAC; with a value network it is the first, without the second.

  The order of an update is that of the variants' authors.
  With a value network (Haarnoja 2018a): temperature, whose new value holds in what follows; every
  `policy_update_period` updates the policy, by the critics from before this update, and the target
  of the value network, from before this update; critics; value network.
  Without (Haarnoja 2018b): critics; then, every `policy_update_period` updates, the policy, by the
  critics just updated, and the temperature; target critics.
  """

  def __init__(
    self,
    networks: SACNetworks,
    target_network: snt.Module,
    dataset: learner_data.Dataset,
    temperature: temperature_lib.Temperature,
    *,
    discount: float = 0.99,
    target_update_rate: float = 0.005,
    policy_update_period: int = 1,
    updates_per_call: int = 1,
    policy_optimizer: Optional[snt.Optimizer] = None,
    critic_optimizer: Optional[snt.Optimizer] = None,
    value_optimizer: Optional[snt.Optimizer] = None,
    learning_rate_decay_period: Optional[int] = None,
    max_critic_gradient_norm: Optional[float] = None,
    reward_scale: float = 1.0,
    prioritised_replay: Optional[prioritised_lib.PrioritisedReplay] = None,
    priority_writer: Optional[prioritised_lib.PriorityWriter] = None,
    bound_report: Optional[temperature_report.BoundReport] = None,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    seed: int = 0,
    directory: Optional[str] = None,
  ):
    """Initialises the learner.

    Args:
      networks: online networks, whose variables exist.
      target_network: copy of the value network if there is one, else of the critic.
      dataset: samples of `acme.types.Transition`, leaves `[B, ...]`.
      temperature: weight of the entropy.
      discount: agent's discount.
      target_update_rate: tau of the targets.
      policy_update_period: updates between two of the policy.
      updates_per_call: updates of one `step`.
      policy_optimizer, critic_optimizer, value_optimizer: None makes Adam(3e-4).
      learning_rate_decay_period: updates over which the learning rates fall to a tenth.
      max_critic_gradient_norm: clips the critics' gradient to this global norm.
      reward_scale: factor of the rewards.
      prioritised_replay: how replay is prioritised, if it is.
      priority_writer: writes the new priorities after each step.
      bound_report: is told each step's metrics, to warn of an alpha at its bound.
      counter: counts updates and wall time.
      logger: gets the metrics of every step.
      strategy: distribution strategy.
      seed: seed of the action samples.
      directory: where checkpoints are kept; None keeps none.

    Raises:
      ValueError: if a number is out of its range, target and online network do not pair, or the
        dataset does not hold what is needed or does not fit the strategy.
    """
    checks.number("discount", discount, minimum=0, maximum=1)
    checks.number("target_update_rate", target_update_rate, above=0, maximum=1)
    checks.number("reward_scale", reward_scale, above=0)
    checks.integer("policy_update_period", policy_update_period, minimum=1)
    checks.number("max_critic_gradient_norm", max_critic_gradient_norm, above=0, optional=True)
    batches.check_dataset(dataset, prioritised=prioritised_replay is not None)
    self._policy, self._critic = networks.policy_network, networks.critic_network
    self._value, self._target = networks.value_network, target_network
    self._temperature = temperature
    self._bound_report = bound_report
    self._dtype = networks.critic_network.trainable_variables[0].dtype
    self._discount = discount
    self._target_update_rate = target_update_rate
    self._policy_phase = policy_update_period - 1
    self._reward_scale = reward_scale
    self._prioritised = prioritised_replay

    online = {"critic": self._critic, "policy": self._policy}
    given = {"critic": critic_optimizer, "policy": policy_optimizer}
    self._target_of = "critic"
    if self._value is not None:
      online["value"], given["value"], self._target_of = self._value, value_optimizer, "value"
    with (strategy or tf.distribute.get_strategy()).scope():
      chosen = {name: optimizer or optimizers.Adam(3e-4) for name, optimizer in given.items()}
      self._decay = learning_rate_decay.LinearDecay(chosen, learning_rate_decay_period)
    clip = {"critic": max_critic_gradient_norm} if max_critic_gradient_norm else {}
    super().__init__(
      dataset=dataset,
      networks=online,
      target_networks={self._target_of: target_network},
      optimizers=chosen,
      target_update_period=None,
      max_gradient_norm=clip,
      modules={"temperature": temperature},
      num_phases=policy_update_period,
      updates_per_step=updates_per_call,
      strategy=strategy,
      counter=counter,
      logger=logger,
      seed=seed,
      directory=directory,
      priority_writer=priority_writer,
    )

  def _update(
    self, sample: reverb.ReplaySample, seed: tf.Tensor, phase: int
  ) -> learner_steps.Update:
    num_steps = self._num_steps.read_value()
    batch = batches.make_batch(
      sample,
      dtype=self._dtype,
      reward_scale=self._reward_scale,
      agent_discount=self._discount,
      num_steps=num_steps,
    )
    rate_scale = self._decay.apply(num_steps)
    weights = self._importance_weights(sample, num_steps)
    seeds = tf.random.experimental.stateless_split(seed, 2)
    do_update = self._update_twin_target if self._value is None else self._update_value_network
    metrics, td_error = do_update(
      batch, seeds, weights, rate_scale, moves_policy=phase == self._policy_phase
    )
    if self._decay.active:
      metrics["learning_rate_scale"] = rate_scale
    if batch.sample_age is not None:
      metrics["sample_age"] = batch.sample_age
    if self._prioritised is None:
      return learner_steps.Update(metrics)
    metrics["importance_weight_mean"] = tf.reduce_mean(weights)
    priorities = prioritised_lib.priorities(td_error, self._prioritised.min_priority)
    return learner_steps.Update(metrics, priorities)

  def _on_step(self, metrics: Mapping[str, float]) -> None:
    if self._bound_report is not None:
      self._bound_report.report(metrics)

  # The variant without a value network.

  def _update_twin_target(
    self,
    batch: batches.Batch,
    seeds: Sequence[tf.Tensor],
    weights: Optional[tf.Tensor],
    rate_scale: tf.Tensor,
    *,
    moves_policy: bool,
  ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    alpha = self._temperature.alpha
    next_action, next_log_prob = distributions.sample_and_log_prob(
      self._policy(batch.next_observation), seeds[1]
    )
    next_q = tf.minimum(*self._target(batch.next_observation, next_action))
    target = losses.bootstrapped_target(
      batch.reward, batch.discount, losses.soft_value(next_q, next_log_prob, alpha)
    )
    # Drawn before the critics move, though needed only after, so that it may be computed beside.
    actions = self._act(batch.observation, seeds[0]) if moves_policy else None
    metrics, gradients, td_error = self._critic_gradients(batch, target, weights)
    metrics["critic_gradient_norm"] = self._apply_gradients("critic", gradients)
    if actions is not None:
      metrics.update(self._move_policy(batch, actions, alpha, baseline=None))
      metrics.update(self._temperature.update(-actions.log_prob, None, rate_scale).metrics)
    self._move_target()
    return metrics, td_error

  # The variant with one.

  def _update_value_network(
    self,
    batch: batches.Batch,
    seeds: Sequence[tf.Tensor],
    weights: Optional[tf.Tensor],
    rate_scale: tf.Tensor,
    *,
    moves_policy: bool,
  ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    assert self._value is not None
    actions = self._act(batch.observation, seeds[0])
    heated = self._temperature.update(-actions.log_prob, None, rate_scale)
    alpha = heated.alpha
    target = losses.bootstrapped_target(
      batch.reward, batch.discount, self._target(batch.next_observation)
    )
    metrics, critic_gradients, td_error = self._critic_gradients(batch, target, weights)
    min_q, action_gradient = self._min_q(batch.observation, actions)
    with tf.GradientTape() as tape:
      value = self._value(batch.observation)
      value_loss = tf.reduce_mean(
        losses.squared_error(value, losses.soft_value(min_q, actions.log_prob, alpha))
      )
    value_gradients = tape.gradient(value_loss, self._value.trainable_variables)
    if moves_policy:
      metrics.update(self._apply_policy(actions, min_q, action_gradient, alpha, baseline=value))
      self._move_target()
    metrics["critic_gradient_norm"] = self._apply_gradients("critic", critic_gradients)
    metrics["value_gradient_norm"] = self._apply_gradients("value", value_gradients)
    return {**metrics, "value_loss": value_loss, **heated.metrics}, td_error

  # What both do.

  def _act(self, observation: Any, seed: tf.Tensor) -> _Actions:
    """Draws actions, watched by a tape that later takes the policy's gradient."""
    with tf.GradientTape() as tape:
      action, log_prob = distributions.sample_and_log_prob(self._policy(observation), seed)
    return _Actions(action, log_prob, tape)

  def _critic_gradients(
    self, batch: batches.Batch, target: tf.Tensor, weights: Optional[tf.Tensor]
  ) -> tuple[dict[str, tf.Tensor], Sequence[Optional[tf.Tensor]], tf.Tensor]:
    with tf.GradientTape() as tape:
      q1, q2 = self._critic(batch.observation, batch.action)
      first, second = (tf.reduce_mean(losses.squared_error(q, target, weights)) for q in (q1, q2))
      loss = first + second
    gradients = tape.gradient(loss, self._critic.trainable_variables)
    metrics = {"critic_loss": loss, "q_mean": tf.reduce_mean(q1)}
    return metrics, gradients, losses.td_error(q1, target)

  def _min_q(self, observation: Any, actions: _Actions) -> tuple[tf.Tensor, tf.Tensor]:
    """Values the policy's actions; returns `[B]`, and the gradient of the mean to the actions.

    The critics' own variables are not watched: their share of the backward pass would be thrown
    away. A gradient that nobody uses is not computed, in a graph.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(actions.action)
      min_q = tf.minimum(*self._critic(observation, actions.action))
      mean = tf.reduce_mean(min_q)
    gradient = tape.gradient(mean, actions.action)
    if gradient is None:
      raise ValueError("The critic ignores the action, so the policy has nothing to learn from it.")
    return min_q, gradient

  def _move_policy(
    self,
    batch: batches.Batch,
    actions: _Actions,
    alpha: tf.Tensor,
    baseline: Optional[tf.Tensor],
  ) -> dict[str, tf.Tensor]:
    min_q, action_gradient = self._min_q(batch.observation, actions)
    return self._apply_policy(actions, min_q, action_gradient, alpha, baseline)

  def _apply_policy(
    self,
    actions: _Actions,
    min_q: tf.Tensor,
    action_gradient: tf.Tensor,
    alpha: tf.Tensor,
    baseline: Optional[tf.Tensor],
  ) -> dict[str, tf.Tensor]:
    loss = tf.reduce_mean(losses.policy_loss(actions.log_prob, min_q, alpha, baseline))
    # The chain rule in two parts: what reaches the policy through the action, and through log pi.
    batch_size = tf.cast(tf.shape(actions.log_prob)[0], self._dtype)
    gradients = actions.tape.gradient(
      [actions.action, actions.log_prob],
      self._policy.trainable_variables,
      output_gradients=[-action_gradient, tf.fill(tf.shape(min_q), alpha / batch_size)],
    )
    return {
      "policy_loss": loss,
      "policy_gradient_norm": self._apply_gradients("policy", gradients),
    }

  def _move_target(self) -> None:
    variable_utils.move_towards(
      self._networks[self._target_of].variables, self._target.variables, self._target_update_rate
    )

  def _importance_weights(self, sample: Any, num_steps: tf.Tensor) -> Optional[tf.Tensor]:
    if self._prioritised is None:
      return None
    exponent = prioritised_lib.importance_exponent(self._prioritised, num_steps)
    weights = prioritised_lib.importance_weights(
      sample.info.probability, sample.info.table_size, exponent
    )
    return tf.cast(weights, self._dtype)
