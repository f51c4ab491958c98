"""Losses of tokens, masks and margins against plain NumPy, and the qualities beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax

from noiseworthy.tasks.structured_losses import LOSSES

TOKENS, DICE, HINGE = LOSSES["tokens"], LOSSES["dice"], LOSSES["hinge"]
OUTPUT = st.floats(-50, 50, width=32)
LABEL = st.integers(0, 1)


def test_the_loss_of_tokens_is_the_mean_cross_entropy_over_positions():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(7, 5)), rng.integers(0, 5, 7)
    expected = -log_softmax(z, axis=1)[np.arange(7), y].mean()
    assert float(TOKENS.value(jnp.asarray(z, jnp.float32), jnp.asarray(y))) == pytest.approx(expected, 1e-5)


def test_the_quality_of_tokens_is_the_share_of_right_ones():
    z = jax.nn.one_hot(jnp.array([[0, 1, 2], [2, 2, 2]]), 3)
    assert float(TOKENS.quality(z, jnp.array([[0, 1, 1], [2, 0, 0]]))) == pytest.approx(0.5)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_the_soft_dice_loss_is_that_of_numpy_and_lies_between_0_and_1(seed, share):
    rng = np.random.default_rng(seed)
    z, y = 5 * rng.normal(size=(2, 3, 4)).astype(np.float32), rng.random((2, 3, 4)) < share
    p = expit(z.astype(np.float64))
    expected = 1 - (2 * p[y].sum() + 1) / (p.sum() + y.sum() + 1)
    value = float(DICE.value(jnp.asarray(z), jnp.asarray(y, jnp.int32)))
    assert value == pytest.approx(expected, abs=1e-6)
    assert 0 <= value < 1


def test_an_empty_mask_asks_for_an_empty_prediction():
    """Without the voxel of agreement the loss would be 1 whatever is predicted, with gradient 0."""
    gradient = jax.grad(DICE.value)(jnp.zeros((2, 2, 2)), jnp.zeros((2, 2, 2), jnp.int32))
    assert np.all(np.asarray(gradient) > 0)
    assert float(DICE.value(jnp.full((2, 2, 2), -30.0), jnp.zeros((2, 2, 2)))) == pytest.approx(0, abs=1e-6)


def test_the_dice_coefficient_is_a_mean_over_records():
    """Overlaps 2 of 3 and 1 voxels, none of 4, and two empty masks: 2/(3 + 1) at 1, 0, 1."""
    y = jnp.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    z = jnp.array([[3.0, 2.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 0.0, -1.0]])
    space = (3, 2, 2, 1)
    assert float(DICE.quality(z.reshape(space), y.reshape(space))) == pytest.approx((0.5 + 0 + 1) / 3)


def test_an_output_that_is_no_number_is_a_wrong_answer():
    """It scored as the first class, as no tumour, and as an empty mask: half of these were right."""
    y, nan = jnp.array([0, 1]), jnp.full((2, 3), jnp.nan)
    one_of_three = jnp.array([[1.0, 0.0, jnp.nan], [0.0, 1.0, -1.0]])
    assert [float(LOSSES["softmax"].quality(z, y)) for z in (nan, one_of_three)] == [0.0, 0.5]
    assert float(TOKENS.quality(nan[None], y[None])) == 0.0
    for name in ("logistic", "hinge"):
        assert float(LOSSES[name].quality(nan[:, :1], y)) == 0.0
    assert float(DICE.quality(nan, jnp.zeros((2, 3)))) == 0.0
    assert float(DICE.quality(nan, jnp.ones((2, 3)))) == 0.0


@jax.jit
def hinge(z, y):
    return HINGE.value(z, y)


@jax.jit
def hinge_slope(z, y):
    return jax.grad(HINGE.value)(z, y)


def textbook_hinge(z, y):
    """Rennie & Srebro (2005), piece by piece in float64; with the derivative in z."""
    sign = 1.0 if y == 1 else -1.0
    margin = sign * z
    if margin >= 1:
        return 0.0, 0.0
    if margin > 0:
        return (1 - margin) ** 2 / 2, -sign * (1 - margin)
    return 0.5 - margin, -sign


@given(z=OUTPUT, y=LABEL)
def test_the_hinge_and_its_slope_are_the_textbooks(z, y):
    value, slope = textbook_hinge(z, y)
    assert float(hinge(jnp.float32(z), jnp.asarray(y))) == pytest.approx(value, rel=1e-6, abs=1e-7)
    assert float(hinge_slope(jnp.float32(z), jnp.asarray(y))) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_the_hinge_is_smooth_where_its_pieces_meet(margin, y):
    """A tie of the pieces must not split their slopes: half of -1 would be wrong at margin 0."""
    z = jnp.float32(margin if y else -margin)
    assert float(hinge_slope(z, jnp.asarray(y))) == pytest.approx(textbook_hinge(float(z), y)[1], abs=0)


@given(z=st.floats(-3, 3), y=LABEL)
def test_the_slope_of_the_hinge_is_its_finite_difference(z, y):
    ahead, behind = (float(hinge(jnp.float32(z + s), jnp.asarray(y))) for s in (0.01, -0.01))
    slope = float(hinge_slope(jnp.float32(z), jnp.asarray(y)))
    assert slope == pytest.approx((ahead - behind) / 0.02, abs=0.006)  # step/2 at a kink, and rounding


@given(one=OUTPUT, two=OUTPUT, weight=st.floats(0, 1), y=LABEL)
def test_the_hinge_is_convex_with_slopes_up_to_one_that_move_no_faster_than_z(one, two, weight, y):
    label = jnp.asarray(y)
    between = weight * one + (1 - weight) * two
    chord = weight * float(hinge(one, label)) + (1 - weight) * float(hinge(two, label))
    assert float(hinge(between, label)) <= chord + 1e-5
    first, second = float(hinge_slope(one, label)), float(hinge_slope(two, label))
    assert max(abs(first), abs(second)) <= 1
    assert (first - second) * (one - two) >= 0
    assert abs(first - second) <= abs(one - two) + 1e-6


@given(z=OUTPUT, y=LABEL)
def test_the_hinge_lies_at_most_a_half_below_that_of_the_usual_machine(z, y):
    kinked = max(0.0, 1 - (z if y else -z))
    assert -1e-5 <= kinked - float(hinge(z, jnp.asarray(y))) <= 0.5 + 1e-5


def test_outputs_of_any_size_have_finite_slopes():
    ends = jnp.array([-3e38, 3e38, -jnp.inf, jnp.inf])
    np.testing.assert_array_equal(jax.vmap(hinge_slope)(ends, jnp.ones(4, jnp.int32)), [-1, 0, -1, 0])
