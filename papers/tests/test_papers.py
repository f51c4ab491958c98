"""One runner for three algorithms: settings become plans, and noise has the size that is claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy_papers.judge import Claim
from noiseworthy_papers.keeping import Store, load, save
from noiseworthy_papers.kinds import Ahead
from noiseworthy_papers.known_optima import least_squares
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.noise_shares import noise_share, printed_share, spent_as_printed
from noiseworthy_papers.pages import reproductions_page, write_reproductions
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.reproduction import reproduce_figure
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.series import fixed, with_printed
from noiseworthy_papers.settings import (
    UNTRAINED,
    FedAvg,
    FedSGD,
    ScaffNew,
    algorithm_of,
    from_json,
    named,
    quantities,
    to_json,
)
from noiseworthy_papers.spec import Arm, Bench, Federated, Figure, Layout, LossUnit, Paper

STEP = StepSize(0.1, float("inf"))
CONSTANT = float("inf")


def problem(family="laplace", clipping="C", delta=0.0, clients=10, epsilon=2.0, sizes=30):
    budget = PrivacyBudget.of(epsilon, delta, clients, unit="client")
    return Problem(np.full(clients, sizes), 5, budget, family, 1.5, clipping=clipping)


# Settings ---------------------------------------------------------------------------------------------


def test_a_setting_of_local_steps_pays_for_its_uploads():
    """12 iterations, 3 per round, 5 of 10 clients: 2 uploads each, scale k 2 C H / epsilon with H = 0.3."""
    made = FedAvg(12, 3, 5).plan(problem(), STEP)
    assert (made.rounds, made.releases.tolist()) == (4, [2] * 10)
    assert made.noise == pytest.approx(2 * 2 * 1.5 * 0.3 / 2.0)


def test_regular_communication_pays_for_every_upload_and_coins_for_what_falls():
    gaussian = problem("gaussian", "D", 1e-5)
    regular = ScaffNew(12, 3, 10).plan(gaussian, STEP, batch_size=4)
    assert (regular.rounds, regular.releases.tolist(), regular.local.batch_size) == (4, [4] * 10, 4)
    assert regular.local.counts(4).tolist() == [3, 3, 3, 3]
    assert regular.spent() == pytest.approx(2.0)
    drawn = ScaffNew(12, 3, 10, regular=False).plan(gaussian, STEP)
    assert drawn.rounds == drawn.local.flips.sum()
    assert drawn.spent() == pytest.approx(2.0)


def test_everybody_takes_part_in_scaffnew():
    with pytest.raises(InvalidInput, match="clients_per_round must be 10"):
        ScaffNew(12, 3, 5).plan(problem("gaussian", "D", 1e-5), STEP)


@pytest.mark.parametrize("setting", [FedSGD(22, 1), FedAvg(12, 3, 5), ScaffNew(12, 2.5, 10, False), None])
def test_settings_survive_a_file(setting):
    assert from_json(to_json(setting)) == setting


@pytest.mark.parametrize("setting", [FedSGD(22, 1), FedAvg(12, 3, 5), ScaffNew(12, 3, 10)])
def test_every_setting_has_the_quantities_to_draw_by(setting):
    assert quantities(setting).keys() == quantities(None).keys() == UNTRAINED.keys()
    assert named(algorithm_of(setting), quantities(setting)) != "do not train"
    assert named(algorithm_of(setting), quantities(None)) == "do not train"
    assert setting.longest(500).rounds == 500


# Noise that is not what a plan calibrates -------------------------------------------------------------


def gaussian_delta(epsilon, mu):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("epsilon", "c2"), [(10.0, 1.500), (20.0, 1.776), (30.0, 1.993)])
def test_printed_gaussian_noise_is_half_of_one_over_c2(epsilon, c2):
    """c2(epsilon, 1e-4), docs/theory/accounting.md#constant-c2; the half is the sensitivity C for 2C."""
    assert printed_share("gaussian", epsilon, 1e-4) == pytest.approx(1 / (2 * c2), abs=2e-4)


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 30.0])
def test_noise_as_printed_spends_what_is_said(epsilon):
    share, delta = printed_share("gaussian", epsilon, 1e-4), 1e-4
    mu = brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 20.0) / share
    assert gaussian_delta(spent_as_printed("gaussian", epsilon, delta), mu) == pytest.approx(delta, rel=1e-6)
    assert spent_as_printed("laplace", epsilon, 0.0) == epsilon / printed_share("laplace", epsilon, 0.0)


@pytest.mark.parametrize(("family", "delta"), [("laplace", 0.0), ("gaussian", 1e-4)])
def test_a_small_federation_gets_the_aggregate_noise_of_a_large_one(family, delta):
    """Var of a mean of b uploads: size^2 / b. The large federation asks a client 24 times, the small 5."""
    arm, setting = Arm(family, (2.0,), delta, 1.5, STEP, (), clipping="C"), FedAvg(240, 1, 2)
    share = noise_share(arm, 2.0, setting, 100, Federated(350, 35), printed=False)
    small = setting.plan(problem(family, delta=delta, clients=100), STEP)
    large = replace(setting, clients_per_round=35).plan(problem(family, delta=delta, clients=350), STEP)
    assert (small.releases[0], large.releases[0]) == (5, 24)
    assert (share * small.noise[0]) ** 2 / 2 == pytest.approx(large.noise[0] ** 2 / 35)


def test_without_a_budget_there_is_no_noise():
    arm = Arm("laplace", (NO_NOISE,), 0.0, 1.0, STEP, ())
    assert noise_share(arm, NO_NOISE, FedAvg(4, 1, 2), 10, None, printed=False) == 0.0
    assert noise_share(arm, 1.0, FedAvg(4, 1, 2), 10, None, printed=False) == 1.0
    assert noise_share(arm, 1.0, FedAvg(4, 1, 2), 10, None, printed=True) == 0.5


# The laboratory ---------------------------------------------------------------------------------------

KNOWN = least_squares(
    clients=8, records_per_client=20, dimension=4, smoothness=2.0, strong_convexity=0.5, heterogeneity=0.2,
    residual=0.3, seed=0,
)  # fmt: skip
BENCH = Bench("known", "linear", "iid", clients=8, loss=LossUnit("mean squared error", 2.0), horizon=12)


@pytest.fixture
def laboratory(monkeypatch):
    """A bench on least squares whose constants are known."""
    monkeypatch.setattr(Laboratory, "federation", property(lambda self: KNOWN.federation))
    monkeypatch.setattr(Laboratory, "source", property(lambda self: "known"))
    return lambda bench=BENCH, scale=0.1: Laboratory(bench, None, scale, 20)


def local_sgd(iterations, steps, eta, clip):
    """DP-FedAvg without noise and with everybody, in plain float64; the L1 norm of a gradient is clipped."""
    federation, theta = KNOWN.federation, np.zeros(4)
    for _ in range(iterations // steps):
        moved = []
        for x, y in zip(federation.x.astype(float), federation.y.astype(float), strict=True):
            local = theta.copy()
            for _ in range(steps):
                gradient = x.T @ (x @ local - y) / len(y)
                local -= eta * gradient / max(1.0, np.abs(gradient).sum() / clip)
            moved.append(local - theta)
        theta = theta + np.mean(moved, axis=0)
    return np.mean((federation.test_x @ theta - federation.test_y) ** 2) / 2


@pytest.mark.parametrize("clip", [0.2, 100.0])
def test_training_without_noise_is_the_textbook(laboratory, clip):
    arm = Arm("laplace", (NO_NOISE, 1.0), 0.0, clip, STEP, (), clipping="C")
    found = laboratory().train(Training(arm, FedAvg(12, 3, 8), clip, STEP), arm.epsilons)
    assert np.array(found[NO_NOISE]["losses"])[:, -1] == pytest.approx(local_sgd(12, 3, 0.1, clip), rel=1e-4)
    assert np.array(found[1.0]["losses"])[0, -1] != pytest.approx(local_sgd(12, 3, 0.1, clip), rel=1e-2)


def test_padding_to_a_horizon_changes_nothing(laboratory):
    arm = Arm("laplace", (1.0,), 0.0, 1.0, STEP, (), clipping="C")
    training = Training(arm, FedAvg(12, 3, 8), 1.0, STEP)
    short, long = (
        laboratory(replace(BENCH, horizon=horizon)).train(training, (1.0,))[1.0]["losses"]
        for horizon in (12, 60)
    )
    assert short == long


def test_noise_as_printed_is_that_of_a_larger_budget(laboratory):
    """Laplace noise as printed at epsilon 1 is sound noise at epsilon 2, draw for draw."""
    arm = Arm("laplace", (), 0.0, 1.0, STEP, (), clipping="C")
    training = Training(arm, FedAvg(12, 3, 8), 1.0, STEP)
    printed = laboratory().train(training._replace(printed=True), (1.0,))[1.0]["losses"]
    assert np.allclose(printed, laboratory().train(training, (2.0,))[2.0]["losses"], rtol=1e-5)


def test_scaffnew_trains_too(laboratory):
    arm = Arm("gaussian", (NO_NOISE,), 1e-5, 10.0, STEP, (), clipping="D")
    found = laboratory().train(Training(arm, ScaffNew(12, 3, 8), 10.0, STEP), arm.epsilons)[NO_NOISE]
    assert found["at"] == [0, 1, 2, 3, 4]
    assert np.all(np.diff(found["losses"][0]) < 0)


# The runner -------------------------------------------------------------------------------------------

SERIES = (
    fixed("T=0", "grid", None),
    fixed("E=1", "grid", FedAvg(12, 1, 8)),
    fixed("E=3", "grid", FedAvg(12, 3, 8)),
)
FIGURE = Figure(
    "local steps",
    Layout("local_steps", log="y"),
    BENCH,
    with_printed(Arm("laplace", (50.0, NO_NOISE), 0.0, 5.0, STEP, SERIES, clipping="C"), SERIES[1:]),
    (Claim("Noise costs.", (Ahead(Where(noisy=False), Where(noisy=True), match=("series",)),)),),
    repeats=20,
    evaluations=1,
)


def test_a_figure_of_local_steps_is_measured_kept_and_written(laboratory, tmp_path, monkeypatch):
    result = reproduce_figure("known", "figure-1", FIGURE, Store.open(tmp_path), scale=0.1)
    points = {(p.series, p.epsilon): p for p in result.points}
    assert len(points) == 3 * 2 + 2 * 1
    assert points["T=0", 50.0].rounds == 0
    assert points["T=0", 50.0].loss == pytest.approx(2 * local_sgd(0, 1, 0.1, 5.0), rel=1e-5)
    assert points["E=3", NO_NOISE].loss == pytest.approx(2 * local_sgd(12, 3, 0.1, 5.0), rel=1e-4)
    assert points["E=3, as printed", 50.0].noise.startswith("as printed")
    monkeypatch.setattr(Laboratory, "train", None)  # nothing is trained twice
    assert reproduce_figure("known", "figure-1", FIGURE, Store.open(tmp_path), scale=0.1) == result
    save(result, tmp_path)
    paper = Paper("known", "Nobody", {"figure-1": FIGURE}, "- Nothing.")
    assert load(tmp_path, paper) == [result]
    page = write_reproductions(paper, [result], tmp_path).read_text()
    assert page == reproductions_page(paper, [result])
    assert (tmp_path / "figures" / "known-figure-1.png").stat().st_size > 1000
    for expected in ("Reproductions of Nobody", "ε = ∞", "mean squared error", "[12, 3]", "2 seeds"):
        assert expected in page


@pytest.mark.parametrize(
    "layout",
    [
        Layout("iteration", lines="epsilon", panels=(), log="y"),
        Layout("local_steps", ("loss", "error"), panels=("algorithm",), log="x"),
        Layout("iterations", lines="series", panels=("noise",)),
    ],
    ids=lambda layout: layout.along,
)
def test_every_kind_of_layout_is_drawn(laboratory, layout):
    from noiseworthy_papers.figures import draw

    result = reproduce_figure("known", "figure-1", FIGURE, Store.open(None), scale=0.1)
    figure = draw(replace(result, layout=layout))
    assert len(figure.axes) == {"iteration": 1, "local_steps": 2, "iterations": 2}[layout.along]


def test_a_result_of_another_version_is_refused(tmp_path):
    (tmp_path / "known-figure-1.json").write_text('{"paper": "known"}')
    with pytest.raises(DataError, match="another version"):
        load(tmp_path, Paper("known", "Nobody", {"figure-1": FIGURE}, ""))
