"""What an audit of an installation asks of MR-MTL."""

from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.probe import Probe, nothing_beside

PROBE = Probe(
    work=lambda noise: MrMtlWork(step_size=1.0, share=1.0), whole=False, sign=1.0, beside=nothing_beside
)
