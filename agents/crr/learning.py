"""The CRR learner: one batch of sequences in, an updated policy and critic out."""

from collections.abc import Mapping, Sequence
import os
from typing import Any, NamedTuple, Optional, Union

from acme import types
from acme.utils import counting
from acme.utils import loggers
import sonnet as snt
import tensorflow as tf
import tree

from temper.agents import learner as learner_lib
from temper.agents import learner_data
from temper.agents import learner_steps
from temper.agents import sequences
from temper.agents import target_copies
from temper.agents.crr import batches
from temper.agents.crr import losses
from temper.agents.crr import snapshots
from temper.agents.crr import unrolling
from temper.utils import checks
from temper.utils import entropy_target
from temper.utils import learning_rate_decay
from temper.utils import optimizers
from temper.utils import snapshots as snapshot_utils
from temper.utils import svg0_utils
from temper.utils import temperature as temperature_lib
from temper.utils import temperature_report

# Acme's bound of the global norm of each network's gradient.
MAX_GRADIENT_NORM = 40.0


class _Pairs(NamedTuple):
  """What the losses are made of, for the T - 1 pairs (t-1, t) after the burn-in."""

  log_prob_tm1: tf.Tensor  # [T - 1, B]
  q_logits_tm1: tf.Tensor  # [T - 1, B, K]
  atoms: tf.Tensor  # [K]
  weight_tm1: tf.Tensor  # [T - 1, B]
  # Each [T - 1, B]: the policy's entropy, and what to differentiate in its place; none without a
  # temperature.
  entropies_tm1: tuple[tf.Tensor, ...]
  metrics: dict[str, tf.Tensor]


class RCRRLearner(learner_lib.Learner):
  """Learner of recurrent critic-regularised regression (Wang 2020).

  Feed-forward networks are cores without state. Sequences start from zero states; a step that
  starts an episode inside of one does too. What lies across an episode's start or in padding is no
  part of a loss.
  """

  def __init__(
    self,
    policy_network: snt.RNNCore,
    critic_network: snt.RNNCore,
    target_policy_network: snt.RNNCore,
    target_critic_network: snt.RNNCore,
    dataset: learner_data.Dataset,
    accelerator_strategy: Optional[tf.distribute.Strategy] = None,
    behavior_network: Optional[snt.Module] = None,
    cwp_network: Optional[snt.Module] = None,
    policy_optimizer: Optional[snt.Optimizer] = None,
    critic_optimizer: Optional[snt.Optimizer] = None,
    discount: float = 0.99,
    target_update_period: int = 100,
    num_action_samples_td_learning: int = 1,
    num_action_samples_policy_weight: int = 4,
    baseline_reduce_function: Union[str, losses.BaselineReduce] = "mean",
    clipping: bool = True,
    policy_improvement_modes: Union[str, losses.PolicyImprovementMode] = "exp",
    ratio_upper_bound: float = 20.0,
    beta: float = 1.0,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    checkpoint: bool = False,
    *,
    max_gradient_norm: float = MAX_GRADIENT_NORM,
    burn_in_length: int = 0,
    normalise_by_valid: bool = False,
    reward_scale: float = 1.0,
    temperature: Optional[temperature_lib.Temperature] = None,
    bound_report: Optional[temperature_report.BoundReport] = None,
    learning_rate_decay_period: Optional[int] = None,
    seed: int = 0,
    directory: Optional[str] = None,
  ):
    """Initialises the learner. The arguments before the star are Acme's.

    Args:
      policy_network: maps observations and a state to a distribution over actions and the next
        state; its variables exist.
      critic_network: maps observations, actions and a state to a distribution over returns with
        `logits` and `values`, and the next state; its variables exist.
      target_policy_network: copy of the policy.
      target_critic_network: copy of the critic.
      dataset: samples `[B, T, ...]` of whole batches. An extra `valid_mask`, bool `[B, T]`, tells
        padding from steps.
      accelerator_strategy: distribution strategy; None means the current one.
      behavior_network: what the snapshot `policy` is made of; None makes none.
      cwp_network: critic-weighted policy, for the snapshot `cwp_policy`; None makes none.
      policy_optimizer, critic_optimizer: None makes Adam(1e-4).
      discount: agent's discount.
      target_update_period: learner steps between copies of the online to the target networks.
      num_action_samples_td_learning: action samples per state for the critic's target.
      num_action_samples_policy_weight: action samples per state for the advantage's baseline.
      baseline_reduce_function: how those become one value; see `losses.BaselineReduce`.
      clipping: whether gradients are clipped to `max_gradient_norm`.
      policy_improvement_modes: see `losses.PolicyImprovementMode`.
      ratio_upper_bound: largest weight of mode "exp".
      beta: temperature of mode "exp".
      counter: counts steps and wall time.
      logger: gets the metrics of every step.
      checkpoint: whether to keep checkpoints and snapshots in `directory`, which Acme chose itself.
      max_gradient_norm: largest global norm of each network's gradient.
      burn_in_length: first steps of each sample that only warm up the recurrent states.
      normalise_by_valid: whether losses are divided by the number of pairs that are not masked; by
        default, as in Acme, by B times T, although there are T - 1 pairs.
      reward_scale: factor of the rewards.
      temperature: adds the policy's entropy times its alpha to what the policy maximises, and is
        updated after the networks by the entropies of pairs that are not masked; None adds nothing.
      bound_report: gets the metrics of every step.
      learning_rate_decay_period: updates over which the learning rates fall to a tenth; None
        leaves them.
      seed: seed of the action samples.
      directory: where checkpoints are kept; None keeps none.

    Raises:
      ValueError: if a number is out of its range, a mode does not exist, target and online networks
        do not pair, the dataset lacks something (see `sequences.check_sample`), has too short
        sequences, or does not fit the strategy.
    """
    checks.number("discount", discount, minimum=0, maximum=1)
    for name, value in (
      ("num_action_samples_td_learning", num_action_samples_td_learning),
      ("num_action_samples_policy_weight", num_action_samples_policy_weight),
    ):
      checks.integer(name, value, minimum=1)
    for name, number in (
      ("ratio_upper_bound", ratio_upper_bound),
      ("beta", beta),
      ("reward_scale", reward_scale),
    ):
      checks.number(name, number, above=0)
    checks.integer("burn_in_length", burn_in_length, minimum=0)
    self._baseline_reduce = checks.member(
      "baseline_reduce_function", baseline_reduce_function, losses.BaselineReduce
    )
    self._mode = checks.member(
      "policy_improvement_modes", policy_improvement_modes, losses.PolicyImprovementMode
    )
    self._policy, self._target_policy = policy_network, target_policy_network
    self._critic, self._target_critic = critic_network, target_critic_network
    self._snapshot_directory = (
      os.path.join(directory, "snapshots") if directory and checkpoint else None
    )
    self._modules_to_snapshot = snapshots.modules_to_snapshot(
      policy_network, critic_network, behavior_network, cwp_network
    )
    self._discount = discount
    self._num_td_samples = num_action_samples_td_learning
    self._num_weight_samples = num_action_samples_policy_weight
    self._ratio_upper_bound = ratio_upper_bound
    self._beta = beta
    self._burn_in_length = burn_in_length
    self._normalise_by_valid = normalise_by_valid
    self._reward_scale = reward_scale
    self._temperature = temperature
    self._bound_report = bound_report
    self._check_dataset(dataset)
    with (accelerator_strategy or tf.distribute.get_strategy()).scope():
      chosen = {
        "critic": critic_optimizer or optimizers.Adam(1e-4),
        "policy": policy_optimizer or optimizers.Adam(1e-4),
      }
      self._decay = learning_rate_decay.LinearDecay(chosen, learning_rate_decay_period)
    super().__init__(
      dataset=dataset,
      networks={"critic": critic_network, "policy": policy_network},
      target_networks={"critic": target_critic_network, "policy": target_policy_network},
      optimizers=chosen,
      target_update_period=target_update_period,
      target_update=target_copies.TargetUpdate.AFTER_GRADIENTS,
      max_gradient_norm=max_gradient_norm if clipping else None,
      modules={} if temperature is None else {"temperature": temperature},
      strategy=accelerator_strategy,
      counter=counter,
      logger=logger,
      seed=seed,
      directory=directory if checkpoint else None,
    )

  def _check_dataset(self, dataset: learner_data.Dataset) -> None:
    sequences.check_dataset(dataset)
    if isinstance(dataset, (tf.data.Dataset, tf.data.Iterator)):
      self._check_length(sequences.steps_of(dataset.element_spec))

  def _check_length(self, steps: Any) -> None:
    length = steps.reward.shape[1]
    if length - self._burn_in_length < 2:
      raise ValueError(
        f"The dataset's sequences have {length} steps and burn_in_length is "
        f"{self._burn_in_length}; at least two steps must be left to train on."
      )

  def _update(self, sample: Any, seed: tf.Tensor, phase: int) -> learner_steps.Update:
    del phase
    sequences.check_sample(sample)  # While the graph is made: it costs later steps nothing.
    steps = sequences.steps_of(sample)
    self._check_length(steps)
    batch = batches.make_batch(
      steps,
      burn_in_length=self._burn_in_length,
      reward_scale=self._reward_scale,
      agent_discount=self._discount,
    )
    rate_scale = self._decay.apply(self._num_steps.read_value())
    target_logits_t = self._target_returns(batch, seed)
    with tf.GradientTape(persistent=True) as tape:
      pairs = self._evaluate_pairs(batch, seed, tape)
      critic_losses = losses.categorical_td_loss(
        pairs.q_logits_tm1,
        batch.trained(batch.reward),
        batch.trained(batch.discount),
        target_logits_t,
        pairs.atoms,
      )
      mean = self._make_mean(batch)
      critic_loss = mean(critic_losses)
      policy_losses = losses.policy_loss(pairs.log_prob_tm1, pairs.weight_tm1)
      if self._temperature is not None:
        policy_losses += entropy_target.entropy_loss(
          self._temperature.alpha, pairs.entropies_tm1[1]
        )
      policy_loss = mean(policy_losses)
    gradients = {
      "critic": tape.gradient(critic_loss, self._critic.trainable_variables),
      "policy": tape.gradient(policy_loss, self._policy.trainable_variables),
    }
    metrics = {
      "critic_loss": critic_loss,
      "policy_loss": policy_loss,
      "policy_loss_coef": mean(pairs.weight_tm1),
    }
    if self._decay.active:
      metrics["learning_rate_scale"] = rate_scale
    for name, gradient in gradients.items():
      metrics[f"{name}_gradient_norm"] = self._apply_gradients(name, gradient)
    metrics.update(pairs.metrics)
    if self._temperature is not None:
      valid = tf.logical_not(batch.masked_pair)
      metrics.update(self._temperature.update(pairs.entropies_tm1[0], valid).metrics)
    outside = losses.mass_outside_support(
      batch.trained(batch.reward), batch.trained(batch.discount), target_logits_t, pairs.atoms
    )
    metrics["target_outside_support_share"] = batch.mean_of_valid(outside)
    age = sequences.age_of_samples(steps, self._num_steps.read_value())
    if age is not None:
      metrics["sample_age"] = age
    return learner_steps.Update(metrics)

  def _on_step(self, metrics: Mapping[str, float]) -> None:
    if self._bound_report is not None:
      self._bound_report.report(metrics)

  def _target_returns(self, batch: batches.Batch, seed: tf.Tensor) -> tf.Tensor:
    """Target distribution at the steps t of all pairs, before reward and discount.

    The target networks never see step 0: else they would be unrolled for a step more than the
    online ones, and in sequences of two steps use recurrent connections that those do not. For the
    same reason they forget the first step of an episode that starts inside of a sequence.

    Returns:
      `[T - 1, B, K]`, log-probabilities up to a constant.
    """
    policy_state = self._target_policy.initial_state(batch.size)
    critic_state = self._target_critic.initial_state(batch.size)
    first = 1 + batch.burn_in_length
    if batch.burn_in_length:
      observation, action, start = tree.map_structure(lambda x: x[1:first], batch.target_inputs)
      policy_state = unrolling.unroll_policy(
        self._target_policy, observation, policy_state, start
      ).final_state
      critic_state = unrolling.unroll_critic(
        self._target_critic, observation, action, critic_state, start
      ).final_state
    observation, action, start = tree.map_structure(lambda x: x[first:], batch.target_inputs)
    policy = unrolling.unroll_policy(self._target_policy, observation, policy_state, start)
    states = unrolling.states_of_critic(
      self._target_critic, observation, action, critic_state, start
    )
    logits = unrolling.logits_of_samples(
      self._target_critic, observation, policy.sample(self._num_td_samples, seed), states
    )
    averaged = losses.mean_of_distributions(logits)
    return tf.reshape(averaged, [start.shape[0], -1, logits.shape[-1]])

  def _evaluate_pairs(self, batch: batches.Batch, seed: tf.Tensor, tape: tf.GradientTape) -> _Pairs:
    """Evaluates the online networks at the steps t-1 of all pairs."""
    policy_state, critic_state = self._warm_states(batch, tape)
    observation, action, start = batch.trained(batch.inputs)
    policy = unrolling.unroll_policy(self._policy, observation, policy_state, start)
    critic = unrolling.unroll_critic(self._critic, observation, action, critic_state, start)
    with tape.stop_recording():
      q_tm1 = losses.expected_value(critic.logits, critic.atoms)
      metrics = {"q_mean": batch.mean_of_valid(q_tm1)}
      # Behaviour cloning asks for no advantage, which is the dearest part of a step.
      weight = tf.ones_like(q_tm1)
      if self._mode is not losses.PolicyImprovementMode.ALL:
        # Draws that are independent of those of the critic's target.
        samples = policy.sample(self._num_weight_samples, seed + tf.constant([0x3779, 0]))
        logits = unrolling.logits_of_samples(
          self._critic, observation, samples, critic.states_before
        )
        values = losses.expected_value(logits, critic.atoms)
        baseline = losses.baseline(values, self._baseline_reduce)
        advantage = q_tm1 - tf.reshape(baseline, tf.shape(q_tm1))
        weight = losses.policy_weights(advantage, self._mode, self._beta, self._ratio_upper_bound)
        metrics.update(self._advantage_metrics(batch, advantage, weight))
    entropies: tuple[tf.Tensor, ...] = ()
    if self._temperature is not None:
      both = policy.entropies(seed + tf.constant([0x5BD1, 0]))
      entropies = tuple(tf.reshape(x, tf.shape(q_tm1)) for x in both)
    return _Pairs(policy.log_prob(action), critic.logits, critic.atoms, weight, entropies, metrics)

  def _warm_states(
    self, batch: batches.Batch, tape: tf.GradientTape
  ) -> Sequence[types.NestedTensor]:
    """Returns the online networks' states after the burn-in, through which no gradient flows."""
    states = self._policy.initial_state(batch.size), self._critic.initial_state(batch.size)
    if not batch.burn_in_length:
      return states
    observation, action, start = tree.map_structure(
      lambda x: x[: batch.burn_in_length], batch.inputs
    )
    with tape.stop_recording():
      policy = unrolling.unroll_policy(self._policy, observation, states[0], start)
      critic = unrolling.unroll_critic(self._critic, observation, action, states[1], start)
    return policy.final_state, critic.final_state

  def _make_mean(self, batch: batches.Batch) -> Any:
    """Returns the function that averages losses `[T - 1, B]` without those that are masked."""
    if self._normalise_by_valid:
      divisor = batch.num_valid
      if self._strategy.num_replicas_in_sync > 1:
        # Each replica's gradient counts alike, so each must divide by the same number.
        divisor = tf.distribute.get_replica_context().all_reduce("mean", divisor)
    else:
      length = batch.masked_pair.shape[0] + 1
      divisor = tf.cast(batch.size * length, tf.float32)
    masked = batch.masked_pair
    total = lambda x: tf.reduce_sum(svg0_utils.mask_out_restarting(x, masked))
    return lambda x: tf.math.divide_no_nan(total(x), divisor)

  def _advantage_metrics(
    self, batch: batches.Batch, advantage: tf.Tensor, weight: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    share = lambda condition: batch.mean_of_valid(tf.cast(condition, tf.float32))
    metrics = {
      "advantage_mean": batch.mean_of_valid(advantage),
      "positive_advantage_share": share(advantage > 0),
    }
    if self._mode is losses.PolicyImprovementMode.EXP:
      metrics["weight_saturated_share"] = share(weight >= self._ratio_upper_bound)
    return metrics

  def save_checkpoint(self) -> Optional[str]:
    """Writes a checkpoint and snapshots now if the learner has a directory; returns its path."""
    path = super().save_checkpoint()
    if path is not None and self._snapshot_directory is not None:
      self.save_snapshots(self._snapshot_directory)
    return path

  def save_snapshots(self, directory: str) -> None:
    """Writes raw policy, critic mean and what else was given as SavedModels."""
    snapshot_utils.save_snapshots(self._modules_to_snapshot, directory)

  @property
  def _served(self) -> dict[str, Sequence[tf.Variable]]:
    # Actors of CRR use the target networks, as in Acme.
    served = {name: network.variables for name, network in self._target_networks.items()}
    return {**served, "num_steps": (self._num_steps,)}
