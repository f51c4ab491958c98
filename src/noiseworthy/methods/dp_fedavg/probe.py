"""What an audit of an installation asks of DP-FedAvg."""

import numpy as np

from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.probe import Probe, nothing_beside

PROBE = Probe(
    work=lambda noise: FedAvgWork(clipping="D", step_sizes=np.array([100.0])),
    whole=True,
    sign=-1.0,
    beside=nothing_beside,
)
