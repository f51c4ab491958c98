"""Where constants come from, what a plan costs, and that planning by trial reads no private record."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import ConfigError, InvalidInput, UnsoundClaim
from noiseworthy.methods.fedsgd_dpc import method as fedsgd_dpc
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare

CONSTANTS = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0, "initial_distance_sq": 9000.0,
    "heterogeneity": 0.5,
}  # fmt: skip
SIZES_ONLY = {
    "federation": {"sizes": [6000] * 9 + [3000]},
    "task": {"dimension": 7840},
    "privacy": {"mechanism": "laplace", "epsilon": 5.0, "clip_norm": 300.0},
    "algorithm": {"max_rounds": 200},
    "constants": CONSTANTS,
}
IRIS = {
    "federation": {"data": "iris", "clients": 4, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0, "bias": False},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-4, "clip_norm": 0.5},
}
CONTRACT = {
    "algorithm", "mechanism", "train", "rounds", "clients_per_round", "releases", "noise", "predicted",
    "constants", "privacy", "outcome", "as_printed",
}  # fmt: skip


def changed(base, **tables):
    return {**base, **{name: {**base.get(name, {}), **table} for name, table in tables.items()}}


def decided(raw):
    return decide(prepare(parse_study(raw)))


def std_per_sensitivity(epsilon, delta):
    """s(eps, delta) = 1/mu from the definition of the Gaussian trade-off, without the code under test."""

    def excess(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return 1 / brentq(excess, 1e-4, 50, xtol=1e-13)


# From sizes and constants alone -------------------------------------------------------------------------


def test_laplace_noise_is_2_xi_k_over_n_epsilon_for_every_client():
    epsilon = np.linspace(2.0, 6.0, 10)
    plan = decided(changed(SIZES_ONLY, privacy={"epsilon": epsilon.tolist()})).plan
    assert plan.train
    k = -(-plan.rounds * plan.clients_per_round // 10)
    assert plan.releases.tolist() == [k] * 10
    sizes = np.array([6000] * 9 + [3000])
    np.testing.assert_allclose(plan.noise, 2 * 300 * k / (sizes * epsilon), rtol=1e-9)
    np.testing.assert_allclose(plan.spent(), epsilon, rtol=1e-9)
    assert np.all(plan.spent() <= epsilon)


def test_gaussian_noise_is_2_xi_over_n_root_k_s_for_every_client():
    epsilon, delta = np.linspace(0.5, 6.0, 10), 1e-5
    raw = changed(
        SIZES_ONLY, privacy={"mechanism": "gaussian", "epsilon": epsilon.tolist(), "delta": delta,
                             "clip_norm": 10.0}
    )  # fmt: skip
    plan = decided(raw).plan
    assert plan.train
    assert plan.clients_per_round == 10
    sizes = np.array([6000] * 9 + [3000])
    s = np.array([std_per_sensitivity(e, delta) for e in epsilon])
    np.testing.assert_allclose(plan.noise, 2 * 10.0 / sizes * np.sqrt(plan.rounds) * s, rtol=1e-6)
    assert np.all(plan.spent() <= epsilon)


def test_the_answer_has_every_key_of_the_contract():
    plan = decided(SIZES_ONLY).plan.as_dict()
    assert set(plan) >= CONTRACT
    assert set(plan["predicted"]) >= {"bound", "no_training"}
    assert set(plan["privacy"]) >= {"unit", "relation", "adversary", "clients"}
    assert set(plan["privacy"]["clients"][0]) == {"epsilon", "delta", "spent_epsilon"}
    assert len(plan["privacy"]["clients"]) == len(plan["noise"]) == len(plan["releases"]) == 10
    assert plan["constants"].keys() == CONSTANTS.keys()
    assert plan["constants"]["smoothness"] == {"value": 1.0, "provenance": "assumed"}
    assert all(type(k) is int for k in plan["releases"])
    assert plan["as_printed"]["private"] is False
    json.dumps(plan, allow_nan=False)


@pytest.mark.parametrize(("rounds", "b"), [(30, 3), (1, 10), (7, "auto"), ("auto", 4)])
def test_what_the_user_fixes_stays_fixed(rounds, b):
    plan = decided(changed(SIZES_ONLY, algorithm={"rounds": rounds, "clients_per_round": b})).plan
    assert plan.rounds == rounds or rounds == "auto"
    assert plan.clients_per_round == b or b == "auto"


def test_a_step_that_is_not_stated_is_that_of_the_theory():
    """(2/mu) / (t + 2L/mu) with L = 1, mu = 0.1."""
    step = decided(SIZES_ONLY).plan.step
    t = np.array([0, 5, 100])
    np.testing.assert_allclose(step.at(t), 20 / (t + 20))
    stated = decided(changed(SIZES_ONLY, algorithm={"step_size": 0.3, "step_decay": "none"})).plan.step
    np.testing.assert_allclose(stated.at(t), 0.3)


def test_a_stated_momentum_and_averaging_reach_the_plan_and_change_nothing_else():
    plain, stated = (
        decided(changed(SIZES_ONLY, algorithm=table)).plan
        for table in ({}, {"momentum": 0.8, "averaging": 0.5})
    )
    assert (plain.momentum, plain.averaging) == (0.0, 0.0)
    assert (stated.momentum, stated.averaging) == (0.8, 0.5)
    same = replace(stated, momentum=0.0, averaging=0.0)
    assert json.dumps(same.as_dict()) == json.dumps(plain.as_dict())


def test_do_not_train_is_an_answer_that_spends_nothing():
    plan = decided(changed(SIZES_ONLY, privacy={"epsilon": 1e-4})).plan
    assert not plan.train
    assert plan.releases.tolist() == plan.spent().tolist() == [0] * 10
    assert plan.outcome.startswith("Do not train")
    assert plan.prediction.bound == plan.prediction.no_training == 9000.0


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"privacy": {"epsilon": 0.0}}, "epsilon must be finite and above 0, got 0"),
        ({"privacy": {"epsilon": -1.0}}, "epsilon must be finite and above 0, got -1"),
        ({"privacy": {"epsilon": float("nan")}}, "epsilon must be a number, got NaN"),
        ({"privacy": {"epsilon": float("inf")}}, r"epsilon must be between 1e-15 and 1e\+15 .*, got inf"),
        ({"privacy": {"epsilon": [1.0, 2.0]}}, "epsilon must be one number or a list of 10"),
        ({"privacy": {"epsilon": [1.0] * 9 + [0.0]}}, "got 0 for client 9"),
        ({"privacy": {"delta": 1.0}}, r"delta must lie in \[0, 1\), got 1"),
        ({"privacy": {"delta": -0.1}}, r"delta must lie in \[0, 1\), got -0.1"),
        ({"privacy": {"mechanism": "gaussian"}}, "Gaussian noise needs a delta above 0; use Laplace noise"),
        ({"privacy": {"clip_norm": 0.0}}, "clip_norm must be finite and above 0, got 0; a clip of 0"),
        ({"privacy": {"clip_norm": float("nan")}}, "clip_norm must be a number, got NaN"),
        ({"privacy": {"clip_norm": "auto"}}, r'clip_norm = "auto" needs planning by trial'),
        ({"privacy": {"sampling_rate": 1.5}}, "sampling_rate must be at most 1, got 1.5"),
        ({"algorithm": {"clients_per_round": 11}}, "between 1 and 10, got 11; the federation has 10 clients"),
        ({"algorithm": {"clients_per_round": 0}}, "clients_per_round must be at least 1 .*got 0"),
        ({"algorithm": {"rounds": 0}}, "rounds must be at least 1 or 'auto', got 0"),
        ({"algorithm": {"rounds": -3}}, "rounds must be at least 1 or 'auto', got -3"),
        ({"algorithm": {"max_rounds": 0}}, "max_rounds must be at least 1, got 0"),
        ({"constants": {"strong_convexity": 2.0}}, "strong_convexity must be at most smoothness = 1, got 2"),
        ({"constants": {"strong_convexity": 0.0}}, "strong_convexity must be finite and above 0, got 0; add"),
        ({"constants": {"smoothness": float("nan")}}, "smoothness must be a number, got NaN"),
        ({"constants": {"gradient_bound": -1.0}}, "gradient_bound must be finite and at least 0, got -1"),
        ({"constants": {"source": "fitted"}}, r'source = "fitted" has no use for smoothness, .*leave them'),
        ({"constants": {"source": "bought"}}, r"\[federation\] has sizes but no data"),
        ({"algorithm": {"step_decay": 3.0}}, "step_decay needs a step_size, got .auto"),
    ],
)  # fmt: skip
def test_numbers_outside_their_range_are_refused_with_name_value_and_remedy(tables, says):
    with pytest.raises((ConfigError, InvalidInput), match=says):
        decided(changed(SIZES_ONLY, **tables))


def test_poisson_batches_without_a_proof_are_refused():
    with pytest.raises(UnsoundClaim, match="accounted for Gaussian noise only"):
        decided(changed(SIZES_ONLY, privacy={"sampling_rate": 0.1}))
    gaussian = {"mechanism": "gaussian", "delta": 1e-5, "sampling_rate": 0.1}
    with pytest.raises(UnsoundClaim, match='set relation = "add-remove" or use full batches'):
        decided(changed(SIZES_ONLY, privacy=gaussian))


def test_missing_constants_are_asked_for_by_name():
    without = {key: value for key, value in SIZES_ONLY.items() if key != "constants"}
    with pytest.raises(
        ConfigError, match=r"\[constants\] are missing: .*smoothness, .* or give data to plan by trial"
    ):
        decided(without)
    some = {key: value for key, value in CONSTANTS.items() if key not in ("smoothness", "heterogeneity")}
    with pytest.raises(InvalidInput, match="needs the constants smoothness, heterogeneity; state them"):
        decided({**SIZES_ONLY, "constants": some})


@pytest.mark.parametrize("tables", [
    {"algorithm": {"rounds": 0}}, {"algorithm": {"rounds": -3}}, {"algorithm": {"clients_per_round": 9}},
    {"algorithm": {"clients_per_round": 0}}, {"algorithm": {"max_rounds": 0}},
    {"privacy": {"clip_norm": 0.0}}, {"privacy": {"clip_norm": -1.0}},
])  # fmt: skip
def test_before_trials_begin_fixed_settings_are_checked(tables, monkeypatch):
    monkeypatch.setattr("noiseworthy.trials.bench.make_proxies", lambda *_: pytest.fail("trials began"))
    with pytest.raises((ConfigError, InvalidInput), match=r"rounds|clients_per_round|clip_norm"):
        decided(changed(IRIS, **tables))


# From the model -----------------------------------------------------------------------------------------


def test_analytic_constants_are_marked_and_stated_ones_take_precedence():
    plan = decided(changed(IRIS, constants={"source": "analytic", "smoothness": 3.0})).plan
    provenance = {name: constant.provenance for name, constant in plan.constants.items()}
    assert provenance.pop("smoothness") == "assumed"
    assert set(provenance.values()) == {"analytic"}
    assert plan.constants["strong_convexity"].value == 0.1
    assert plan.constants["gradient_bound"].value == 0.5  # the clip
    assert plan.constants["initial_distance_sq"].value == pytest.approx(2 * np.log(3) / 0.1)


def test_an_automatic_clip_under_analytic_constants_is_the_largest_gradient():
    plan = decided(changed(IRIS, constants={"source": "analytic"}, privacy={"clip_norm": "auto"})).plan
    assert plan.problem.clip_norm == pytest.approx(np.sqrt(2))


def test_a_network_has_no_analytic_constants():
    raw = changed(IRIS, constants={"source": "analytic"}, task={"model": "cnn"})
    raw["federation"] = {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 5}
    raw["task"] = {"model": "cnn"}
    with pytest.raises(
        ConfigError, match="linear models without weights that start at zero only; plan by trial"
    ):
        decided(raw)


# Bought -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_bought_constants_are_paid_for_out_of_the_budget(mechanism):
    privacy = {"mechanism": mechanism, "delta": 1e-4 if mechanism == "gaussian" else 0.0,
               "epsilon": [2.0, 4.0, 8.0, 8.0]}  # fmt: skip
    raw = changed(IRIS, privacy=privacy, constants={"source": "bought", "share": 0.2},
                  algorithm={"rounds": 3, "clients_per_round": 4})  # fmt: skip
    plan = decided(raw).plan
    budget = np.array(privacy["epsilon"])
    assert plan.train
    assert plan.pilot is not None
    spent, pilot_alone = plan.spent(), plan.spent(np.zeros(4, int))
    assert np.all(spent <= budget)
    np.testing.assert_allclose(spent, budget, rtol=1e-5)
    # a fifth of what adds up, which is epsilon or the square of mu
    assert np.all(pilot_alone > 0.15 * budget)
    assert np.all(pilot_alone < 0.5 * budget)
    assert np.all(plan.problem.budget.epsilon < budget)
    assert [row["epsilon"] for row in plan.as_dict()["privacy"]["clients"]] == budget.tolist()
    assert plan.constants["gradient_bound"].provenance.startswith("bought with one upload per client")
    assert plan.constants["smoothness"].provenance == "analytic"


def test_a_share_that_buys_nothing_is_refused():
    with pytest.raises(ConfigError, match='share is paid where source = "bought"; state that, or leave it'):
        decided(changed(IRIS, constants={"source": "analytic", "share": 0.2}))


def test_a_plan_that_does_not_train_has_still_spent_its_pilot():
    plan = decided(changed(IRIS, constants={"source": "bought", "initial_distance_sq": 1e-9})).plan
    assert not plan.train
    assert np.all(plan.spent() > 0.1)
    assert np.all(plan.spent() < 8.0)
    assert plan.constants["initial_distance_sq"].provenance == "assumed"


def test_bought_constants_approach_those_of_the_data_as_the_noise_vanishes():
    raw = changed(IRIS, privacy={"epsilon": 1e9, "mechanism": "laplace", "delta": 0.0, "clip_norm": 50.0},
                  constants={"source": "bought"})  # fmt: skip
    prepared = prepare(parse_study(raw))
    plan, federation = decide(prepared).plan, prepared.federation
    gradients = []
    for x, y in zip(federation.x, federation.y, strict=True):
        unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        gradients.append((unit.T @ (np.full((len(y), 3), 1 / 3) - np.eye(3)[y])).ravel() / len(y))
    weights = federation.sizes / federation.sizes.sum()
    squares = weights @ np.square(gradients).sum(axis=1)
    mean = np.square(weights @ np.array(gradients)).sum()
    smoothness, mu = plan.constants["smoothness"].value, 0.1
    expected = {
        "gradient_bound": np.sqrt(squares),
        "heterogeneity": squares / (2 * mu) - mean / (2 * smoothness),
        "initial_distance_sq": mean / mu**2,
    }
    for name, value in expected.items():
        assert plan.constants[name].value == pytest.approx(value, rel=1e-3), name


@pytest.mark.parametrize(("mechanism", "law"), [("gaussian", "norm"), ("laplace", "laplace")])
def test_what_a_client_uploads_to_sell_constants_carries_the_noise_that_it_pays_for(
    mechanism, law, monkeypatch
):
    """Uploads minus the same uploads at a vanishing noise, in units of the pilot's noise; 2,560 draws."""
    seen, original = [], fedsgd_dpc.bought_constants

    def watch(gradients, problem, pilot, *rest):
        seen.append((gradients, pilot.mechanism.size))
        return original(gradients, problem, pilot, *rest)

    monkeypatch.setattr(fedsgd_dpc, "bought_constants", watch)
    for epsilon in (0.5, 1e7):
        raw = changed(IRIS, constants={"source": "bought"}, privacy={
            "mechanism": mechanism, "epsilon": epsilon, "delta": 1e-4 if mechanism == "gaussian" else 0.0
        })  # fmt: skip
        raw["federation"] = {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 20}
        decided(raw)
    (loud, sizes), (quiet, _) = seen
    unit = ((loud - quiet) / sizes[:, None]).ravel()
    assert stats.kstest(unit, law).pvalue > 1e-4
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(wrong * unit, law).pvalue < 1e-4
    # of one seed, and of a client's two uploads at one model: the same noise twice would give both away
    keys = [named_key(jax.random.key(0), Purpose.NOISE, 0, client) for client in range(len(sizes))]
    first = np.concatenate([simulated_noise(key, mechanism, 1.0, loud.shape[1]) for key in keys])
    assert abs(np.corrcoef(unit, first)[0, 1]) < 0.1


# By trial -----------------------------------------------------------------------------------------------


QUICK = changed(
    IRIS,
    task={"ridge": 0.0},
    privacy={"clip_norm": 0.3},
    algorithm={"max_rounds": 8, "step_size": 1.0},
    planning={"public": ["prior:0"], "seeds": 2},
)


@pytest.fixture(scope="module")
def by_trial():
    prepared = prepare(parse_study(QUICK))
    return prepared, decide(prepared)


@pytest.mark.full
def test_a_plan_by_trial_says_what_it_rests_on(by_trial):
    _, decision = by_trial
    plan = decision.plan
    assert {constant.provenance for constant in plan.constants.values()} == {"fitted to trials on prior:0"}
    assert "no private record was read" in plan.notes[0]
    assert plan.prediction.unit == "test loss, predicted from trials on public data"
    assert plan.prediction.no_training == pytest.approx(np.log(3))
    assert decision.trials
    assert plan.step.initial == 1.0
    assert plan.problem.clip_norm == 0.3
    assert np.all(plan.spent() <= 8.0)
    assert plan.rounds <= 8


def test_planning_by_trial_reads_no_private_feature_or_label(by_trial):
    """Permuted labels, replaced features, another test set, sizes fixed: the plan stays to the last bit."""
    prepared, decision = by_trial
    rng = np.random.default_rng(9)
    federation = prepared.federation
    other = replace(
        federation,
        x=rng.normal(size=federation.x.shape).astype(np.float32) * 100,
        y=rng.permutation(federation.y.ravel()).reshape(federation.y.shape),
        test_x=rng.normal(size=federation.test_x.shape).astype(np.float32),
        test_y=rng.permutation(federation.test_y),
    )
    again = decide(replace(prepared, federation=other))
    assert again.plan.as_dict() == decision.plan.as_dict()
    assert again.trials == decision.trials


def test_own_data_cannot_be_called_public():
    with pytest.raises(InvalidInput, match=r"iris is the private data of this study .* \[planning\] public"):
        decided(changed(QUICK, planning={"public": ["wine", "iris"]}))


def test_own_data_cannot_be_called_public_by_another_path(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "own.npz", x=rng.normal(size=(60, 4)), label=np.arange(60) % 3)
    monkeypatch.chdir(tmp_path)
    raw = changed(QUICK, planning={"public": [str(tmp_path / "own.npz")]})
    raw["federation"] = {"data": "own.npz", "clients": 4, "partition": "iid"}
    with pytest.raises(InvalidInput, match="cannot be called public"):
        decided(raw)


def test_public_data_must_be_known():
    with pytest.raises(InvalidInput, match="source must be one of"):
        decided(changed(QUICK, planning={"public": ["nope"]}))


def test_without_noise_there_is_nothing_to_try():
    with pytest.raises(ConfigError, match=r"nothing to plan by trial without noise; state \[constants\]"):
        decided(changed(QUICK, privacy={"mechanism": "none"}))


# Within resources ---------------------------------------------------------------------------------------


def test_bought_constants_leave_room_for_the_upload_that_bought_them():
    """Five replies of 3 each: one buys, four train."""
    resources = {"cost_per_round": 2.0, "cost_per_step": 1.0, "budget": 15.0}
    algorithm = {"rounds": 4, "clients_per_round": 4}
    raw = changed(
        IRIS, constants={"source": "bought", "share": 0.2}, resources=resources, algorithm=algorithm
    )
    plan = decided(raw).plan
    assert plan.pilot is not None
    assert plan.cost is not None
    assert (plan.releases.tolist(), plan.cost.tolist()) == ([4] * 4, [15.0] * 4)
    with pytest.raises(InvalidInput, match="pays for 4 uploads of every client, got rounds = 5 with 4 of 4"):
        decided(changed(raw, algorithm={"rounds": 5}))
    with pytest.raises(InvalidInput, match="pays for one upload of every client, and buying constants"):
        decided(changed(raw, resources={"budget": 5.0}, algorithm={"rounds": 1}))


def test_before_trials_begin_what_cannot_be_paid_for_is_refused(monkeypatch):
    monkeypatch.setattr("noiseworthy.trials.bench.make_proxies", lambda *_: pytest.fail("trials began"))
    raw = changed(IRIS, resources={"cost_per_round": 2.0, "budget": 9.0}, algorithm={"rounds": 17})
    with pytest.raises(InvalidInput, match="use rounds of at most 16, or raise the budget"):
        decided(raw)


def test_a_device_that_pays_more_sets_the_plan_of_all():
    """With budgets for 20 replies and one client for 3, every client makes 3 at most."""
    resources = {"cost_per_round": 1.0, "budget": [20.0] * 9 + [3.0]}
    plan = decided(changed(SIZES_ONLY, resources=resources)).plan
    assert plan.train
    assert plan.releases.max() <= 3
    assert any("pays for at most 3 uploads of every client" in note for note in plan.notes)
