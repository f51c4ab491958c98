"""Clipping that ends on a grid bounds every record exactly: in fractions, on records that try to escape."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.uploads import Grid

CLIP, GRID = 0.3, Grid(-20)
ADVERSARIAL = st.one_of(
    st.floats(-10, 10),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(
        [0.3, np.nextafter(0.3, 1), 1e-310, 1e154, 1.4e154, 1e308, -1e308, 2.0**-21, np.nan, np.inf]
    ),
    st.floats(-5, 5, width=32),
)
GRADIENTS = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=ADVERSARIAL)


def within(steps: np.ndarray, norm: str, bound: Fraction) -> bool:
    """|steps| in exact arithmetic against a bound in steps."""
    whole = [int(step) for step in steps]
    if norm == "l1":
        return sum(map(abs, whole)) <= bound
    return sum(step * step for step in whole) <= bound * bound


def clipped_alone(gradient: np.ndarray, clip_norm: float, norm: str, grid: Grid) -> np.ndarray:
    return clipped_sum(gradient[None], clip_norm, norm, grid)


def clip_steps(factor: int = 1) -> Fraction:
    return factor * Fraction(CLIP) / Fraction(GRID.spacing)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(gradients=GRADIENTS)
@example(gradients=np.full((1, 6), np.nextafter(0.3, 1)))
@example(gradients=np.array([[1e200, 1.0], [np.nan, 1.0], [-np.inf, 0.0]]))
def test_every_record_contributes_at_most_the_clip_exactly(norm, gradients):
    for gradient in gradients:
        assert within(clipped_alone(gradient, CLIP, norm, GRID), norm, clip_steps())


@pytest.mark.parametrize("norm", ["l1", "l2"])
@settings(max_examples=300)
@given(
    gradient=arrays(np.float64, st.integers(1, 5), elements=st.floats(allow_nan=True, allow_infinity=True)),
    size=st.floats(1e-290, 1e290),
    room=st.floats(1.0, 2.0**52),
)
@example(gradient=np.array([1.7e308]), size=1.5e-16, room=2.0**40)
@example(gradient=np.array([5.6e307]), size=2.5e-16, room=2.0**40)
@example(gradient=np.array([1e308, 1e308, -1e308]), size=1.0, room=2.0**52)
@example(gradient=np.array([5e-324, -5e-324]), size=1e-290, room=2.0**40)
@example(gradient=np.array([5e-324, 1.7976931348623157e308]), size=1e290, room=1.0)
def test_the_clip_holds_for_every_float64_at_every_clip_and_grid(norm, gradient, size, room):
    """A factor C / |g| below 1e-308 has few bits; rounded up it let a record count 1.77 times its clip."""
    grid = Grid(max(math.frexp(size / room)[1] - 1, -1000))
    steps = clipped_alone(gradient, size, norm, grid)
    assert within(steps, norm, Fraction(size) / Fraction(2) ** grid.exponent)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("value", [3e-200, 0.3, 1e154, 1e200, 1.7e308])
def test_a_gradient_beyond_the_clip_keeps_its_direction_whatever_its_size(norm, value):
    """Finite numbers are clipped, also those whose squares or sums no float64 holds."""
    steps = clipped_alone(np.array([value, -value, 0.0, value]), CLIP, norm, Grid(-30))
    each = min(value, CLIP / (3 if norm == "l1" else 3**0.5)) * 2.0**30
    np.testing.assert_allclose(steps, each * np.array([1, -1, 0, 1]), atol=1)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("value", [1e308, 1e-3, 5e-324])
def test_the_clip_holds_in_a_million_dimensions(norm, value):
    steps = clipped_alone(np.full(1_000_000, value), 1.0, norm, Grid(-50))
    assert within(steps, norm, Fraction(2**50))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(gradients=GRADIENTS, data=st.data())
def test_exchanging_a_record_moves_the_sum_by_at_most_twice_the_clip(norm, gradients, data):
    other = gradients.copy()
    row = data.draw(st.integers(0, len(gradients) - 1))
    other[row] = data.draw(arrays(np.float64, gradients.shape[1], elements=ADVERSARIAL))
    sums = [clipped_sum(rows, CLIP, norm, GRID) for rows in (gradients, other)]
    assert within(sums[0] - sums[1], norm, clip_steps(2))
    without = clipped_sum(np.delete(gradients, row, axis=0), CLIP, norm, GRID) if len(gradients) > 1 else 0
    assert within(sums[0] - without, norm, clip_steps())


def test_a_float_sum_of_clipped_records_moves_by_more_than_the_clip_allows():
    """Why quantising comes before summing: how the *other* records round changes when one does."""
    others = np.random.default_rng(0).uniform(0, 1, size=(20, 1000)).astype(np.float32)
    moved, exact = [], []
    for row in others:
        pair = [np.concatenate([np.float32([first]), row]) for first in (1.0, -1.0)]
        floats = [float(np.cumsum(records)[-1]) for records in pair]
        steps = [clipped_sum(records[:, None], 1.0, "l2", Grid(-30))[0] for records in pair]
        moved.append(floats[0] - floats[1])
        exact.append(int(steps[0] - steps[1]))
    assert max(moved) > 2.0
    assert max(exact) <= 2 * 2**30


@given(gradients=GRADIENTS)
def test_sums_of_parts_add_up_exactly(gradients):
    whole = clipped_sum(gradients, CLIP, "l2", GRID)
    parts = [clipped_sum(row, CLIP, "l2", GRID) for row in gradients]
    np.testing.assert_array_equal(whole, np.sum(parts, axis=0))


@given(arrays(np.float64, 5, elements=st.floats(-0.1, 0.1)))
def test_what_needs_no_clip_is_truncated_towards_zero(gradient):
    steps = clipped_alone(gradient, CLIP, "l2", GRID)
    lost = np.abs(gradient) - np.abs(steps) * GRID.spacing
    assert np.all(lost >= 0)
    assert np.all(lost < GRID.spacing)
    assert np.all(steps * gradient >= 0)


def test_a_long_gradient_keeps_its_direction_and_almost_its_length():
    gradient = np.random.default_rng(0).normal(size=20_000)
    steps = clipped_alone(gradient, CLIP, "l2", Grid(-40)).astype(float)
    assert np.linalg.norm(steps) * 2.0**-40 == pytest.approx(CLIP, rel=1e-7)
    cosine = steps @ gradient / np.linalg.norm(steps) / np.linalg.norm(gradient)
    assert cosine == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_counts_as_zero_and_harms_no_other(bad):
    good = np.array([0.1, -0.2])
    np.testing.assert_array_equal(
        clipped_sum([good, [bad, 1.0]], CLIP, "l2", GRID), clipped_alone(good, CLIP, "l2", GRID)
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: clipped_sum([[1.0]], np.nan, "l2", GRID), "clip_norm must be a number, got NaN"),
        (lambda: clipped_sum([[1.0]], 0.0, "l2", GRID), "clip_norm must be finite and above 0, got 0"),
        (lambda: clipped_sum([[1.0]], 0.3, "linf", GRID), "norm must be one of 'l1', 'l2', got 'linf'"),
        (lambda: clipped_sum([[1.0]], 0.3, "l2", Grid(0)), "at least one step of the grid, 1, got 0.3"),
        (lambda: clipped_sum(np.zeros((9, 1)), 1.0, "l2", Grid(-50)), "9 records .* more than 2\\^53"),
    ],
)
def test_bad_clips_and_grids_are_refused_by_name(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


# Mutants: each is what one might write instead, and the exact check above sees it ------------------------


def rounds_to_nearest(gradient, norm):
    size = np.linalg.norm(gradient, ord=1 if norm == "l1" else 2)
    return np.rint(gradient * min(1.0, CLIP / size) / GRID.spacing).astype(np.int64)


def clips_in_float32(gradient, norm):
    single = np.float32(gradient)
    size = np.float32(np.linalg.norm(single, ord=1 if norm == "l1" else 2))
    return np.trunc(single * np.float32(CLIP / size) / np.float32(2.0**-40)).astype(np.int64)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_rounding_to_nearest_is_seen_to_exceed_the_clip(norm):
    gradients = np.random.default_rng(1).normal(size=(50, 40))
    assert not all(within(rounds_to_nearest(g, norm), norm, clip_steps()) for g in gradients)
    assert all(within(clipped_alone(g, CLIP, norm, GRID), norm, clip_steps()) for g in gradients)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_float32_clip_is_seen_to_exceed_the_clip(norm):
    fine, bound = Grid(-40), Fraction(CLIP) * 2**40
    gradients = np.random.default_rng(2).normal(size=(50, 40))
    assert not all(within(clips_in_float32(g, norm), norm, bound) for g in gradients)
    assert all(within(clipped_alone(g, CLIP, norm, fine), norm, bound) for g in gradients)
