"""Figures of Hu et al.: scores by device, grids by validation, constants measured, printed noise."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from noiseworthy.data import Federation, federate, load_records
from noiseworthy.methods.dp_pasgd.bound import SHAPES
from noiseworthy.plans.plan import StepSize
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.structured_losses import LOSSES
from noiseworthy_papers.devices import Split, trained_on
from noiseworthy_papers.hu import claims as hu_claims
from noiseworthy_papers.hu import paper as hu
from noiseworthy_papers.hu.planner import affordable, by_bound, by_validation, measured_constants
from noiseworthy_papers.keeping import Store
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.noise_shares import averaging_share, noise_share
from noiseworthy_papers.points import Point
from noiseworthy_papers.reproduction import PAPERS, reproduce_figure
from noiseworthy_papers.series import fixed
from noiseworthy_papers.settings import Averaging, from_json, named, quantities, to_json
from noiseworthy_papers.spec import Arm, Bench, Costs, Figure, Layout, Series

DEVICES = 6
BENCH = Bench(
    source="breast-cancer", model="logistic", partition="quantity-skew", clients=DEVICES, by_device=True,
    task=(("feature_norm", 1.0), ("normalise", True)), horizon=30,
    made=lambda data_dir: load_records("breast-cancer"),
)  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> Federation:
    return federate(
        load_records("breast-cancer"), clients=DEVICES, partition="quantity-skew", alpha=1.0, seed=3
    )


@pytest.fixture(scope="module")
def task() -> LinearModel:
    return LinearModel(30, 1, "logistic", feature_norm=1.0, normalise=True)


@pytest.fixture(scope="module")
def laboratory(whole) -> Laboratory:
    made = Laboratory(replace(BENCH, partition="iid"), None, 0.4, 5)
    made.__dict__["_whole"] = whole
    return made


def arm(*series: Series, budget=1000.0, epsilons=(2.0, 8.0)) -> Arm:
    return Arm(
        "gaussian", epsilons, 1e-4, 1.0, StepSize(4.0, np.inf), series, costs=Costs(100.0, 1.0, budget)
    )


# Devices ------------------------------------------------------------------------------------------------


def test_every_device_is_split_80_10_10_and_no_record_is_in_two_parts(whole, task):
    split = Split.of(whole, task)
    np.testing.assert_array_equal(split.training.sizes, np.maximum(1, np.floor(0.8 * whole.sizes)))
    held = [sum(len(y) for _, y in part.parts) for part in (split.validation, split.test)]
    assert split.training.sizes.sum() + sum(held) == whole.sizes.sum()
    for (x, _), device in zip(split.test.parts, range(DEVICES), strict=True):
        n = whole.sizes[device]
        np.testing.assert_allclose(x, task.prepare(whole.x[device, int(0.9 * n) : n]), rtol=1e-6)
    assert min(whole.sizes) < 0.3 * max(whole.sizes), "devices must differ to tell the means apart"


def test_scores_are_means_over_devices_whatever_they_hold(whole, task):
    theta = np.random.default_rng(0).normal(size=(3, 30)).astype(np.float32)
    score = Split.of(whole, task).test.score(task, theta)
    accuracies = []
    for device, n in enumerate(whole.sizes):
        x = np.asarray(task.prepare(whole.x[device, int(0.9 * n) : n]), float)
        right = (x @ theta.T.astype(float) > 0) == (whole.y[device, int(0.9 * n) : n, None] > 0)
        accuracies.append(right.mean(axis=0))
    np.testing.assert_allclose(score.accuracy, np.mean(accuracies, axis=0), atol=1e-6)
    assert score.loss.shape == (3,)


def test_a_device_with_too_few_records_has_no_test(task):
    pair = (np.ones((7, 30)), np.ones(7))
    tiny = Federation.from_clients(
        [pair, (np.ones((20, 30)), np.zeros(20))], test=pair, classes=2, name="tiny"
    )
    assert trained_on(tiny).sizes.tolist() == [5, 16]
    assert [len(y) for _, y in Split.of(tiny, task).validation.parts] == [1, 2]
    assert [len(y) for _, y in Split.of(tiny, task).test.parts] == [1, 2]


# Settings and noise -------------------------------------------------------------------------------------


def test_a_setting_of_noised_steps_pays_for_all_of_them(laboratory):
    setting = Averaging(12, 4, DEVICES)
    made = setting.plan(laboratory.problem(arm(), 2.0, 1.0, 1.0), StepSize(4.0, np.inf))
    assert (made.rounds, made.releases.tolist(), made.cost.tolist()) == (3, [12] * DEVICES, [312.0] * DEVICES)
    np.testing.assert_allclose(
        made.noise, 2 / laboratory.federation.sizes * np.sqrt(12) / gaussian_mu(2.0, 1e-4), rtol=1e-9
    )
    assert from_json(to_json(setting)) == setting
    assert named("dp-pasgd", quantities(setting)) == "K=12, τ=4"


@pytest.mark.parametrize(
    ("epsilon", "exact", "converted"),
    [(1.0, 70.8, 76.6), (2.0, 73.5, 79.5), (4.0, 78.7, 85.0), (10.0, 93.2, 100.0)],
)
def test_the_printed_noise_spends_what_the_theory_says(epsilon, exact, converted):
    """docs/theory/hu.md#wrong-root: by exact composition and by the paper's own conversion."""
    share = noise_share(arm(), epsilon, Averaging(12, 4, DEVICES), DEVICES, None, printed=True)
    assert share == averaging_share(epsilon, 1e-4)
    mu = gaussian_mu(epsilon, 1e-4) / share
    assert float(gaussian_epsilon(mu, 1e-4)) == pytest.approx(exact, abs=0.06)
    rho = float(mu) ** 2 / 2
    assert rho + 2 * np.sqrt(rho * np.log(1e4)) == pytest.approx(converted, abs=0.06)
    row = next(r for r in hu_claims.printed_table([point(epsilon=epsilon)])[0].rows)
    assert row[2:] == [f"{exact:.1f}", f"{converted:.1f}"]


# Choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "tau", "most"), [(1000.0, 1, 9), (1000.0, 20, 8), (500.0, 10, 4), (120.0, 20, 1)]
)
def test_rounds_that_a_budget_pays_for(budget, tau, most):
    assert list(affordable(arm(budget=budget), tau)) == list(range(1, most + 1))


def test_validation_chooses_the_rounds_of_best_validation_accuracy(laboratory):
    own = arm(budget=450.0)
    planned = by_validation(5)(laboratory, own, 8.0, 1.0, lambda done: None)
    scores = {
        r: laboratory.train(Training(own, Averaging(5 * r, 5, DEVICES), 1.0, own.step, evaluations=1), [8.0])[
            8.0
        ]["validation"]
        for r in range(1, 5)
    }
    assert planned.setting.iterations == 5 * max(scores, key=lambda r: (scores[r], -r))
    assert len(set(scores.values())) > 1


def test_a_training_is_made_once_whatever_the_budget_of_the_arm(laboratory, monkeypatch):
    setting = Averaging(6, 2, DEVICES)
    training = Training(arm(budget=900.0), setting, 1.0, StepSize(4.0, np.inf), evaluations=1)
    first = laboratory.train(training, [2.0])
    monkeypatch.setattr(Laboratory, "_train", None)
    again = laboratory.train(training._replace(arm=arm(fixed("x", "fixed", setting), budget=700.0)), [2.0])
    assert again == first


def test_constants_are_what_they_are_called(whole, task):
    """Retyped in float64 NumPy on the 6 devices, which count alike; a fifth of the labels drawn anew."""
    generator = np.random.default_rng(5)
    drawn = np.where(generator.random(whole.y.shape) < 0.4, generator.integers(0, 2, whole.y.shape), whole.y)
    whole = replace(whole, y=drawn.astype(np.int32))
    known = {k: c.value for k, c in measured_constants(whole, task, 4.0, 25).items()}
    rows = [
        (np.asarray(task.prepare(whole.x[i, :n]), float), 2.0 * whole.y[i, :n] - 1)
        for i, n in enumerate(whole.sizes)
    ]
    dominating = np.mean([0.25 * x.T @ x / len(x) for x, _ in rows], axis=0)

    def loss(theta):
        return np.mean([np.mean(np.logaddexp(0, -y * (x @ theta))) for x, y in rows])

    def gradients(theta):
        return np.array([-x.T @ (y * expit(-y * (x @ theta))) / len(x) for x, y in rows])

    best = minimize(loss, np.zeros(30), jac=lambda t: gradients(t).mean(axis=0), options={"maxiter": 5000})
    theta = np.zeros(30)
    for _ in range(25):
        theta = theta - 4.0 * gradients(theta).mean(axis=0)
    assert known["smoothness"] == pytest.approx(np.linalg.eigvalsh(dominating)[-1], rel=1e-5)
    assert known["noise_dimension"] * known["smoothness"] == pytest.approx(np.trace(dominating), rel=1e-5)
    assert known["initial_gap"] == pytest.approx(np.log(2) - best.fun, rel=0.05)
    rate = np.log((np.log(2) - best.fun) / (loss(theta) - best.fun)) / (4.0 * 25)
    assert known["strong_convexity"] == pytest.approx(rate, rel=0.1)


def test_plans_of_every_bound_are_affordable(laboratory):
    for budget in (300.0, 1000.0):
        own = arm(budget=budget)
        for shape in SHAPES:
            setting = by_bound(None, shape)(laboratory, own, 8.0, 1.0, lambda done: None).setting
            if setting is not None:
                assert 100 * setting.rounds + setting.iterations <= budget


# Figures ------------------------------------------------------------------------------------------------


def test_a_figure_measures_grid_and_plans_within_both_budgets(laboratory, monkeypatch):
    monkeypatch.setattr("noiseworthy_papers.reproduction.Laboratory", lambda *args: laboratory)
    grid = tuple(Series(f"τ={tau}", "grid", planner=by_validation(tau)) for tau in (1, 8))
    planned = Series("planned", "planned", planner=by_bound(None, "quadratic"))
    figure = Figure(
        "small", Layout("local_steps", ("accuracy",), panels=("budget",), zoomed=True), BENCH,
        tuple(arm(*grid, planned, budget=budget) for budget in (250.0, 420.0)),
        hu_claims.PERIODS[:1], repeats=5, evaluations=1, tables=hu_claims.plan_table,
    )  # fmt: skip
    result = reproduce_figure("hu", "small", figure, Store.open(None), scale=0.4)
    assert len(result.points) == 2 * 2 * 3
    for one in result.points:
        assert one.cost <= one.budget
        assert one.cost == 100 * one.rounds + one.quantity("iterations")
    assert len(result.tables[0].rows) == 4
    assert " of 4: " in result.verdicts[0].evidence
    assert Point(**vars(result.points[0])) == result.points[0]


def test_every_figure_of_the_paper_is_there_for_all_four_cases():
    assert list(PAPERS["hu"].items) == [
        f"figure-{i}-{name}" for i in range(2, 7) for name in ("adult-1", "adult-2", "vehicle-1", "vehicle-2")
    ]
    assert "dealt at random" in hu.CASES["adult-2"].bench.caveat
    assert "dealt evenly" in hu.CASES["vehicle-2"].bench.caveat
    assert all("SUBSET" in hu.CASES[name].bench.caveat for name in ("vehicle-1", "vehicle-2"))
    adult = hu.ITEMS["figure-3-adult-1"]
    assert [a.costs for a in adult.arms] == [Costs(100.0, 1.0, 500.0), Costs(100.0, 1.0, 1000.0)]
    assert [s.label for s in adult.arms[0].series if s.role == "grid"] == [f"τ={t}" for t in range(1, 21)]


@pytest.mark.data
def test_public_devices_are_other_people_dealt_by_the_same_rule(data_dir):
    for name in ("adult-1", "adult-2"):
        case = hu.CASES[name]
        opened = Laboratory(case.bench, data_dir, 0.4, 5)
        public = hu.public_adult(opened)
        assert public.sizes.sum() == 16_281
        assert public.n_clients == opened.federation.n_clients == 16
        if name == "adult-1":
            assert public.clients == opened.federation.clients


@pytest.mark.data
def test_vehicle_keeps_all_its_readings(data_dir):
    for name in ("vehicle-1", "vehicle-2"):
        opened = Laboratory(hu.CASES[name].bench, data_dir, 0.4, 5)
        assert opened._whole.sizes.sum() == 1860
        assert opened.federation.n_clients == 23


def point(accuracy=0.8, role="grid", tau=5, epsilon=1.0, budget=500.0, series="") -> Point:
    setting = quantities(Averaging(2 * tau, tau, 4)) if tau else quantities(None)
    return Point(
        "gaussian", epsilon, 1.0, series or f"τ={tau}", role, "dp-pasgd", setting, 1.0, 4.0, [0, 2],
        [[0.7, 0.5]], [[0.5, accuracy]], 0.0, budget, 200.0 + 2 * tau,
    )  # fmt: skip


def test_the_loss_of_the_task_is_the_loss_of_the_constants(task):
    """Guards the sign convention of labels 0 and 1 in the retyped loss above."""
    value = LOSSES[task.loss].value(jnp.array([0.3]), jnp.int32(1))
    assert float(value) == pytest.approx(np.logaddexp(0, -0.3), rel=1e-6)
