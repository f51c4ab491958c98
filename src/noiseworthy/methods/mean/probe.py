"""What an audit of an installation asks of the mean: of records that differ in their class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.mean.wire import MeanWork, rows_of
from noiseworthy.methods.probe import Probe, nothing_beside
from noiseworthy.privacy.sensitivity import Norm, of_mean_and_class

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch

_OF_CLASS = 100.0
"""w, beside which records of one class are alike: those of two are as far apart as is paid for."""


def _mean(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    return rows_of(task, batch, clip_norm, _OF_CLASS, norm).mean(axis=0)


PROBE = Probe(
    work=lambda noise: MeanWork(of_class=_OF_CLASS),
    whole=False,
    sign=1.0,
    beside=nothing_beside,
    apart=lambda clip_norm, norm: of_mean_and_class(clip_norm, _OF_CLASS, [1], norm).value.item(),
    mean=_mean,
)
