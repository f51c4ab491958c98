"""Two stages: every budget is split exactly, and stage 2 is planned on what stage 1 leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs.heterogeneity import Heterogeneity
from noiseworthy.methods.dpfl_bcs.two_stages import later_step, plan, replanned, stage_before
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.accountants import composed_epsilon
from noiseworthy.privacy.budget import PrivacyBudget

KNOWN = {"smoothness": Constant(2.0, "assumed"), "strong_convexity": Constant(0.1, "assumed")}
SHAPE = {"rounds": 20, "clients_per_round": 2, "estimation_rounds": 4, "loss_cap": 2.3}


def problem(
    family="gaussian", epsilon=(0.3, 1.0, 2.0, 4.0), sizes=(600, 300, 600, 900), relation="replace-one"
):
    n, delta = len(epsilon), 1e-5 if family == "gaussian" else 0.0
    return Problem(np.array(sizes), 11, PrivacyBudget.of(epsilon, delta, n, relation), family, 1.5)


def found(values) -> Heterogeneity:
    values = np.array(values, float)
    return Heterogeneity(values, values, np.ones(len(values)), float(values.std()))


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_gradients_losses_and_stage_2_share_a_budget(family):
    """Stage 1 takes T0/T of mu^2 (of epsilon), a tenth of it for the losses; nothing is left at the end."""
    made = plan(problem(family), KNOWN, **SHAPE)
    first = stage_before(made)
    (gradients, asked), (losses, told) = first.parts
    np.testing.assert_array_equal(told, 2 * asked)
    power = 2 if family == "gaussian" else 1
    whole = (made.budget.mu if family == "gaussian" else made.budget.epsilon) ** power
    busy = asked > 0
    np.testing.assert_allclose((asked * gradients.shift**power / whole)[busy], 0.2 * 0.9)
    np.testing.assert_allclose((told * losses.shift**power / whole)[busy], 0.2 * 0.1)
    np.testing.assert_allclose(losses.sensitivity.value, 2.3 / made.problem.sizes)
    trained = made.releases > 0
    np.testing.assert_allclose(made.spent()[trained], made.budget.epsilon[trained], rtol=1e-6)
    assert np.all(made.spent() <= made.budget.epsilon)


def test_stage_1_is_p1_as_if_clients_were_alike_and_stage_2_has_the_other_rounds():
    whole = problem()
    made = plan(whole, KNOWN, **SHAPE)
    alike = participation.plan(whole, {}, rounds=4, clients_per_round=2)
    np.testing.assert_array_equal(made.pilot.uploads, alike.releases)
    assert (made.rounds, made.all_rounds, made.releases.sum()) == (16, 20, 32)
    assert made.outcome.startswith("4 rounds first, in which clients also report noised losses. If clients")


def test_whoever_was_not_asked_in_stage_1_enters_stage_2_with_its_whole_budget():
    whole = problem(epsilon=(0.05, 1.0, 2.0, 4.0))
    made = plan(whole, KNOWN, **SHAPE)
    asked = made.pilot.uploads > 0
    assert asked.tolist() == [False, False, True, True]
    np.testing.assert_allclose(made.problem.budget.epsilon[:2], [0.05, 1.0], rtol=1e-8)
    assert np.all(made.problem.budget.epsilon[2:] < whole.budget.epsilon[2:])


def test_odd_clients_are_asked_less_after_stage_1_and_budgets_stay():
    made = plan(problem(epsilon=(2.0, 2.0, 2.0, 2.0), sizes=(600, 600, 600, 600)), KNOWN, **SHAPE)
    same = replanned(made, found([1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(same.releases, made.releases)
    odd = replanned(made, found([1.0, 1.0, 1.0, 40.0]))
    assert odd.releases[3] < made.releases[3]
    assert odd.releases.sum() == made.releases.sum()
    assert odd.pilot is made.pilot
    assert np.all(odd.spent() <= made.budget.epsilon)
    assert odd.step == made.step


@example("gaussian", "replace-one", [2.0, 2.0, 1 / 3], 34, 0.0625, 24)
@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(["gaussian", "laplace"]),
    relation=st.sampled_from(["replace-one", "add-remove"]),
    epsilon=st.lists(st.floats(0.05, 8), min_size=3, max_size=7),
    rounds=st.integers(2, 40),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_whatever_the_losses_tell_nobody_spends_more_than_its_budget(
    family, relation, epsilon, rounds, share, seed
):
    """The accountant composes both kinds of releases of stage 1 with those of stage 2, for any Gamma_n."""
    generator = np.random.default_rng(seed)
    whole = problem(family, epsilon, generator.integers(50, 900, len(epsilon)), relation)
    before = min(max(1, int(share * rounds)), rounds - 1)
    made = plan(whole, KNOWN, rounds=rounds, clients_per_round=2, estimation_rounds=before, loss_cap=1.0)
    then = replanned(made, found(generator.exponential(5.0, len(epsilon))))
    parts = [*then.pilot.parts, (then.release, then.releases)]
    spent = composed_epsilon(parts, whole.budget.delta)
    assert np.all(spent <= whole.budget.epsilon)
    np.testing.assert_allclose(spent, then.spent())
    assert np.all(spent[then.releases > 0] >= 0.999 * whole.budget.epsilon[then.releases > 0])


def test_step_sizes_and_momentum_go_on_where_stage_1_ends():
    step = StepSize(0.3, 30.0)
    made = plan(problem(), KNOWN, **SHAPE, step=step, momentum=0.9)
    first = stage_before(made).plan
    both = np.concatenate([first.step.at(np.arange(4)), made.step.at(np.arange(16))])
    np.testing.assert_allclose(both, step.at(np.arange(20)), rtol=1e-12)
    assert first.momentum == made.momentum == replanned(made, found(np.ones(4))).momentum == 0.9
    assert replanned(replace(made, averaging=0.5), found(np.ones(4))).averaging == 0.5
    assert later_step(StepSize(0.3, np.inf), 7) == StepSize(0.3, np.inf)


def test_the_answer_for_programs_tells_of_stage_1():
    answer = plan(problem(), KNOWN, **SHAPE).as_dict()
    told = answer["estimation"]
    assert told["rounds"] == 4
    assert sum(told["releases"]) == 8
    assert told["loss_cap"] == 2.3
    assert [noise > 0 for noise in told["loss_noise"]] == [asked > 0 for asked in told["releases"]]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"estimation_rounds": 20}, "estimation_rounds must be .* 19.* stage 2 needs a round"),
        ({"estimation_rounds": 0}, "estimation_rounds"),
        ({"loss_cap": 0.0}, "loss_cap"),
        ({"loss_cap": float("nan")}, "loss_cap"),
        ({"constants": {}}, "needs smoothness and strong_convexity"),
    ],
)
def test_what_cannot_be_planned_is_refused(change, complaint):
    given = {"constants": KNOWN, **SHAPE, **change}
    with pytest.raises(InvalidInput, match=complaint):
        plan(problem(), given.pop("constants"), **given)


def test_noiseless_studies_resources_and_one_stage_plans_are_refused():
    with pytest.raises(InvalidInput, match="no budget to split"):
        plan(problem("none"), KNOWN, **SHAPE)
    whole = problem()
    scarce = Problem(
        whole.sizes, 11, whole.budget, "gaussian", 1.5, resources=Resources.of(1.0, 1.0, 99.0, 4)
    )
    with pytest.raises(InvalidInput, match="resources"):
        plan(scarce, KNOWN, **SHAPE)
    alone = participation.plan(whole, {}, rounds=4, clients_per_round=2)
    with pytest.raises(InvalidInput, match="one stage"):
        replanned(alone, found(np.ones(4)))


def test_only_who_is_asked_in_neither_stage_counts_as_never_asked():
    """Client 2 is asked in stage 1 and so odd that stage 2 leaves it out; client 0 is too noisy for both."""
    made = plan(problem(epsilon=(0.01, 1.0, 2.0, 4.0)), KNOWN, **SHAPE)
    then = replanned(made, found([0.0, 0.0, 900.0, 0.0]))
    assert (then.releases == 0).tolist() == [True, False, True, False]
    assert made.pilot.uploads[2] > 0
    assert [note for note in then.notes if "never asked" in note] == [
        "Client 0 is never asked: nothing is spent there, and nothing learnt."
    ]
    assert made.notes[0].startswith("Client 0 is never asked if all prove alike: nothing is spent there")
