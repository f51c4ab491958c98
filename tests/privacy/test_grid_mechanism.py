"""From a plan's release to an upload that is sent: never less noise than planned, never more change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate
from noiseworthy.privacy.deployed_noise import STEPS, grid_surcharge
from noiseworthy.privacy.grid_mechanism import GridMechanism, as_drawn
from noiseworthy.privacy.mechanisms import Gaussian, Laplace, NoNoise
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_clipped_whole, of_mean_gradient
from noiseworthy.privacy.uploads import LIMIT


class NoNoiseAtAll:
    """A probe: what the mechanism sums, as it is before noise."""

    assurance = "simulation"

    def added_to(self, total):
        return total


def planned(size: float, family: str = "gaussian", clip: float = 2.0, records: int = 50) -> Release:
    kind, norm = (Gaussian, "l2") if family == "gaussian" else (Laplace, "l1")
    return Release(kind(np.array([size])), of_mean_gradient(clip, [records], norm))


def planned_whole(size: float, clip: float = 2.0, relation: str = "replace-one") -> Release:
    return Release(Gaussian(np.array([size])), of_clipped_whole(clip, 1, "l2", relation))


def exact_sum(mechanism: GridMechanism, gradients) -> np.ndarray:
    silent = GridMechanism(
        mechanism.clip_norm, mechanism.norm, mechanism.records, mechanism.grid, NoNoiseAtAll()
    )
    return silent.upload(gradients).values


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@given(size=st.floats(1e-4, 1e6), records=st.integers(1, 10_000), ratio=st.floats(1e-3, 5e5))
def test_the_noise_is_at_least_what_was_planned_on_a_grid_with_room(family, size, records, ratio):
    clip = ratio * size
    mechanism = GridMechanism.of(planned(size, family, clip, records), 0, clip, records)
    drawn = mechanism.noise.scale * mechanism.grid.spacing / records  # type: ignore[union-attr]
    assert size * (1 + 9.5e-7) <= drawn <= size * (1 + 9.6e-7)
    assert mechanism.noise.scale >= STEPS  # type: ignore[union-attr]
    assert records * clip / mechanism.grid.spacing + 64 * mechanism.noise.scale <= LIMIT  # type: ignore[union-attr]


def test_the_cost_by_opendps_map_is_that_of_the_plan():
    """rho = mu^2/2 of what one record can change on the grid, 2C over the spacing."""
    release = planned(0.25)
    mechanism = GridMechanism.of(release, 0, 2.0, 50)
    change = 2 * mechanism.clip_norm / mechanism.grid.spacing
    rho = mechanism.noise._measurement.map(change)  # type: ignore[attr-defined]
    assert rho == pytest.approx(float(as_drawn(release).shift[0]) ** 2 / 2, rel=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 12.0])
def test_a_planned_training_that_is_deployed_stays_within_its_budget(family, epsilon):
    """A million parameters, 500 uploads: the millionth of noise beyond the plan pays the grid surcharge."""
    budget = PrivacyBudget.of(epsilon, 1e-6, 1)
    norm = "l2" if family == "gaussian" else "l1"
    release = calibrate(family, of_mean_gradient(1.0, [600], norm), budget, 500)
    noise = GridMechanism.of(release, 0, 1.0, 600).noise
    left = 1e-6 - grid_surcharge(noise, epsilon, 500, 1_000_000)  # type: ignore[arg-type]
    assert 0 < left < 1e-6
    drawn, asked = (float(spent_epsilon(one, 500, left)[0]) for one in (as_drawn(release), release))
    assert epsilon * (1 - 1e-3) <= drawn <= epsilon
    assert drawn < asked


def test_the_upload_is_the_mean_of_the_clipped_gradients():
    gradients = np.random.default_rng(0).normal(size=(50, 8))
    mechanism = GridMechanism.of(planned(0.25), 0, 2.0, 50)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    mean = (gradients * np.minimum(1, 2.0 / norms)).mean(axis=0)
    np.testing.assert_allclose(exact_sum(mechanism, gradients), mean, rtol=1e-7, atol=1e-9)


def test_the_noise_of_an_upload_has_the_planned_size():
    """8,000 coordinates: 6 standard errors, a false alarm in 5 * 10^8 runs; half the noise is 50 away."""
    mechanism = GridMechanism.of(planned(0.25), 0, 2.0, 50)
    upload = mechanism.upload(np.zeros((50, 8000)))
    assert upload.assurance == "grid-csprng"
    assert np.var(upload.values) == pytest.approx(0.25**2, rel=6 * np.sqrt(2 / 8000))


def test_a_client_that_protects_itself_clips_its_update_as_a_whole():
    mechanism = GridMechanism.of(planned_whole(0.5), 0, 2.0, records=77)
    np.testing.assert_allclose(exact_sum(mechanism, [3.0, 4.0]), [1.2, 1.6], rtol=1e-8)
    with pytest.raises(InvalidInput, match="at most 1 rows are covered, got 2"):
        mechanism.upload(np.zeros((2, 4)))


def test_clip_and_noise_grow_together_with_the_step_sizes_of_a_round():
    one, other = (GridMechanism.of(planned_whole(0.5), 0, 2.0, 1, scale) for scale in (1.0, 0.125))
    assert other.clip_norm == one.clip_norm / 8
    assert other.grid.exponent == one.grid.exponent - 3
    assert other.noise == one.noise


def test_more_records_than_were_accounted_for_are_refused():
    mechanism = GridMechanism.of(planned(0.25), 0, 2.0, 50)
    with pytest.raises(InvalidInput, match="at most 50 rows are covered, got 51; nothing was released"):
        mechanism.upload(np.zeros((51, 4)))


@pytest.mark.parametrize(
    ("release", "clip", "records"),
    [
        (planned(0.25), 2.1, 50),
        (planned(0.25), 2.0, 49),
        (planned_whole(0.25), 2.1, 1),
        (planned_whole(0.25, relation="add-remove"), 2.1, 1),
    ],
    ids=["larger clip", "fewer records", "larger clip of the update", "larger clip, add-remove"],
)
def test_a_release_accounted_for_less_is_refused(release, clip, records):
    with pytest.raises(UnsoundClaim, match=r"is accounted for .*plan with the clip and the records"):
        GridMechanism.of(release, 0, clip, records)


def test_poisson_batches_no_noise_and_clips_beyond_the_grid_are_refused():
    sampled = Release(Gaussian(np.ones(1)), of_mean_gradient(1.0, [10], "l2", "add-remove", 0.5), 0.5)
    with pytest.raises(UnsoundClaim, match="deployed noise is for full batches"):
        GridMechanism.of(sampled, 0, 1.0, 10)
    silent = Release(NoNoise(1), of_mean_gradient(1.0, [10], "l2"))
    with pytest.raises(InvalidInput, match="noise must be finite and above 0, got 0; plan with gaussian"):
        GridMechanism.of(silent, 0, 1.0, 10)
    with pytest.raises(
        InvalidInput, match=r"may reach 2e.07 times the noise, and a grid has room for 1.05e.06"
    ):
        GridMechanism.of(planned(1e-7), 0, 2.0, 50)
