"""What an audit of an installation asks of the first stage of DPFL-BCS."""

from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.probe import Probe

_CAP, _QUIET = 1.0, 1e3
"""Of an audit's losses, and how much more noise they get than their gradient."""


PROBE = Probe(
    work=lambda noise: LossReportWork(loss_cap=_CAP, loss_noise=_QUIET * noise, step_size=1.0),
    whole=False, sign=1.0,
    # a loss within [0, Theta] changes its mean by Theta / n; both are released
    beside=lambda noise, records: (_CAP / records / (_QUIET * noise),) * 2,
)  # fmt: skip
