"""The two sides of the benchmark of the recurrent Boltzmann action, on networks of equal sizes."""

import dataclasses
from typing import Any, Callable

from acme import specs
from acme.tf import networks as acme_networks
from acme.tf import utils as tf2_utils
from acme.tf.networks import recurrence as acme_recurrence
import numpy as np
import sonnet as snt
import tensorflow as tf

from temper.agents import boltzmann
from temper.launchers import benchmark_svg0

OURS, THEIRS = benchmark_svg0.OURS, benchmark_svg0.THEIRS
