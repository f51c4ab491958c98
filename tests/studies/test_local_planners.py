"""DP-FedAvg and DP-ScaffNew from a study file: contract, clipping modes, noise by hand, grids, training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import ConfigError, InvalidInput, UnsoundClaim
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.training import train
from noiseworthy.sweeps.compare import compare

CURVATURE = {"smoothness": 1.0, "strong_convexity": 0.1, "initial_distance_sq": 900.0}
FU = {
    "federation": {"sizes": [80] * 50},
    "task": {"dimension": 11},
    "privacy": {"mechanism": "laplace", "epsilon": 30.0, "clip_norm": 1.0},
    "algorithm": {
        "name": "dp-fedavg", "clipping_mode": "C", "clients_per_round": 10, "total_iterations": 120,
        "local_steps": "auto", "max_iterations": 200,
    },
    "constants": {**CURVATURE, "gradient_bound": 1.0, "heterogeneity": 0.5},
}  # fmt: skip
HOU = {
    "federation": {"sizes": [500] * 20},
    "task": {"dimension": 10},
    "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5, "clip_norm": 0.1},
    "algorithm": {"name": "dp-scaffnew", "max_iterations": 2000},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.05, "initial_distance_sq": 4.0, "optimum_gradient_sq": 0.5,
    },
}  # fmt: skip
LAPLACE = {"mechanism": "laplace", "delta": 0.0}
TUMOURS = {
    "federation": {"data": "breast-cancer", "clients": 4},
    "task": {"model": "logistic", "feature_norm": 1.0, "ridge": 0.05},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-3, "clip_norm": 0.5},
}


def changed(base, **tables):
    return {**base, **{name: {**base.get(name, {}), **table} for name, table in tables.items()}}


def planned(raw):
    return decide(prepare(parse_study(raw))).plan


def answer(raw):
    """The contract, through JSON that knows no NaN."""
    return json.loads(json.dumps(planned(raw).as_dict(), allow_nan=False))


def exact_std(epsilon, delta):
    """s(eps, delta) from the definition of the Gaussian trade-off."""

    def excess(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return 1 / brentq(excess, 1e-4, 50, xtol=1e-13)


# DP-FedAvg: the contract --------------------------------------------------------------------------------


def test_the_contract_of_fedavg_has_its_keys_and_counts():
    plan = answer(FU)
    assert plan["algorithm"] == "dp-fedavg"
    assert plan["train"]
    assert plan["total_iterations"] == 120
    assert 120 % plan["local_steps"] == 0
    assert plan["rounds"] * plan["local_steps"] == 120
    assert plan["clients_per_round"] == 10
    assert plan["releases"] == [-(-10 * plan["rounds"] // 50)] * 50
    assert plan["privacy"]["unit"] == "client"
    assert plan["clipping_mode"] == "C"
    assert all(row["spent_epsilon"] <= row["epsilon"] for row in plan["privacy"]["clients"])


@pytest.mark.parametrize(
    ("mode", "mechanism", "delta", "per_step"),
    [
        ("C", "laplace", 0.0, 2 * 1.0),
        ("C", "gaussian", 1e-5, 2 * 1.0),
        ("B", "gaussian", 1e-5, 2 * 1.0 / 80),
        ("E", "laplace", 0.0, np.sqrt(11) * 2 * 1.0 / 80),
    ],
)
def test_noise_of_every_round_by_hand(mode, mechanism, delta, per_step):
    """T_l S H_t / epsilon and S H_t sqrt(T_l) s(epsilon, delta), with H_t summed over the round's steps."""
    raw = changed(
        FU, privacy={"mechanism": mechanism, "delta": delta},
        algorithm={"clipping_mode": mode, "local_steps": 6, "step_size": 0.02, "step_decay": 40.0},
    )  # fmt: skip
    plan = answer(raw)
    steps = 0.02 / (1 + np.arange(120) / 40)
    reach = steps.reshape(20, 6).sum(axis=1)
    unit = 4 / 30.0 if mechanism == "laplace" else 2 * exact_std(30.0, 1e-5)
    np.testing.assert_allclose(plan["noise"], per_step * reach[0] * unit, rtol=1e-9)
    expected = np.outer(per_step * reach * unit, np.ones(50))
    np.testing.assert_allclose(plan["noise_per_round"], expected, rtol=1e-9)


def test_the_theorys_steps_are_the_default():
    """(2/mu) / (k + gamma) with gamma = max(8 L/mu, E)."""
    plan = answer(changed(FU, algorithm={"local_steps": 3}))
    assert plan["step_size"] == pytest.approx(2 / (0.1 * 80))
    assert plan["step_decay_rounds"] == pytest.approx(80.0)


def test_a_clipped_update_has_the_same_noise_in_every_round_and_no_step_in_it():
    raw = {**FU, "algorithm": {**FU["algorithm"], "clipping_mode": "D", "local_steps": 6, "step_size": 0.02}}
    raw.pop("constants")
    plan = answer(raw)
    np.testing.assert_allclose(plan["noise"], 4 * 2 * 1.0 / 30.0)
    assert "noise_per_round" not in plan
    assert plan["predicted"] is None


@pytest.mark.parametrize(
    ("keys", "step", "use"),
    [
        ({"step_size": 0.02, "step_decay": "none"}, (0.02, None), "constants are not used"),
        ({}, (2 / (0.1 * 80), 80.0), "constants serve for the step size alone"),
    ],
)
def test_stated_counts_of_clipped_updates_are_taken_beside_constants(keys, step, use):
    """They were refused with "state total_iterations and local_steps", though both were stated."""
    plan = answer(changed(FU, algorithm={"clipping_mode": "D", "local_steps": 6, **keys}))
    np.testing.assert_allclose(plan["noise"], 4 * 2 * 1.0 / 30.0)
    assert (plan["rounds"], plan["predicted"]) == (20, None)
    assert (plan["step_size"], plan["step_decay_rounds"]) == pytest.approx(step)
    assert any(use in note for note in plan["notes"])


def test_free_counts_of_clipped_updates_have_no_bound_to_plan_by():
    with pytest.raises(InvalidInput, match="mode D, clipped updates, has no bound to plan by; state total"):
        planned(changed(FU, algorithm={"clipping_mode": "D"}))


def test_a_longer_training_of_several_steps_is_planned_jointly():
    plan = answer(changed(FU, algorithm={"total_iterations": "auto"}))
    assert plan["total_iterations"] <= 200
    assert plan["total_iterations"] % plan["local_steps"] == 0


# Clipping modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "mode", "unit", "because"),
    [
        ({"algorithm": {"local_steps": 1}}, "A", "record", "one full-batch step"),
        ({"algorithm": {"local_steps": 4}}, "B", "record", "convex and smooth"),
        ({"algorithm": {"local_steps": 4}, "task": {"model": "softmax"}}, "C", "client", "several outputs"),
        ({"algorithm": {"local_steps": 4}, "task": {"feature_norm": None}}, "C", "client", "feature_norm"),
        ({"algorithm": {"local_steps": 4, "batch_size": 8}}, "C", "client", "minibatches"),
        ({"algorithm": {"local_steps": 4}, "privacy": LAPLACE}, "C", "client", "L1"),
    ],
)  # fmt: skip
def test_auto_takes_the_tightest_mode_whose_proof_holds_and_says_why(changes, mode, unit, because):
    stated = {"name": "dp-fedavg", "clients_per_round": 4, "step_size": 0.5, "total_iterations": 12}
    raw = changed(TUMOURS, algorithm=stated)
    raw = changed(raw, **{name: {**raw.get(name, {}), **table} for name, table in changes.items()})
    raw["task"] = {key: value for key, value in raw["task"].items() if value is not None}
    plan = planned(raw)
    assert plan.problem.clipping == mode
    assert plan.as_dict()["privacy"]["unit"] == unit
    (note,) = [note for note in plan.notes if note.startswith("Clipping mode")]
    assert because in note


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"algorithm": {"clipping_mode": "A", "local_steps": 3}}, "mode A"),
        ({"algorithm": {"clipping_mode": "B"}, "task": {"model": "softmax"}}, "mode B has no proof here"),
        ({"algorithm": {"clipping_mode": "B", "batch_size": 4}}, "mode B is proved for full batches"),
        ({"algorithm": {"clipping_mode": "B", "step_size": 9.0}}, "mode B needs steps of at most"),
        ({"algorithm": {"clipping_mode": "B"}, "privacy": LAPLACE}, "mode B is proved in L2"),
        ({"algorithm": {"clipping_mode": "E"}}, "mode E turns an L2 sensitivity"),
        ({"algorithm": {"clipping_mode": "C", "step_size": 21.0}}, "mode C needs step_size"),
        ({"algorithm": {"clipping_mode": "C"}, "privacy": {"relation": "add-remove"}}, "without ridge"),
    ],
)  # fmt: skip
def test_a_mode_whose_condition_fails_is_refused_by_name_before_training(tables, words):
    stated = {
        "name": "dp-fedavg",
        "clients_per_round": 4,
        "step_size": 0.5,
        "total_iterations": 12,
        "local_steps": 3,
    }
    raw = changed(changed(TUMOURS, algorithm=stated), **tables)
    with pytest.raises(UnsoundClaim, match=words):
        planned(raw)


def test_without_a_model_a_mode_that_needs_convexity_warns():
    plan = planned(
        changed(FU, privacy={"mechanism": "gaussian", "delta": 1e-5}, algorithm={"clipping_mode": "B"})
    )
    assert any(
        note.startswith("Warning: clipping mode B holds only for a convex loss") for note in plan.notes
    )


def test_a_budget_of_records_never_meets_a_clip_of_clients():
    problem = prepare(parse_study(FU)).problem(1.0, "C")
    with pytest.raises(UnsoundClaim, match="use one unit for both"):
        type(problem)(problem.sizes, 11, prepare(parse_study(FU)).problem(1.0, "A").budget, "laplace", 1.0,
                      clipping="C")  # fmt: skip


# DP-ScaffNew --------------------------------------------------------------------------------------------


def test_the_contract_of_scaffnew_charges_the_rounds_that_the_coins_gave():
    plan = answer(HOU)
    assert plan["train"]
    assert plan["algorithm"] == "dp-scaffnew"
    assert plan["step_size"] == 1.0
    assert plan["clients_per_round"] == 20
    assert plan["realised_rounds"] == plan["rounds"] == plan["releases"][0]
    assert plan["expected_rounds"] == pytest.approx(plan["communication_probability"] * plan["iterations"])
    std = 2 * 0.1 * np.sqrt(plan["realised_rounds"]) * exact_std(4.0, 1e-5)
    np.testing.assert_allclose(plan["noise"], std, rtol=1e-9)
    assert plan["privacy"]["unit"] == "client"


def test_the_papers_rule_communicates_with_the_root_of_the_condition_number():
    plan = answer(changed(HOU, algorithm={"rule": "paper"}))
    assert plan["communication_probability"] == pytest.approx(np.sqrt(0.05))


def test_when_the_noise_wins_nobody_trains_and_the_keys_stay():
    plan = answer(changed(HOU, privacy={"epsilon": 0.01}))
    assert not plan["train"]
    assert (plan["iterations"], plan["expected_rounds"], plan["realised_rounds"]) == (0, 0, 0)
    assert plan["releases"] == [0] * 20
    assert "do not train" in plan["outcome"].lower()


@pytest.mark.parametrize(
    ("tables", "error", "words"),
    [
        ({"privacy": {"clip_norm": "auto"}}, ConfigError, '"auto" is not planned for dp-scaffnew'),
        ({"privacy": LAPLACE}, InvalidInput, "Gaussian noise, got laplace"),
        ({"constants": {"source": "fitted"}}, ConfigError, '"fitted" has no use for smoothness'),
        ({"constants": {"source": "bought"}}, ConfigError, '"bought" is not available for dp-scaffnew'),
        ({"algorithm": {"step_size": 5.0}}, InvalidInput, "step_size"),
        ({"privacy": {"sampling_rate": 0.5, "relation": "add-remove"}}, UnsoundClaim, "no proof for Poisson"),
    ],
)  # fmt: skip
def test_bad_studies_get_one_line_with_the_remedy(tables, error, words):
    with pytest.raises(error, match=words):
        planned(changed(HOU, **tables))


@pytest.mark.parametrize("name", ["dp-fedavg", "dp-scaffnew"])
def test_missing_constants_are_named(name):
    raw = {**changed(HOU, algorithm={}), "algorithm": {"name": name}}
    raw.pop("constants")
    with pytest.raises(ConfigError, match=rf"\[constants\] are missing: planning {name} needs smoothness"):
        planned(raw)


# Training and comparing ---------------------------------------------------------------------------------

STATED = {
    "dp-fedavg": {"name": "dp-fedavg", "clients_per_round": 2, "step_size": 1.0, "total_iterations": 12,
                  "local_steps": 3},
    "dp-scaffnew": {"name": "dp-scaffnew", "step_size": 1.0, "iterations": 20,
                    "communication_probability": 0.4},
}  # fmt: skip


@pytest.mark.parametrize("name", list(STATED))
def test_a_stated_training_helps_spends_its_budget_and_resumes_to_the_same_model(name, tmp_path):
    raw = changed(TUMOURS, algorithm=STATED[name], privacy={"epsilon": 100.0})
    prepared = prepare(parse_study(raw))
    plan, (federation, task) = decide(prepared).plan, prepared.trained()
    run = train(plan, federation, task, [0, 1], folder=tmp_path)
    assert np.all(run.final_loss < run.loss[:, 0])
    assert np.all(plan.spent(run.uploads[0]) <= 100.0)
    assert run.uploads.max() == plan.releases.max()
    again = train(plan, federation, task, [0, 1], folder=tmp_path, resume=True)
    np.testing.assert_array_equal(again.theta, run.theta)


@pytest.mark.full
@pytest.mark.parametrize("name", list(STATED))
def test_a_comparison_varies_the_axes_of_its_algorithm(name):
    grid = {"iterations": [4, 12], "seeds": [5]}
    grid |= {"local_steps": [1, 4, 5]} if name == "dp-fedavg" else {"communication_probability": [0.5, 1.0]}
    raw = changed(TUMOURS, algorithm=STATED[name], privacy={"epsilon": 100.0}, compare=grid)
    prepared = prepare(parse_study(raw))
    decision = decide(prepared)
    comparison = compare(decision.plan, *prepared.trained(), prepared.study)
    cells = [tuple(cell.setting.values()) for cell in comparison.grid]
    if name == "dp-fedavg":  # 5 divides neither
        assert cells == [(1, 4), (4, 4), (1, 12), (4, 12)]
        assert comparison.planned.setting == {"local_steps": 3, "iterations": 12}
    else:
        assert cells == [(0.5, 4), (1.0, 4), (0.5, 12), (1.0, 12)]
        assert comparison.planned.setting == {"communication_probability": 0.4, "iterations": 20}
    assert np.isfinite(comparison.lost_gain)
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name="x")
    assert record["evidence"] is None, "nothing was predicted where all was stated"


def test_a_grid_without_cells_is_refused():
    grid = {"iterations": [7], "local_steps": [2, 3]}
    prepared = prepare(parse_study(changed(TUMOURS, algorithm=STATED["dp-fedavg"], compare=grid)))
    with pytest.raises(InvalidInput, match=r"the grid of \[compare\] has no cell"):
        compare(decide(prepared).plan, *prepared.trained(), prepared.study)


@pytest.mark.full
def test_minibatches_train_at_client_level():
    raw = changed(
        TUMOURS, algorithm={**STATED["dp-fedavg"], "clipping_mode": "D", "batch_size": 16},
        privacy={"epsilon": 200.0, "clip_norm": 3.0},
    )  # fmt: skip
    prepared = prepare(parse_study(raw))
    run = train(decide(prepared).plan, *prepared.trained(), [0])
    assert run.final_loss[0] < run.loss[0, 0]


def test_a_record_keeps_the_noise_of_the_first_and_the_last_round():
    prepared = prepare(parse_study(changed(FU, algorithm={"local_steps": 6})))
    decision = decide(prepared)
    kept = new_record(prepared.study, decision, None, 11, name="x")["plan"]["noise_per_round"]
    every = decision.plan.as_dict()["noise_per_round"]
    assert len(every) == 20
    assert kept == [every[0], every[-1]]


# Within resources ---------------------------------------------------------------------------------------


def test_where_one_step_per_reply_is_not_paid_for_several_are_planned():
    """120 iterations, half of the clients a time: 60 replies at 11 cost 660, ten of twelve steps 220."""
    algorithm = {"clipping_mode": "auto", "clients_per_round": 25}
    raw = changed(FU, resources={"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 250.0},
                  algorithm=algorithm)  # fmt: skip
    plan = answer(raw)
    assert plan["total_iterations"] == 120
    assert plan["local_steps"] > 1
    assert plan["cost"] == plan["releases"][0] * (10 + plan["local_steps"]) <= 250.0
    with pytest.raises(InvalidInput, match=r"does not pay for total_iterations = 120 with local_steps = 1"):
        planned(changed(raw, algorithm={"local_steps": 1}))


def test_scaffnew_stays_within_its_resources_whatever_the_coins():
    resources = {"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 60.0}
    plans = [answer(changed(HOU, resources=resources, algorithm={"coin_seed": seed})) for seed in range(20)]
    assert all(0 < plan["cost"] <= 60.0 for plan in plans if plan["train"])
    assert sum(plan["train"] for plan in plans) > 10
    assert answer(HOU)["cost"] is None


@pytest.mark.full
@pytest.mark.parametrize("name", list(STATED))
def test_a_comparison_leaves_out_what_is_not_paid_for(name):
    grid = {"iterations": [4, 12], "seeds": [5]}
    grid |= {"local_steps": [1, 4]} if name == "dp-fedavg" else {"communication_probability": [0.25, 1.0]}
    resources = {"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 100.0}
    raw = changed(
        TUMOURS, algorithm=STATED[name], privacy={"epsilon": 100.0}, compare=grid, resources=resources
    )
    prepared = prepare(parse_study(raw))
    comparison = compare(decide(prepared).plan, *prepared.trained(), prepared.study)
    cells = {tuple(cell.setting.values()) for cell in comparison.grid}
    if name == "dp-fedavg":  # six rounds of two of four clients each; of one step twelve cost 132
        assert cells == {(1, 4), (4, 4), (4, 12), (1, 12)}
    else:  # 12 (1 * 10 + 1) = 132 is too much, 12 (10/4 + 1) = 42 is not
        assert {(0.25, 12), (1.0, 4)} <= cells
        assert (1.0, 12) not in cells
