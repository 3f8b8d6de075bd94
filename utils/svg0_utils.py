"""Building blocks of SVG0: unrolling, masking at episode starts, joint evaluation of networks.

The four public names and their arguments are those of `acme.agents.tf.svg0_prior.utils`, so they
can be used on their own by scripts that were written for Acme. CRR shares the masking.
"""

import collections
from collections.abc import Iterable
import enum
from typing import Any, Callable, Optional

from acme import types
from acme.tf import utils as tf2_utils
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import distributions


class EntropyEstimator(enum.Enum):
  """How the entropy of the policy enters its loss.

  SCORE: `-log pi(sg[a])`, as in Acme. Its value is the entropy, but its expected gradient is zero.
  PATHWISE: `-log pi(a)` with a reparameterised, so that the gradient is that of the entropy, with
    sampling noise.
  ANALYTIC: the distribution's own `entropy()`, without noise; only for policies that have it in
    closed form.
  """

  SCORE = "score"
  PATHWISE = "pathwise"
  ANALYTIC = "analytic"


class OnlineTargetPiQ(snt.Module):
  """Evaluates online and target policies, critics and (when given) priors at one batch of steps.

  The result is a namedtuple; for `S` samples, a batch of `N` steps and actions of shape `[A]` it
  holds
    online_samples, target_samples: `[S, N, A]`, draws from the online and the target policy.
    target_log_probs_behavior_actions: `[N]`, log target-policy density of the given action.
    online_log_probs: `[S, N]`, log online-policy density of `online_samples`.
    online_q, target_q: `[N, 1]` (or what the critic returns), both critics at the given action.
    analytic_kl_divergence, analytic_kl_to_target: `[N]`, KL of the online policy from the online
      and from the target prior; only with a prior.
    online_entropy: `[N]`; only with `EntropyEstimator.ANALYTIC`.

  It can be a core of `static_rnn`, one time step a call, or be applied once to merged time and
  batch axes.
  """

  def __init__(
    self,
    online_pi: snt.Module,
    online_q: snt.Module,
    target_pi: snt.Module,
    target_q: snt.Module,
    num_samples: int,
    online_prior: Optional[snt.Module] = None,
    target_prior: Optional[snt.Module] = None,
    name: str = "OnlineTargetPiQ",
    *,
    entropy_estimator: EntropyEstimator = EntropyEstimator.SCORE,
    seeds: Optional[tuple[tf.Tensor, tf.Tensor]] = None,
  ):
    """Initialises the core.

    Args:
      online_pi: policy; maps a batch of observations to a distribution over actions.
      online_q: critic; maps batches of observations and actions to values.
      target_pi: target policy.
      target_q: target critic.
      num_samples: S, the number of action samples a step, at least 1.
      online_prior: optional behaviour prior; like a policy, with an analytic KL from the policy.
      target_prior: its target; given exactly when `online_prior` is.
      name: module name.
      entropy_estimator: see `EntropyEstimator`; decides whether `online_log_probs` stop the
        samples' gradient.
      seeds: stateless seeds (int32 `[2]`) of the online and the target draws; None draws from
        TensorFlow's global generator. With `static_rnn` leave it None, else every time step would
        repeat the same noise.

    Raises:
      ValueError: if only one of the two priors is given, or `num_samples` is not positive.
    """
    super().__init__(name)
    if (online_prior is None) != (target_prior is None):
      raise ValueError("online_prior and target_prior go together: give both, or neither.")
    if num_samples < 1:
      raise ValueError(f"num_samples is {num_samples}; at least one action sample is needed.")
    self._policies = (online_pi, target_pi)
    self._critics = (online_q, target_q)
    self._priors = None if online_prior is None else (online_prior, target_prior)
    self._num_samples = num_samples
    self._entropy_estimator = entropy_estimator
    self._seeds = seeds or (None, None)

  def __call__(self, input_obs_and_action: tuple[types.NestedTensor, tf.Tensor]) -> tuple[Any, ...]:
    """Evaluates all networks at (observation `[N, ...]`, action `[N, A]`)."""
    observation, action = input_obs_and_action
    online_pi, target_pi = (policy(observation) for policy in self._policies)
    samples = distributions.sample(online_pi, self._num_samples, self._seeds[0])
    scored = samples
    if self._entropy_estimator is not EntropyEstimator.PATHWISE:
      scored = tf.stop_gradient(samples)
    outputs: dict[str, Any] = {
      "online_samples": samples,
      "target_samples": distributions.sample(target_pi, self._num_samples, self._seeds[1]),
      "target_log_probs_behavior_actions": target_pi.log_prob(action),
      "online_log_probs": online_pi.log_prob(scored),
      "online_q": self._critics[0](observation, action),
      "target_q": self._critics[1](observation, action),
    }
    if self._priors is not None:
      prior, target_prior = (network(observation) for network in self._priors)
      outputs["analytic_kl_divergence"] = online_pi.kl_divergence(prior)
      outputs["analytic_kl_to_target"] = online_pi.kl_divergence(target_prior)
    if self._entropy_estimator is EntropyEstimator.ANALYTIC:
      outputs["online_entropy"] = online_pi.entropy()
    return collections.namedtuple("OnlineTargetPiQOutput", outputs)(**outputs)


def static_rnn(
  core: Callable[[Any], types.NestedTensor], inputs: types.NestedTensor, unroll_length: int
) -> types.NestedTensor:
  """Applies `core` to each of the first `unroll_length` time steps and stacks what it returns.

  Args:
    core: maps the inputs of one step, `[B, ...]`, to a nest of tensors.
    inputs: nest of time-major tensors `[T, B, ...]`. A tensor shorter than `unroll_length` gives
      None at the steps that it lacks.
    unroll_length: number of steps.

  Returns:
    The nest that `core` returns, each leaf stacked to `[unroll_length, ...]`.
  """
  outputs = []
  for t in range(unroll_length):
    step_inputs = tree.map_structure(lambda x, t=t: x[t] if t < x.shape[0] else None, inputs)
    outputs.append(core(step_inputs))
  return tree.map_structure(lambda *steps: tf.stack(steps), *outputs)


def mask_out_restarting(tensor: tf.Tensor, start_of_episode: tf.Tensor) -> tf.Tensor:
  """Sets to zero the entries whose step leads over an episode's end.

  Entries are selected, not multiplied, so that an infinite or undefined masked entry gives zero
  too.

  Args:
    tensor: `[T, B]`, values that belong to the step from t to t+1.
    start_of_episode: bool `[T, B]`, whether step t+1 is the first of an episode.

  Returns:
    `[T, B]`, of `tensor`'s dtype.

  Raises:
    ValueError: if one of the two is not of rank 2.
  """
  for name, value in (("tensor", tensor), ("start_of_episode", start_of_episode)):
    if value.shape.rank != 2:
      raise ValueError(
        f"{name} has shape {value.shape}; it must be time-major with rank 2, [T, B]."
      )
  return tf.where(start_of_episode, tf.zeros_like(tensor), tensor)


def batch_concat_selection(
  observation_dict: dict[str, types.NestedTensor],
  concat_keys: Optional[Iterable[str]] = None,
  output_dtype: tf.DType = tf.float32,
) -> tf.Tensor:
  """Flattens and concatenates chosen entries of a dict observation.

  Args:
    observation_dict: tensors `[B, ...]` by name.
    concat_keys: the entries to use, in this order; None or empty takes all, sorted by name.
    output_dtype: dtype to cast to.

  Returns:
    `[B, D]`, D the total number of elements of the chosen entries.

  Raises:
    KeyError: if a chosen entry does not exist.
  """
  keys = list(concat_keys or sorted(observation_dict))
  missing = [key for key in keys if key not in observation_dict]
  if missing:
    raise KeyError(f"The observation has no entry {missing}; it has {sorted(observation_dict)}.")
  cast = lambda x: tf.cast(x, output_dtype)
  return tf2_utils.batch_concat([tree.map_structure(cast, observation_dict[key]) for key in keys])
