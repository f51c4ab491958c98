"""A synthetic classification problem made to public facts: shape of a record and number of classes."""

from __future__ import annotations

import math

import numpy as np

from noiseworthy.data.records import Records

MIXTURE = "mixture"
"""Its name among public data."""
_RECORDS, _TEST, _SEED = 4000, 1000, 7
_ERROR = 0.1
"""How hard the mixture is: the chance, by the union bound, that a record lies nearer to another class. Easier
mixtures plan too many rounds of too large steps."""
_LARGEST_RANK = 256


def mixture(record_shape: tuple[int, ...], classes: int) -> Records:
    """Gaussian classes around a common centre, with the falling spectrum of natural data.

        x = centre + U (m_y + w e),   m_k, e ~ N(0, diag(1/j))

    U is a random orthonormal basis of up to 256 directions, the centre a non-negative unit vector: like
    images, records share most of their mass. The spread w inside a class is such that about one record in
    ten lies nearer to another class: classes are sqrt(2 rank)/w apart in units of that spread. Always the
    same records for the same facts.

    Args:
        record_shape: shape of one record.
        classes: number of classes K.

    Example:
        >>> mixture((8, 8), 10).x.shape
        (3000, 8, 8)
    """
    rng = np.random.default_rng(_SEED)
    features = math.prod(record_shape)
    rank = min(features, _LARGEST_RANK)
    spread = np.arange(1, rank + 1) ** -0.5
    spread /= np.sqrt(np.sum(1 / np.arange(1, features + 1)))
    basis = np.linalg.qr(rng.normal(size=(features, rank)))[0]
    from scipy.special import ndtri  # here, because it is slow to load

    apart = -2 * ndtri(_ERROR / (classes - 1))
    within = np.sqrt(2 * rank) / apart
    means = rng.normal(size=(classes, rank)) * spread
    labels = rng.integers(0, classes, _RECORDS).astype(np.int32)
    inside = means[labels] + within * rng.normal(size=(_RECORDS, rank)) * spread
    centre = np.abs(rng.normal(size=features))
    records = (centre / np.linalg.norm(centre) + inside @ basis.T).astype(np.float32)
    records, split = records.reshape(_RECORDS, *record_shape), _RECORDS - _TEST
    return Records(records[:split], labels[:split], records[split:], labels[split:], classes, MIXTURE)
