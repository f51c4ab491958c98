"""Why simulated uploads carry a stamp: one float32 coordinate tells neighbours apart; deployed ones do not.

The attacker knows the noise size and the two gradients that one coordinate may have, g = 0 or g = C, and sees
the upload. Under either it lists every upload that can come about, because float32 normals take at most 2^23
values. An upload that only one of them can make proves which it was: no epsilon bounds that.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfinv

from noiseworthy.privacy.deployed_noise import STEPS, DeployedNoise
from noiseworthy.privacy.noise import simulated_noise

CLIP, SIZE = 1.0, 40.0
"""Noise of 40 clips: by its law, one upload costs less than epsilon 0.12 at delta 1e-5."""


def every_normal() -> np.ndarray:
    """All values that `jax.random.normal` takes in float32, from its 2^23 uniforms in (-1, 1)."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    mantissas = np.arange(2**23, dtype=np.uint32) | np.uint32(0x3F800000)
    floats = mantissas.view(np.float32) - np.float32(1)
    uniform = np.maximum(low, floats * (np.float32(1) - low) + low)
    return np.asarray(np.sqrt(np.float32(2)) * jax.lax.erf_inv(jnp.asarray(uniform)))


@pytest.fixture(scope="module")
def possible() -> dict[float, np.ndarray]:
    """Uploads that can come about under each gradient, sorted."""
    noise = np.float32(SIZE) * every_normal()
    return {g: np.unique(np.float32(g) + noise) for g in (0.0, CLIP)}


def uploads(gradient: float, count: int) -> np.ndarray:
    noise = simulated_noise(jax.random.key(7), "gaussian", jnp.float32(SIZE), count)
    return np.asarray(jnp.float32(gradient) + noise)


def among(values: np.ndarray, sorted_values: np.ndarray) -> np.ndarray:
    place = np.searchsorted(sorted_values, values).clip(max=len(sorted_values) - 1)
    return sorted_values[place] == values


def test_the_attacker_lists_every_value_that_the_generator_makes(possible):
    """Else the attack below would prove nothing."""
    for gradient, values in possible.items():
        assert among(uploads(gradient, 200_000), values).all()
    assert np.abs(every_normal()).max() == pytest.approx(np.sqrt(2) * erfinv(1 - 2.0**-24), rel=0.01)


def test_one_simulated_coordinate_tells_neighbours_apart_nine_times_in_ten(possible):
    """Seeded; over seeds the share of 100,000 uploads is 0.88 with a standard error of 0.001."""
    impossible = ~among(uploads(0.0, 100_000), possible[CLIP])
    assert impossible.mean() == pytest.approx(0.88, abs=0.01)


def test_no_deployed_coordinate_is_possible_under_one_gradient_only():
    """Uploads are whole steps, and so are the gradients: every step is possible under both.

    The same attack, at a grid so coarse that all its values are seen: none is of one side alone.
    """
    noise, clip = DeployedNoise("gaussian", 40.0), 1
    seen = [np.unique(noise.added_to(np.full(40_000, g))) for g in (0, clip)]
    common = np.arange(-100, 101)  # each has 40,000 P(k) > 17: one missing is an event of e^-17
    assert all(np.isin(common, values).all() for values in seen)


def test_deployed_uploads_are_as_likely_under_both_as_their_law_says():
    """Likelihood ratios of one upload are those of N(0, 1) shifted by 1/40, and never infinite."""
    upload = DeployedNoise("gaussian", STEPS).added_to(np.zeros(2_000, np.int64))
    shift = STEPS / SIZE
    ratio = (2.0 * upload * shift - shift**2) / (2 * STEPS**2)
    assert np.abs(ratio).max() < 0.12 * 2
