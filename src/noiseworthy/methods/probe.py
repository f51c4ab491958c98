"""What an audit of an installation asks of a wire: in `probe.py` beside it, or in its method's one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.methods.wire import Work
from noiseworthy.methods.wires import WIRES
from noiseworthy.privacy.sensitivity import OPPOSITE, Norm

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch


def nothing_beside(noise: float, records: int) -> tuple[float, ...]:
    """The upload is all that is released."""
    return ()


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
    whole: bool
    sign: float
    beside: Callable[[float, int], tuple[float, ...]]
    apart: Callable[[float, Norm], float] = opposite
    mean: Callable[[Task, Batch, float, Norm], NDArray[np.float64]] | None = None


def probe(name: str) -> Probe:
    """The probe of a wire by its name in a request.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> probe("dp-fedavg").whole
        True
    """
    module = WIRES[check.one_of("algorithm", name, WIRES.keys())]
    room, _, file = module.rpartition(".")
    return import_module(f"{room}.probe" if file == "wire" else module).PROBE
