"""Losses of tokens and masks against plain NumPy, and the qualities beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax

from noiseworthy.tasks.losses import LOSSES

TOKENS, DICE = LOSSES["tokens"], LOSSES["dice"]


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
