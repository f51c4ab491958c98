"""What a claim says of tests, attacked: the likelihood ratio on the worst pair reaches it, and no more."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from noiseworthy._wording import rounded_up
from noiseworthy.audit.statistics import most_probable
from noiseworthy.errors import ConfigError
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import laplace_analysis
from noiseworthy.privacy.power import GaussianPower, after_two_moves
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.studies.claims import FALSE_ALARMS, _kinds, claim_facts, power_against
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.typed_record import view
from noiseworthy.tasks import Batch, LinearModel

RECORDS, CLIP, ROUNDS, TRIALS = 50, 1.5, 12, 200_000
STEP = StepSize(0.1)


def plan_of(family, delta, unit, relation, epsilon=2.0, sampling_rate=1.0) -> Plan:
    budget = PrivacyBudget.of(epsilon, delta, 3, relation=relation, unit=unit)
    clipping = "A" if unit == "record" else "D"
    problem = Problem(
        np.full(3, RECORDS), 4, budget, family, CLIP, clipping=clipping, sampling_rate=sampling_rate
    )
    if unit == "record":
        return queries_replies.stated(problem, ROUNDS, 3, STEP)
    return local_iterations.stated(problem, 2 * ROUNDS, 2, 3, STEP)


def log_ratios(plan: Plan, means: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of all uploads of client 0 in many trainings, under the first mean and under the second.

    One coordinate holds the whole difference, the worst case for either norm.
    """
    assert plan.release is not None
    size, draw = float(plan.release.mechanism.size[0]), np.random.default_rng(seed)
    found = []
    for mean in means:
        total = draw.uniform(-1e-6, 1e-6, TRIALS)  # a coin for ties
        for _ in range(int(plan.releases[0])):
            if plan.problem.family == "gaussian":
                y = draw.normal(mean, size, TRIALS)
                total += (np.square(y - means[0]) - np.square(y - means[1])) / (2 * size**2)
            else:
                y = draw.laplace(mean, size, TRIALS)
                total += (np.abs(y - means[0]) - np.abs(y - means[1])) / size
        found.append(total)
    return found[0], found[1]


def attacked(plan, means, power, reached=True):
    """Asserts that the test reaches `power` at each false alarm, and never exceeds it (1 in 10,000)."""
    absent, present = log_ratios(plan, means, 11)
    first, second = absent[::2], absent[1::2]
    for alarm in FALSE_ALARMS:
        level = np.quantile(first, 1 - alarm)
        alarms, hits = int(np.sum(second > level)), int(np.sum(present > level))
        most_alarms, most_hits = most_probable([alarms, hits], [len(second), TRIALS], 1e-5)
        least_alarms, least_hits = 1 - most_probable(
            [len(second) - alarms, TRIALS - hits], [len(second), TRIALS], 1e-5
        )
        assert least_hits <= power([most_alarms])[0]
        assert most_hits >= power([least_alarms])[0] or not reached


CASES = [
    (family, delta, unit, relation)
    for family, delta in [("gaussian", 1e-5), ("laplace", 0.0), ("laplace", 1e-5)]
    for unit in ("record", "client")
    for relation in ("replace-one", "add-remove")
]


@pytest.mark.parametrize(("family", "delta", "unit", "relation"), CASES)
def test_the_best_test_on_the_worst_pair_reaches_the_claimed_power_and_no_more(family, delta, unit, relation):
    plan = plan_of(family, delta, unit, relation)
    most = CLIP / RECORDS if unit == "record" else CLIP
    other = -most if relation == "replace-one" else 0.0
    power, told = power_against(plan, 0), claim_facts(plan)["told_apart"]
    assert told["power"] == power.at(FALSE_ALARMS).tolist()
    assert told["alike"]
    attacked(plan, (other, most), power.at)
    if relation == "replace-one":
        assert told["power_of_exchange"] is None
        return
    assert told["power_of_exchange"] == after_two_moves(power, FALSE_ALARMS).tolist()
    attacked(plan, (-most, most), lambda a: after_two_moves(power, a), reached=family == "gaussian")
    absent, present = log_ratios(plan, (-most, most), 5)
    hit = np.mean(present > np.quantile(absent, 0.95))
    assert hit > told["power"][1] + 0.01  # one move's number would have been false of an exchange


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_a_guess_is_right_as_often_as_claimed(family, delta):
    plan = plan_of(family, delta, "record", "replace-one")
    absent, present = log_ratios(plan, (-CLIP / RECORDS, CLIP / RECORDS), 3)
    right = (np.mean(absent < 0) + np.mean(present > 0)) / 2
    assert right == pytest.approx(claim_facts(plan)["told_apart"]["guess"], abs=4e-3)


def test_poisson_batches_have_a_claim_of_their_own_below_that_of_full_ones():
    told = claim_facts(plan_of("gaussian", 1e-5, "record", "add-remove", sampling_rate=0.2))["told_apart"]
    full = GaussianPower(float(PrivacyBudget.of(2.0, 1e-5, 1).mu[0]))
    assert 0.01 < told["power"][0] < full.at([0.01])[0] * 1.5
    assert told["power"][0] < told["power_of_exchange"][0]


def test_the_client_that_is_worst_off_is_named_and_not_taken_for_all():
    problem = Problem(np.full(3, RECORDS), 4, PrivacyBudget.of([1, 3, 2], 1e-5, 3), "gaussian", CLIP)
    told = claim_facts(queries_replies.stated(problem, ROUNDS, 3, STEP))["told_apart"]
    assert (told["client"], told["alike"]) == (1, False)
    worst = GaussianPower(float(problem.budget.mu[1]))
    assert told["power"] == pytest.approx(worst.at(FALSE_ALARMS).tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("family", "delta", "epsilon", "releases"),
    [
        ("laplace", 0.0, [2.0, 1.95, 1.95], [18, 1, 1]),
        ("laplace", [1e-5, 1e-3, 1e-5], [2.0, 1.9, 0.5], [ROUNDS] * 3),
        ("laplace", 0.0, [2.0, 1.95, 1.0], [18, 1, 40]),
    ],
)
def test_no_client_is_told_apart_better_than_is_told(family, delta, epsilon, releases):
    """Least epsilon is not least exposed: one large release tells more than 18 small ones."""
    problem = Problem(np.full(3, RECORDS), 4, PrivacyBudget.of(epsilon, delta, 3), family, CLIP)
    times = np.array(releases)
    plan = replace(
        queries_replies.stated(problem, max(releases), 3, STEP),
        releases=times,
        release=problem.release(times),
    )
    told, each = claim_facts(plan)["told_apart"], [power_against(plan, who) for who in range(3)]
    np.testing.assert_allclose(told["power"], np.max([one.at(FALSE_ALARMS) for one in each], axis=0))
    assert told["guess"] == max(one.guess for one in each) == each[told["client"]].guess
    assert told["client"] == 1  # and not client 0, whose epsilon is largest


def test_a_client_is_passed_over_only_where_another_is_told_apart_no_less():
    problem = Problem(np.full(4, RECORDS), 4, PrivacyBudget.of([2.0, 2.0, 2.0, 0.5], 0.0, 4), "laplace", CLIP)
    times = np.array([4, 4, 2, 1])
    plan = replace(
        queries_replies.stated(problem, 4, 4, STEP), releases=times, release=problem.release(times)
    )
    kinds = _kinds(plan, np.zeros(4))
    assert sorted(kinds) in (
        [0, 2],
        [1, 2],
    )  # 0 and 1 are alike; 3 is moved less than 2 and releases less often


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0), ("laplace", 1e-5)])
def test_clients_of_different_sizes_with_one_budget_are_alike(family, delta):
    problem = Problem(np.array([37, 50, 91]), 4, PrivacyBudget.of(2.0, delta, 3), family, CLIP)
    assert claim_facts(queries_replies.stated(problem, ROUNDS, 3, STEP))["told_apart"]["alike"]


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_what_was_bought_before_counts_too(family, delta):
    plan = plan_of(family, delta, "record", "replace-one")
    assert plan.release is not None
    more = replace(plan, pilot=Pilot(((plan.release, np.full(3, 5)),), plan.budget))
    assert power_against(more, 0).guess > power_against(plan, 0).guess


def test_nothing_is_claimed_where_nothing_is_released_or_nothing_hidden():
    bare = plan_of("none", 0.0, "record", "replace-one")
    assert claim_facts(bare)["told_apart"] is None
    idle = replace(plan_of("gaussian", 1e-5, "record", "replace-one"), releases=np.zeros(3, np.int64))
    assert claim_facts(idle)["told_apart"] is None


# Persons with several records ---------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_several_records_of_a_person_cost_what_their_sum_of_changes_costs(relation):
    """Gaussian uploads of k times the shift, by the mechanism's formula; Laplace ones k times epsilon."""
    plan = plan_of("gaussian", 1e-5, "record", relation)
    told = claim_facts(plan, 3)["persons"]
    mu = 3 * float(plan.release.shift[0]) * np.sqrt(plan.releases[0])
    least, most = told["epsilon"]
    assert told["records"] == 3
    assert least == most
    delta = norm.cdf(mu / 2 - most / mu) - np.exp(most) * norm.cdf(-mu / 2 - most / mu)
    assert delta == pytest.approx(1e-5, rel=1e-4)
    assert most > 3 * plan.spent()[0]  # at the same delta it is more than k epsilon

    pure = plan_of("laplace", 0.0, "record", relation)
    assert claim_facts(pure, 5)["persons"]["epsilon"] == pytest.approx([5 * pure.spent()[0]] * 2)
    noised = plan_of("laplace", 1e-5, "record", relation)
    assert (
        claim_facts(noised, 5)["persons"]["epsilon"][0] <= 5 * ROUNDS * float(noised.release.shift[0]) + 1e-9
    )


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_what_was_bought_before_is_counted_for_persons_too(family, delta):
    plan = plan_of(family, delta, "record", "replace-one")
    more = replace(plan, pilot=Pilot(((plan.release, np.full(3, 5)),), plan.budget))
    longer = replace(plan, releases=plan.releases + 5)
    assert claim_facts(more, 4)["persons"]["epsilon"] == pytest.approx(
        claim_facts(longer, 4)["persons"]["epsilon"]
    )


def test_persons_of_many_budgets_take_the_law_of_few_clients(monkeypatch):
    """Of clients that differ in epsilon alone, whoever is moved most and least: the others lie between."""
    budget = PrivacyBudget.of(np.linspace(0.5, 3.0, 6), 1e-5, 6)
    plan = queries_replies.stated(Problem(np.full(6, RECORDS), 4, budget, "laplace", CLIP), ROUNDS, 6, STEP)
    own = replace(
        plan.release, sensitivity=replace(plan.release.sensitivity, value=3 * plan.release.sensitivity.value)
    )
    every, asked = spent_epsilon(own, plan.releases, budget.delta), []
    monkeypatch.setattr(
        laplace_analysis,
        "_epsilon",
        lambda *of, told=laplace_analysis._epsilon: asked.append(of[1]) or told(*of),
    )
    assert claim_facts(plan, 3)["persons"]["epsilon"] == [every.min(), every.max()]
    assert np.count_nonzero(asked) == 6 + 2  # six for the epsilon of one record


def test_a_client_as_the_unit_covers_every_person_and_no_noise_covers_none():
    whole = plan_of("gaussian", 1e-5, "client", "replace-one")
    assert claim_facts(whole, 7)["persons"]["epsilon"] == pytest.approx([whole.spent()[0]] * 2)
    assert claim_facts(plan_of("none", 0.0, "record", "replace-one"), 7)["persons"] is None
    assert "persons" not in claim_facts(whole)


def test_a_study_that_says_nothing_of_persons_is_told_what_their_records_cost():
    """In the privacy statement and on the card, by the numbers of a stated bound; not of one record alone."""
    budget = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0}
    stated = {
        "federation": {"sizes": [50, 50]},
        "task": {"dimension": 4},
        "privacy": budget,
        "algorithm": {"rounds": 5, "clients_per_round": 2, "step_size": 0.1},
    }
    prepared, decision = plan_study(prepare(parse_study(stated)))
    record = view(new_record(prepared.study, decision, None, 4, name="silent"))
    two, ten = (claim_facts(decision.plan, k)["persons"]["epsilon"][1] for k in (2, 10))
    said = (
        f"Of the records of one person at one client, 2 cost epsilon {rounded_up(two)} and 10 cost epsilon "
        f"{rounded_up(ten)} together, at delta 1e-05."
    )
    (limit,) = [one for one in privacy_statement(record) if one.title == "What is not protected"]
    assert any(said in point for point in limit.points)
    (answer,) = [q["answer"] for q in claim_card(record)["questions"] if "several records" in q["question"]]
    assert answer.startswith(said)
    assert "person_column" in answer
    assert not {"persons", "several"} & claim_facts(decision.plan, 1).keys()
    assert "several" not in claim_facts(plan_of("none", 0.0, "record", "replace-one"))


@pytest.mark.parametrize("norm_of", ["l1", "l2"])
def test_so_many_records_move_a_mean_by_at_most_as_many_times_the_sensitivity(norm_of):
    """And by nearly as much, where they are put as far apart as they can be."""
    model, k, order = LinearModel(3, 1, "squared"), 4, {"l1": 1, "l2": 2}[norm_of]
    x = jnp.concatenate([jnp.zeros((6, 3)), jnp.tile(jnp.array([[1e3, 0.0, 0.0]]), (k, 1))])
    batches = [Batch(x, sign * jnp.ones(10), jnp.ones(10)) for sign in (1.0, -1.0)]
    sums = [np.asarray(model.clipped_gradient_sum(jnp.zeros(3), one, CLIP, norm_of)) for one in batches]
    moved = np.linalg.norm((sums[0] - sums[1]) / 10, order)
    most = k * 2 * CLIP / 10
    assert 0.999 * most <= moved <= most


def test_a_study_states_it_for_full_batches_and_its_card_says_it():
    budget = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0}
    stated = {
        "federation": {"sizes": [50, 50]},
        "task": {"dimension": 4},
        "privacy": {**budget, "persons_have_at_most": 3},
        "algorithm": {"rounds": 5, "clients_per_round": 2, "step_size": 0.1},
    }
    prepared, decision = plan_study(prepare(parse_study(stated)))
    record = new_record(prepared.study, decision, None, 4, name="few")
    card = claim_card(view(record))
    (said,) = [q["answer"] for q in card["questions"] if "several records" in q["question"]]
    assert rounded_up(card["persons"]["epsilon"][1]) in said
    assert "3 times what one record changes" in said
    (limit,) = [one for one in privacy_statement(view(record)) if one.title == "What is not protected"]
    most = rounded_up(card["persons"]["epsilon"][1])
    told = f"The 3 records that a person has at most at one client cost together epsilon {most}."
    assert any(told in point for point in limit.points)
    poisson = {"sampling_rate": 0.1, "relation": "add-remove", "persons_have_at_most": 3}
    with pytest.raises(ConfigError, match="counted exactly for full batches only"):
        parse_study({**stated, "privacy": {**budget, **poisson}})
