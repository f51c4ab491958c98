"""What an audit of an installation asks of FedSGD-DPC."""

from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.probe import Probe, nothing_beside

PROBE = Probe(work=lambda noise: FedSGDWork(), whole=False, sign=1.0, beside=nothing_beside)
