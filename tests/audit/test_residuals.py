"""Tests of noise accept noise as planned as often as they say, and find what is wrong with other noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from noiseworthy.audit.residuals import _at_distances, _by_client, replay_test, scale_test

RUNS, ROUNDS, ASKED, CLIENTS, WIDTH = 2, 12, 4, 6, 60
ALARM = 1e-6
LAWS = {"gaussian": "normal", "laplace": "laplace"}


def noise(generator, law="gaussian", width=WIDTH):
    drawn = getattr(generator, LAWS[law])(size=(RUNS, ROUNDS, ASKED, width))
    return drawn, np.sort(np.argsort(generator.random((ROUNDS, CLIENTS)), axis=1)[:, :ASKED], axis=1)


@pytest.mark.parametrize("law", LAWS)
def test_noise_as_planned_is_accused_as_rarely_as_stated(law):
    generator, runs, level = np.random.default_rng(0), 300, 0.05
    drawn = [noise(generator, law) for _ in range(runs)]
    for found in (
        [scale_test(*one, law).p_value for one in drawn],
        [replay_test(*one).p_value for one in drawn],
    ):
        assert np.sum(np.array(found) < level) <= binom.isf(ALARM, runs, level)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 1.5])
def test_noise_of_another_size_is_found(law, factor):
    residuals, clients = noise(np.random.default_rng(1), law)
    found = scale_test(factor * residuals, clients, law)
    assert found.p_value < ALARM
    assert found.ratio == pytest.approx(factor, rel=0.03)


def test_one_client_with_too_little_noise_is_named():
    residuals, clients = noise(np.random.default_rng(2))
    residuals[:, clients == 3] *= 0.8
    found = scale_test(residuals, clients, "gaussian")
    assert found.p_value < ALARM
    assert found.where == "client 3"
    assert found.worst == pytest.approx(0.8, rel=0.05)


def test_one_round_with_too_little_noise_is_named():
    residuals, clients = noise(np.random.default_rng(3))
    residuals[:, 7] *= 0.7
    assert scale_test(residuals, clients, "gaussian").where == "round 7"


def test_another_law_of_the_same_size_is_found():
    residuals, clients = noise(np.random.default_rng(4), "laplace", 400)
    found = scale_test(residuals / 2**0.5, clients, "gaussian")
    assert found.ratio == pytest.approx(1, rel=0.02)
    assert found.p_value < ALARM


def again(residuals, how):
    """Noise that comes twice in one way or another."""
    copy = residuals.copy()
    if how == "rounds after a break":
        copy[:, 6:] = copy[:, :6]
    elif how == "the same in both runs":
        copy[1] = copy[0]
    elif how == "clients of a round":
        copy[:, :, 1] = copy[:, :, 0]
    elif how == "negated":
        copy[1] = -copy[0]
    elif how == "a tenth of the coordinates":
        copy[:, 6:, :, ::10] = copy[:, :6, :, ::10]
    else:
        copy[1, 9, 2] = copy[0, 1, 0]
    return copy


@pytest.mark.parametrize(
    "how",
    ["rounds after a break", "the same in both runs", "clients of a round", "negated", "a single upload",
     "a tenth of the coordinates"],
)  # fmt: skip
def test_noise_that_comes_twice_is_found(how):
    residuals, clients = noise(np.random.default_rng(5), width=200)
    found = replay_test(again(residuals, how), clients)
    assert found.p_value < ALARM
    assert (found.repeated > 0) == (how not in ("negated", "a tenth of the coordinates"))


def test_products_at_a_distance_are_those_of_a_plain_loop():
    generator = np.random.default_rng(6)
    signs = np.where(generator.random((3, 11, 5)) < 0.5, -1.0, 1.0)
    held = np.ones((3, 11))
    held[1, 7:] = held[2, 4:] = 0.0
    sums, pairs = _at_distances(signs * held[..., None], held)
    for lag in range(1, 11):
        plain = [
            signs[c, k] @ signs[c, k + lag] for c in range(3) for k in range(11 - lag) if held[c, k + lag]
        ]
        assert sums[lag - 1] == sum(plain)
        assert pairs[lag - 1] == 5 * len(plain)


def test_uploads_of_a_client_follow_each_other_through_all_runs():
    clients = np.array([[0, 1], [1, 2], [0, 2]])
    number = np.arange(12.0).reshape(2, 3, 2, 1)
    own, held = _by_client(number, clients)
    assert own[..., 0].tolist() == [[0, 4, 6, 10], [1, 2, 7, 8], [3, 5, 9, 11]]
    assert held.all()


def test_a_single_upload_has_nothing_to_repeat():
    assert replay_test(np.ones((1, 1, 1, 5)), np.zeros((1, 1), int)).p_value == 1.0
