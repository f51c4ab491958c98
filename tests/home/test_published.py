"""Published ways to tune a shared model at home: each does what its paper says, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from noiseworthy.errors import InvalidInput
from noiseworthy.home.base import Own
from noiseworthy.home.candidates import (
    CANDIDATES,
    PUBLISHED,
    SHARES,
    ditto_model,
    fine_tuned_model,
    interpolated_model,
    own_model,
)
from noiseworthy.home.ridge import THOROUGH, strengths_of
from noiseworthy.tasks import make_task
from noiseworthy.tasks.linear import LinearModel

TASK = LinearModel(3, 1, "logistic")
TRUTH = np.array([2.0, -1.0, 0.5], np.float32)


def own(n: int, seed: int = 0) -> Own:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    return Own(x, (rng.random(n) < 1 / (1 + np.exp(-x @ TRUTH))).astype(np.int32))


def loss(theta, held: Own) -> float:
    margins = held.x @ np.asarray(theta, np.float64) * (2 * held.y - 1)
    return float(np.mean(np.logaddexp(0, -margins)))


def test_ditto_is_the_optimum_of_its_objective_at_one_of_its_strengths():
    """Brute force: scipy minimises loss + (lambda/2) ||theta - shared||^2 for every lambda."""
    held, shared = own(60), np.array([0.5, 0.5, 0.5], np.float32)
    found = ditto_model(TASK, shared, held, seed=0)
    scale = float(np.mean(np.sum(np.square(held.x), axis=1)))

    def optimum(strength: float) -> np.ndarray:
        return minimize(
            lambda theta: loss(theta, held) + strength / 2 * np.sum(np.square(theta - shared)),
            shared.astype(float),
        ).x

    optima = [shared, *(optimum(scale * strength) for strength in strengths_of(60))]
    assert len(optima) == THOROUGH.strengths + 1
    assert min(np.abs(found - one).max() for one in optima) < 0.02
    assert np.abs(found - shared).max() > 0.1, "sixty records say more than the shared model knows"


@pytest.mark.full
def test_interpolation_lies_on_the_line_and_goes_to_the_better_end():
    few, many = own(12, seed=3), own(2000, seed=4)
    for held, shared, most in ((few, TRUTH, 0.5), (many, -3 * TRUTH, 1.0)):
        alone = own_model(TASK, shared, held, 0)
        found = interpolated_model(TASK, shared, held, 0)
        share = float((found - shared) @ (alone - shared) / np.sum(np.square(alone - shared)))
        np.testing.assert_allclose(found, shared + share * (alone - shared), atol=1e-4)
        assert min(abs(SHARES - share)) < 1e-4
        assert (share <= most) if most < 1 else (share == pytest.approx(1.0, abs=1e-4))


def test_fine_tuning_stays_where_records_say_nothing_and_moves_where_they_do():
    rng = np.random.default_rng(5)
    noise = Own(rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 2, 40).astype(np.int32))
    far = 3 * np.ones(3, np.float32)
    assert loss(fine_tuned_model(TASK, far, noise, 0), noise) <= loss(far, noise)
    assert loss(fine_tuned_model(TASK, far, own(400), 0), own(400, seed=9)) < loss(far, own(400, seed=9))


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_way_gives_a_model_from_few_records_of_one_class(name):
    held = Own(own(3).x, np.ones(3, np.int32))
    assert np.isfinite(PUBLISHED[name](TASK, TRUTH, held, 0)).all()
    assert name not in CANDIDATES


def test_ditto_names_what_it_is_not_for():
    network = make_task("cnn", (8, 8), 3)
    with pytest.raises(InvalidInput, match="fine-tune a network"):
        ditto_model(network, np.zeros(network.dimension, np.float32), own(3), 0)
