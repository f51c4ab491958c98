"""What leaves a client is whole numbers within 2^53, stamped; nothing else passes, no error shows one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.uploads import LIMIT, Grid, Noise, Upload, releasable


@given(st.floats(1e-200, 1e200))
def test_the_finest_grid_has_room_and_a_finer_one_may_not(largest):
    grid = Grid.finest(largest)
    assert LIMIT / 2 <= largest / grid.spacing <= LIMIT
    assert np.log2(grid.spacing) == grid.exponent


def test_an_upload_is_the_mean_of_its_steps():
    upload = Upload(np.array([3, -5, 0]), Grid(-1), 4, "grid-csprng")
    np.testing.assert_array_equal(upload.values, [0.375, -0.625, 0.0])


@pytest.mark.parametrize("steps", [LIMIT, -LIMIT, 0])
def test_steps_up_to_the_limit_are_released_exactly(steps):
    upload = Upload(np.array([steps]), Grid(0), 1, "simulation")
    assert int(upload.values[0]) == steps


@pytest.mark.parametrize("steps", [LIMIT + 1, -LIMIT - 1, 2**63 - 1, -(2**63)])
def test_steps_beyond_the_limit_are_not_released_and_not_shown(steps):
    """-2^63 has no absolute value in int64, so that a check by abs would let it pass."""
    with pytest.raises(InvalidInput, match=r"within \+-2\^53 steps.*nothing was released") as caught:
        releasable(np.array([0, steps]))
    assert str(abs(steps)) not in str(caught.value)


@pytest.mark.parametrize(
    "steps",
    [np.array([1.0, np.nan]), np.array([1.0]), [1, 2], np.array([1], np.int32), np.array([[1]]), 3, None],
)
def test_anything_but_int64_steps_is_refused(steps):
    for use in (releasable, DeployedNoise("gaussian", 4.0).added_to):
        with pytest.raises(InvalidInput, match="must be a list of int64 steps"):
            use(steps)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Grid(2000), "grid exponent must be between -1000 and 1000, got 2000"),
        (lambda: Grid(0.5), "grid exponent must be a whole number, got 0.5"),  # type: ignore[arg-type]
        (lambda: Grid.finest(np.nan), "largest must be a number, got NaN"),
        (lambda: Upload(np.array([1]), Grid(0), 0, "simulation"), "divisor must be finite and above 0"),
        (lambda: Upload(np.array([1]), Grid(0), 1, "trusted"), "assurance must be one of"),  # type: ignore[arg-type]
    ],
)
def test_bad_grids_and_stamps_are_refused_by_name(make, says):
    with pytest.raises(InvalidInput, match=says):
        make()


def test_deployed_noise_keeps_the_protocol_says_its_stamp_and_never_repeats():
    noise, nothing = DeployedNoise("gaussian", 8.0), np.zeros(50, np.int64)
    assert isinstance(noise, Noise)
    assert noise.assurance == "grid-csprng"
    assert np.any(noise.added_to(nothing) != noise.added_to(nothing))
