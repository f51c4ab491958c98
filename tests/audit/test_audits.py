"""Sound plans pass, their canaries reach what is claimed, and what cannot be audited is refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.audit import audits
from noiseworthy.audit.audits import FALSE_ALARM, Effort, audit
from noiseworthy.audit.targets import reconcile, targets_of
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.mechanisms import Gaussian, NoNoise
from noiseworthy.privacy.releases import Release

FAR = {  # clients' minibatches: the server sees the sum of steps of which the canary is in one
    "dp-pasgd gaussian, minibatches": 0.35,
    "privatefl": 0.98,  # some of the canary's gradient belongs to its client's own transform
}
"""Shares of the claimed epsilon that the worst canary reaches at least, where it is less than 0.995."""
APART = {"moments laplace": 0.45}
"""What trials prove of that at least, where a canary moves two numbers by half of the claim each."""


@pytest.mark.slow
def test_every_sound_plan_passes_and_its_worst_case_is_reached(named_plan):
    name, plan = named_plan
    # a ridge would move whoever takes part beside the clip, which mode C has no proof for
    alone = plan.problem.clipping == "C" and plan.problem.budget.relation == "add-remove"
    for made in audit(plan, Effort(ridge=0.0 if alone else 0.02, trials=6_000)):
        assert made.passed, [check.says for check in made.checks]
        share = made.exposure.epsilon / made.target.epsilon
        assert np.all(share >= FAR.get(name, 0.995))
        assert made.proven > APART.get(name, 0.75) * share.min() * made.claimed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedsgd-dpc gaussian", "dp-fedavg D gaussian", "privatefl"])
def test_sound_plans_of_networks_pass(plans, name):
    (made,) = audit(plans[name](), Effort(ridge=0.02, model="network", trials=600))
    assert made.passed, [check.says for check in made.checks]
    assert np.all(made.exposure.epsilon > 0.98 * made.target.epsilon)


@pytest.fixture(scope="module")
def unlike(request):
    """An audit of clients with budgets of their own."""
    from noiseworthy.methods.fedsgd_dpc.planner import stated
    from noiseworthy.plans.plan import StepSize
    from noiseworthy.plans.problem import Problem
    from noiseworthy.privacy.budget import PrivacyBudget

    budget = PrivacyBudget.of([0.5, 2.0, 8.0], 1e-5, 3)
    plan = stated(Problem(np.array([50, 80, 20]), 30, budget, "gaussian", 1.0), 12, 2, StepSize(0.1))
    told = []
    (made,) = audit(plan, Effort(trials=6_000), lambda done, what: told.append(done))
    return made, told


def test_clients_with_budgets_of_their_own_are_attacked_together(unlike):
    made, _ = unlike
    assert made.passed
    np.testing.assert_allclose(made.exposure.epsilon, [0.5, 2.0, 8.0], rtol=1e-4)
    assert np.all(made.bound.epsilon < [0.5, 2.0, 8.0])
    assert made.claimed == pytest.approx(8.0)
    assert made.proven > 6.0
    assert made.accusation.scale < made.bound.scale


def test_of_equal_claims_the_one_that_is_asked_as_often_as_it_pays_for_is_told():
    """4 rounds of 2 among 3: all pay for 3 uploads, and one makes 2."""
    from noiseworthy.methods.fedsgd_dpc.planner import stated
    from noiseworthy.plans.plan import StepSize
    from noiseworthy.plans.problem import Problem
    from noiseworthy.privacy.budget import PrivacyBudget

    given = Problem(np.array([48, 48, 48]), 3, PrivacyBudget.of(20.0, 1e-5, 3), "gaussian", 1.0)
    (made,) = audit(stated(given, 4, 2, StepSize(0.1)), Effort(trials=2_000))
    assert made.exposure.epsilon.min() < 0.8 * made.claimed == pytest.approx(16.0)
    assert made.proven == made.bound.epsilon.max() > 17


def test_what_is_proved_beyond_the_claim_of_another_client_is_told_with_it(unlike):
    """The headline is of the largest claim."""
    made, _ = unlike
    beyond = replace(made, accusation=replace(made.accusation, epsilon=np.array([0.4, 2.349, 7.0])))
    (told,) = [check for check in beyond.checks if check.name == "bound"]
    assert not told.passed
    assert told.says.endswith("8 is claimed; of client 1 2.34, 2 is claimed")
    named = replace(
        beyond,
        names=("north", "south", "west"),
        exposure=replace(made.exposure, epsilon=np.array([0.1, 0.2, 9.0])),
    )
    exposed, told, *_ = named.checks
    assert exposed.says.startswith("the worst canary gives away epsilon 9 of west, 8 is claimed")
    assert told.says.endswith("8 is claimed; of south 2.34, 2 is claimed")


@pytest.mark.parametrize("name", ["fedsgd-dpc gaussian", "dpfl-bcs two stages gaussian"])
def test_all_checks_of_all_stages_accuse_a_sound_plan_once_in_a_thousand_audits(plans, monkeypatch, name):
    """Each of two stages was accused as often as a plan of one."""
    alarms = []
    monkeypatch.setattr(audits, "_audited", lambda target, effort, alarm, told: alarms.append(alarm))
    audit(plans[name]())
    assert 3 * sum(alarms) == pytest.approx(FALSE_ALARM)


def test_what_accuses_a_plan_of_one_stage_need_not_accuse_one_of_two(unlike):
    made, _ = unlike
    scale, replay = (replace(one, p_value=FALSE_ALARM / 5) for one in (made.scale, made.replay))
    checked = replace(made, scale=scale, replay=replay)
    assert [check.name for check in checked.checks if not check.passed] == ["scale", "replay"]
    assert replace(checked, alarm=FALSE_ALARM / 6).passed


def test_no_claim_is_written_smaller_than_it_is(unlike):
    made, _ = unlike
    claimed = replace(made.target, epsilon=np.array([0.5, 2.0, 8.0004]))
    _, bound, *_ = replace(made, target=claimed).checks
    assert bound.says.endswith("8.001 is claimed")


def test_more_than_is_claimed_is_said_where_it_accuses_nobody(unlike):
    made, _ = unlike
    assert not made.beyond
    lucky = replace(made, bound=replace(made.bound, epsilon=np.array([0.51, 2.04, 8.16])))
    assert lucky.beyond.startswith("training shows more than is claimed")
    assert lucky.passed


def test_progress_rises_to_one(unlike):
    _, told = unlike
    assert told[-1] == 1.0
    assert np.all(np.diff(told) >= 0)


def test_every_check_speaks_in_one_line(unlike):
    made, _ = unlike
    names = [check.name for check in made.checks]
    assert names == ["exposure", "bound", "scale", "replay", "reconciliation"]
    assert all("\n" not in check.says and len(check.says) < 200 for check in made.checks)


def test_reconciliation_notices_an_upload_too_many(plans):
    plan = plans["fedsgd-dpc gaussian"]()
    assert reconcile(plan, plan.uploads).balanced
    again = plan.uploads + np.eye(6, dtype=int)[2]
    assert reconcile(plan, again).overdrawn.tolist() == [2]


def test_reconciliation_has_a_second_formula(plans):
    """It reads sensitivity and noise, and none of what the accountant made of them."""
    plan = plans["fedsgd-dpc gaussian"]()
    assert 0.999 < reconcile(plan, plan.uploads).excess <= 1 + 1e-6
    less = replace(
        plan, release=Release(Gaussian(0.9 * plan.release.mechanism.size), plan.release.sensitivity)
    )
    assert reconcile(less, plan.uploads).excess > 2


@pytest.mark.parametrize("name", ["dp-pasgd gaussian, minibatches", "dpfl-bcs two stages gaussian"])
def test_reconciliation_prices_steps_and_stages(plans, name):
    plan = plans[name]()
    books = reconcile(plan, plan.uploads)
    assert books.balanced
    np.testing.assert_allclose(books.spent, books.allowed, rtol=2e-2)


def test_stage_1_is_charged_for_its_losses(plans):
    first, second = targets_of(plans["dpfl-bcs two stages gaussian"]())
    assert (first.name, second.name) == ("stage 1", "stage 2")
    gradients = replace(first.plan, pilot=None).spent()
    assert np.all(gradients < first.epsilon)
    assert reconcile(first.plan, first.plan.uploads).balanced


def untrained(plan):
    return replace(plan, rounds=0, outcome="Do not train.")


def noiseless(plan):
    public = replace(plan.problem, family="none")
    return replace(plan, problem=public, release=Release(NoNoise(6), plan.release.sensitivity))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (untrained, "does not train"),
        (noiseless, "claims nothing to audit"),
        (lambda plan: replace(plan, step=None), "no step size"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(plans, change, words):
    with pytest.raises(InvalidInput, match=words):
        audit(change(plans["fedsgd-dpc gaussian"]()))


def test_no_trials_are_refused(plans):
    with pytest.raises(InvalidInput, match="trials"):
        audit(plans["fedsgd-dpc gaussian"](), Effort(trials=0))


def test_a_time_that_is_none_is_refused():
    """NaN seconds were no limit."""
    for seconds in (float("nan"), -1.0):
        with pytest.raises(InvalidInput, match="seconds must be"):
            Effort(seconds=seconds)
