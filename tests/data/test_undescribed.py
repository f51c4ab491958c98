"""Columns in units of their own: as far from 0 as real ones, in their own order, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.data.records import Records
from noiseworthy.trials.public import in_own_units

X = np.tanh(np.random.default_rng(0).standard_normal((900, 40))).astype(np.float32)
TABLE = Records(X[:600], np.arange(600) % 3, X[600:], np.arange(300) % 3, 3, "own")
EVERY = np.ones(40, bool)


def test_columns_lie_as_those_of_real_tables_do():
    """Means over spreads have the stated median and spread (false alarms below 1 in 10,000); units differ
    from table to table by a tenth of a decade to one and a half."""
    made = [in_own_units(TABLE, EVERY, [seed]).x for seed in range(100)]
    away = np.log([x.mean(axis=0) / x.std(axis=0) for x in made])
    assert np.mean(away) == pytest.approx(np.log(1.8), abs=4 / np.sqrt(away.size))
    assert np.std(away) == pytest.approx(1.0, rel=0.05)
    decades = np.std(np.log10([x.std(axis=0) for x in made]), axis=1)
    assert 0.07 < decades.min() < 0.3
    assert 1.2 < decades.max() < 2.0


@given(seed=st.integers(0, 1000), data=st.data())
@settings(deadline=None, max_examples=20)
def test_each_marked_column_is_another_unit_of_itself_and_no_other_is_touched(seed, data):
    columns = np.array(data.draw(st.lists(st.booleans(), min_size=40, max_size=40)))
    made = in_own_units(TABLE, columns, [seed])
    for before, after in ((TABLE.x, made.x), (TABLE.test_x, made.test_x)):
        np.testing.assert_array_equal(after[:, ~columns], before[:, ~columns])
        for place in np.flatnonzero(columns):
            assert np.corrcoef(before[:, place], after[:, place])[0, 1] > 1 - 1e-4
    np.testing.assert_array_equal(made.y, TABLE.y)


def test_what_only_fills_up_stays_zero():
    filled = TABLE.x.copy()
    filled[:, 30:] = 0
    assert not np.any(in_own_units(replace(TABLE, x=filled), EVERY, [0]).x[:, 30:])
