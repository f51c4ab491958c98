"""What an audit of an installation asks of the mean of labels: of records whose labels are far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.label_mean.wire import LabelMeanWork, rows_of
from noiseworthy.methods.probe import Probe, nothing_beside
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch


_MIDDLE = 0.5
"""Of classes 0 and 1; numbers -1 and 1 lie on either side of it, too."""


def _mean(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    return rows_of(batch, clip_norm, _MIDDLE).mean(axis=0)


PROBE = Probe(
    work=lambda noise: LabelMeanWork(middle=_MIDDLE), whole=False, sign=1.0, beside=nothing_beside, mean=_mean
)
