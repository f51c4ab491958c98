"""Noised quantiles: epsilon bounds what any neighbour changes, for both relations, with nothing to spare."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_privacy_parameters

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.privacy.quantiles import private_quantile, quantile_law

GRID = np.arange(4.0)
SETS = [np.array(one) for n in range(6) for one in combinations_with_replacement(GRID, n)]
EPSILON = 0.8


def neighbours(relation):
    """All pairs of small data sets, a missing number being none at all, that differ in one record."""
    for one in SETS:
        for other in SETS:
            counts = [np.bincount(each.astype(int), minlength=4) for each in (one, other)]
            changed = counts[1] - counts[0]
            came, went = np.maximum(changed, 0).sum(), np.maximum(-changed, 0).sum()
            if (came, went) in {(1, 0), (0, 1)} or (relation == "replace-one" and (came, went) == (1, 1)):
                yield one, other


def largest_loss(relation, level, epsilon):
    """The greatest logarithm of a ratio of probabilities over all neighbours and answers."""
    law = {one.tobytes(): np.log(quantile_law(one, level, GRID, epsilon, relation)) for one in SETS}
    return max(np.max(law[one.tobytes()] - law[other.tobytes()]) for one, other in neighbours(relation))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.99])
def test_no_neighbour_changes_an_answer_by_more_than_epsilon(relation, level):
    assert largest_loss(relation, level, EPSILON) <= EPSILON * (1 + 1e-12)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("level", [0.3, 0.5])
def test_half_the_noise_would_show_a_record(relation, level):
    """What the test before must notice; far from the middle this takes more records than can be listed."""
    assert largest_loss(relation, level, 2 * EPSILON) > EPSILON


def test_without_a_number_every_answer_is_equally_likely():
    assert quantile_law(np.array([]), 0.5, GRID, 1.0).tolist() == [0.25] * 4


def test_answers_of_many_records_are_their_quantiles():
    values = np.random.default_rng(0).normal(size=20_000)
    grid = np.linspace(-10, 10, 2**12 + 1)
    answers = [private_quantile(values, q, grid, 0.5, np.random.default_rng(1)) for q in (0.05, 0.95)]
    assert answers == pytest.approx(np.quantile(values, [0.05, 0.95]), abs=0.05)


def test_answers_are_drawn_by_their_law():
    values, generator = np.array([0.0, 1.0, 1.0, 3.0]), np.random.default_rng(2)
    drawn = [private_quantile(values, 0.5, GRID, 2.0, generator) for _ in range(4000)]
    shares = np.bincount(np.array(drawn, int), minlength=4) / 4000
    assert shares == pytest.approx(quantile_law(values, 0.5, GRID, 2.0), abs=0.03)


@pytest.mark.parametrize("mu", [0.02, 0.3, 2.0])
def test_the_pure_epsilon_of_a_price_in_mu_costs_no_more_than_gaussian_noise_of_it(mu):
    """Beside the worst of all epsilon-private releases, Gaussian noise for the rest stays in the whole mu."""
    whole, epsilon = 2 * mu, float(MU_SQUARED.analysis.pure(np.array(mu)))
    rest = np.sqrt(whole**2 - mu**2)
    grid = 1e-4
    worst = from_privacy_parameters(
        DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=grid
    )
    both = worst.compose(from_gaussian_mechanism(1 / rest, value_discretization_interval=grid))
    gaussian = from_gaussian_mechanism(1 / whole, value_discretization_interval=grid)
    for at in (0.0, whole, 3 * whole):
        assert both.get_delta_for_epsilon(at) <= gaussian.get_delta_for_epsilon(at) * 1.001 + 1e-9
    more = from_privacy_parameters(
        DifferentialPrivacyParameters(1.1 * epsilon, 0), value_discretization_interval=grid
    )
    alone = from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    assert more.get_delta_for_epsilon(0.0) > alone.get_delta_for_epsilon(0.0)


@pytest.mark.parametrize("wrong", [{"level": 0.0}, {"level": 1.0}, {"epsilon": 0.0}, {"relation": "both"}])
def test_what_is_no_quantile_or_no_budget_is_refused(wrong):
    keys = {"level": 0.5, "epsilon": 1.0, "relation": "replace-one"} | wrong
    with pytest.raises(InvalidInput):
        quantile_law(GRID, keys["level"], GRID, keys["epsilon"], keys["relation"])
