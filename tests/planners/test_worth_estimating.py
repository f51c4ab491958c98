"""The worth of estimating: J of both ways against a plain twin, known limits, and its privacy price."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import worth_estimating
from noiseworthy.methods.dpfl_bcs.bound import kappa, noise_constant
from noiseworthy.methods.dpfl_bcs.search import ParticipationCosts, greedy
from noiseworthy.methods.dpfl_bcs.worth_estimating import Estimation, Worth, break_even, loss_noise, worth
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.mechanisms import Family

T, K, CAP = 60, 5, 2.3
CONSTANTS = {
    name: Constant(value, "assumed") for name, value in {"smoothness": 1.0, "strong_convexity": 0.1}.items()
}


def federation(family: Family = "gaussian", *, p=50, clients=25, epsilon=None, **changed) -> Problem:
    eps = np.linspace(0.3, 3, clients) if epsilon is None else epsilon
    delta = 1e-5 if family == "gaussian" else 0.0
    budget = PrivacyBudget.of(eps, delta, clients)
    return Problem(np.full(clients, 600), p, budget, family, 1.0, **changed)


def asked(problem, spend, spread, **changed):
    return worth(problem, CONSTANTS, spend, rounds=T, clients_per_round=K, spread=spread, **changed)


# A plain twin -----------------------------------------------------------------------------------------


def plain_world(problem, spend, truth, guess) -> tuple[float, float, float]:
    """J of one stage, of two stages and with knowledge, term by term.

    Source: docs/theory/ma.md#planner.
    """
    n, z = problem.n_clients, 2 if problem.family == "laplace" else 1
    phi = problem.upload_variance / noise_constant(problem)
    weight = kappa(problem, CONSTANTS, T, K)

    def planned(noise, gamma, rounds):
        costs = ParticipationCosts(noise, weight * (gamma - gamma.min()), z, np.full(n, rounds))
        return greedy(costs, K * rounds).tolist()

    def cost(noise, counts):
        return sum(
            noise[i] * counts[i] ** (z + 1) + weight * counts[i] * (truth[i] - truth.min()) for i in range(n)
        )

    same = np.zeros(n)
    one, first = planned(phi, same, T), planned(phi, same, spend.rounds)
    left = [1 - spend.share if count else 1.0 for count in first]
    later = phi / np.array(left) ** z
    second = planned(later, guess, T - spend.rounds)
    early = phi / (spend.share * (1 - spend.loss_share)) ** z
    return cost(phi, one), cost(early, first) + cost(later, second), cost(phi, planned(phi, truth, T))


@pytest.mark.full
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("spread", [0.05, 0.6])
def test_the_costs_of_every_world_are_those_of_a_plain_twin(family, spread, monkeypatch):
    """The worlds' truths and guesses are overheard where they are drawn and estimated."""
    truths, guesses = [], []
    drawn, estimate = worth_estimating._between_clients, worth_estimating.estimated

    def overheard_truth(*args):
        truths.append(drawn(*args))
        return truths[-1]

    def overheard_guess(*args):
        found = estimate(*args)
        guesses.append(found.value)
        return found

    monkeypatch.setattr(worth_estimating, "_between_clients", overheard_truth)
    monkeypatch.setattr(worth_estimating, "estimated", overheard_guess)
    problem, spend = federation(family), Estimation(6, CAP, 0.15, 0.3)
    found = asked(problem, spend, spread)
    plain = np.array([plain_world(problem, spend, *pair) for pair in zip(truths, guesses, strict=True)])
    assert found.worlds == len(plain) == 32
    assert (found.one_stage, found.two_stages, found.knowing) == pytest.approx(tuple(plain.mean(axis=0)))
    gains = plain[:, 0] - plain[:, 1]
    assert found.standard_error == pytest.approx(gains.std(ddof=1) / np.sqrt(32))
    assert found.gain == pytest.approx(gains.mean())


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_reports_carry_the_noise_that_their_share_of_the_budget_pays_for(family, monkeypatch):
    """Unit variance of 32 x 30 scaled errors to 5 sigma (kurtosis 6 under Laplace noise)."""
    heard, truths = [], []
    drawn, estimate = worth_estimating._between_clients, worth_estimating.estimated
    monkeypatch.setattr(
        worth_estimating, "_between_clients", lambda *args: truths.append(drawn(*args)) or truths[-1]
    )
    monkeypatch.setattr(
        worth_estimating, "estimated", lambda reports, n: heard.append(reports) or estimate(reports, n)
    )
    problem, spend = federation(family), Estimation(6, CAP, 0.15, 0.3)
    asked(problem, spend, 0.2)
    counts = np.bincount(heard[0].clients, minlength=25)
    assert counts.sum() == 6 * K
    expected = loss_noise(problem, counts, CAP, 0.15 * 0.3)
    assert all(one.noise_std == pytest.approx(expected) for one in heard)
    errors = np.concatenate(
        [
            (one.before - truth[one.clients]) / one.noise_std[one.clients]
            for one, truth in zip(heard, truths, strict=True)
        ]
    )
    kurtosis = 6 if family == "laplace" else 3
    assert errors.var() == pytest.approx(1, abs=5 * np.sqrt((kurtosis - 1) / errors.size))


def test_breaking_even_is_no_gain():
    assert not Worth(1.0, 1.0, 0.5, 0.1, 64).pays


# What is known without computing ----------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_split_that_follows_the_rounds_costs_nothing_but_the_losses(family):
    """Equal clients, asked 12 times: 2 of them in a first stage with a sixth of rounds and budget. All the
    price is that of the losses, which take a part b of the first stage: 1/(1 - b)^z of its noise. (10^7
    parameters: noise is all that counts, and what the losses say moves nobody.)"""
    problem, b = federation(family, p=10**7, clients=25, epsilon=1.0), 0.2
    spend = Estimation(10, CAP, 1 / 6, b)
    found = asked(problem, spend, 1e-6)
    z = 2 if family == "laplace" else 1
    price = (1 / 6) * ((1 - b) ** -z - 1)
    assert found.two_stages / found.one_stage == pytest.approx(1 + price, rel=1e-4)


def test_alike_clients_are_not_worth_a_question_and_odd_ones_are():
    problem, spend = federation(epsilon=1.0), Estimation.usual(T, 6, CAP)
    little, much = asked(problem, spend, 1e-3), asked(problem, spend, 0.5)
    assert not little.pays
    assert little.gain < 0
    assert much.pays
    assert much.gain > 10 * much.standard_error


@pytest.mark.full
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("spread", [0.01, 0.2, 1.0, 1.14])
def test_no_estimate_beats_knowing(family, spread):
    found = asked(federation(family), Estimation.usual(T, 6, CAP), spread)
    assert found.knowing <= min(found.one_stage, found.two_stages) * (1 + 1e-12)


@pytest.mark.full
def test_what_is_worth_knowing_grows_with_the_spread():
    problem, spend = federation(), Estimation.usual(T, 6, CAP)
    gains = [asked(problem, spend, spread).gain for spread in np.geomspace(0.05, 1.1, 5)]
    assert np.all(np.diff(gains) > 0)


@pytest.mark.full
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_estimating_changes_sides_at_the_break_even_spread(family, monkeypatch):
    monkeypatch.setattr(worth_estimating, "_WORLDS", 8)
    problem, spend = federation(family), Estimation.usual(T, 6, CAP)
    spread = break_even(problem, CONSTANTS, spend, rounds=T, clients_per_round=K)
    assert spread is not None
    assert asked(problem, spend, 0.97 * spread).gain < 0 < asked(problem, spend, 1.03 * spread).gain


def test_where_noise_is_all_that_counts_no_spread_pays():
    problem = federation(p=10**7)
    spend = Estimation.usual(T, 6, CAP)
    assert break_even(problem, CONSTANTS, spend, rounds=T, clients_per_round=K) is None


def test_without_noise_the_least_spread_pays(monkeypatch):
    """Reports are exact and replies cost nothing: only whom to ask counts."""
    monkeypatch.setattr(worth_estimating, "_WORLDS", 8)
    problem, spend = federation("none"), Estimation.usual(T, 6, CAP)
    assert asked(problem, spend, 0.3).pays
    spread = break_even(problem, CONSTANTS, spend, rounds=T, clients_per_round=K)
    assert spread == pytest.approx(1e-4 * CAP)


def test_louder_losses_are_worth_less():
    problem, spend = federation(), Estimation.usual(T, 6, CAP)
    wide = replace(spend, loss_cap=20 * CAP)
    assert loss_noise(problem, np.full(25, 2), 20 * CAP, 0.01) == pytest.approx(
        20 * loss_noise(problem, np.full(25, 2), CAP, 0.01)
    )
    assert asked(problem, wide, 0.2).two_stages > asked(problem, spend, 0.2).two_stages


def test_resources_that_end_early_hold_in_both_stages():
    """Everybody can reply 12 times at most: K T replies are all there are, so nothing is left to choose."""
    problem = federation(epsilon=1.0, resources=Resources.of(1.0, 0.0, 12.0, 25))
    found = asked(problem, Estimation.usual(T, 6, CAP), 0.5)
    assert found.one_stage == pytest.approx(found.knowing)
    assert not found.pays


# The worlds -------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0, 1.149])
def test_worlds_have_the_spread_that_was_vouched_for(spread):
    """Mean and deviation of 200,000 draws: 5 sigma of either is below 2 %."""
    values = worth_estimating._between_clients(np.random.default_rng(1), spread, CAP, 200_000)
    assert values.mean() == pytest.approx(spread, rel=2e-2)
    assert values.std() == pytest.approx(spread, rel=2e-2)
    assert values.min() >= 0
    assert values.max() <= CAP


def test_the_answer_is_a_function_of_what_is_asked():
    problem, spend = federation(), Estimation.usual(T, 6, CAP)
    assert asked(problem, spend, 0.2) == asked(problem, spend, 0.2)


# The price of the losses ------------------------------------------------------------------------------


def test_two_gaussian_losses_per_report_spend_their_share_of_mu_squared():
    problem, reports = federation(), np.arange(1, 26)
    std = loss_noise(problem, reports, CAP, 0.005)
    spent = 2 * reports * (CAP / problem.sizes / std) ** 2
    assert spent == pytest.approx(0.005 * gaussian_mu(problem.budget.epsilon, problem.budget.delta) ** 2)


def test_two_laplace_losses_per_report_spend_their_share_of_epsilon():
    problem, reports = federation("laplace"), np.arange(1, 26)
    scale = loss_noise(problem, reports, CAP, 0.005) / np.sqrt(2)
    assert 2 * reports * CAP / problem.sizes / scale == pytest.approx(0.005 * problem.budget.epsilon)


def test_who_does_not_report_has_no_finite_noise():
    assert np.isinf(loss_noise(federation(clients=2), np.array([0, 1]), CAP, 0.1)).tolist() == [True, False]


@pytest.mark.slow
def test_a_hundred_clients_of_the_paper_take_a_second():
    problem = federation(clients=100, epsilon=np.random.default_rng(2).uniform(0.1, 3, 100), p=7850)
    started = time.process_time()
    worth(problem, CONSTANTS, Estimation.usual(200, 10, CAP), rounds=200, clients_per_round=20, spread=0.1)
    assert time.process_time() - started < 1.5


def test_many_clients_take_fewer_worlds():
    problem = federation(clients=400)
    found = worth(problem, CONSTANTS, Estimation.usual(T, 6, CAP), rounds=T, clients_per_round=80, spread=0.1)
    assert found.worlds == 8


# Bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, -1.0, CAP / 2, np.nan])
def test_spreads_that_cannot_be(spread):
    with pytest.raises(InvalidInput, match=f"heterogeneity_spread must lie between .*, got {spread:g};"):
        asked(federation(), Estimation.usual(T, 6, CAP), spread)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0, CAP, 0.1), "estimation_rounds must be at least 1"),
        ((6, 0.0, 0.1), "loss_cap must be finite and above 0"),
        ((6, CAP, 1.0), "share must lie in"),
        ((6, CAP, 0.1, 0.0), "loss_share must lie in"),
    ],
)
def test_estimations_that_cannot_be(values, said):
    with pytest.raises(InvalidInput, match=said):
        Estimation(*values)


def test_a_first_stage_leaves_a_second_and_constants_are_needed():
    with pytest.raises(InvalidInput, match="estimation_rounds must be between 1 and 59"):
        asked(federation(), Estimation(T, CAP, 0.5), 0.1)
    with pytest.raises(InvalidInput, match="estimation_rounds must be between 1 and 59"):
        Estimation.usual(T, T, CAP)
    with pytest.raises(InvalidInput, match="smoothness and strong_convexity"):
        worth(federation(), {}, Estimation.usual(T, 6, CAP), rounds=T, clients_per_round=K, spread=0.1)
