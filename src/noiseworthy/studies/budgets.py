"""What each client allows: budgets in the order of the clients, those of a range drawn in public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._tables import PerClient
from noiseworthy.studies.clients import in_order
from noiseworthy.studies.privacy_table import Drawn
from noiseworthy.studies.tables import Study

_TAGS = {"epsilon": 0xE9517, "delta": 0xDE17A}
"""What tells the public draws of a study apart."""


def budgets_of(
    study: Study, key: Literal["epsilon", "delta"], names: Sequence[str], *, named: bool
) -> PerClient:
    """`[privacy] epsilon` or `delta` of the clients, in their order.

    Args:
        study: with its budgets.
        key: which of the two.
        names: of the clients.
        named: whether these are names of their own.
    """
    stated = getattr(study.privacy, key)
    if not isinstance(stated, Drawn):
        return in_order(f"[privacy] {key}", stated, names, named=named)
    seed = check.count("[federation] seed", study.federation.seed, least=0)
    return draw_budgets(stated, len(names), np.random.default_rng([seed, _TAGS[key]])).tolist()


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
