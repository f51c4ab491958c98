"""Tables as a csv holds them of which nobody said how its numbers lie: each in a unit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.records import Records

_DECADES = (0.1, 1.5)
"""Standard deviation of the logarithms (base 10) of the columns' spreads, of tables from one to another."""
_AWAY = (np.log(1.8), 1.0)
"""Mean and standard deviation of the logarithm of a column's mean over its spread."""
_CONSTANT = 1e-6


def in_own_units(records: Records, columns: NDArray[np.bool_], seed: Sequence[int]) -> Records:
    """Records with some columns in units of their own, far from 0 for their spread:

        x_j -> u_j (z_j + m_j),    z_j standardised,    log10 u_j ~ N(0, s^2),    log m_j ~ N(log 1.8, 1)

    with s between 0.1 and 1.5, one of a table. So lie numbers of real tables (docs/trials.md).

    Args:
        records: rows of d numbers.
        columns: which are changed, shape (d,); constant ones stay.
        seed: of the units.

    Example:
        >>> rows = np.array([[0.0, 1.0], [1.0, 1.0]], np.float32)
        >>> table = Records(rows, np.array([0, 1]), rows, np.array([0, 1]), 2, "own")
        >>> made = in_own_units(table, np.array([True, True]), seed=[0]).x
        >>> made[:, 1].tolist(), bool(0 < made[0, 0] < made[1, 0])
        ([1.0, 1.0], True)
    """
    rng, (mean, spread) = np.random.default_rng(seed), (records.x.mean(axis=0), records.x.std(axis=0))
    unit = 10 ** (rng.uniform(*_DECADES) * rng.standard_normal(len(mean)))
    away, scale = unit * np.exp(rng.normal(*_AWAY, len(mean))), unit / np.maximum(spread, _CONSTANT)
    changed = columns & (spread > _CONSTANT)
    x, test_x = (np.where(changed, scale * (one - mean) + away, one) for one in (records.x, records.test_x))
    return replace(records, x=x.astype(np.float32), test_x=test_x.astype(np.float32))
