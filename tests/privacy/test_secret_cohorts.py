"""Clients that a trusted server asks in secret: epsilon by a count of its own, and what is not amplified."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.dp_fedavg.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy import accountants
from noiseworthy.privacy.accountants import _of_few
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_delta
from noiseworthy.privacy.trust import Trust

DELTA = 1e-5
SECRET = Trust("central", cohorts="secret")
STEP = 2e-4
"""Of losses, in the count of this file."""


def bracket(shift: float, rate: float, rounds: int, delta: float = DELTA) -> tuple[float, float]:
    """Epsilon at delta of so many rounds, from below and above, by convolution of rounded losses.

    The two worlds of a round differ by one client: (1 - q) N(0, 1) + q N(shift, 1) with it, N(0, 1) without.
    Losses of the one against the other are rounded to a grid, down and up, and added up by an FFT; the larger
    epsilon of the two directions is taken.
    """
    x = np.linspace(-12, 12 + shift, 150_001)
    middle = (x[1:] + x[:-1]) / 2
    without = np.diff(norm.cdf(x))
    present = (1 - rate) * without + rate * np.diff(norm.cdf(x - shift))
    loss = np.log1p(rate * np.expm1(shift * middle - shift**2 / 2))
    ends = []
    for toward in (np.floor, np.ceil):
        both = [_epsilon(toward(sign * loss / STEP), mass, rounds, delta)
                for sign, mass in ((1, present), (-1, without))]  # fmt: skip
        ends.append(max(both))
    return ends[0], ends[1]


def _epsilon(places: np.ndarray, mass: np.ndarray, rounds: int, delta: float) -> float:
    first = int(places.min())
    one = np.bincount((places - first).astype(int), mass)
    room = 1 << int(np.ceil(np.log2(len(one) * min(rounds, 40) + 1)))
    whole = np.maximum(np.fft.irfft(np.fft.rfft(one, room) ** rounds, room), 0.0)
    # losses far from their mean, where sums would wrap round, weigh nothing beside this delta
    mean = round(rounds * float(one @ np.arange(len(one))))
    whole = np.roll(whole, room // 2 - mean % room)
    losses = STEP * (np.arange(room) - room // 2 + mean + rounds * first)
    low, high = 0.0, float(losses[-1])
    for _ in range(60):
        at = (low + high) / 2
        above = losses > at
        exceeds = np.sum(whole[above] * -np.expm1(at - losses[above])) > delta
        low, high = (at, high) if exceeds else (low, at)
    return high


@cache
def plan_of(sizes=(20,) * 12, epsilon=2.0, rounds=10, asked=3, trust=SECRET) -> Plan:
    budget = PrivacyBudget.of(epsilon, DELTA, len(sizes), "add-remove", "client")
    problem = Problem(np.array(sizes), 20, budget, "gaussian", 1.5, clipping="D", trust=trust)
    return stated(problem, rounds, 1, asked, StepSize(0.1))


@pytest.mark.parametrize(("epsilon", "rounds", "asked", "clients"), [(2.0, 10, 3, 12), (0.5, 60, 2, 40)])
def test_epsilon_is_that_of_an_independent_count(epsilon, rounds, asked, clients):
    plan = plan_of((20,) * clients, epsilon, rounds, asked)
    assert plan.release is not None
    spent = plan.spent()
    np.testing.assert_allclose(spent, epsilon, rtol=1e-3)  # all alike: all is used up
    low, high = bracket(float(plan.release.shift[0]), asked / clients, rounds)
    assert high - low < 0.04 * epsilon
    assert low <= spent[0] <= high * 1.001
    renyi = RdpAccountant()
    event = dp_event.GaussianDpEvent(1 / float(plan.release.shift[0]))
    renyi.compose(dp_event.PoissonSampledDpEvent(asked / clients, event), rounds)
    assert spent[0] <= renyi.get_epsilon(DELTA)


def test_clients_of_unequal_weight_spend_what_each_is_moved_by():
    plan = plan_of(sizes=(10, 20, 40, 40, 10, 20))
    assert plan.release is not None
    shift, spent = plan.release.shift, plan.spent()
    np.testing.assert_allclose(shift / shift.max(), np.array([1, 2, 4, 4, 1, 2]) / 4)
    assert spent.max() == pytest.approx(2.0, rel=1e-3)
    for one in (0, 1):
        low, high = bracket(float(shift[one]), 0.5, 10)
        assert low <= spent[one] <= high * 1.001


def test_of_many_unequal_clients_none_is_counted_with_less_than_moves_it():
    shift = np.random.default_rng(0).uniform(0.01, 1.0, 500)
    few = _of_few(shift)
    assert np.all(few >= shift)
    assert np.all(few < 1.4 * shift)
    assert few.max() == shift.max()


def test_budgets_may_be_more_than_shifts_that_are_counted_one_by_one(monkeypatch):
    monkeypatch.setattr(accountants, "_FEW", 1)
    plan = plan_of(sizes=(20,) * 3, epsilon=(0.25, 0.5, 1.0), rounds=5, asked=1)
    np.testing.assert_allclose(plan.spent(), 0.25, rtol=1e-3)  # of a sum: the smallest binds for all
    with pytest.raises(UnsoundClaim, match="use one epsilon and delta for all"):
        plan_of(sizes=(20, 21, 40), epsilon=(0.25, 0.25, 1.0), rounds=5, asked=1)


def test_secret_cohorts_need_less_noise_than_public_ones_and_all_alike_need_the_same():
    secret, public = plan_of(), plan_of(trust=Trust("central"))
    assert secret.sum_noise is not None
    assert public.sum_noise is not None
    assert secret.sum_noise < 0.85 * public.sum_noise
    assert (secret.releases == 10).all()
    assert (public.releases == 3).all()
    everybody = plan_of(asked=12)
    assert everybody.sampling_rate == 1
    assert everybody.sum_noise == plan_of(asked=12, trust=Trust("central")).sum_noise


def test_the_noise_is_sized_for_the_expected_cohort_and_divided_among_all_clients():
    plan = plan_of()
    assert plan.release is not None
    assert plan.release.sharing is not None
    assert plan.release.sharing.survivors == 12
    each = plan.release.sharing.weights * plan.release.mechanism.size  # shares that the simulation adds up
    assert np.sqrt(np.sum(each**2)) * 12 / 3 == pytest.approx(plan.sum_noise)


def test_a_record_of_a_client_asked_in_secret_is_not_amplified():
    """Where the client's other records show that it takes part, only delta is multiplied by q, not epsilon.

    One round, a record that moves the sum by d of the noise, a client that moves it by r: the two worlds are
    (1 - q) N(0, 1) + q N(r, 1) and (1 - q) N(0, 1) + q N(r - d, 1).
    """
    q, d = 0.1, 1.0
    amplified = bracket(d, q, 1)[1]  # what a client of this shift would spend at DELTA
    x = np.linspace(-12, 40, 200_001)

    def delta(r):
        one, other = ((1 - q) * norm.pdf(x) + q * norm.pdf(x - at) for at in (r, r - d))
        return np.trapezoid(np.maximum(one - np.exp(amplified) * other, 0), x)

    assert delta(20.0) == pytest.approx(q * float(gaussian_delta(amplified, d)), rel=1e-3)
    assert delta(20.0) > 100 * DELTA


def test_what_no_proof_covers_is_refused():
    problem = plan_of().problem
    budget = problem.budget

    def refused(match, **changes):
        with pytest.raises(UnsoundClaim, match=match):
            stated(replace(problem, **changes), 10, 1, 3, StepSize(0.1))

    refused("mode D, got clipping mode C", clipping="C")
    refused("hides whole clients, got a clip that hides one record", clipping="A",
            budget=replace(budget, unit="record"))  # fmt: skip
    refused("add-remove neighbours only", budget=replace(budget, relation="replace-one"))
    refused("Gaussian noise only, got laplace", family="laplace", budget=replace(budget, delta=np.zeros(12)))
    for model in ("local", "secure-sum"):
        with pytest.raises(InvalidInput, match='cohorts = "secret" is of trust = "central" only'):
            Trust(model, cohorts="secret")
