"""Figures 3, 6 to 14 and Table III of Ma et al.: estimates held against a truth found another way."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.two_stages import plan, stage_before
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies import two_stages
from noiseworthy.studies.record import estimated
from noiseworthy.tasks import LinearModel
from noiseworthy_papers.judge import verdict
from noiseworthy_papers.keeping import Store, load, save
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.ma import estimates_claims as says
from noiseworthy_papers.ma.benches import COHORT, FIRST_ROUNDS, ROUNDS, TABLE_3, Case
from noiseworthy_papers.ma.constants import STARTS, printed_stage
from noiseworthy_papers.ma.estimates import CASES, ESTIMATES, ORDER, figure, table_3
from noiseworthy_papers.ma.stages import distance, likeness, measured, rank_correlation
from noiseworthy_papers.ma.truth import true_heterogeneity
from noiseworthy_papers.pages import reproductions_page, write_reproductions
from noiseworthy_papers.reproduction import PAPERS, reproduce
from noiseworthy_papers.spec import Bench, Circumstances, Paper, SelfMeasured

CLIENTS = 30
DIGITS = Case(
    "digits",
    Bench("digits", "softmax", "dirichlet", alpha=3.0, clients=CLIENTS, task=(("ridge", 0.1),)),
    2.0, StepSize(0.05, 200.0), 0.5, 20.0, (20.0,), log(10),
    {"gaussian": (33.0, 0.01), "laplace": (33.0, 0.01)}, 1,
)  # fmt: skip


def given(store=None, scale=0.4, data_dir=None):
    return Circumstances(data_dir, scale, store or Store.open(None), lambda done: None)


@pytest.fixture(scope="module")
def laboratory():
    return Laboratory(DIGITS.bench, None, 0.4, 5)


@pytest.fixture(scope="module")
def store():
    return Store.open(None)


@pytest.fixture(scope="module")
def found(laboratory, store):
    return measured(DIGITS, "gaussian", laboratory, store)


# The truth --------------------------------------------------------------------------------------------


def test_true_heterogeneity_of_least_squares_is_that_of_the_normal_equations():
    draw, sizes, ridge = np.random.default_rng(0), (5, 9, 14, 40), 0.3
    parts = [(draw.normal(size=(n, 3)) + n / 10, draw.normal(size=n)) for n in sizes]
    federation = Federation.from_clients(parts, test=parts[0], classes=None, name="draws")
    task = LinearModel(3, 1, "squared", ridge=ridge)
    found = true_heterogeneity(Shards.load(federation, task), task)
    grams = [x.T @ x / len(x) + ridge * np.eye(3) for x, _ in parts]
    crosses = [x.T @ y / len(x) for x, y in parts]

    def loss(w, x, y):
        return np.mean((x @ w - y) ** 2) / 2 + ridge / 2 * w @ w

    best = np.linalg.solve(sum(grams), sum(crosses))
    common = [loss(best, x, y) for x, y in parts]
    least = [loss(np.linalg.solve(g, c), x, y) for g, c, (x, y) in zip(grams, crosses, parts, strict=True)]
    np.testing.assert_allclose(found.common, common, rtol=2e-3)
    np.testing.assert_allclose(found.heterogeneity, np.subtract(common, least), rtol=0.02, atol=1e-4)
    assert np.ptp(found.heterogeneity) > 0.01


def test_true_heterogeneity_of_softmax_is_what_a_double_precision_search_finds():
    draw = np.random.default_rng(1)
    parts = [(draw.normal(size=(n, 2)), draw.integers(0, 3, n)) for n in (6, 11)]
    federation = Federation.from_clients(parts, test=parts[0], classes=3, name="draws")
    task = LinearModel(2, 3, "softmax", ridge=0.1, bias=True)
    found = true_heterogeneity(Shards.load(federation, task), task)

    def loss(w, x, y):
        z = np.column_stack([x, np.ones(len(x))]) @ w.reshape(3, 3)
        return np.mean(logsumexp(z, axis=1) - z[np.arange(len(y)), y]) + 0.05 * w @ w

    def least(value):
        return minimize(value, np.zeros(9), method="BFGS", options={"gtol": 1e-8})

    best = least(lambda w: np.mean([loss(w, *part) for part in parts])).x
    expected = [loss(best, *part) - least(lambda w, part=part: loss(w, *part)).fun for part in parts]
    np.testing.assert_allclose(found.heterogeneity, expected, rtol=0.01, atol=1e-4)


def test_clients_with_the_same_records_have_no_heterogeneity():
    part = ([[1.0], [2.0]], [1.0, 0.0])
    federation = Federation.from_clients([part] * 3, test=part, classes=None, name="same")
    task = LinearModel(1, 1, "squared")
    assert true_heterogeneity(Shards.load(federation, task), task).heterogeneity == pytest.approx(
        0.0, abs=1e-5
    )


# What is told -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def staged(laboratory):
    """A short plan of two stages on the digits, its seeds, and what stage 1 told under them."""
    budget = PrivacyBudget.of(np.geomspace(1.0, 60.0, CLIENTS), 1e-5, CLIENTS)
    problem = Problem(laboratory.federation.sizes, laboratory.task.dimension, budget, "gaussian", 2.0)
    known = {"smoothness": Constant(33.0, "assumed"), "strong_convexity": Constant(0.01, "assumed")}
    made = plan(
        problem, known, rounds=9, clients_per_round=8, estimation_rounds=3, loss_cap=2.3,
        step=StepSize(0.05, 200.0),
    )  # fmt: skip
    seeds = [3, 4]
    stages = two_stages.estimate([made, made], laboratory.shards(1.0), laboratory.task, seeds)
    return made, seeds, stages


def test_stage_1_alone_tells_what_the_whole_training_would(laboratory, staged):
    made, seeds, alone = staged
    ends = np.array([0, made.all_rounds])
    _, whole = two_stages.run([made, made], laboratory.shards(1.0), laboratory.task, seeds, ends)
    for one, other in zip(alone, whole, strict=True):
        np.testing.assert_array_equal(one.reports.before, other.reports.before)
        np.testing.assert_array_equal(one.plan.releases, other.plan.releases)
    assert not np.array_equal(alone[0].reports.before, alone[1].reports.before)


def test_stage_1_needs_a_plan_in_two_stages(laboratory, staged):
    made, seeds, _ = staged
    bare = [replace(made, pilot=None)] * 2
    with pytest.raises(InvalidInput, match="one stage"):
        two_stages.estimate(bare, laboratory.shards(1.0), laboratory.task, seeds)


def test_what_is_told_follows_from_the_reports_by_plain_loops(staged):
    stage = staged[2][0]
    told, reports, first = estimated(stage), stage.reports, stage_before(stage.plan)
    for n in range(CLIENTS):
        mine = [i for i, who in enumerate(reports.clients) if who == n]
        assert told["first"][n] == len(mine)
        if not mine:
            assert told["raw"][n] is None
            assert told["noise"][n] is None
            continue
        assert told["noise"][n] == pytest.approx(float(first.noise_std[n]) / len(mine) ** 0.5)
        steps = [abs(float(reports.before[i] - reports.after[i])) for i in mine]
        assert told["as_printed"][n] == pytest.approx(min(steps))
    assert 0 in told["first"]
    assert sum(told["first"]) == 3 * 8
    assert sum(told["releases"]) == 6 * 8
    np.testing.assert_allclose(told["epsilon"], np.geomspace(1.0, 60.0, CLIENTS))
    json.dumps(told, allow_nan=False)


def test_the_printed_bound_is_given_what_the_first_rounds_held(staged):
    stage = staged[2][0]
    reports, first = stage.reports, stage_before(stage.plan)
    told, given_ = estimated(stage), printed_stage(stage)
    std = first.plan.noise  # Gaussian noise of one coordinate
    noise = bias = 0.0
    for n, t in zip(reports.clients, reports.rounds, strict=True):
        if t < 2:
            noise += 640 * float(std[n]) ** 2
            bias += told["as_printed"][n]
    last = [float(loss) for loss, t in zip(reports.before, reports.rounds, strict=True) if t == 2]
    assert given_.noise == pytest.approx(noise)
    assert given_.bias == pytest.approx(bias)
    assert given_.loss == pytest.approx(sum(last) / 8)
    assert (given_.rounds, given_.clients_per_round) == (2, 8)


# Measuring and keeping --------------------------------------------------------------------------------


def test_counts_of_both_stages_are_those_of_the_paper(found):
    for one in found["told"]:
        assert sum(one["first"]) == COHORT * FIRST_ROUNDS
        assert sum(one["releases"]) == COHORT * (ROUNDS - FIRST_ROUNDS)
        assert max(one["releases"]) <= ROUNDS - FIRST_ROUNDS
        assert 0.5 <= min(one["epsilon"]) < max(one["epsilon"]) <= 20.0
    assert found["told"][0]["epsilon"] != found["told"][1]["epsilon"]


def test_no_decision_costs_less_than_the_best(found):
    for one in found["excess"]:
        assert set(one) == {"estimate", "as_printed", "alike"}
        assert min(one.values()) >= -1e-12
        assert max(one.values()) > 1e-6


def test_what_is_in_the_store_is_not_measured_again(store, found):
    nowhere = Laboratory(replace(DIGITS.bench, made=lambda _: 1 / 0), None, 0.4, 5)
    assert measured(DIGITS, "gaussian", nowhere, store) == found
    with pytest.raises(ZeroDivisionError):
        measured(replace(DIGITS, most=19.0), "gaussian", nowhere, store)


def test_p2_ends_everywhere_and_its_losses_are_those_released(found):
    ends = found["constants"]["p2"]
    assert len(ends) == len(STARTS)
    assert max(one["residual"] for one in ends) < 1e-6
    assert max(one["smoothness"] for one in ends) > 100 * min(one["smoothness"] for one in ends)


def test_a_result_is_kept_drawn_and_shown(found, store, tmp_path, monkeypatch):
    result = figure("figure-3", DIGITS, "gaussian", given(store))
    save(result, tmp_path)
    (read,) = load(tmp_path, PAPERS["ma"]) if "figure-3" in PAPERS["ma"].items else (result,)
    assert read.estimates == json.loads(json.dumps(result.estimates))
    paper = Paper("ma", "Ma et al.", {"figure-3": SelfMeasured(lambda given: result)}, "")
    page = write_reproductions(paper, [read], tmp_path).read_text()
    assert "](figures/ma-figure-3.png)" in page
    assert (tmp_path / "figures" / "ma-figure-3.png").read_bytes()[:4] == b"\x89PNG"
    assert "not private" in page
    monkeypatch.setitem(PAPERS, "ma", paper)
    assert reproduce("ma", "figure-3") == [result]


def test_table_3_shows_the_paper_beside_every_start(store, monkeypatch):
    cases = {"MNIST": DIGITS}
    result = table_3(cases, given(store))
    rows = result.tables[0].rows
    assert [row[2] for row in rows] == 2 * [
        "paper",
        "P2 from 0.1",
        "P2 from 10",
        "P2 from 1000",
        "P2′",
        "public",
    ]
    assert rows[0][3:8] == ["1.063", "1.96", "5.514", "4.986", "8.847"]
    assert result.estimates is None
    assert "![" not in reproductions_page(Paper("ma", "Ma et al.", {}, ""), [result])


def test_items_are_the_papers_ten_figures_and_the_table():
    assert list(ESTIMATES) == ["figure-3", *(f"figure-{i}" for i in range(6, 15)), "table-3"]
    assert sorted(ORDER.values()) == sorted(TABLE_3)
    assert {case.bench.model for case in CASES.values()} == {"softmax", "linear"}
    assert not any(case.bench.miniature for case in CASES.values())


def test_printed_constants_have_the_ratio_that_the_specification_lists():
    listed = [33.4, 26.1, 8.8, 15.5, 10.2, 16.2, 9.0, 16.2, 8.3, 15.8]
    assert [round(8 * smooth / mu, 1) for _, _, smooth, mu in TABLE_3.values()] == listed


# Claims -----------------------------------------------------------------------------------------------

TRUE = [0.1, 0.2, 0.3, 0.4]
GOOD = {
    "told": [
        {"epsilon": [1, 2, 3, 4], "first": [0, 1, 2, 3], "releases": [5, 5, 5, 5], "noise": [None, 1, 1, 1],
         "true": TRUE, "estimate": TRUE, "raw": [None, 0.3, 0.4, 0.5], "as_printed": [0.2, 0.1, 0.3, 0.6]}
        for _ in range(2)
    ],
    "excess": [{"estimate": 0.3, "as_printed": 0.1, "alike": 0.2}] * 2,
}  # fmt: skip


def words(found):
    """Verdicts on the claims, in their order."""
    return [verdict(claim, says.statistics(found)).word for claim in says.CLAIMS]


def jittered(**excess):
    """Costs of decisions under two seeds that differ by a thousandth."""
    return [{name: value * (1 + i / 1000) for name, value in excess.items()} for i in (-1, 1)]


@pytest.mark.parametrize(
    ("which", "changes"),
    [
        (0, {"releases": [8, 7, 6, 0]}),
        (1, {"as_printed": [0.1, 0.9, 0.5, 0.2]}),
        (3, {"estimate": [0.1, 2.0, 0.3, 0.4]}),
    ],
)
def test_claims_on_estimates_speak_of_what_they_are_called(which, changes):
    """Statistics of two seeds that are equal have no deviation, so that levels are read off means here."""
    worse = {**GOOD, "told": [{**one, **changes} for one in GOOD["told"]]}
    good, bad = ({s.series: s.values for s in says.statistics(found)} for found in (GOOD, worse))
    spoken = {0: (says.DECISION, "likeness"), 1: (says.PAPERS, "likeness"), 3: (says.OURS, "distance")}
    series, score = spoken[which]
    assert good[series][score] != bad[series][score]
    assert says.CLAIMS[which].ours == (which > 2)


@pytest.mark.parametrize(
    ("alike", "estimate", "printed", "helps", "enough"),
    [
        (0.1, 0.3, 0.2, "disagrees", "agrees"),
        (0.2, 0.3, 0.1, "agrees", "disagrees"),
        (0.2, 0.1, 0.3, "disagrees", "disagrees"),
        (0.2, 0.18, 0.3, "disagrees", "agrees"),
    ],
)
def test_claims_on_decisions_compare_what_they_cost(alike, estimate, printed, helps, enough):
    found = words({**GOOD, "excess": jittered(alike=alike, estimate=estimate, as_printed=printed)})
    assert (found[2], found[4]) == (helps, enough)


def test_likeness_and_distance_leave_out_who_never_reported():
    told = {"true": [9.0, 0.1, 0.2, 0.4], "raw": [None, 1.1, 1.2, 1.4]}
    assert likeness(told, "raw") == 1.0
    assert distance(told, "raw") == pytest.approx(0.0)  # a shift is no error
    assert distance({**told, "raw": [None, 1.1, 1.2, 1.7]}, "raw") == pytest.approx(np.std([0, 0, 0.3]))


def test_ranks_are_compared_with_ties_halved():
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(
        np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3, 4])[0, 1]
    )


def constants(rho=0.9, ends=(1.0, 1.0, 1.0), residuals=(0.0, 1.0, 1.0), regularised=2.0):
    p2 = [
        {"gamma": 1.0, "smoothness": end, "strong_convexity": end / 2, "residual": residual}
        for end, residual in zip(ends, residuals, strict=True)
    ]
    curvature = {"smoothness": regularised, "strong_convexity": regularised, "gamma": 8.0}
    public = {"smoothness": 1.0, "strong_convexity": 1.0, "gamma": 8.0}
    one = {"loss": 2.0, "rho_min": rho, "p2": p2, "regularised": curvature, "public": public}
    return {("MNIST", "gaussian"): one, ("MNIST", "laplace"): one}


def test_claims_on_constants_can_agree_and_disagree():
    good, bad = (
        [verdict(claim, []) for claim in says.constants_claims(constants(**changes))]
        for changes in (
            {},
            {"rho": 1.1, "ends": (0.1, 10.0, 1e3), "residuals": (0, 0, 0), "regularised": 11.0},
        )
    )
    assert [one.word for one in good] == ["agrees", "disagrees", "disagrees", "agrees"]
    assert [one.word for one in bad] == ["disagrees"] * 4
    assert "2 of 10 printed rows and 2 of 2 of ours" in good[2].evidence
    assert "2 of 10 printed rows and 0 of 2 of ours" in bad[2].evidence
    assert "6 of 6 searches" in bad[0].evidence
    assert "L from 0.1 to 1e+03" in bad[0].evidence
    assert "0.0083 to 8.9" in good[1].evidence
    assert "equal in 2 of 2 cases" in good[3].evidence
