"""What an audit of an installation asks of one upload: the moments of records that differ in a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.moments.wire import MomentsWork, rows_of
from noiseworthy.methods.probe import Probe, nothing_beside
from noiseworthy.privacy.sensitivity import RIGHT_ANGLED, Norm

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch

_WEIGHT = 32**0.5
"""Label weight at which features of length 4 are as long as what a label of two classes asks: then records of
either label are at right angles."""


def _mean(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    start = np.zeros(task.dimension, np.float32)
    return rows_of(task, start, batch, _WEIGHT, clip_norm, norm).mean(axis=0)


PROBE = Probe(
    work=lambda noise: MomentsWork(label_weight=_WEIGHT),
    whole=False,
    sign=1.0,
    beside=nothing_beside,
    apart=lambda clip_norm, norm: RIGHT_ANGLED[norm] * clip_norm,
    mean=_mean,
)
