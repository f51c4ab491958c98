"""A plan binds decision, noise and claim: what it says it spends is what its noise pays for."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound, theory_bound, vacuous_until
from noiseworthy.methods.fedsgd_dpc.planner import plan, stated
from noiseworthy.plans.estimation import split_budget
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.budget import PrivacyBudget

VALUES = {
    "smoothness": 1.0,
    "strong_convexity": 0.1,
    "gradient_bound": 10.0,
    "initial_distance_sq": 9000.0,
    "heterogeneity": 0.5,
}
S_1 = 3.73063163481594
"""s(1, 1e-5) of docs/theory/accounting.md#gaussian-mechanism, by bisection in 60 digits."""


def make(
    family="laplace", epsilon=5.0, delta=None, sizes=(6000,) * 10, clip=300.0, relation="replace-one",
    values=VALUES, **how,
) -> Plan:  # fmt: skip
    sizes = np.array(sizes)
    delta = (1e-5 if family == "gaussian" else 0.0) if delta is None else delta
    budget = PrivacyBudget.of(epsilon, delta, len(sizes), relation)
    problem = Problem(sizes, 7840, budget, family, clip)
    constants = {name: Constant(value, "assumed") for name, value in values.items()}
    return plan(problem, theory_bound(problem, constants), constants, **how)


# Weights --------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
    epsilon=st.floats(0.01, 50.0),
    weighting=st.floats(0.0, 1.0),
    family=st.sampled_from(["laplace", "gaussian"]),
)
def test_weights_are_shares_that_favour_the_precise(sizes, epsilon, weighting, family):
    made = replace(made_for(sizes, epsilon, family), weighting=weighting)
    shares, weights = made.problem.weights, made.weights
    assert weights.sum() == pytest.approx(1.0)
    expected = shares ** (1 - weighting) * made.noise ** (-2 * weighting)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-9)
    noise = lambda one: float(np.sum((one * made.noise) ** 2))  # noqa: E731
    assert noise(weights) <= noise(shares) * (1 + 1e-9)


@given(
    st.lists(st.integers(1, 10**4), min_size=2, max_size=6),
    st.lists(st.floats(0.1, 10.0), min_size=6, max_size=6),
    st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
)
def test_weights_by_precision_alone_have_the_least_noise_of_all_weights(sizes, epsilons, others):
    """Beside any other weights; budgets differ, too."""
    made = replace(made_for(sizes, np.array(epsilons[: len(sizes)]), "laplace"), weighting=1.0)
    other = np.array(others[: len(sizes)]) / sum(others[: len(sizes)])
    noise = [np.sum((one * made.noise) ** 2) for one in (made.weights, other)]
    assert noise[0] <= noise[1] * (1 + 1e-9)


def made_for(sizes, epsilon, family):
    n = len(sizes)
    budget = PrivacyBudget.of(epsilon, 1e-5 if family == "gaussian" else 0.0, n)
    return stated(Problem(np.array(sizes), 5, budget, family, 1.0), 3, n, StepSize(0.1))


def test_without_noise_clients_are_weighted_by_records():
    problem = Problem(np.array([1, 3]), 5, PrivacyBudget.of(1.0, 0.0, 2), "none", 1.0)
    made = replace(stated(problem, 3, 2, StepSize(0.1)), weighting=1.0)
    assert made.weights.tolist() == [0.25, 0.75]
    assert made.as_dict()["weighting"] == 1.0
    assert "weighting" not in replace(made, weighting=0.0).as_dict()


# Noise and cost -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("relation", "factor"), [("replace-one", 2), ("add-remove", 1)])
def test_laplace_noise_is_2_xi_k_over_d_epsilon(relation, factor):
    sizes, epsilon = np.array([6000, 500, 90]), np.array([1.0, 3.0, 0.2])
    made = make(epsilon=epsilon, sizes=sizes, relation=relation, rounds=10, clients_per_round=1)
    assert made.releases.tolist() == [4, 4, 4]  # ceil(10 / 3), not 3.33
    np.testing.assert_allclose(made.noise, factor * 300.0 * 4 / (sizes * epsilon), rtol=1e-11)


@pytest.mark.parametrize(("relation", "factor"), [("replace-one", 2), ("add-remove", 1)])
def test_gaussian_noise_is_2_xi_over_d_root_k_s(relation, factor):
    sizes = np.array([6000, 500, 90])
    made = make("gaussian", 1.0, sizes=sizes, clip=10.0, relation=relation, rounds=7, clients_per_round=2)
    assert made.releases.tolist() == [5, 5, 5]
    np.testing.assert_allclose(made.noise, factor * 10.0 / sizes * np.sqrt(5) * S_1, rtol=1e-8)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_plan_spends_its_budget_and_never_more(family):
    rng = np.random.default_rng(6)
    for _ in range(60):
        n = int(rng.integers(1, 9))
        epsilon, sizes = 10 ** rng.uniform(-0.5, 1.5, n), rng.integers(50, 9000, n)
        made = make(family, epsilon, sizes=sizes, clip=float(10 ** rng.uniform(-1, 2)), max_rounds=60)
        if made.train:
            assert np.all(made.spent() <= epsilon)
            assert np.all(made.spent() >= 0.999 * epsilon)
            assert made.releases.max() == -(-made.rounds * made.clients_per_round // n)
            assert np.all(made.spent(made.releases - 1) < made.spent())
            assert np.all(made.spent(made.releases + 1) > epsilon)
        else:
            assert not np.any(made.spent())


def test_a_laplace_plan_with_a_delta_spends_its_budget_and_needs_less_noise():
    given = {"epsilon": [1.0, 2.0], "sizes": (500, 800), "clip": 1.0, "rounds": 60, "clients_per_round": 1}
    pure, approximate = make(delta=0.0, **given), make(delta=1e-5, **given)
    assert np.all(approximate.spent() <= [1.0, 2.0])
    assert np.all(approximate.spent() >= [0.999, 1.998])
    assert np.all(approximate.noise < 0.8 * pure.noise)


def test_a_plan_without_privacy_says_so():
    made = make("none", max_rounds=30)
    assert made.train
    said = made.as_dict()
    assert said["privacy"]["private"] is False
    assert said["privacy"]["clients"][0]["spent_epsilon"] is None
    assert not np.any(made.noise)
    assert (made.rounds, made.clients_per_round) == (30, 10)
    assert made.as_printed == {}


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_pilot_is_charged_in_what_a_plan_says_it_spends(family):
    whole = make(family, [2.0, 5.0], sizes=(900, 400), clip=1.0, rounds=6, clients_per_round=1).problem
    release, rest = split_budget(whole, 0.2)
    alone = stated(rest, 6, 1, StepSize(0.1))
    bought = replace(alone, pilot=Pilot(((release, np.ones(whole.n_clients, int)),), whole.budget))
    np.testing.assert_array_equal(bought.budget.epsilon, [2.0, 5.0])
    assert np.all(alone.spent() < bought.spent())
    assert np.all(bought.spent() <= [2.0, 5.0])
    np.testing.assert_allclose(bought.spent(), [2.0, 5.0], rtol=1e-6)
    assert [client["epsilon"] for client in bought.as_dict()["privacy"]["clients"]] == [2.0, 5.0]
    untrained = replace(bought, rounds=0, releases=np.zeros(2, int), release=None)
    assert np.all(untrained.spent() > 0)  # the pilot is spent even if the answer is not to train


def test_a_stated_setting_gets_the_noise_it_needs():
    made = stated(make().problem, 25, 3, StepSize(0.1))
    assert made.releases.tolist() == [8] * 10
    np.testing.assert_allclose(made.noise, 2 * 300 * 8 / 6000 / 5, rtol=1e-11)
    with pytest.raises(InvalidInput, match="clients_per_round must be between 1 and 10, got 11"):
        stated(made.problem, 25, 11, StepSize(0.1))


# Decisions ----------------------------------------------------------------------------------------


def test_what_is_given_is_kept():
    assert make(rounds=17).rounds == 17
    assert make(clients_per_round=4).clients_per_round == 4
    both = make(rounds=17, clients_per_round=4)
    assert (both.rounds, both.clients_per_round, both.releases[0]) == (17, 4, 7)
    assert make(epsilon=1e4, rounds=900, max_rounds=20).rounds == 900


def test_a_stated_setting_trains_although_the_bound_advises_against_it():
    made = make(epsilon=1e-3, rounds=17, clients_per_round=4)
    assert made.train
    assert "as stated, although the bound advises against it" in made.outcome
    assert made.prediction is not None
    assert made.prediction.bound > made.prediction.no_training


def test_too_much_noise_means_do_not_train_with_its_reason():
    made = make(epsilon=1e-3)
    assert not made.train
    assert (made.rounds, made.clients_per_round, made.release) == (0, 0, None)
    assert not np.any(made.releases)
    assert not np.any(made.noise)
    assert made.outcome.startswith("Do not train: the noise outweighs the gain")
    assert "raise epsilon or add records" in made.outcome
    assert made.prediction is not None
    assert made.prediction.bound == made.prediction.no_training == 9000.0


def test_a_vacuous_bound_is_named_as_such_and_not_blamed_on_noise():
    """rest/(T + gamma) >= Y_0 for every T within reach: the bound could never recommend training."""
    values = VALUES | {"heterogeneity": 500.0, "initial_distance_sq": 1.0}
    made = make(epsilon=1e6, values=values)
    assert not made.train
    assert "the bound is vacuous here" in made.outcome
    assert "plan by trial on public data" in made.outcome
    bound = theory_bound(made.problem, made.constants)
    start = vacuous_until(bound)
    quiet = RepliesBound(bound.gamma, 0.0, bound.rest, 0.0, bound.no_training)
    before, after = quiet.at(made.problem, np.array([np.floor(start), np.ceil(start)]), 10)
    assert before >= bound.no_training >= after


def test_the_plan_trains_exactly_where_its_bound_beats_the_start():
    for epsilon in np.geomspace(0.01, 100, 40):
        made = make(epsilon=epsilon, max_rounds=80)
        best = theory_bound(made.problem, made.constants).at(
            made.problem, np.arange(1, 81)[:, None], np.arange(1, 11)
        )
        assert made.train == (best.min() < 9000.0)
        if made.train:
            assert made.prediction is not None
            assert made.prediction.bound == pytest.approx(best.min(), rel=1e-12)


def test_less_privacy_never_predicts_worse():
    bounds = [
        make(epsilon=epsilon, max_rounds=80).prediction.bound for epsilon in np.geomspace(0.01, 100, 30)
    ]
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[0] == 9000.0 > bounds[-1]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            {"clients_per_round": 11},
            "clients_per_round must be between 1 and 10, got 11; the federation has 10",
        ),
        ({"clients_per_round": 0}, "clients_per_round must be between 1 and 10, got 0"),
        ({"clients_per_round": 2.5}, r"clients_per_round must be a whole number, got 2\.5"),
        (
            {"rounds": 0},
            "rounds must be at least 1, got 0; T = 0 is no training; leave rounds to the planner",
        ),
        ({"rounds": -3}, "rounds must be at least 1, got -3"),
        ({"rounds": True}, "rounds must be at least 1, got True"),
        ({"max_rounds": 0}, "max_rounds must be at least 1, got 0"),
        ({"epsilon": [1.0] * 9}, r"epsilon must be one number or a list of 10 .* got 9 values"),
        ({"family": "gaussian", "delta": 0.0}, "delta .* got 0.* use Laplace noise for pure epsilon"),
        (
            {"values": VALUES | {"strong_convexity": 2.0}},
            "strong_convexity must be at most smoothness = 1, got 2",
        ),
    ],
)
def test_settings_outside_the_federation_are_refused(how, says):
    with pytest.raises(InvalidInput, match=says):
        make(**how)


# As printed ---------------------------------------------------------------------------------------


def test_the_printed_laplace_noise_counts_a_mean_number_of_replies():
    made = make(epsilon=1.0, rounds=11, clients_per_round=1)
    np.testing.assert_allclose(made.as_printed["noise"], 2 * 300 * 1.1 / 6000, rtol=1e-12)
    assert made.as_printed["private"] is False
    assert made.noise[0] / made.as_printed["noise"][0] == pytest.approx(2 / 1.1)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_printed_gaussian_noise_is_the_papers_with_c2_of_one(relation):
    """sigma = xi sqrt((bT/N) ln(1/delta)) / (d epsilon), whatever relation is asked.

    Source: docs/theory/zhou.md#printed-constant.
    """
    made = make("gaussian", 0.5, clip=10.0, relation=relation, rounds=100, clients_per_round=5)
    expected = 10.0 * np.sqrt(5 * 100 / 10 * np.log(1e5)) / (6000 * 0.5)
    np.testing.assert_allclose(made.as_printed["noise"], expected, rtol=1e-12)
    assert made.as_printed["private"] is False


def test_the_printed_choice_is_the_closed_form():
    assert make(epsilon=5.0).as_printed["clients_per_round"] in (1.0, 10.0)
    made = make(epsilon=5.0, clients_per_round=3)
    assert made.as_printed["clients_per_round"] == 3


# The contract for programs ------------------------------------------------------------------------

CONTRACT = {
    "algorithm", "mechanism", "train", "rounds", "clients_per_round", "releases", "noise", "predicted",
    "constants", "privacy", "outcome", "as_printed",
}  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        make(),
        make(epsilon=1e-3),
        make("gaussian", 1.0, clip=10.0),
        make("gaussian", 1e-3, clip=10.0),
        make("none", max_rounds=9),
        make(step=StepSize(0.5, float("inf")), rounds=3),
        make(rounds=np.int64(5), clients_per_round=np.int64(2), clip=np.float64(3.0)),
    ],
    ids=["laplace", "laplace-no", "gaussian", "gaussian-no", "none", "step", "numpy"],
)
def test_the_answer_is_plain_json_with_the_keys_of_the_contract(made):
    said = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert said.keys() >= CONTRACT
    assert said["predicted"].keys() >= {"bound", "no_training"}
    assert all(constant.keys() == {"value", "provenance"} for constant in said["constants"].values())
    assert set(said["constants"]) == set(VALUES)
    assert said["privacy"].keys() >= {"unit", "relation", "adversary", "clients"}
    assert len(said["privacy"]["clients"]) == len(said["releases"]) == len(said["noise"]) == 10
    assert all(
        client.keys() >= {"epsilon", "delta", "spent_epsilon"} for client in said["privacy"]["clients"]
    )
    assert all(type(count) is int for count in said["releases"])
    assert type(said["train"]) is bool
    assert said["train"] == (said["rounds"] > 0)
    assert said["outcome"].endswith(".")


def test_the_answer_states_what_the_plan_holds():
    made = make("gaussian", [1.0] * 5 + [2.0] * 5, clip=10.0, relation="add-remove")
    said = made.as_dict()
    assert said["noise"] == made.noise.tolist()
    assert said["releases"] == made.releases.tolist()
    assert [client["spent_epsilon"] for client in said["privacy"]["clients"]] == made.spent().tolist()
    assert (said["privacy"]["relation"], said["privacy"]["unit"]) == ("add-remove", "record")
    assert said["constants"]["smoothness"] == {"value": 1.0, "provenance": "assumed"}


def test_the_step_of_the_theory_is_two_over_mu_over_t_plus_gamma():
    smoothness, mu = 3.0, 0.2
    t = np.arange(50)
    np.testing.assert_allclose(
        StepSize(1 / smoothness, 2 * smoothness / mu).at(t), 2 / mu / (t + 2 * smoothness / mu), rtol=1e-12
    )
    np.testing.assert_array_equal(StepSize(0.3, float("inf")).at(t), np.full(50, 0.3))
    with pytest.raises(InvalidInput, match="step_size must be finite and above 0, got 0"):
        StepSize(0.0)
    with pytest.raises(InvalidInput, match="step_decay must be finite and above 0, got -1"):
        StepSize(1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "clip"), [("laplace", 300.0), ("gaussian", 10.0)])
def test_a_hundred_thousand_different_clients_are_planned_in_a_second(family, clip):
    """The bar is 1 s; 2 s here, because the machine is shared. Run with -s for the time."""
    rng = np.random.default_rng(0)
    n = 100_000
    given = {
        "epsilon": rng.uniform(0.5, 10, n),
        "delta": 10 ** rng.uniform(-8, -4, n) if family == "gaussian" else 0.0,
        "sizes": rng.integers(50, 5000, n),
    }
    times = []
    for _ in range(2):
        began = time.perf_counter()
        made = make(family, clip=clip, **given)
        times.append(time.perf_counter() - began)
    print(f"{family}: {n} clients planned in {min(times):.2f} s")
    assert min(times) < 2
    assert made.train
    assert np.all(made.spent() <= given["epsilon"])


def test_what_uploads_release_is_counted_step_by_step_for_noised_steps_and_once_for_whole_updates():
    """Every noised step that a record is in counts: by hand, batch by batch, for any number of uploads."""
    sizes = np.array([10, 25])
    noised, summed, coins = NoisySteps(3, batch_size=5), LocalSteps(3), Coins(9, 0.5)
    for uploads in range(5):
        batches = [[step % (n // 5) for step in range(3 * uploads)] for n in (10, 25)]
        by_hand = [max((taken.count(batch) for batch in set(taken)), default=0) for taken in batches]
        asked = np.full(2, uploads)
        assert noised.released(asked, sizes).tolist() == by_hand
        assert (
            summed.released(asked, sizes).tolist() == coins.released(asked, sizes).tolist() == [uploads] * 2
        )
    assert summed.taken(np.array([1, 4]), 4).tolist() == [3, 12]
    assert noised.taken(np.array([4, 4]), 4).tolist() == [12, 12]


@pytest.mark.parametrize("step", ["1", ["1", 2.0], b"1", 1 + 2j, None, {}])
def test_what_is_no_number_is_no_step_size(step):
    """NumPy reads numbers out of texts: "1" passed for one, and failed rounds later."""
    with pytest.raises(InvalidInput, match="step_size must be a number"):
        StepSize(step)
