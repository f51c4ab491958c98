"""What a stated schedule costs: by hand, by the definition, and refused where it makes no sense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.studies.account import account

COMMON = {"noise": 0.1, "clip_norm": 300.0, "sizes": [6000, 3000], "releases": 4}


def spent(**arguments):
    answer = account(**arguments)
    return [client["spent_epsilon"] for client in answer["privacy"]["clients"]]


def gaussian_epsilon(mu, delta):
    """From the definition: delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

    Source: docs/theory/accounting.md#gaussian-mechanism.
    """

    def excess(eps):
        return norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu) - delta

    return brentq(excess, 0, 200)


def test_laplace_costs_k_times_sensitivity_over_scale():
    """k 2C/(n scale) = 4 * 600/6000 / 0.1, and twice that with half the records."""
    assert spent(mechanism="laplace", **COMMON) == pytest.approx([4.0, 8.0], rel=1e-12)
    assert spent(mechanism="laplace", relation="add-remove", **COMMON) == pytest.approx([2.0, 4.0])


@given(st.floats(0.3, 4.0), st.integers(1, 60), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_gaussian_costs_what_the_definition_says(ratio, releases, delta):
    size = 2 * 10.0 / 500
    (ours,) = spent(
        mechanism="gaussian", noise=size * ratio * np.sqrt(releases), clip_norm=10.0, sizes=[500],
        releases=releases, delta=delta,
    )  # fmt: skip
    assert ours == pytest.approx(gaussian_epsilon(1 / ratio, delta), rel=1e-6)


def test_rounds_and_cohorts_stand_for_the_uploads_of_the_busiest_client():
    answer = account(
        mechanism="laplace", noise=0.1, clip_norm=1.0, sizes=[100] * 10, rounds=22, clients_per_round=1
    )
    assert answer["releases"] == [3] * 10


def test_clients_are_accounted_one_by_one():
    ours = spent(mechanism="laplace", noise=[0.1, 0.2], clip_norm=1.0, sizes=[100, 50], releases=[3, 6])
    assert ours == pytest.approx([3 * 0.02 / 0.1, 6 * 0.04 / 0.2])
    mixed = spent(mechanism="gaussian", noise=0.1, clip_norm=1.0, sizes=[100, 100], releases=3,
                  delta=[1e-3, 1e-6])  # fmt: skip
    assert mixed[0] < mixed[1]


def test_a_delta_makes_many_laplace_uploads_cheaper():
    few = {"mechanism": "laplace", "noise": 0.2, "clip_norm": 1.0, "sizes": [100], "releases": 100}
    (pure,), (relaxed,) = spent(**few), spent(**few, delta=1e-5)
    assert pure == pytest.approx(10.0)
    assert 0.3 * pure < relaxed < 0.6 * pure


def test_no_upload_costs_nothing():
    assert spent(mechanism="laplace", noise=0.1, clip_norm=1.0, sizes=[5, 5], releases=0) == [0.0, 0.0]


def test_the_answer_names_unit_relation_and_adversary():
    privacy = account(mechanism="laplace", **COMMON)["privacy"]
    assert privacy["unit"] == "record"
    assert privacy["relation"] == "replace-one"
    assert "every upload" in privacy["adversary"]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"mechanism": "cauchy"}, InvalidInput, "mechanism must be one of 'laplace', 'gaussian', got"),
        ({"noise": 0.0}, InvalidInput, "noise must be finite and above 0, got 0"),
        ({"noise": np.nan}, InvalidInput, "noise must be a number, got NaN"),
        ({"noise": [0.1, 0.1, 0.1]}, InvalidInput, "noise must be one number or a list of 2"),
        ({"clip_norm": [1.0, 2.0]}, InvalidInput, "clip_norm must be one number, the same for all clients"),
        ({"sampling_rate": [1, 1]}, InvalidInput, "sampling_rate must be one number, the same for all"),
        ({"clip_norm": 0.0}, InvalidInput, "clip_norm must be finite and above 0, got 0"),
        ({"sizes": [0, 5]}, InvalidInput, "sizes must be whole numbers of at least 1, got 0 for client 0"),
        ({"releases": -1}, InvalidInput, "releases must be whole numbers of at least 0, got -1"),
        ({"releases": 1.5}, InvalidInput, "releases must be whole numbers of at least 0, got 1.5"),
        ({"releases": [1, 2, 3]}, InvalidInput, "releases must be one number or a list of 2"),
        ({"releases": None}, InvalidInput, "rounds must be a whole number, got None; state the uploads"),
        ({"delta": 1.0}, InvalidInput, r"delta must lie in \[0, 1\), got 1"),
        ({"delta": -0.1}, InvalidInput, r"delta must lie in \[0, 1\), got -0.1"),
        ({"mechanism": "gaussian"}, InvalidInput, r"delta must lie in \(0, 1\), got 0"),
        ({"relation": "friends"}, InvalidInput, "relation must be one of 'replace-one', 'add-remove'"),
        ({"sampling_rate": 0.5}, UnsoundClaim, "accounted for Gaussian noise only, got laplace"),
        ({"sampling_rate": 0.0}, InvalidInput, "sampling_rate must be finite and above 0, got 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(change, error, says):
    with pytest.raises(error, match=says):
        account(**{"mechanism": "laplace", **COMMON, **change})


def test_a_cohort_beyond_the_federation_is_refused():
    with pytest.raises(InvalidInput, match="clients_per_round must be between 1 and 2, got 3"):
        account(mechanism="laplace", noise=1.0, clip_norm=1.0, sizes=[5, 5], rounds=3, clients_per_round=3)
