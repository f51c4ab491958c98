"""What an audit of an installation asks of a wire: here, or for a method of one file in that file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.label_mean import wire as label_mean
from noiseworthy.methods.mean import wire as mean
from noiseworthy.methods.moments import wire as moments
from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.score import wire as score
from noiseworthy.methods.wire import WIRES, Work
from noiseworthy.privacy.sensitivity import OPPOSITE, RIGHT_ANGLED, Norm, of_mean_and_class, of_mean_answer

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch


def opposite(clip_norm: float, norm: Norm) -> float:
    """Vectors of any direction."""
    return OPPOSITE[norm] * clip_norm


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The release that an audit of an installation attacks: at zero, of records that cancel but for one.

    Attributes:
        work: what is asked, for noise of a size.
        whole: whether the clip is of the whole update, not of each record.
        sign: of the upload beside the gradient.
        beside: what an exchanged record changes in each number that is released beside the upload, over that
            number's noise, for noise of a size and n records.
        apart: the most that two records, or updates, are apart, by the clip and its norm.
        mean: what is uploaded but for noise, of a task, records, the clip and its norm; None where that is
            `sign` times the mean gradient.
    """

    work: Callable[[float], Work]
    whole: bool = False
    sign: float = 1.0
    beside: Callable[[float, int], tuple[float, ...]] = lambda noise, records: ()
    apart: Callable[[float, Norm], float] = opposite
    mean: Callable[[Task, Batch, float, Norm], NDArray[np.float64]] | None = None


_CAP, _QUIET = 1.0, 1e3
"""Of an audit's losses, and how much more noise they get than their gradient."""
_WEIGHT = 32**0.5
"""Label weight at which features of length 4 are as long as what a label of two classes asks: then records of
either label are at right angles."""
_OF_CLASS = 100.0
"""w, beside which records of one class are alike: those of two are as far apart as is paid for."""
_OF_CLASSES = score.ScoreWork(two_classes=True)
_MIDDLE = 0.5
"""Of classes 0 and 1; numbers -1 and 1 lie on either side of it, too."""


def _moments(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    start = np.zeros(task.dimension, np.float32)
    return moments.rows_of(task, start, batch, _WEIGHT, clip_norm, norm).mean(axis=0)


def _mean(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    return mean.rows_of(task, batch, clip_norm, _OF_CLASS, norm).mean(axis=0)


def _score(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    start = np.zeros(task.dimension, np.float32)
    return score.rows_of(task, start, batch, _OF_CLASSES, clip_norm, norm).mean(axis=0)


def _label_mean(task: Task, batch: Batch, clip_norm: float, norm: Norm) -> NDArray[np.float64]:
    return label_mean.rows_of(batch, clip_norm, _MIDDLE).mean(axis=0)


PROBES: dict[str, Probe] = {
    "fedsgd-dpc": Probe(work=lambda noise: FedSGDWork()),
    "dp-fedavg": Probe(
        work=lambda noise: FedAvgWork(clipping="D", step_sizes=np.array([100.0])), whole=True, sign=-1.0
    ),
    "dp-scaffnew": Probe(
        work=lambda noise: ScaffNewWork(step_size=100.0, probability=0.5, local_steps=1), whole=True, sign=-1
    ),
    "dp-pasgd": Probe(work=lambda noise: PasgdWork(step_sizes=np.array([1.0])), sign=-1.0),
    "privatefl": Probe(work=lambda noise: PrivateFLWork(personal_step=0.0)),
    "dpfl-bcs": Probe(
        work=lambda noise: LossReportWork(loss_cap=_CAP, loss_noise=_QUIET * noise, step_size=1.0),
        # a loss within [0, Theta] changes its mean by Theta / n; both are released
        beside=lambda noise, records: (_CAP / records / (_QUIET * noise),) * 2,
    ),
    "mr-mtl": Probe(work=lambda noise: MrMtlWork(step_size=1.0, share=1.0)),
    "moments": Probe(
        work=lambda noise: moments.MomentsWork(label_weight=_WEIGHT),
        apart=lambda clip_norm, norm: RIGHT_ANGLED[norm] * clip_norm,
        mean=_moments,
    ),
    "mean": Probe(
        work=lambda noise: mean.MeanWork(of_class=_OF_CLASS),
        apart=lambda clip_norm, norm: of_mean_and_class(clip_norm, _OF_CLASS, [1], norm).value.item(),
        mean=_mean,
    ),
    "label-mean": Probe(work=lambda noise: label_mean.LabelMeanWork(middle=_MIDDLE), mean=_label_mean),
    "score": Probe(
        work=lambda noise: _OF_CLASSES,
        apart=lambda clip_norm, norm: of_mean_answer(clip_norm, [1], norm, two_classes=True).value.item(),
        mean=_score,
    ),
}
"""By names in requests. For moments, means and scores, records differ in class, or in labels far apart."""


def probe(name: str) -> Probe:
    """The probe of a wire by its name in a request.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> probe("dp-fedavg").whole
        True
    """
    module = WIRES[check.one_of("algorithm", name, WIRES.keys())]
    return PROBES[name] if name in PROBES else import_module(module).PROBE
