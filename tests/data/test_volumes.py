"""Synthetic volumes: one ellipsoid each, as bright as stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from noiseworthy.data import synthetic_volumes
from noiseworthy.errors import InvalidInput

SHAPE = (16, 20, 12)


def masks(records):
    return np.concatenate([records.y, records.test_y])


def test_each_mask_is_one_convex_body_of_the_stated_share():
    for mask in masks(synthetic_volumes(40, SHAPE, seed=0)):
        assert ndimage.label(mask)[1] == 1
        assert 0.02 < mask.mean() < 0.2
        for axis in range(3):  # convex: every line meets it in one run
            assert np.abs(np.diff(mask, axis=axis, prepend=0, append=0)).sum(axis=axis).max() <= 2
        assert not np.any(mask[[0, -1]])


def test_each_mask_is_an_ellipsoid_with_half_axes_in_the_stated_range():
    shape = (40, 50, 60)
    for mask in masks(synthetic_volumes(40, shape, seed=0)):
        sides = np.array([np.ptp(places) + 1 for places in np.nonzero(mask)])
        assert np.all((0.4 * np.array(shape) - 2 < sides) & (sides < 0.7 * np.array(shape) + 1))
        assert mask.sum() == pytest.approx(
            np.pi / 6 * np.prod(sides + 0.5), rel=0.12
        )  # up to a voxel per side


def test_inside_differs_from_outside_by_the_contrast_in_deviations_of_the_noise():
    # 30 volumes of 3,840 voxels: the mean difference has a standard error near 0.01; false alarm below 1e-6
    records = synthetic_volumes(30, SHAPE, contrast=2.0, seed=1)
    inside = [x[y == 1].mean() - x[y == 0].mean() for x, y in zip(records.x, records.y, strict=True)]
    noise = [x[y == 0].std() for x, y in zip(records.x, records.y, strict=True)]
    assert np.mean(np.divide(inside, noise)) == pytest.approx(2.0, abs=0.06)


def test_volumes_are_standardised_one_by_one():
    records = synthetic_volumes(5, SHAPE, contrast=3.0, seed=0)
    np.testing.assert_allclose(records.x.mean(axis=(1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(records.x.std(axis=(1, 2, 3)), 1, atol=1e-5)


def test_the_seed_decides_everything():
    first, again, other = (synthetic_volumes(4, SHAPE, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)
    assert not np.array_equal(first.y, other.y)


def test_shapes_types_and_the_fixed_fifth():
    records = synthetic_volumes(10, SHAPE, seed=0)
    assert (records.x.shape, records.test_x.shape) == ((8, *SHAPE), (2, *SHAPE))
    assert (records.x.dtype, records.y.dtype, records.label_shape) == (np.float32, np.int32, SHAPE)
    assert (records.classes, "synthetic" in records.name) == (2, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"volumes": 2}, "volumes must be at least 3, got 2; a fifth of them"),
        ({"shape": (8, 8)}, "three axes"),
        ({"shape": (8, 8, 3)}, "each side of shape must be at least 4, got 3"),
        ({"contrast": -1.0}, "contrast must be finite and at least 0"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_values_out_of_range_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        synthetic_volumes(**{"volumes": 4, "shape": SHAPE, "seed": 0} | settings)
