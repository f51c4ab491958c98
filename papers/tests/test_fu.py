"""Fu et al.: the data are those of the paper, the claims can fail, the constants are right, it all runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.methods.dp_fedavg.bound import LocalBound
from noiseworthy.plans.plan import StepSize
from noiseworthy_papers import reproduce
from noiseworthy_papers.fu import network, regression, tables
from noiseworthy_papers.fu.paper import PAPER
from noiseworthy_papers.fu.planner import by_bound, measured_constants
from noiseworthy_papers.judge import verdict
from noiseworthy_papers.keeping import Store
from noiseworthy_papers.known_optima import least_squares
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.pages import write_reproductions
from noiseworthy_papers.points import NO_NOISE, Point
from noiseworthy_papers.reproduction import reproduce_figure
from noiseworthy_papers.settings import FedAvg, quantities
from noiseworthy_papers.spec import Arm, Bench, Figure

SCALE = 0.05
FIGURES = {name: item if isinstance(item, Figure) else item(SCALE) for name, item in PAPER.items.items()}
PRINTED = {  # Tables II to IV, verbatim: optimum and score there, worst, from the least epsilon to none
    "TABLE_2": (10, 27.40, 1963.41, 30, 23.55, 26.82, 30, 23.13, 24.94, 100, 22.59, 24.06),
    "TABLE_3": (12, 40.44, 3568.41, 3, 25.95, 28.78, 2, 23.94, 26.65, 1, 22.58, 26.14),
    "TABLE_4": (24, 0.4663, 0.0509, 12, 0.6347, 0.0521, 12, 0.6781, 0.3500, 2, 0.7470, 0.7088),
}


def settings_of(figure, roles=("paper", "fixed", "grid")):
    arms = figure.arms
    every = [
        s.setting(arm.epsilons[0], 1.0) for arm in arms for s in arm.series if s.role in roles and s.setting
    ]
    return list(dict.fromkeys(setting for setting in every if setting is not None))


# Specifications ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRINTED)
def test_the_printed_tables_are_those_of_the_paper(name):
    rows = getattr(tables, name)
    assert tuple(number for row in rows.values() for number in row) == PRINTED[name]
    assert list(rows) == ([10.0, 20.0, 30.0, NO_NOISE] if name == "TABLE_4" else [1.0, 3.0, 5.0, NO_NOISE])


def test_the_regression_trains_what_the_paper_states():
    """The gradient of the mean squared error is twice ours: its clip 150 is 75."""
    for name in ("figure-1", "figure-3", "figure-5", "figure-7"):
        figure = FIGURES[name]
        assert (figure.bench.clients, figure.repeats, figure.bench.loss.factor) == (5000, 20, 2.0)
        assert {(a.mechanism, a.delta, a.clip_norm, a.clipping) for a in figure.arms} == {
            ("laplace", 0.0, 75.0, "C")
        }
    assert settings_of(FIGURES["figure-1"]) == [FedAvg(100, 1, 500)]
    assert settings_of(FIGURES["figure-3"]) == [FedAvg(t, 1, 500) for t in range(10, 101, 10)]
    assert settings_of(FIGURES["table-3"]) == [FedAvg(120, e, 500) for e in (1, 2, 3, 4, 6, 12)]
    assert {s.clients_per_round for s in settings_of(FIGURES["figure-7"])} == {5000}
    assert [arm.epsilons for arm in FIGURES["figure-5"].arms] == [(1.0, 3.0, 5.0, NO_NOISE), (1.0, 3.0, 5.0)]


def test_the_network_trains_what_the_paper_states():
    full = network.figure_6(1.0)
    assert [s.local_steps for s in settings_of(full)] == [1, 2, 3, 4, 6, 8, 12, 24]
    assert {(s.iterations, s.clients_per_round) for s in settings_of(full)} == {(240, 54)}
    assert (full.arms[0].mechanism, full.arms[0].delta, full.arms[0].clip_norm) == ("gaussian", 1e-4, 3.0)
    assert full.bench.noise_of == (3500, 350)
    assert (full.bench.batch_size, full.bench.test_records) == (None, None)
    assert [s.iterations for s in settings_of(network.figure_4(1.0))] == list(range(50, 501, 50))
    assert settings_of(network.figure_2(1.0)) == [FedAvg(250, 5, 54)]


def test_a_smaller_scale_is_named():
    small = network.figure_6(SCALE)
    assert {s.clients_per_round for s in settings_of(small)} == {3}
    assert (small.bench.batch_size, small.bench.test_records) == (6, 1000)
    assert "Scaled: 3 writers answer in a round for 54, local steps take 6 records" in small.bench.caveat
    assert "Scaled" not in network.figure_6(1.0).bench.caveat


@pytest.mark.parametrize("iterations", [1, 10, 50, 120])
def test_growing_local_steps_are_rounded_as_in_the_paper(iterations):
    """E to the nearest whole number; T to the nearest multiple of E, since rounds are whole."""
    for growth in regression.GROWTHS.values():
        setting = regression.grown(iterations, growth)
        assert setting.local_steps == max(1, round(iterations**growth))
        assert setting.iterations % setting.local_steps == 0
        assert abs(setting.iterations - iterations) <= setting.local_steps / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_can_be_judged_on_its_item_and_can_fail(name):
    """Random scores, far apart or alike: nothing raises, evidence is given, and no claim always holds."""
    figure, rng = FIGURES[name], np.random.default_rng(0)
    seen = {claim.words: set() for claim in figure.claims}
    for _ in range(40):
        points = [p for arm in figure.arms for s in arm.series for p in drawn(arm, s, rng)]
        for claim in figure.claims:
            found = verdict(claim, points)
            assert found.evidence
            assert "nothing that was measured" not in found.evidence
            seen[claim.words].add(found.word)
        for table in figure.tables(points):
            assert {len(row) for row in table.rows} == {len(table.header)}
    assert all(words & {"partly", "disagrees"} for words in seen.values())


def drawn(arm, series, rng):
    """A point per epsilon with random curves that start at one loss."""
    for epsilon in arm.epsilons:
        setting = (
            series.setting(epsilon, 1.0) if series.setting else FedAvg(120, int(rng.choice([1, 3, 12])), 500)
        )
        losses = 200.0, *rng.uniform(1, 300, 2)
        accuracies = 0.1, *rng.uniform(0, 1, 2)
        spread = np.array([[0.999], [1.0], [1.001]])
        yield Point(
            arm.mechanism, epsilon, 1.0, series.label, series.role, "dp-fedavg", quantities(setting),
            arm.clip_norm, arm.step.initial, [0, 1, 2], (spread * losses).tolist(),
            (spread * accuracies).tolist(), 0.0,
        )  # fmt: skip


def test_the_items_of_the_paper_are_its_figures_and_tables_and_two_of_ours():
    papers = {f"figure-{i}" for i in range(1, 8)} | {"table-2", "table-3", "table-4"}
    assert set(PAPER.items) == papers | {"step-size", "figure-5-scaled"}


# Plans from measured constants ------------------------------------------------------------------------

KNOWN = least_squares(
    clients=6, records_per_client=30, dimension=4, smoothness=2.0, strong_convexity=0.5, heterogeneity=0.2,
    residual=0.3, seed=0,
)  # fmt: skip


def moments(federation):
    x, y = federation.x.astype(float), federation.y.astype(float)
    n = x.shape[1]
    return np.einsum("nki,nkj->nij", x, x) / n, np.einsum("nki,nk->ni", x, y) / n, np.mean(y**2, axis=1)


def test_measured_constants_are_those_that_the_data_were_made_with():
    found = {name: c.value for name, c in measured_constants(*moments(KNOWN.federation)).items()}
    x, y = KNOWN.federation.x.astype(float), KNOWN.federation.y.astype(float)
    residuals = np.einsum("nki,i->nk", x, KNOWN.optimum) - y
    gradients = np.einsum("nki,nk->ni", x, residuals) / x.shape[1]
    assert found == pytest.approx(
        {
            "smoothness": 2.0,
            "strong_convexity": 0.5,
            "gradient_bound": np.sqrt(np.mean(np.sum(gradients**2, axis=1))),
            "heterogeneity": 0.2,
            "initial_distance_sq": KNOWN.optimum @ KNOWN.optimum,
        },
        rel=1e-4,
    )


@pytest.mark.parametrize("epsilon", [20.0, NO_NOISE])
def test_the_planned_local_steps_are_the_best_divisor_of_the_bound(monkeypatch, epsilon):
    """Brute force over the divisors of T; noise in closed form, sum a^2 E|w|^2 = 2 p (k S/epsilon)^2 / N."""
    monkeypatch.setattr(Laboratory, "federation", property(lambda self: KNOWN.federation))
    laboratory = Laboratory(Bench("known", "linear", "iid", clients=6), None, 1.0)
    arm = Arm("laplace", (epsilon,), 0.0, 0.05, StepSize(0.1, float("inf")), (), clipping="C")
    planned = by_bound(3, 24, iterations=24)(laboratory, arm, epsilon, 1.0, lambda done: None)
    values = {name: c.value for name, c in measured_constants(*moments(KNOWN.federation)).items()}
    bound = LocalBound(*(values[name] for name in (
        "smoothness", "strong_convexity", "gradient_bound", "heterogeneity", "initial_distance_sq",
    )))  # fmt: skip

    def noise(rounds, b):
        uploads = np.ceil(np.asarray(b) * rounds / 6)
        scale = 0.0 if epsilon == NO_NOISE else uploads * 2 * 0.05 / epsilon
        return 6 / np.asarray(b) * (4 * 2 * scale**2 / 6)

    best = min((1, 2, 3, 4, 6, 8, 12, 24), key=lambda e: float(bound.at(noise, 24, e, 3, 6)))
    assert planned.setting == FedAvg(24, best, 3)
    assert (planned.clip_norm, planned.step) == (arm.clip_norm, arm.step)


def test_a_joint_plan_may_say_not_to_train(monkeypatch):
    monkeypatch.setattr(Laboratory, "federation", property(lambda self: KNOWN.federation))
    laboratory = Laboratory(Bench("known", "linear", "iid", clients=6), None, 1.0)
    arm = Arm("laplace", (1e-3,), 0.0, 5.0, StepSize(0.1, float("inf")), (), clipping="C")
    assert by_bound(3, 24)(laboratory, arm, 1e-3, 1.0, lambda done: None).setting is None
    quiet = by_bound(3, 5000)(laboratory, arm, NO_NOISE, 1.0, lambda done: None).setting
    assert quiet is not None
    assert 24 < quiet.iterations <= 5000


# On the data ------------------------------------------------------------------------------------------


@pytest.mark.data
def test_the_step_size_item_runs_end_to_end(data_dir, tmp_path):
    (result,) = reproduce("fu", "step-size", data_dir=data_dir, scale=0.1, folder=tmp_path)
    assert [verdict.word for verdict in result.verdicts] == ["agrees"]
    assert {p.epsilon for p in result.points} == {NO_NOISE}
    assert min(p.loss for p in result.points) == pytest.approx(11.74, abs=0.05)
    page = write_reproductions(PAPER, [result], tmp_path).read_text()
    assert "17 records per client for 80" in page
    assert "mean squared error" in page


@pytest.mark.data
def test_the_best_length_grows_with_the_budget(data_dir):
    """T = 10, 40, 100 of Table II and three seeds; losses differ by factors between them."""
    table = regression.OPTIMAL_T
    sound = table.arms[0]
    few = replace(sound, epsilons=(1.0, 5.0, NO_NOISE), series=tuple(sound.series[i] for i in (1, 4, 10)))
    result = reproduce_figure(
        "fu", "table-2", replace(table, arms=(few,), claims=(), tables=lambda points: []), Store.open(None),
        data_dir=data_dir, scale=0.15,
    )  # fmt: skip
    best = {
        epsilon: min((p for p in result.points if p.epsilon == epsilon), key=lambda p: p.loss)
        for epsilon in few.epsilons
    }
    assert [best[epsilon].setting["iterations"] for epsilon in few.epsilons] == [10, 40, 100]


@pytest.mark.slow
@pytest.mark.data
def test_the_network_learns_without_noise_and_less_with_it(data_dir):
    (result,) = reproduce("fu", "figure-2", data_dir=data_dir, scale=0.02)
    accuracy = {p.epsilon: p.accuracy for p in result.points}
    assert accuracy[NO_NOISE] > 0.5
    assert accuracy[NO_NOISE] > accuracy[30.0] > accuracy[10.0] - 0.05
    assert "51,466" in result.notes[0]
    assert Laboratory(replace(network.writers(0.02)), data_dir, 0.02).task.dimension == 51_466
