"""The SVG0 learner: one batch of sequences in, three updated networks out."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from acme.utils import counting
from acme.utils import loggers
import reverb
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import learner as learner_lib
from temper.agents import learner_steps
from temper.agents import sequences
from temper.agents.svg0_prior import batches
from temper.agents.svg0_prior import losses
from temper.utils import checks
from temper.utils import optimizers
from temper.utils import prioritised_replay as prioritised_lib
from temper.utils import sampled_values
from temper.utils import svg0_utils
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report

NEEDED_EXTRAS = {
  "log_prob": "the log density of each stored action under the policy that chose it, is needed. "
  "Let SVG0Actor collect the data: it writes log_prob."
}


class _Losses(NamedTuple):
  """Losses averaged over T and B, and scalars to log."""

  policy: tf.Tensor
  critic: tf.Tensor
  prior: Optional[tf.Tensor]
  entropy_tm1: tf.Tensor  # [T, B]
  td_error_tm1: tf.Tensor  # [T, B]
  metrics: dict[str, tf.Tensor]


class SVG0Learner(learner_lib.Learner):
  """Learner of SVG0 with an optional behaviour prior.

  Heess 2015 has the policy gradient, Munos 2016 the value targets, Tirumala 2020 the prior.
  """

  def __init__(
    self,
    policy_network: snt.Module,
    critic_network: snt.Module,
    target_policy_network: snt.Module,
    target_critic_network: snt.Module,
    discount: float,
    target_update_period: int,
    dataset_iterator: Union[tf.data.Dataset, Iterator[reverb.ReplaySample]],
    prior_network: Optional[snt.Module] = None,
    target_prior_network: Optional[snt.Module] = None,
    policy_optimizer: Optional[snt.Optimizer] = None,
    critic_optimizer: Optional[snt.Optimizer] = None,
    prior_optimizer: Optional[snt.Optimizer] = None,
    distillation_cost: Optional[float] = 1e-3,
    entropy_regularizer_cost: Optional[float] = 1e-3,
    num_action_samples: int = 10,
    lambda_: float = 1.0,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = True,
    *,
    entropy_estimator: svg0_utils.EntropyEstimator = svg0_utils.EntropyEstimator.SCORE,
    soft_value_target: bool = False,
    reward_scale: float = 1.0,
    max_gradient_norm: Optional[float] = None,
    sample_block_rows: int = sampled_values.DEFAULT_BLOCK_ROWS,
    temperature: Optional[temperature_lib.Temperature] = None,
    bound_report: Optional[temperature_report.BoundReport] = None,
    prioritised_replay: Optional[prioritised_lib.PrioritisedReplay] = None,
    priority_writer: Optional[prioritised_lib.PriorityWriter] = None,
    strategy: Optional[tf.distribute.Strategy] = None,
    seed: int = 0,
    directory: Optional[str] = None,
  ):
    """Initialises the learner. The arguments before the star are Acme's.

    Args:
      policy_network: maps a batch of observations to a distribution over actions; its variables
        exist.
      critic_network: maps batches of observations and actions to values `[B, 1]` or `[B]`; its
        variables exist.
      target_policy_network: copy of the policy.
      target_critic_network: copy of the critic.
      discount: agent's discount.
      target_update_period: learner steps between copies of the online to the target networks.
      dataset_iterator: a dataset of samples `[B, T+1, ...]` with `log_prob` among the extras, or an
        iterator of it.
      prior_network: behaviour prior; like the policy, with an analytic KL from it.
      target_prior_network: copy of the prior; given exactly when the prior is.
      policy_optimizer, critic_optimizer, prior_optimizer: None makes Adam(1e-4).
      distillation_cost: weight of the KL from the policy to the prior; None is 0.
      entropy_regularizer_cost: weight of the entropy; None is 0.
      num_action_samples: action samples per state.
      lambda_: Retrace's lambda.
      counter: counts steps and wall time.
      logger: gets the metrics of every step.
      checkpoint: whether to keep checkpoints in `directory`, which Acme chose itself.
      entropy_estimator: how the entropy is differentiated.
      soft_value_target: whether the entropy is part of the value target.
      reward_scale: factor of the rewards.
      max_gradient_norm: clips each network's gradient to this global norm.
      sample_block_rows: rows of one evaluation of sampled actions.
      temperature: its alpha is the weight of the entropy in place of `entropy_regularizer_cost`; it
        is updated after the networks, by the entropies of steps that do not end an episode.
      bound_report: gets the metrics of every step.
      prioritised_replay: how replay is prioritised, if it is: the critic's loss of each sequence is
        then weighted by its importance.
      priority_writer: writes the sequences' new priorities after each step.
      strategy: distribution strategy.
      seed: seed of the action samples.
      directory: where checkpoints are kept; None keeps none.

    Raises:
      ValueError: if a number is out of its range, only one of prior and target prior is given,
        target and online networks do not pair, the dataset lacks something (see
        `sequences.check_sample`), or it does not fit the strategy or prioritised replay.
    """
    if (prior_network is None) != (target_prior_network is None):
      raise ValueError("prior_network and target_prior_network go together: give both, or neither.")
    for name, value in (("discount", discount), ("lambda_", lambda_)):
      checks.number(name, value, minimum=0, maximum=1)
    checks.number("distillation_cost", distillation_cost, minimum=0, optional=True)
    checks.number("entropy_regularizer_cost", entropy_regularizer_cost, minimum=0, optional=True)
    checks.number("reward_scale", reward_scale, above=0)
    checks.integer("num_action_samples", num_action_samples, minimum=1)
    checks.integer("sample_block_rows", sample_block_rows, minimum=1)
    sequences.check_dataset(dataset_iterator, NEEDED_EXTRAS)
    if prioritised_replay is not None:
      sequences.check_has_probabilities(dataset_iterator)
    self._policy, self._target_policy = policy_network, target_policy_network
    self._critic, self._target_critic = critic_network, target_critic_network
    self._prior, self._target_prior = prior_network, target_prior_network
    self._discount = discount
    self._distillation_cost = (distillation_cost or 0.0) if prior_network is not None else 0.0
    self._entropy_cost = entropy_regularizer_cost or 0.0
    self._num_action_samples = num_action_samples
    self._lambda = lambda_
    self._entropy_estimator = checks.member(
      "entropy_estimator", entropy_estimator, svg0_utils.EntropyEstimator
    )
    self._soft_value_target = soft_value_target
    self._reward_scale = reward_scale
    self._sample_block_rows = sample_block_rows
    self._temperature = temperature
    self._bound_report = bound_report
    self._prioritised = prioritised_replay

    networks = {"critic": critic_network, "policy": policy_network}
    targets = {"critic": target_critic_network, "policy": target_policy_network}
    given = {"critic": critic_optimizer, "policy": policy_optimizer}
    if prior_network is not None:
      networks["prior"], targets["prior"], given["prior"] = (
        prior_network,
        target_prior_network,
        prior_optimizer,
      )
    with (strategy or tf.distribute.get_strategy()).scope():
      chosen = {name: optimizer or optimizers.Adam(1e-4) for name, optimizer in given.items()}
    super().__init__(
      dataset=dataset_iterator,
      networks=networks,
      target_networks=targets,
      optimizers=chosen,
      target_update_period=target_update_period,
      max_gradient_norm=max_gradient_norm,
      modules={} if temperature is None else {"temperature": temperature},
      strategy=strategy,
      counter=counter,
      logger=logger,
      priority_writer=priority_writer,
      seed=seed,
      directory=directory if checkpoint else None,
    )

  def _update(
    self, sample: reverb.ReplaySample, seed: tf.Tensor, phase: int
  ) -> learner_steps.Update:
    del phase
    sequences.check_sample(
      sample, NEEDED_EXTRAS
    )  # While the graph is made: it costs later steps nothing.
    batch = batches.make_batch(sample, self._reward_scale)
    with tf.GradientTape(persistent=True) as tape:
      result = self._losses(batch, seed, tape, self._importance_weights(sample))
    losses_by_network = {"critic": result.critic, "policy": result.policy}
    if result.prior is not None:
      losses_by_network["prior"] = result.prior
    # All gradients are taken before any variable moves.
    gradients = {
      name: tape.gradient(loss, self._networks[name].trainable_variables)
      for name, loss in losses_by_network.items()
    }
    metrics = {f"{name}_loss": loss for name, loss in losses_by_network.items()}
    for name, gradient in gradients.items():
      metrics[f"{name}_gradient_norm"] = self._apply_gradients(name, gradient)
    metrics.update(result.metrics)
    if self._temperature is not None:
      heated = self._temperature.update(result.entropy_tm1, tf.logical_not(batch.restart_t))
      metrics.update(heated.metrics)
    age = sequences.age_of_samples(sample.data, self._num_steps.read_value())
    if age is not None:
      metrics["sample_age"] = age
    if self._prioritised is None:
      return learner_steps.Update(metrics)
    priorities = prioritised_lib.sequence_priorities(
      result.td_error_tm1, tf.logical_not(batch.restart_t), self._prioritised.min_priority
    )
    return learner_steps.Update(metrics, priorities)

  def _importance_weights(self, sample: reverb.ReplaySample) -> Optional[tf.Tensor]:
    """Returns the weight of each sequence, float32 `[B]`; None without prioritised replay."""
    if self._prioritised is None:
      return None
    exponent = prioritised_lib.importance_exponent(self._prioritised, self._num_steps.read_value())
    weights = prioritised_lib.importance_weights(
      sample.info.probability, sample.info.table_size, exponent
    )
    return tf.cast(weights, tf.float32)

  def _on_step(self, metrics: Mapping[str, float]) -> None:
    if self._bound_report is not None:
      self._bound_report.report(metrics)

  def _losses(
    self,
    batch: batches.Batch,
    seed: tf.Tensor,
    tape: tf.GradientTape,
    weights: Optional[tf.Tensor],
  ) -> _Losses:
    num_pairs, batch_size = batch.restart_t.shape[0], sequences.batch_size(batch.restart_t, axis=1)
    outputs = self._evaluate_networks(batch, seed)
    split = lambda x: tf.reshape(x, [num_pairs + 1, batch_size])

    entropy = split(self._entropy(outputs))
    alpha = self._entropy_cost if self._temperature is None else self._temperature.alpha
    kl_to_target = (
      split(outputs.analytic_kl_to_target) if self._prior is not None else tf.zeros_like(entropy)
    )
    v_t = self._mean_target_q(
      batch, outputs.target_samples, tape, first_step=1, differentiable=False
    )
    v_t -= self._distillation_cost * tf.stop_gradient(kl_to_target[1:])
    if self._soft_value_target:
      v_t += alpha * tf.stop_gradient(entropy[1:])

    log_rho_tm1 = losses.log_importance_weights(
      split(outputs.target_log_probs_behavior_actions)[:-1],
      batch.behaviour_log_prob_tm1,
      batch.restart_t,
    )
    target_tm1 = losses.retrace_targets(
      split(outputs.target_q)[:-1],
      v_t,
      batch.r_t,
      self._discount * batch.discount_t,
      log_rho_tm1,
      self._lambda,
    )
    q_tm1 = split(outputs.online_q)[:-1]
    expected_q_tm1 = self._mean_target_q(
      batch, outputs.online_samples, tape, first_step=0, differentiable=True
    )
    policy_loss = losses.policy_loss(
      expected_q_tm1,
      entropy[:-1],
      batch.restart_t,
      alpha,
      kl_to_target[:-1],
      self._distillation_cost,
    )
    metrics = {
      "entropy": tf.reduce_mean(entropy),
      "q_mean": tf.reduce_mean(q_tm1),
      "importance_weight_mean": tf.reduce_mean(tf.exp(tf.minimum(log_rho_tm1, 0.0))),
    }
    prior_loss = None
    if self._prior is not None:
      kl_to_online = split(outputs.analytic_kl_divergence)
      prior_loss = tf.reduce_mean(losses.prior_loss(kl_to_online[:-1], batch.restart_t))
      metrics["prior_kl"] = tf.reduce_mean(kl_to_target)
    critic_loss = losses.critic_loss(q_tm1, target_tm1, batch.restart_t)
    if weights is not None:
      critic_loss *= weights
    return _Losses(
      policy=tf.reduce_mean(policy_loss),
      critic=tf.reduce_mean(critic_loss),
      prior=prior_loss,
      entropy_tm1=entropy[:-1],
      td_error_tm1=target_tm1 - q_tm1,
      metrics=metrics,
    )

  def _evaluate_networks(self, batch: batches.Batch, seed: tf.Tensor) -> Any:
    # The namedtuple's fields depend on the prior and the estimator.
    # The networks carry no state, so all T+1 steps are one batch: the graph does not grow with T.
    core = svg0_utils.OnlineTargetPiQ(
      online_pi=self._policy,
      online_q=self._critic,
      target_pi=self._target_policy,
      target_q=self._target_critic,
      num_samples=self._num_action_samples,
      online_prior=self._prior,
      target_prior=self._target_prior,
      entropy_estimator=self._entropy_estimator,
      # Common random numbers: each loss sees the samples of one policy only, so none is biased, and
      # drawing is what small networks wait for longest.
      seeds=(seed, seed),
    )
    return core((batch.observation, batch.action))

  def _entropy(self, outputs: Any) -> tf.Tensor:
    if self._entropy_estimator is svg0_utils.EntropyEstimator.ANALYTIC:
      return outputs.online_entropy
    return tf.reduce_mean(-outputs.online_log_probs, axis=0)

  def _mean_target_q(
    self,
    batch: batches.Batch,
    samples: tf.Tensor,
    tape: tf.GradientTape,
    *,
    first_step: int,
    differentiable: bool,
  ) -> tf.Tensor:
    """Averages the target critic over samples, `[T, B]`.

    The samples are `[S, (T+1) B, A]`; T steps of them are used, from `first_step` on.
    """
    num_pairs, batch_size = batch.r_t.shape[0], sequences.batch_size(batch.r_t, axis=1)
    # Rows are time-major, so T consecutive steps are consecutive rows.
    rows = lambda x, axis: batches.rows(x, first_step * batch_size, num_pairs * batch_size, axis)
    values = sampled_values.sampled_values(
      self._target_critic,
      tree.map_structure(lambda x: rows(x, 0), batch.observation),
      rows(samples, 1),
      differentiable=differentiable,
      tape=tape,
      block_rows=self._sample_block_rows,
    )
    return tf.reshape(tf.reduce_mean(values, axis=0), [num_pairs, -1])
