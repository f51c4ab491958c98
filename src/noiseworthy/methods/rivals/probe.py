"""What an audit of an installation asks of PrivateFL."""

from noiseworthy.methods.probe import Probe, nothing_beside
from noiseworthy.methods.rivals.wire import PrivateFLWork

PROBE = Probe(
    work=lambda noise: PrivateFLWork(personal_step=0.0), whole=False, sign=1.0, beside=nothing_beside
)
