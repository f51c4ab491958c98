"""Synthetic volumes to segment, where real scans are not at hand: for tests and measurements of speed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import count, non_negative
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.errors import InvalidInput


def synthetic_volumes(
    volumes: int, shape: tuple[int, int, int] = (48, 60, 48), *, contrast: float = 1.0, seed: int
) -> Records:
    """Synthetic: one bright ellipsoid in white noise per volume, with its mask; not data about anybody.

        x = contrast * mask + e,   e ~ N(0, 1) per voxel,   then standardised per volume

    The mask is the set of voxels with sum_j ((v_j - c_j) / r_j)^2 <= 1. Centre and half-axes are uniform:
    c_j in [0.4, 0.6] and r_j in [0.2, 0.35] of the length of the axis, so the ellipsoid fills 3 to 18 % of
    the volume. A fixed random fifth of the volumes is the test set.

    Args:
        volumes: how many in all, at least 3.
        shape: voxels along each axis (D, H, W), at least 4 each.
        contrast: brightness of the ellipsoid in deviations of the noise; 0 leaves nothing to see.
        seed: of the ellipsoids and the noise.

    Returns:
        Records with x (n, D, H, W) float32, y of the same shape in {0, 1}, without owners.

    Raises:
        InvalidInput: a value outside its range.

    Example:
        >>> records = synthetic_volumes(10, (8, 10, 8), seed=0)
        >>> records.x.shape, records.test_y.shape, records.classes
        ((8, 8, 10, 8), (2, 8, 10, 8), 2)
    """
    count("volumes", volumes, least=3, remedy="a fifth of them is the test set")
    if len(shape) != 3:
        raise InvalidInput(f"shape must have three axes, got {shape}")
    for side in shape:
        count("each side of shape", side, least=4)
    rng = np.random.default_rng(count("seed", seed, least=0))
    masks = np.stack([_ellipsoid(shape, rng) for _ in range(volumes)])
    x = rng.standard_normal(masks.shape, np.float32)
    x += np.float32(non_negative("contrast", contrast)) * masks
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    x /= x.std(axis=(1, 2, 3), keepdims=True)
    is_test = holdout(np.zeros(volumes))
    return split_records(x, masks.astype(np.int32), is_test, classes=2, name="synthetic volumes")


def _ellipsoid(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    sides = np.array(shape)
    centre, radii = rng.uniform(0.4, 0.6, 3) * sides, rng.uniform(0.2, 0.35, 3) * sides
    voxels = np.moveaxis(np.indices(shape), 0, -1) + 0.5
    return np.sum(((voxels - centre) / radii) ** 2, axis=-1) <= 1
