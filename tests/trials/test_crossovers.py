"""When the answer flips: crossings of two curves, within what trials of both have covered."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from noiseworthy.trials import crossovers
from noiseworthy.trials.crossovers import anchored, flip, in_metric
from noiseworthy.trials.what_if import Curve

X = tuple(np.geomspace(0.5, 32, 25).tolist())


def curve(loss, inside=None, own=4.0, x=X):
    inside = (True,) * len(x) if inside is None else inside
    return Curve("epsilon", x, tuple(np.asarray(loss, float).tolist()), (0.5,) * len(x), inside, own)


@given(slope=st.floats(0.05, 0.5), lead=st.floats(0.01, 0.2), other=st.floats(0.05, 0.5))
def test_lines_in_log_x_cross_where_brentq_says(slope, lead, other):
    def ours(x):
        return 1 - slope * np.log(x / 4)

    def theirs(x):
        return 1 + lead - other * np.log(x / 4)

    found = flip(curve(ours(np.array(X))), curve(theirs(np.array(X))))
    assert found is not None
    for end, side in ((0.5, found.below), (32, found.above)):
        if theirs(end) < ours(end):
            exact = brentq(lambda x: ours(x) - theirs(x), min(end, 4), max(end, 4))
            assert side == pytest.approx(exact, rel=1e-6)
        else:
            assert side is None


def test_only_what_trials_of_both_cover_counts():
    """They cross at 16, which one of them was not tried for."""
    ours, theirs = np.full(25, 0.5), np.where(np.array(X) > 15, 0.4, 0.6)
    seen = tuple(x < 10 for x in X)
    found = flip(curve(ours), curve(theirs, inside=seen))
    assert found is not None
    assert (found.below, found.above) == (None, None)
    assert found.low == 0.5
    assert found.high == max(x for x in X if x < 10)
    assert flip(curve(ours), curve(theirs)).above is not None  # pyright: ignore[reportOptionalMemberAccess]


def test_a_lead_within_the_doubt_of_the_fits_is_no_flip():
    theirs = np.where(np.array(X) > 15, 0.45, 0.6)
    for doubt, flips in ((0.04, True), (0.06, False), (float("nan"), False)):
        found = flip(curve(np.full(25, 0.5)), curve(theirs), doubt)
        assert found is not None
        assert (found.above is not None) is flips


@pytest.mark.parametrize("errors", [(0.01, float("nan")), (float("nan"), 0.01)])
def test_no_lead_counts_where_the_error_of_one_of_the_fits_is_not_known(monkeypatch, errors):
    """Whichever of the two it is: `max` would pass over the one that comes second."""
    guesses = [SimpleNamespace(bound=SimpleNamespace(left_out=e, quality=""), trusts=list) for e in errors]
    curves = [curve(np.full(25, 0.5)), curve(np.where(np.array(X) > 15, 0.4, 0.6))]
    seen = iter(guesses), iter(curves)
    monkeypatch.setattr(crossovers, "what_if", lambda *_: next(seen[0]))
    monkeypatch.setattr(crossovers, "_curves", lambda *_: (next(seen[1]),))
    ours, theirs = SimpleNamespace(name="a"), SimpleNamespace(name="b")
    found = crossovers.outlook(None, ours, theirs)  # pyright: ignore[reportArgumentType]
    assert found is not None
    assert [(one.below, one.above) for one in found.flips] == [(None, None)]


def test_of_several_crossings_the_nearest_is_said():
    waves = (
        0.6 - 0.2 * (np.abs(np.log(np.array(X) / 4)) > 0.6) + 0.3 * (np.abs(np.log(np.array(X) / 4)) > 1.5)
    )
    found = flip(curve(np.full(25, 0.5)), curve(waves))
    assert found is not None
    assert 4 * np.exp(-0.8) < (found.below or 0) < 4 < (found.above or 0) < 4 * np.exp(0.8)


def test_without_common_trials_there_is_no_answer():
    low, high = (tuple((x < 3) == side for x in X) for side in (True, False))
    one = tuple(i == 3 for i in range(25))
    assert flip(curve(np.zeros(25), inside=one), curve(np.ones(25))) is None
    found = flip(curve(np.zeros(25), inside=low), curve(np.ones(25), inside=high))
    assert found is None


def test_a_curve_is_moved_to_what_was_measured_and_stays_a_share():
    losses = np.linspace(0.9, 0.1, 25)
    guess = SimpleNamespace(bound=SimpleNamespace(accuracy=lambda loss: 1 - np.asarray(loss)))
    moved = anchored(guess, curve([1.0, *losses[1:]]), 0.7)  # pyright: ignore[reportArgumentType]
    assert np.interp(np.log(4.0), np.log(X), moved.loss) == pytest.approx(0.7)
    np.testing.assert_allclose(np.diff(moved.loss)[5:], np.diff(losses)[5:])
    assert moved.loss[0] == 1.0  # where nobody trains nobody does better
    assert max(moved.loss) <= 1
    np.testing.assert_allclose(moved.accuracy, 1 - np.array(moved.loss))


def test_curves_of_a_metric_are_of_what_is_missed_and_go_through_what_was_measured():
    curve = Curve("epsilon", (1.0, 2.0, 4.0), (0.9, 0.7, 0.5), (0.6, 0.7, 0.9), (True, True, True), 2.0)
    found = in_metric(curve, measured=0.7, most=0.5)
    np.testing.assert_allclose(found.loss, (0.9, 0.7, 0.3))
    np.testing.assert_allclose(found.accuracy, (0.55, 0.65, 0.85))
