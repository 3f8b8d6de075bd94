"""Temperatures against golden numbers: ALF's entropy targets, and alpha in SAC's updates."""

import gzip
import json
import math
import os

from acme import specs
import numpy as np
import pytest
import tensorflow as tf

from temper.utils import entropy_target
from temper.utils import temperature
from temper.utils import temperature_config

_Config = temperature_config.TemperatureConfig
_SPEC = specs.BoundedArray((2,), np.float32, -1.0, 1.0)
_GOLDEN = os.path.join(os.path.dirname(__file__), "golden")
_VARIANTS = {
  "two_stage": "two_stage",
  "three_stage": "three_stage",
  "three_stage_scheduled": "scheduled",
}


def _load_cases():
  for name in ("entropy_target_tf.json.gz", "entropy_target_scheduled.json.gz"):
    with gzip.open(os.path.join(_GOLDEN, name)) as file:
      for i, case in enumerate(json.load(file)["cases"]):
        yield pytest.param(case, id=f"{i}-{case['variant']}-{case['series']}")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", _load_cases())
def test_every_step_of_the_golden_traces(case, compiled):
  fields = dict(case["config"])
  schedule = case.get("target_entropy_schedule")
  if schedule:
    fields["target_schedule"] = tuple(zip(schedule["x"], schedule["y"]))
  config = _Config(kind=_VARIANTS[case["variant"]], **fields)
  made = temperature.make_temperature(config, _SPEC)

  def update(entropy, step_type):
    result = made.update(entropy, entropy_target.valid_steps(step_type))
    names = ("stage", "temperature_rate", "max_entropy", "temperature_loss", "alpha")
    return tf.stack([result.metrics[name] for name in names])

  update = tf.function(update, autograph=False) if compiled else update
  assert len(case["batches"]) == len(case["trace"]) == 40
  for batch, expected in zip(case["batches"], case["trace"]):
    values = update(tf.constant(batch["entropy"]), tf.constant(batch["step_type"])).numpy()
    stage, rate, max_entropy, loss, alpha = values
    assert stage == expected["stage"]
    assert rate == pytest.approx(expected["update_rate"], rel=1e-6)
    if case["variant"] != "two_stage":
      assert max_entropy == pytest.approx(expected["max_entropy"], rel=1e-6)
    assert math.log(alpha) == pytest.approx(expected["log_alpha"], rel=2e-6, abs=2e-6)
    # Of large ones: the exponential of a log alpha of 17 that is right to its last bits.
    assert loss == pytest.approx(expected["mean_loss"], rel=2e-5, abs=1e-7)


# The four updates of each of SAC's variants: mean log density, then the loss and alpha after it.
@pytest.mark.parametrize(
  "fields, updates",
  [
    pytest.param(
      dict(loss="alpha"),
      [
        (27.297409007906037, -25.297409007906037, 1.0003000450043817),
        (25.53272439501877, -23.539785271412985, 1.000599422978179),
        (27.119557669442194, -25.134614909510947, 1.0008994489876142),
        (24.52852648543572, -22.548789745775487, 1.0011983366653634),
      ],
      id="value_network",
    ),
    pytest.param(
      dict(initial_alpha=0.2, learning_rate=1e-3),
      [
        (-0.3655147554575935, -3.80714912985573, 0.19980009996751966),
        (-0.27096621056585835, -3.65725008334246, 0.19960065337362914),
        (-0.22552676147984066, -3.5862953705217695, 0.19940163820956033),
        (-1.3458303887912215, -5.3949313656695335, 0.19920249110462868),
      ],
      id="twin_target",
    ),
  ],
)
def test_alpha_in_four_updates_of_sac(fields, updates):
  made = temperature.make_temperature(_Config(kind="gradient", **fields), _SPEC, dtype=tf.float64)
  for log_prob, loss, alpha in updates:
    result = made.update(tf.constant([-log_prob], tf.float64))
    assert float(result.loss) == pytest.approx(loss, abs=1e-9)
    assert float(result.alpha) == pytest.approx(alpha, abs=1e-9)
    assert float(made.alpha) == float(result.alpha)
