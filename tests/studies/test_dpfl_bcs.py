"""DPFL-BCS from a study file: contract, counts and noise by hand, constants, grids, training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.dpfl_bcs.search import uniform_counts
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.measure import step_records
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.training import train
from noiseworthy.sweeps.compare import compare, grid_of, setting_of
from noiseworthy.sweeps.tradeoff import Surface

ISSUE = {
    "federation": {"sizes": [600, 600, 300]},
    "task": {"dimension": 4266},
    "privacy": {"mechanism": "gaussian", "epsilon": [0.1, 1.0, 3.0], "delta": 1e-5, "clip_norm": 20.0},
    "algorithm": {"name": "dpfl-bcs", "rounds": 200, "clients_per_round": 1, "estimation_rounds": 0},
    "constants": {"smoothness": 1.0, "strong_convexity": 0.1, "heterogeneity": [0.0, 0.1, 0.0]},
}
IRIS = {
    "federation": {"data": "iris", "clients": 6, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0, "bias": False},
    "privacy": {
        "mechanism": "laplace", "epsilon": {"loguniform": [0.5, 60.0]}, "clip_norm": 0.5,
    },
    "algorithm": {"name": "dpfl-bcs", "rounds": 12, "clients_per_round": 2, "step_size": 0.5},
    "training": {"seeds": [0, 1]},
    "compare": {"seeds": [5]},
}  # fmt: skip


def changed(base, **tables):
    """The study with keys of its tables changed; a key that is None is left out."""
    mixed = {name: {**base.get(name, {}), **table} for name, table in tables.items()}
    kept = {name: {k: v for k, v in table.items() if v is not None} for name, table in mixed.items()}
    return {**base, **kept}


def planned(raw):
    return decide(prepare(parse_study(raw))).plan


def std_per_sensitivity(epsilon, delta):
    """s(eps, delta) from the definition of the Gaussian trade-off."""

    def excess(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return 1 / brentq(excess, 1e-4, 50, xtol=1e-13)


# The contract -------------------------------------------------------------------------------------------


def test_the_contract_has_whole_counts_and_noise_that_pays_for_them():
    plan = json.loads(json.dumps(planned(ISSUE).as_dict(), allow_nan=False))
    counts = plan["releases"]
    assert all(isinstance(count, int) and 0 <= count <= 200 for count in counts)
    assert sum(counts) == 200 * 1
    assert (plan["algorithm"], plan["rounds"], plan["clients_per_round"]) == ("dpfl-bcs", 200, 1)
    s = [std_per_sensitivity(epsilon, 1e-5) for epsilon in (0.1, 1.0, 3.0)]
    by_hand = 2 * 20.0 / np.array([600, 600, 300]) * np.sqrt(np.maximum(counts, 1)) * s
    np.testing.assert_allclose(plan["noise"], by_hand, rtol=1e-6)
    for row, count in zip(plan["privacy"]["clients"], counts, strict=True):
        assert row["spent_epsilon"] <= row["epsilon"]
        assert row["spent_epsilon"] == pytest.approx(row["epsilon"] if count else 0.0, rel=1e-6)


@pytest.mark.parametrize("unlike", [[0.0, 0.1, 0.0], [0.3, 0.0, 2.0], 0.7])
def test_the_counts_are_the_best_of_all_by_brute_force(unlike):
    """All 20,301 ways to share 200 participations, with J written out."""
    plan = planned(changed(ISSUE, constants={"heterogeneity": unlike}))
    first, second = np.meshgrid(np.arange(201), np.arange(201))
    shares = np.stack([first, second, 200 - first - second], axis=-1)
    shares = shares[shares.min(axis=-1) >= 0]
    s = np.array([std_per_sensitivity(epsilon, 1e-5) for epsilon in (0.1, 1.0, 3.0)])
    phi, scale = (s / [600, 600, 300]) ** 2, 4 * 4266 * 20.0**2
    kappa = 1 * (6 * 1.0 + 0.1 * 200 / 2) / scale
    cost = shares**2 @ phi + kappa * shares @ np.broadcast_to(unlike, 3)
    assert plan.releases @ (plan.releases * phi) + kappa * plan.releases @ np.broadcast_to(
        unlike, 3
    ) == pytest.approx(cost.min(), rel=1e-9)


def test_a_plan_follows_from_the_study_alone():
    first, again = (planned(changed(ISSUE, privacy={"epsilon": {"uniform": [0.1, 3.0]}})) for _ in range(2))
    assert first.releases.tolist() == again.releases.tolist()
    assert first.as_dict() == again.as_dict()


def test_the_record_keeps_the_range_and_the_plan_has_the_draws():
    prepared = prepare(parse_study(changed(ISSUE, privacy={"epsilon": {"uniform": [0.1, 3.0]}})))
    record = new_record(prepared.study, decide(prepared), None, prepared.dimension, name="drawn")
    assert record["study"]["privacy"]["epsilon"] == {"uniform": [0.1, 3.0]}
    budgets = [row["epsilon"] for row in record["plan"]["privacy"]["clients"]]
    assert budgets == prepared.problem(1.0).budget.epsilon.tolist()
    assert len(set(budgets)) == 3


# Constants ----------------------------------------------------------------------------------------------


def test_without_heterogeneity_a_note_says_so_and_no_constants_are_needed():
    plan = planned({**ISSUE, "constants": {}})
    assert plan.constants == {}
    assert plan.step is None
    assert any(note.startswith("No heterogeneity is stated") for note in plan.notes)
    assert not any("No heterogeneity" in note for note in planned(ISSUE).notes)


def test_equal_heterogeneity_changes_nobody():
    alike = [planned(changed(ISSUE, constants={"heterogeneity": g})).releases for g in (None, 0.0, 3.0)]
    assert alike[0].tolist() == alike[1].tolist() == alike[2].tolist()


@pytest.mark.full
def test_analytic_constants_give_the_schedule_of_the_theory_and_no_heterogeneity():
    """L = R^2/2 + ridge and mu = ridge; 2/(mu (t + 8 L/mu)) from t = 1."""
    raw = changed(IRIS, algorithm={"step_size": None})
    plan = planned({**raw, "constants": {"source": "analytic"}})
    assert "heterogeneity" not in plan.constants
    assert {constant.provenance for constant in plan.constants.values()} == {"analytic"}
    gamma = 8 * 0.6 / 0.1
    t = np.arange(1, 13)
    np.testing.assert_allclose(plan.step.at(t - 1), 2 / (0.1 * (t + gamma)), rtol=1e-12)
    assert plan.prediction is not None


def test_a_clip_that_changes_nothing_is_found_for_a_linear_model():
    gaussian = {"mechanism": "gaussian", "delta": 1e-5, "clip_norm": "auto"}
    plan = planned({**changed(IRIS, privacy=gaussian), "constants": {"source": "analytic"}})
    assert plan.problem.clip_norm == pytest.approx(np.sqrt(2))


REFUSED = {
    "K above N": ({"algorithm": {"clients_per_round": 4}}, InvalidInput, "between 1 and 3, got 4"),
    "too short": ({"constants": {"heterogeneity": [0.1, 0.2]}}, InvalidInput, "heterogeneity must be one"),
    "negative": ({"constants": {"heterogeneity": [0.1, -0.2, 0]}}, InvalidInput, "got -0.2 for client 1"),
    "no curvature": ({"constants": {"smoothness": None}}, InvalidInput, "smoothness and strong_convexity"),
    "by trial": ({"constants": {"source": "fitted"}}, ConfigError, "has no use for smoothness"),
    "bought": ({"constants": {"source": "bought"}}, ConfigError, "not available for dpfl-bcs"),
    "free clip": ({"privacy": {"clip_norm": "auto"}}, ConfigError, "for dpfl-bcs; state a number"),
    "laplace": ({"privacy": {"mechanism": "laplace"}}, InvalidInput, "pure epsilon"),
    "batches": ({"privacy": {"sampling_rate": 0.5}}, InvalidInput, "set sampling_rate = 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_planned_is_refused_with_a_remedy(case):
    changes, error, says = REFUSED[case]
    with pytest.raises(error, match=says.replace("(", r"\(")):
        planned(changed(ISSUE, **changes))


# Grids, training, comparison ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris():
    prepared = prepare(parse_study(IRIS))
    return prepared, decide(prepared).plan


def test_fixed_settings_ask_all_alike_with_their_own_noise(iris):
    prepared, plan = iris
    cells = grid_of(plan, plan.step, prepared.study.compare, 100, "B")
    assert [setting_of(cell) for cell in cells] == [{"clients_per_round": k, "rounds": 12} for k in (1, 2, 4)]
    for cell in cells:
        assert cell.releases.tolist() == [12 * cell.clients_per_round // 6] * 6
        assert cell.algorithm == "dpfl-bcs"
        by_hand = 2 * 0.5 * cell.releases / (prepared.sizes * plan.budget.epsilon)
        np.testing.assert_allclose(cell.noise, by_hand, rtol=1e-9)
    assert setting_of(plan) == {"clients_per_round": 2, "rounds": 12}


def test_a_grid_may_be_stated(iris):
    prepared, plan = iris
    table = prepared.study.compare.model_copy(update={"rounds": [5, 7], "clients_per_round": [1, 6]})
    cells = grid_of(plan, plan.step, table, 100, "B")
    assert [(c.rounds, c.clients_per_round) for c in cells] == [(5, 1), (5, 6), (7, 1), (7, 6)]
    assert [c.releases.sum() for c in cells] == [5, 30, 7, 42]


def test_a_grid_leaves_out_what_some_client_cannot_pay_for():
    raw = {**IRIS, "resources": {"cost_per_round": 1.0, "budget": 5.0}}
    prepared = prepare(parse_study(raw))
    plan = decide(prepared).plan
    assert plan.releases.max() <= 5
    cells = grid_of(plan, plan.step, prepared.study.compare, 100, "B")
    assert [cell.clients_per_round for cell in cells] == [1, 2]


@pytest.mark.parametrize(("k", "t", "n"), [(1, 1, 3), (2, 5, 4), (20, 200, 100), (3, 7, 3), (7, 9, 10)])
def test_uniform_counts_differ_by_one_at_most(k, t, n):
    counts = uniform_counts(k, t, n)
    assert counts.sum() == k * t
    assert np.ptp(counts) <= 1
    assert counts.max() <= t


def test_training_asks_every_client_exactly_as_often_as_planned(iris):
    prepared, plan = iris
    assert plan.releases.min() < plan.releases.max()
    run = train(plan, *prepared.trained(), [0, 1])
    for uploads in run.uploads:
        np.testing.assert_array_equal(uploads, plan.releases)
        spent = plan.spent(uploads)
        assert np.all(spent <= plan.budget.epsilon)
        assert np.all(spent[plan.releases == 0] == 0)


@pytest.mark.full
def test_a_comparison_trains_the_plan_beside_the_grid(iris):
    prepared, plan = iris
    table = prepared.study.compare.model_copy(update={"clients_per_round": [2]})
    comparison = compare(plan, *prepared.trained(), prepared.study.model_copy(update={"compare": table}))
    assert [cell.setting for cell in comparison.grid] == [{"clients_per_round": 2, "rounds": 12}]
    assert all(np.all(np.isfinite(cell.loss)) for cell in (comparison.planned, *comparison.grid))


def test_a_step_is_measured_on_all_records(iris):
    prepared, _ = iris
    np.testing.assert_array_equal(step_records(prepared), prepared.sizes)


def test_a_trade_off_varies_drawn_budgets_by_factors():
    """A range is drawn once; the axis has factors of what was drawn, as for a list."""
    raw = {**IRIS, "resources": {"cost_per_round": 1.0, "budget": 9.0}, "tradeoff": {"epsilon": [0.5, 1.0]}}
    prepared = prepare(parse_study(raw))
    axis = Surface.of(prepared).epsilon
    assert axis.per_client
    drawn = prepared.problem(1.0).budget.epsilon
    np.testing.assert_allclose(axis.budget(prepared.epsilon, 0.5), drawn / 2)
