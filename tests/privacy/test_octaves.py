"""Counts of octaves: what one record can change in them, and what noised ones tell of the size of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.privacy.budget import RELATIONS
from noiseworthy.privacy.octaves import OCTAVES, octave_counts, of_octave_counts, told
from noiseworthy.privacy.sensitivity import NORMS

DRAW = np.random.default_rng(0)
EXTREMES = np.array([0.0, -0.0, 1e-30, 2.0**-OCTAVES, 0.5, np.nextafter(0.5, 1), 1.0, -1.0, 7.0, 1e30])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_changes_counts_by_more_than_their_sensitivity(norm, relation):
    others = DRAW.exponential(0.1, 50)
    order = 1 if norm == "l1" else 2
    furthest = 0.0
    for own in EXTREMES:
        counted = octave_counts(np.append(others, own), 1.0)
        for other in EXTREMES:
            beside = others if relation == "add-remove" else np.append(others, other)
            moved = np.linalg.norm(counted - octave_counts(beside, 1.0), order)
            furthest = max(furthest, float(moved))
    assert furthest == pytest.approx(of_octave_counts(norm, relation))


@pytest.mark.parametrize("size", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("shape", ["bell", "skewed", "mostly none"])
def test_counts_without_noise_tell_the_size_within_a_factor(size, shape):
    drawn = {
        "bell": DRAW.normal(size=5000),
        "skewed": DRAW.exponential(size=5000),
        "mostly none": DRAW.exponential(size=5000) * (DRAW.random(5000) < 0.3),
    }[shape]
    numbers = np.clip(size * drawn / np.sqrt(np.mean(drawn**2)), -1, 1)
    counts = octave_counts(numbers, 1.0)
    found = told(counts / counts.sum(), 0.0)
    assert counts.sum() == 5000
    assert found.size == pytest.approx(np.sqrt(np.mean(numbers**2)), rel=0.75)
    assert found.shares.sum() == pytest.approx(1)
    assert np.abs(found.shares - counts / counts.sum()).sum() / 2 < 0.25


def test_much_noise_tells_that_numbers_are_neither_near_their_bound_nor_nowhere():
    """Whatever the noise says, the size stays where it is plausible before anything is known."""
    found = [told(DRAW.normal(0, 5.0, OCTAVES), 5.0).size for _ in range(20)]
    assert np.max(found) < 0.5
    assert np.min(found) > 2.0**-OCTAVES
