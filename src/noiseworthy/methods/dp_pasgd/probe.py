"""What an audit of an installation asks of DP-PASGD."""

import numpy as np

from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.probe import Probe, nothing_beside

PROBE = Probe(
    work=lambda noise: PasgdWork(step_sizes=np.array([1.0])), whole=False, sign=-1.0, beside=nothing_beside
)
