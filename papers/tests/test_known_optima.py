"""Least squares with known constants: each constant is recomputed from the records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy_papers.known_optima import least_squares

GOOD = {
    "clients": 4,
    "records_per_client": 30,
    "dimension": 5,
    "smoothness": 3.0,
    "strong_convexity": 0.2,
    "heterogeneity": 0.7,
    "residual": 0.5,
    "seed": 1,
}


def loss(x, y, theta):
    return np.mean((x @ theta - y) ** 2) / 2


def minimiser(x, y):
    return np.linalg.lstsq(x, y, rcond=None)[0]


@hypothesis_settings(max_examples=25)
@given(
    st.integers(2, 6),
    st.integers(2, 6),
    st.floats(0, 10),
    st.floats(0, 3),
    st.floats(0.05, 1),
    st.integers(0, 999),
)
def test_all_constants_are_those_of_the_records(clients, dimension, gamma, residual, mu, seed):
    known = least_squares(
        clients=clients, records_per_client=3 * dimension, dimension=dimension, smoothness=2.0,
        strong_convexity=mu, heterogeneity=gamma, residual=residual, seed=seed,
    )  # fmt: skip
    xs, ys = known.federation.x.astype(float), known.federation.y.astype(float)
    for x, y, theta in zip(xs, ys, known.client_optima, strict=True):
        np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x / len(x))[[0, -1]], [mu, 2.0], rtol=1e-4)
        np.testing.assert_allclose(minimiser(x, y), theta, atol=1e-4)
    x, y = xs.reshape(-1, dimension), ys.ravel()
    np.testing.assert_allclose(minimiser(x, y), known.optimum, atol=1e-4)
    own = np.mean([loss(x, y, minimiser(x, y)) for x, y in zip(xs, ys, strict=True)])
    assert loss(x, y, known.optimum) == pytest.approx(known.optimal_loss, rel=1e-4, abs=1e-6)
    assert known.optimal_loss - own == pytest.approx(known.heterogeneity, rel=1e-4, abs=1e-5)


def test_the_seed_decides_everything():
    first, again, other = (least_squares(**GOOD | {"seed": s}).federation.x for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": 1}, "heterogeneity must be 0 with one client"),
        ({"clients": 0}, "clients must be at least 1"),
        ({"records_per_client": 5}, "records_per_client must be at least 6, got 5; take more records"),
        ({"strong_convexity": 4.0}, "strong_convexity must be at most the smoothness 3, got 4"),
        ({"strong_convexity": 0.0}, "strong_convexity must be finite and above 0"),
        ({"smoothness": float("inf")}, "smoothness must be finite"),
        ({"heterogeneity": -1.0}, "heterogeneity must be finite and at least 0"),
        ({"residual": float("nan")}, "residual must be a number, got NaN"),
    ],
)
def test_impossible_constants_are_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        least_squares(**GOOD | change)
