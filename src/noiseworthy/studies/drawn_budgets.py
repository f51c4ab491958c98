"""Budgets of clients whom nobody has asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseworthy.studies.privacy_table import Drawn


def draw_budgets(law: Drawn, clients: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Budgets of clients whom nobody has asked, drawn from a range.

    Args:
        law: evenly between two ends, or evenly in the logarithm.
        clients: N.
        generator: public; budgets say nothing of records.

    Returns:
        shape (N,), within the ends.

    Example:
        >>> draw_budgets(Drawn(loguniform=[0.1, 10.0]), 3, np.random.default_rng(0)).round(3)
        array([1.879, 0.346, 0.121])
    """
    low, high = law.ends
    if law.uniform is not None:
        return generator.uniform(low, high, clients)
    return np.clip(np.exp(generator.uniform(np.log(low), np.log(high), clients)), low, high)
