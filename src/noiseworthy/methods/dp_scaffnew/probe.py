"""What an audit of an installation asks of DP-ScaffNew."""

from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.probe import Probe, nothing_beside

PROBE = Probe(
    work=lambda noise: ScaffNewWork(step_size=100.0, probability=0.5, local_steps=1),
    whole=True,
    sign=-1.0,
    beside=nothing_beside,
)
