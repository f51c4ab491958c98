"""A clipped vector never exceeds its bound, whatever its scale, and is hardly shorter than it may be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from noiseworthy.tasks import Batch, LinearModel, clipping
from noiseworthy.tasks.clipping import clip, flushed, upper_norm, upper_norm_of_long

ORDER = {"l1": 1, "l2": 2}
NORMS = pytest.mark.parametrize("norm", ["l1", "l2"])
BOUNDS = {norm: jax.jit(lambda v, norm=norm: upper_norm(v, norm)) for norm in ORDER}
LONG_BOUNDS = {norm: jax.jit(lambda v, norm=norm: upper_norm_of_long(v, norm)) for norm in ORDER}


def exact_norm(v, norm):
    return np.linalg.norm(np.asarray(v, np.float64).ravel(), ORDER[norm])


@NORMS
@settings(max_examples=60, deadline=None)
@given(exponents=st.lists(st.integers(-100, 60), min_size=40, max_size=40))
def test_upper_norm_is_never_below_the_exact_norm_at_any_scale(norm, exponents):
    v = (1.3 * 2.0 ** np.array(exponents)).astype(np.float32)
    assert float(BOUNDS[norm](v)) >= exact_norm(v, norm)


@NORMS
@pytest.mark.parametrize("n", [784, 110_526])
def test_terms_that_each_vanish_beside_a_large_one_are_still_counted(norm, n):
    v = np.full(n, 2.9e-8 if norm == "l1" else 2.4e-4, np.float32)
    v[:: n // 3] = 1.0
    for bound in (BOUNDS[norm], LONG_BOUNDS[norm]):
        assert float(bound(v)) >= exact_norm(v, norm)


@NORMS
def test_the_bound_is_tight(norm):
    v = np.random.default_rng(0).normal(size=110_526).astype(np.float32)
    short = v[:7]
    assert float(BOUNDS[norm](short)) == pytest.approx(exact_norm(short, norm), rel=1e-6)
    assert float(LONG_BOUNDS[norm](short)) == pytest.approx(exact_norm(short, norm), rel=2e-6)
    assert float(LONG_BOUNDS[norm](v)) == pytest.approx(exact_norm(v, norm), rel=5e-5)


@NORMS
def test_the_bound_of_squares_that_underflow_is_not_zero(norm):
    assert float(BOUNDS[norm](np.full(3, 1e-25, np.float32))) >= 1.7e-25


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_whose_size_is_not_finite_become_zero(bad):
    v = jnp.array([[bad, 1.0], [3.0, 4.0]])
    np.testing.assert_allclose(clip(v, upper_norm(v, "l2"), 100.0), [[0.0, 0.0], [3.0, 4.0]])


def test_short_vectors_are_left_exactly_as_they_are():
    v = jnp.array([[0.3, -0.4], [0.0, 0.0]])
    np.testing.assert_array_equal(clip(v, upper_norm(v, "l2"), 1.0), v)


CLIPPED = {norm: jax.jit(lambda v, c, norm=norm: clip(v, upper_norm(v, norm), c)) for norm in ORDER}


@NORMS
@given(v=arrays(np.float32, 4, elements=st.floats(width=32)), bound=st.floats(2.0**-126, 2.0**127, width=32))
@example(v=np.full(4, 3.4e38, np.float32), bound=float(np.float32(1e-6)))
@example(v=np.full(4, 1e-45, np.float32), bound=2.0**-126)
def test_the_float32_clip_holds_for_every_float32_at_every_clip(norm, v, bound):
    clipped = np.asarray(CLIPPED[norm](v[None], np.float32(bound)))[0]
    assert exact_norm(clipped, norm) <= bound


@pytest.mark.parametrize(("norm", "length"), [("l2", 1e18), ("l1", 1e37)])
def test_a_subnormal_slope_times_a_long_record_stays_within_the_clip(norm, length):
    clip_norm = np.float32(1.57 * 2.0**-149 * length)  # rounded to 2 x 2^-149 before it is multiplied
    batch = Batch(jnp.array([[length]]), jnp.array([-3e-20]), jnp.ones(1))
    task = LinearModel(1, 1, "squared", bias=0.0)
    total = task.clipped_gradient_sum(jnp.zeros(1), batch, clip_norm, norm)
    assert exact_norm(np.asarray(total), norm) <= clip_norm


def test_subnormal_numbers_are_flushed_on_every_device():
    v = jnp.array([1.0, -(2.0**-126), 2.0**-127, -(2.0**-149), jnp.inf])
    np.testing.assert_array_equal(np.asarray(flushed(v)), np.array([1.0, -(2.0**-126), 0.0, 0.0, np.inf]))


def test_factors_and_what_they_multiply_are_flushed(monkeypatch):
    """A CPU flushes by itself: that a GPU is made to is seen in what goes through `flushed`."""
    seen = []
    monkeypatch.setattr(clipping, "flushed", lambda v: seen.append(v.shape) or v)
    clip(jnp.ones((3, 2)), jnp.full(3, 4.0), 1.0)
    assert seen == [(3,), (3, 2)]
