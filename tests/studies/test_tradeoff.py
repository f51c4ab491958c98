"""The trade-off surface: every pair of budgets is the study with these budgets, planned and trained."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import norm

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.privacy.trust import TRUST_MODELS
from noiseworthy.reports.tables import tradeoff_table
from noiseworthy.reports.tradeoff import trusts_figure
from noiseworthy.reports.tradeoff_words import trusts_caption
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.plan_codec import encoded
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record, new_record, save_record
from noiseworthy.studies.training import train
from noiseworthy.studies.typed_record import view
from noiseworthy.sweeps import tradeoff
from noiseworthy.sweeps.compare import search_epsilon
from noiseworthy.sweeps.recorded import with_tradeoff
from noiseworthy.sweeps.tradeoff import Axis, Surface, plan_surface, train_surface

RAW = {
    "federation": {"data": "breast-cancer", "clients": 4, "partition": "iid"},
    "task": {"model": "logistic", "ridge": 0.01, "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5, "clip_norm": 1.0},
    "resources": {"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 100.0, "unit": "joules"},
    "algorithm": {"name": "dp-pasgd", "step_size": 1.0},
    "constants": {
        "smoothness": 0.26, "strong_convexity": 0.05, "gradient_variance": 0.01, "initial_gap": 0.6,
        "noise_dimension": 1.0,
    },
    "tradeoff": {"epsilon": [0.05, 4.0], "budget": [5.0, 30.0, 100.0], "seeds": [7, 8]},
}  # fmt: skip
OTHERS = {
    "fedsgd-dpc": {
        "algorithm": {"name": "fedsgd-dpc"},
        "constants": {"smoothness": 0.3, "strong_convexity": 0.05, "gradient_bound": 0.5,
                      "initial_distance_sq": 40.0, "heterogeneity": 0.01},
    },
    "dp-fedavg": {
        "algorithm": {"name": "dp-fedavg"},
        "constants": {"smoothness": 0.3, "strong_convexity": 0.05, "gradient_bound": 0.5,
                      "initial_distance_sq": 40.0, "heterogeneity": 0.01},
    },
    "dp-scaffnew": {
        "algorithm": {"name": "dp-scaffnew"},
        "constants": {"smoothness": 0.3, "strong_convexity": 0.05, "optimum_gradient_sq": 0.01,
                      "initial_distance_sq": 40.0},
    },
}  # fmt: skip


def changed(**tables):
    """The study with keys of its tables changed; a key that is None is left out."""
    raw = copy.deepcopy(RAW)
    for name, keys in tables.items():
        raw[name] = {k: v for k, v in {**raw.get(name, {}), **keys}.items() if v is not None}
    return raw


def prepared_from(raw):
    return prepare(parse_study(raw))


@pytest.fixture(scope="module")
def prepared():
    return prepared_from(RAW)


@pytest.fixture(scope="module")
def surface(prepared):
    return train_surface(plan_surface(Surface.of(prepared), prepared), prepared)


# Which budgets -----------------------------------------------------------------------------------------


def test_auto_takes_shares_of_the_studys_own_budgets():
    auto = Surface.of(prepared_from(changed(tradeoff={"epsilon": None, "budget": None})))
    assert auto.epsilon.values == (1.0, 2.0, 4.0, 8.0, 16.0)
    assert auto.budget.values == (25.0, 50.0, 100.0, 200.0)
    assert [(p.epsilon, p.budget) for p in auto.points if p.own] == [(4.0, 100.0)]
    assert auto.seeds == (7, 8)


def test_budgets_per_client_are_varied_as_a_whole():
    raw = changed(privacy={"epsilon": [1.0, 2.0, 3.0, 4.0]}, resources={"budget": [50, 60.0, 70.0, 80.0]},
                  tradeoff={"epsilon": [2, 1.0], "budget": [0.5]})  # fmt: skip
    prepared = prepared_from(raw)
    twice, once = reversed(plan_surface(Surface.of(prepared), prepared).points)
    assert (once.epsilon, twice.epsilon) == (1.0, 2.0)
    assert not once.own
    np.testing.assert_array_equal(twice.plan.budget.epsilon, [2.0, 4.0, 6.0, 8.0])
    np.testing.assert_array_equal(once.plan.budget.epsilon, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(once.plan.problem.resources.budget, [25.0, 30.0, 35.0, 40.0])


def test_the_example_has_the_budgets_that_it_says():
    study = load_study(Path(__file__).parents[2] / "examples" / "tradeoff.toml")
    across = Axis.of(study.tradeoff.epsilon, study.privacy.epsilon, tradeoff.EPSILONS)
    up = Axis.of(study.tradeoff.budget, study.resources.budget, tradeoff.BUDGETS)
    assert across.values == (0.25, 0.5, 1.0, 2.0, 4.0)
    assert up.values == (250.0, 500.0, 1000.0, 2000.0)


@pytest.mark.full
@pytest.mark.data
def test_the_frame_of_the_picture_in_the_docs_is_still_what_is_planned(data_dir):
    """If not, draw docs/figures/tradeoff.png again and look at the numbers in docs/resources.md."""
    study = load_study(Path(__file__).parents[2] / "examples" / "tradeoff.toml")
    table = study.federation.model_copy(update={"data_dir": data_dir})
    plan = decide(prepare(study.model_copy(update={"federation": table}))).plan
    assert (plan.rounds * plan.local.steps, plan.local.steps) == (54, 6)


def test_a_list_of_equal_budgets_is_still_a_list():
    auto = Surface.of(prepared_from(changed(privacy={"epsilon": [4.0] * 4}, tradeoff={"epsilon": None})))
    assert auto.epsilon.per_client
    assert auto.epsilon.values == (0.25, 0.5, 1.0, 2.0, 4.0)


def test_points_go_row_by_row_in_ascending_order_and_repeated_values_count_once():
    raw = changed(tradeoff={"epsilon": [9.0, 4.0, 9.0], "budget": [100.0, 50.0]})
    points = Surface.of(prepared_from(raw)).points
    assert [(p.epsilon, p.budget) for p in points] == [(4.0, 50.0), (9.0, 50.0), (4.0, 100.0), (9.0, 100.0)]


# Plans -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_each_cell_is_planned_as_the_study_with_its_budgets_would_be(surface):
    """Through the study file, and not through the surface."""
    for point in surface.points:
        if point.plan is not None:
            raw = changed(privacy={"epsilon": point.epsilon}, resources={"budget": point.budget})
            assert point.plan.as_dict() == decide(prepared_from(raw)).plan.as_dict()


def test_no_cell_spends_more_than_its_two_budgets(surface):
    for point in surface.points:
        if point.plan is not None:
            assert np.all(point.plan.cost <= point.budget)
            assert np.all(point.plan.spent() <= point.epsilon)


def test_every_cell_is_planned_once_and_the_studys_own_not_again(prepared, monkeypatch):
    planned, own, told = [], decide(prepared), []

    def count(study, on_progress):
        planned.append((study.study.privacy.epsilon, study.study.resources.budget))
        on_progress(0.5)
        return decide(study)

    monkeypatch.setattr(tradeoff, "decide", count)
    made = plan_surface(Surface.of(prepared), prepared, own, told.append)
    assert len(planned) == len(set(planned)) == 5
    assert (4.0, 100.0) not in planned
    assert next(point for point in made.points if point.own).plan is own.plan
    assert told == sorted(told)
    assert told[-1] == 1.0


def least_bounds(prepared):
    """The predicted bound of every cell, the one without training where it does not train: rows by budget."""
    made = plan_surface(Surface.of(prepared), prepared)
    values = [point.plan.prediction.bound for point in made.points]
    return np.reshape(values, (len(made.budget.values), -1))


@pytest.mark.parametrize("algorithm", ["dp-pasgd", *OTHERS])
def test_a_larger_budget_never_worsens_the_predicted_bound(algorithm):
    """What fits a budget fits a larger one, and more epsilon takes less noise for the same schedule."""
    grid = {"epsilon": [0.05, 1.0, 4.0, 100.0], "budget": [11.0, 20.0, 45.0, 100.0]}
    tables = {"algorithm": {}, "constants": {}, **copy.deepcopy(OTHERS.get(algorithm, {}))}
    raw = {**changed(tradeoff=grid), **{k: v for k, v in tables.items() if v}}
    bounds = least_bounds(prepared_from(raw))
    assert np.all(np.diff(bounds, axis=0) <= 1e-9 * bounds[1:])
    assert np.all(np.diff(bounds, axis=1) <= 1e-9 * bounds[:, 1:])
    assert np.ptp(bounds) > 0


@pytest.mark.full
@given(
    epsilon=st.lists(st.floats(0.01, 200.0), min_size=2, max_size=3),
    budget=st.lists(st.floats(11.0, 500.0), min_size=2, max_size=3),
    costs=st.tuples(st.floats(0.5, 10.0), st.floats(0.05, 1.0)),
)
@settings(max_examples=8, deadline=None)
def test_the_bound_never_worsens_for_any_budgets(prepared, epsilon, budget, costs):
    resources = prepared.study.resources.model_copy(
        update=dict(zip(["cost_per_round", "cost_per_step"], costs, strict=True))
    )
    table = prepared.study.tradeoff.model_copy(update={"epsilon": epsilon, "budget": budget})
    study = prepared.study.model_copy(update={"tradeoff": table, "resources": resources})
    bounds = least_bounds(replace(prepared, study=study))
    assert np.all(np.diff(bounds, axis=0) <= 1e-9 * np.abs(bounds[1:]))
    assert np.all(np.diff(bounds, axis=1) <= 1e-9 * np.abs(bounds[:, 1:]))


def test_budgets_that_pay_for_no_round_are_an_empty_cell_with_the_reason(surface):
    poor = [point for point in surface.points if point.budget == 5.0]
    assert len(poor) == 2
    for point in poor:
        assert point.plan is None
        assert "must pay for one round of 1 local steps, which costs 11 joules" in point.reason
        assert point.loss.size == point.accuracy.size == 0
    assert all(not point.reason for point in surface.points if point.budget > 5.0)


def test_where_no_pair_has_a_plan_the_reason_is_an_error():
    prepared = prepared_from(changed(tradeoff={"budget": [1.0, 5.0]}))
    with pytest.raises(InvalidInput, match=r"no pair of budgets in \[tradeoff\] has a plan: \[resources\]"):
        plan_surface(Surface.of(prepared), prepared)


# Trainings ---------------------------------------------------------------------------------------------


def test_a_cell_ends_where_a_training_by_its_plan_ends(surface, prepared):
    point = surface.points[-1]
    run = train(point.plan, *prepared.trained(), [7, 8], evaluations=1)
    np.testing.assert_allclose(point.loss, run.final_loss, rtol=1e-5)
    np.testing.assert_allclose(point.accuracy, run.final_accuracy, rtol=1e-6)


def test_a_cell_that_does_not_train_has_the_untrained_score(surface, prepared):
    """At theta = 0 the logistic loss is log 2, and ties go to class 0."""
    federation, _ = prepared.trained()
    idle = [point for point in surface.points if point.plan is not None and not point.plan.train]
    assert idle
    for point in idle:
        np.testing.assert_allclose(point.loss, [np.log(2)] * 2, rtol=1e-6)
        np.testing.assert_allclose(point.accuracy, [np.mean(federation.test_y == 0)] * 2, rtol=1e-6)


def test_more_resources_buy_a_lower_loss_here(surface):
    """epsilon = 4 with 100 joules against 30, for each of the two seeds."""
    poorer, richer = (p for p in surface.points if p.epsilon == 4.0 and p.plan is not None)
    assert np.all(richer.loss < poorer.loss - 0.01)


def test_training_tells_progress_up_to_the_end(surface, prepared):
    told = []
    again = train_surface(surface, prepared, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    for one, other in zip(surface.points, again.points, strict=True):
        np.testing.assert_array_equal(one.loss, other.loss)


def test_a_surface_without_any_training_is_one():
    prepared = prepared_from(changed(tradeoff={"epsilon": [0.01], "budget": [12.0]}))
    made = train_surface(plan_surface(Surface.of(prepared), prepared), prepared)
    assert not made.plans
    assert made.search_epsilon is None
    assert made.points[0].loss == pytest.approx(np.log(2))


# What a search would spend --------------------------------------------------------------------------------


def test_a_search_spends_the_exact_composition_of_all_cells(surface):
    """mu^2 adds up: per step 2 G / n over the noise; and delta(epsilon) at the answer is the delta."""
    per_cell = [plan.releases * (2 * 1.0 / plan.problem.sizes / plan.noise) ** 2 for plan in surface.plans]
    mu, epsilon = np.sqrt(np.sum(per_cell, axis=0).max()), surface.search_epsilon
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert (
        max(p.epsilon for p in surface.points) < epsilon < sum(plan.spent().max() for plan in surface.plans)
    )


@pytest.mark.full
def test_pilots_that_buy_constants_are_part_of_a_search():
    raw = changed(algorithm={"name": "fedsgd-dpc"}, constants={})
    raw["algorithm"] = {"name": "fedsgd-dpc", "rounds": 3}
    raw["constants"] = {"source": "bought", "share": 0.3}
    plan = decide(prepared_from(raw)).plan
    assert plan.pilot is not None
    assert search_epsilon([plan]) == pytest.approx(plan.spent().max(), rel=1e-9)


# The record ----------------------------------------------------------------------------------------------


def test_the_record_says_of_each_cell_what_was_planned_and_reached(surface, prepared, tmp_path):
    own = decide(prepared)
    record = new_record(prepared.study, own, prepared.federation, prepared.dimension, name="study")
    assert "tradeoff" not in record
    save_record(with_tradeoff(record, surface), tmp_path)
    kept = load_record(tmp_path)["tradeoff"]
    assert kept["budget"] == {
        "values": [5.0, 30.0, 100.0], "own": 100.0, "per_client": False, "unit": "joules",
    }  # fmt: skip
    assert kept["seeds"] == [7, 8]
    empty, rich = kept["cells"][0], kept["cells"][-1]
    assert empty["train"] is False
    assert empty["predicted"] is empty["cost"] is empty["mean_accuracy"] is None
    assert "one round" in empty["reason"]
    plan = surface.points[-1].plan
    assert rich["train"] is True
    assert rich["reason"] is None
    assert (rich["rounds"], rich["local_steps"]) == (plan.rounds, plan.local.steps)
    assert rich["total_iterations"] == plan.rounds * plan.local.steps
    assert rich["cost"] == plan.cost.max()
    assert rich["predicted"]["bound"] == plan.prediction.bound
    assert rich["accuracy"] == surface.points[-1].accuracy.tolist()
    assert rich["mean_accuracy"] == pytest.approx(np.mean(rich["accuracy"]))
    assert rich["std_loss"] == pytest.approx(np.std(rich["loss"]))


def test_a_record_without_a_tradeoff_still_loads(prepared, tmp_path):
    own = decide(prepared)
    record = new_record(prepared.study, own, prepared.federation, prepared.dimension, name="old")
    del record["study"]["tradeoff"]
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert load_record(tmp_path) == record


# Bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"privacy": {"mechanism": "none"}}, 'the trade-off needs noise, got mechanism = "none"'),
        ({"federation": {"data": None, "clients": None, "partition": None, "sizes": [50, 50]},
          "task": {"dimension": 10}}, r"\[federation\] has sizes but no data"),
    ],
    ids=["no noise", "no data"],
)  # fmt: skip
def test_a_study_without_noise_or_data_has_no_tradeoff(tables, says):
    with pytest.raises(ConfigError, match=says):
        Surface.of(prepared_from(changed(**tables)))


def test_a_study_without_resources_has_no_tradeoff():
    raw = {name: table for name, table in RAW.items() if name != "resources"}
    with pytest.raises(ConfigError, match=r"the trade-off needs \[resources\]; state cost_per_round"):
        Surface.of(prepared_from(raw))


def test_a_study_that_cannot_be_planned_is_refused_and_not_empty():
    raw = {**RAW, "constants": {"source": "bought"}}
    prepared = prepared_from(raw)
    with pytest.raises(ConfigError, match='"bought" is not available for dp-pasgd'):
        plan_surface(Surface.of(prepared), prepared)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("epsilon", [], "[tradeoff] epsilon must be"),
        ("epsilon", [1.0, 0.0], "above 0"),
        ("epsilon", [float("inf")], "finite"),
        ("epsilon", 2.0, "[tradeoff] epsilon must be"),
        ("budget", [-5.0], "above 0"),
        ("budget", "most", "[tradeoff] budget must be"),
        ("seeds", [], "[tradeoff] seeds"),
        ("seeds", [-1], "at least 0"),
        ("budgets", [1.0], "budgets is not a key of this table; allowed: epsilon, budget, seeds"),
    ],
)
def test_other_values_are_refused_by_name(key, value, says):
    with pytest.raises(ConfigError) as caught:
        parse_study(changed(tradeoff={key: value}))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# Whom to trust ----------------------------------------------------------------------------------------


def trusting(algorithm="fedsgd-dpc", **privacy):
    raw = changed(tradeoff={"epsilon": [1.0, 4.0], "budget": [100.0], "seeds": [7], "trust": True})
    own = {**OTHERS[algorithm], "privacy": {**raw["privacy"], **privacy}} if algorithm in OTHERS else {}
    return prepared_from({**raw, **own})


@pytest.fixture(scope="module")
def by_trust():
    prepared = trusting()
    return prepared, train_surface(plan_surface(Surface.of(prepared), prepared), prepared)


def test_each_trust_is_planned_and_trained_as_a_study_that_states_it(by_trust):
    """And its own row is that of the surface, trained once."""
    _, surface = by_trust
    rows = {model: [one for one in surface.trusts if one.trust == model] for model in TRUST_MODELS}
    assert [one.epsilon for row in rows.values() for one in row] == 3 * [1.0, 4.0]
    for one, point in zip(rows["local"], surface.points, strict=True):
        assert one.plan is point.plan
        assert one.loss is point.loss
    for model in ("secure-sum", "central"):
        alone = trusting(trust=model, epsilon=1.0)
        decided = decide(alone).plan
        assert encoded(rows[model][0].plan) == encoded(decided)
        reached = train(decided, *alone.trained(), [7], evaluations=1).loss[0, -1]
        assert rows[model][0].loss[0] == pytest.approx(reached, rel=1e-6)
    assert not any(rows["central"][0].plan.as_dict()["noise"])
    assert [one.own for one in surface.trusts] == [False, True] + 4 * [False]


def test_the_record_and_its_figure_have_a_row_for_each_trust(by_trust):
    prepared, surface = by_trust
    made = with_tradeoff(
        new_record(prepared.study, decide(prepared), prepared.federation, 31, name="x"), surface
    )
    record = view(json.loads(json.dumps(made)))
    assert [(cell.trust, cell.epsilon) for cell in record.tradeoff.trust][2:4] == [
        ("secure-sum", 1.0),
        ("secure-sum", 4.0),
    ]
    (axes,) = trusts_figure(record).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [*TRUST_MODELS]
    written = [text.get_text() for text in axes.texts]
    assert f"{100 * record.tradeoff.trust[3].accuracy[0]:.1f}\N{NO-BREAK SPACE}%" in written
    assert "sums of uploads only (secure-sum, nobody colluding or missing)" in trusts_caption(record)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(tradeoff_table(record))
    assert "secure-sum" in console.export_text()


def test_nothing_is_said_of_trust_where_it_was_not_asked_for(prepared):
    surface = Surface.of(prepared)
    assert surface.trusts == ()
    assert "trust" not in prepared.study.tradeoff.model_dump()


def test_a_method_that_reads_single_uploads_has_no_plan_under_sums():
    prepared = trusting("dp-pasgd")
    surface = plan_surface(Surface.of(prepared), prepared)
    reasons = {one.trust: one.reason for one in surface.trusts if one.plan is None}
    assert set(reasons) == {"secure-sum", "central"}
    assert 'dp-pasgd cannot train under trust = "central"' in reasons["central"]
