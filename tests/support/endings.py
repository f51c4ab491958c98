"""Where trainings of plans on a public proxy end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from noiseworthy.plans.plan import Plan
from noiseworthy.trials.courses import LAST, courses
from noiseworthy.trials.proxies import Proxy


def outcomes(
    proxy: Proxy, plans: Sequence[Plan | None], seeds: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Final loss over the untrained one, and score, of any plans, shape (plans, seeds)."""
    ((loss, score),) = courses([proxy], plans, seeds, LAST)
    return loss[..., -1], score
