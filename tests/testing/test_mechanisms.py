"""Simulated and deployed noise, and clips on a grid, keep what the suites ask; broken ones fail by name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.noise import ASSURANCE, simulated_noise
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.uploads import Assurance, Grid, releasable
from noiseworthy.testing import ClipConformance, NoiseConformance
from noiseworthy.testing.mechanisms import p_values

UPLOADS = count()


@dataclass(frozen=True)
class SimulatedNoise:
    """Noise of the simulation, rounded to whole steps: sound but for its stamp, and what mutants break."""

    family: Family
    scale: float
    key: jax.Array
    assurance: Assurance = ASSURANCE

    def added_to(self, total):
        drawn = simulated_noise(self.key, self.family, jnp.ones(()), releasable(total).size)
        return releasable(total + np.rint(self.scale * np.asarray(drawn, np.float64)).astype(np.int64))


SPACING = Grid(-20)


class TestDeployedGaussianNoise(NoiseConformance):
    def noise(self, scale):
        return DeployedNoise("gaussian", scale)


class TestDeployedLaplaceNoise(NoiseConformance):
    family = "laplace"

    def noise(self, scale):
        return DeployedNoise("laplace", scale)


class TestSimulatedGaussianNoise(NoiseConformance):
    def noise(self, scale):
        return SimulatedNoise("gaussian", scale, jax.random.key(next(UPLOADS)))


class TestSimulatedLaplaceNoise(NoiseConformance):
    family = "laplace"

    def noise(self, scale):
        return SimulatedNoise("laplace", scale, jax.random.key(next(UPLOADS)))


class TestL2ClipOnAGrid(ClipConformance):
    clip = Fraction(0.3) * 2**20

    def total(self, rows):
        return clipped_sum(rows, 0.3, self.norm, SPACING)


class TestL1ClipOnAGrid(TestL2ClipOnAGrid):
    norm = "l1"


# Mutants -------------------------------------------------------------------------------------------------


class Noise:
    """Sound but for what a mutant changes."""

    assurance: ClassVar[Any] = "simulation"
    factor: ClassVar[float] = 1.0

    def __init__(self, scale):
        self.sound = SimulatedNoise("gaussian", scale * self.factor, jax.random.key(next(UPLOADS)))

    def added_to(self, total):
        return self.sound.added_to(total)


class Unstamped(Noise):
    assurance = "trust me"


class TooQuiet(Noise):
    factor = 0.97


class OfAnotherLaw(Noise):
    def __init__(self, scale):
        self.sound = SimulatedNoise("laplace", scale / np.sqrt(2), jax.random.key(next(UPLOADS)))


class Repeated(Noise):
    def __init__(self, scale):
        self.sound = SimulatedNoise("gaussian", scale, jax.random.key(0))


class RoundsTheTotal(Noise):
    def added_to(self, total):
        return self.sound.added_to(total.astype(np.float32).astype(np.int64))


class TakesFloats(Noise):
    def added_to(self, total):
        return self.sound.added_to(np.nan_to_num(np.asarray(total)).astype(np.int64))


class Seeded(Noise):
    assurance = "grid-csprng"

    def __init__(self, scale, seed=0):
        super().__init__(scale)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Unstamped, "test_it_is_stamped"),
        (TooQuiet, "test_it_has_the_planned_law"),
        (OfAnotherLaw, "test_it_has_the_planned_law"),
        (Repeated, "test_uploads_share_no_noise"),
        (RoundsTheTotal, "test_it_is_added_and_the_total_survives"),
        (TakesFloats, "test_it_refuses_what_is_not_on_the_grid"),
        (Seeded, "test_it_takes_no_seed_unless_it_is_a_simulation"),
    ],
)
def test_broken_noise_fails_its_check(kind, check):
    class Broken(NoiseConformance):
        def noise(self, scale):
            return kind(scale)

    with pytest.raises(AssertionError):
        getattr(Broken(), check)()


def to_nearest(rows):
    size = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return np.rint(np.where(np.isfinite(size), rows, 0) * np.minimum(1, 0.3 / size) * 2.0**20)


def sums_floats(rows):
    return np.rint(np.sum(to_nearest(rows) / 3, axis=0) * 3)


def forgets_the_clip(rows):
    return np.clip(np.nan_to_num(rows), -1e9, 1e9) * 2.0**20


def lets_nan_spoil(rows):
    return clipped_sum(rows, 0.3, "l2", SPACING) * bool(np.all(np.isfinite(rows)))


@pytest.mark.parametrize(
    ("total", "check"),
    [
        (lambda rows: to_nearest(rows).sum(axis=0), "test_each_record_counts_at_most_the_clip"),
        (
            lambda rows: forgets_the_clip(rows).sum(axis=0),
            "test_exchanging_a_record_moves_the_sum_by_at_most_twice_the_clip",
        ),
        (lets_nan_spoil, "test_a_record_that_is_not_finite_harms_no_other"),
        (lambda rows: np.trunc(rows.sum(axis=0) * 2.0**20), "test_sums_of_parts_add_up"),
    ],
)
def test_a_broken_clip_fails_its_check(total, check):
    class Broken(ClipConformance):
        clip = Fraction(0.3) * 2**20

        def total(self, rows):
            with np.errstate(all="ignore"):
                return total(np.asarray(rows, float)).astype(np.int64)

    with pytest.raises(AssertionError):
        getattr(Broken(), check)()


@pytest.mark.parametrize(
    ("suite", "mutants"),
    [
        (NoiseConformance, test_broken_noise_fails_its_check),
        (ClipConformance, test_a_broken_clip_fails_its_check),
    ],
)
def test_every_check_has_a_mutant(suite, mutants):
    (mark,) = mutants.pytestmark
    checks = {name for name, _ in inspect.getmembers(suite) if name.startswith("test_")}
    assert {check for _, check in mark.args[1]} == checks


def test_the_statistics_accuse_sound_samples_as_often_as_they_say():
    """At level 0.05 on 200 samples: at most the 1e-5 quantile of the binomial law of alarms."""
    generator = np.random.default_rng(11)
    found = [p_values(generator.normal(size=10_000), "gaussian") for _ in range(200)]
    for name in found[0]:
        alarms = sum(values[name] < 0.05 for values in found)
        assert alarms <= 26, name
        assert alarms >= (1 if name != "tails" else 0), name
