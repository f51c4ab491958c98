"""Figures of Ma et al.: budgets drawn per seed, biased selection in both stages, claims that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from noiseworthy.cli import app
from noiseworthy.data import load_records
from noiseworthy.data.records import Records
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import loss_reports
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.studies import two_stages
from noiseworthy.studies.training import Pace
from noiseworthy.tasks import make_task
from noiseworthy_papers import reproduction
from noiseworthy_papers.budgets import Budgets, bound_share, spent_by_bound
from noiseworthy_papers.figures import draw
from noiseworthy_papers.judge import Claim, verdict
from noiseworthy_papers.keeping import Store, load, save
from noiseworthy_papers.kinds import Ahead
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.ma.benches import CASES, MNIST, Case
from noiseworthy_papers.ma.paper import FIGURES, PAPER, PERSONAL, private
from noiseworthy_papers.ma.tables import TABLE_1, table_1_beside, tables_of
from noiseworthy_papers.ma.utility import FREE, ONE_STAGE, PLAIN, PRINTED, TWO_STAGES, Utility
from noiseworthy_papers.pages import reproductions_page, write_reproductions
from noiseworthy_papers.points import Point
from noiseworthy_papers.reproduction import reproduce_figure
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.selections import Estimating, Selection
from noiseworthy_papers.series import fixed
from noiseworthy_papers.settings import algorithm_of, from_json, named, quantities, to_json
from noiseworthy_papers.spec import Bench, Figure, Layout, LossUnit, Reproduction

SETTING = Selection("dpfl-bcs", 6, 3, momentum=0.5)
STAGED = replace(SETTING, estimating=Estimating(2, 2.3, 5.0, 0.1))
DIGITS = Bench(
    source="digits", model="softmax", partition="dirichlet", alpha=1.0, clients=8, horizon=6, miniature=True
)
CASE = replace(MNIST, bench=DIGITS, clip=3.0, step=StepSize(0.5, 20.0))
SERIES = (
    fixed(FREE, "fixed", replace(SETTING, algorithm="fedsgd")),
    fixed("DPSGD", "fixed", replace(SETTING, algorithm="dpsgd")),
    fixed("WeiAvg", "fixed", replace(SETTING, algorithm="weiavg")),
    fixed("PrivateFL-BCS", "fixed", replace(SETTING, algorithm="privatefl", biased=True)),
    fixed(TWO_STAGES, "paper", STAGED),
    fixed(ONE_STAGE, "planned rounds", SETTING),
    fixed(PRINTED, "as printed", SETTING),
)


def arm(mechanism="gaussian", *, case: Case = CASE, epsilons=(3.0,), series=SERIES):
    return case.arm(mechanism, epsilons, series)


def training(series, mechanism="gaussian", **more):
    own = arm(mechanism)
    return Training(own, series.setting(3.0, 1.0), own.clip_norm, own.step, evaluations=3, **more)


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    return Laboratory(DIGITS, None, 0.5, 3, 3)


# What the paper states ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "most", "clip", "step", "cap"),
    [
        ("lending", 0.1, 3.0, 75.0, (0.04, 200.0), 75.0),  # for half the squared error
        ("mnist", 0.1, 3.0, 20.0, (0.05, 200.0), np.log(10)),
        ("f-mnist", 0.5, 4.0, 25.0, (0.05, 200.0), np.log(10)),
        ("femnist", 0.5, 4.0, 25.0, (0.05, 200.0), np.log(10)),
        ("cifar-10", 1.0, 6.0, 5.0, (0.2, 100.0), np.log(10)),
    ],
)
def test_constants_are_those_of_section_5(name, least, most, clip, step, cap):
    case = CASES[name]
    figure = FIGURES[f"figure-2-{name}"]
    assert (case.least, case.most, case.clip, case.loss_cap) == (least, most, clip, cap)
    assert (case.step.initial, case.step.decay_rounds) == step
    for own in figure.arms:
        low, high = (1e-5, 1e-4) if own.mechanism == "gaussian" else (0.0, 0.0)
        assert own.budgets == Budgets(least, (low, high))
        settings = [series.setting(most, 1.0) for series in own.series]
        assert {(s.rounds, s.clients_per_round, s.momentum) for s in settings} == {(200, 20, 0.9)}
    assert figure.bench.alpha == (None if name == "femnist" else 3.0)
    assert figure.repeats == figure.least_seeds == 5


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("lending", (10,), None, 11),
        ("mnist", (28, 28), 10, 4266),
        ("f-mnist", (28, 28), 10, 61_706),
        ("femnist", (28, 28), 62, 67_026),
        ("cifar-10", (32, 32, 3), 10, 272_474),
        ("mnist-linear", (28, 28), 10, 7840),
    ],
)
def test_models_have_the_parameters_that_the_paper_counts(name, shape, classes, parameters):
    bench = CASES[name].bench
    assert make_task(bench.model, shape, classes, bias=bench.bias, **dict(bench.task)).dimension == parameters


@pytest.mark.parametrize("name", FIGURES)
def test_every_item_trains_what_its_figure_shows(name):
    figure = FIGURES[name]
    item, _, data = name.partition("-")
    case = CASES[data if item in ("momentum", "stages") else data.partition("-")[2]]
    assert [own.mechanism for own in figure.arms] == ["gaussian", "laplace"]
    for own in figure.arms:
        labels = [series.label for series in own.series]
        assert len(set(labels)) == len(labels)
        plain = {"gaussian": "dpsgd", "laplace": "dmldp"}[own.mechanism]
        algorithms = [series.setting(3.0, 1.0).algorithm for series in own.series]
        if item in ("table", "stages"):
            assert algorithms == [{"table": "privatefl", "stages": "dpfl-bcs"}[item]] * 2
            continue
        assert algorithms.count(plain) == (2 if item == "momentum" else 1)
        assert {"weiavg", "pfa", "privatefl", "dpfl-bcs"} <= set(algorithms)
        assert (PRINTED in labels) == (own.mechanism == "gaussian" and name.startswith("figure-2"))
    epsilons = case.uppers if name.startswith("figure-4") else (case.most,)
    assert {own.epsilons for own in figure.arms} == {epsilons}
    alphas = figure.alphas
    assert ({0.5, 3.0, 8.0} <= set(alphas)) == name.startswith("figure-5")


def test_the_range_of_epsilon_is_that_of_figure_4():
    assert CASES["mnist"].uppers == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert CASES["cifar-10"].uppers == (2.0, 4.0, 6.0, 8.0, 10.0)


# Settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [SETTING, STAGED, replace(SETTING, algorithm="pfa", biased=True)])
def test_a_setting_survives_a_file(setting):
    assert from_json(to_json(setting)) == setting
    assert algorithm_of(setting) == setting.algorithm
    assert quantities(setting)["clients_per_round"] == 3
    assert named(setting.algorithm, quantities(setting)) == "T=6"


def test_biased_selection_asks_as_dpfl_bcs_does_and_others_ask_alike(laboratory):
    problem = laboratory.problem(arm(), 3.0, 1.0, 3.0, seed=1)
    ours = SETTING.plan(problem, CASE.step)
    biased = replace(SETTING, algorithm="weiavg", biased=True).plan(problem, CASE.step)
    alike = replace(SETTING, algorithm="weiavg").plan(problem, CASE.step)
    np.testing.assert_array_equal(biased.releases, ours.releases)
    assert np.ptp(ours.releases) > 1
    assert np.ptp(alike.releases) <= 1
    assert (ours.momentum, biased.momentum) == (0.5, 0.5)


def test_fedsgd_takes_no_noise_under_either_mechanism(laboratory):
    for mechanism in ("gaussian", "laplace"):
        problem = laboratory.problem(arm(mechanism), 3.0, 1.0, 3.0)
        assert not np.any(replace(SETTING, algorithm="fedsgd").plan(problem, CASE.step).noise)


# Budgets ------------------------------------------------------------------------------------------------


def test_budgets_are_uniform_in_their_ranges():
    """Kolmogorov-Smirnov at 1e-4: one false alarm in 5,000 runs of the two tests."""
    epsilon, delta = Budgets(0.5, (1e-5, 1e-4)).drawn(4.0, 5000, seed=3)
    for values, low, high in ((epsilon, 0.5, 4.0), (delta, 1e-5, 1e-4)):
        assert kstest(values, "uniform", (low, high - low)).pvalue > 1e-4
    assert abs(np.corrcoef(epsilon, delta)[0, 1]) < 0.06


def test_seeds_draw_other_budgets_and_larger_upper_ends_raise_the_same_ones():
    some = Budgets(0.1, (1e-5, 1e-4))
    (first, tails), (other, _), (higher, same) = (
        some.drawn(e, 50, seed) for e, seed in ((3.0, 0), (3.0, 1), (6.0, 0))
    )
    assert not np.any(first == other)
    np.testing.assert_array_equal(tails, same)
    np.testing.assert_allclose((higher - 0.1) / (first - 0.1), 5.9 / 2.9)


def test_algorithms_share_budgets_and_laplace_noise_is_pure(laboratory):
    plans = [laboratory.plan(training(one), 3.0, seed=2) for one in SERIES]
    for plan in plans:
        np.testing.assert_array_equal(plan.budget.epsilon, plans[0].budget.epsilon)
        np.testing.assert_array_equal(plan.budget.delta, plans[0].budget.delta)
    assert not np.any(laboratory.problem(arm("laplace"), 3.0, 1.0, 3.0).budget.delta)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_nobody_spends_more_than_it_drew(laboratory, mechanism):
    every = private(CASE, mechanism) | PERSONAL
    for label, whole in every.items():
        for seed in laboratory.seeds:
            setting = replace(whole, rounds=12, clients_per_round=3)
            plan = laboratory.plan(training(fixed(label, "fixed", setting), mechanism), 3.0, seed)
            assert np.all(plan.spent() <= plan.budget.epsilon * (1 + 1e-9)), label
            assert plan.all_rounds == 12


# Noise as printed ---------------------------------------------------------------------------------------


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of a Gaussian mechanism (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_the_noise_of_the_bound_is_what_the_paper_prints(laboratory):
    """std = 2 B sqrt(T_n ln(1/delta_n)) / (D_n epsilon_n), docs/theory/ma.md#noise."""
    rows = laboratory._rows(training(SERIES[-1], printed=True), [3.0])
    for plan, algorithm in zip(rows.plans, rows.algorithms, strict=True):
        epsilon, delta = plan.budget.epsilon, plan.budget.delta
        asked = np.maximum(plan.releases, 1)
        expected = 2 * 3.0 * np.sqrt(asked * np.log(1 / delta)) / (plan.problem.sizes * epsilon)
        np.testing.assert_allclose(algorithm.noise, expected, rtol=1e-5)


def test_what_the_printed_noise_spends_is_an_epsilon_of_its_mu():
    epsilon, delta = Budgets(0.1, (1e-5, 1e-4)).drawn(3.0, 20, 0)
    spent = spent_by_bound(epsilon, delta)
    for e, d, s in zip(epsilon, delta, spent, strict=True):
        assert gaussian_delta(s, e / np.sqrt(np.log(1 / d))) == pytest.approx(d, rel=1e-6)
    np.testing.assert_array_equal(bound_share(epsilon, delta) < 1, spent > epsilon)


# Partitions ---------------------------------------------------------------------------------------------


def test_other_alphas_deal_the_same_records_anew(laboratory):
    other = laboratory.dealt(5.0)
    assert laboratory.dealt(1.0) is laboratory
    assert other.federation.sizes.sum() == laboratory.federation.sizes.sum()
    assert not np.array_equal(other.federation.sizes, laboratory.federation.sizes)
    assert other._records() is laboratory._records()
    assert other.seeds == laboratory.seeds == [0, 1, 2]


def mean_radius() -> Records:
    """Cells of breast cancer: the radius, from the other measurements."""
    cells = load_records("breast-cancer")
    return replace(
        cells, x=cells.x[:, 1:], y=cells.x[:, 0], test_x=cells.test_x[:, 1:], test_y=cells.test_x[:, 0],
        classes=None,
    )  # fmt: skip


def test_real_targets_are_dealt_by_their_quantiles():
    records = mean_radius()
    bench = Bench("cells", "linear", "dirichlet", clients=5, alpha=0.3, strata=4, made=lambda _: records)
    federation = Laboratory(bench, None, 1.0).federation
    held = np.concatenate([federation.y[i, :n] for i, n in enumerate(federation.sizes)])
    np.testing.assert_array_equal(np.sort(held), np.sort(records.y))
    edges = np.quantile(records.y, [0.25, 0.5, 0.75])
    counts = np.stack(
        [np.bincount(np.searchsorted(edges, y[:n]), minlength=4)
         for y, n in zip(federation.y, federation.sizes, strict=True)]
    )  # fmt: skip
    even = federation.sizes[:, None] * counts.sum(axis=0) / len(records)
    assert chi2.sf(np.sum((counts - even) ** 2 / even), df=12) < 1e-6, "clients must hold other strata"


@pytest.mark.data
def test_lending_club_is_as_large_as_in_the_paper(data_dir):
    records = CASES["lending"].bench.made(data_dir)
    assert (records.x.shape, records.test_x.shape) == ((32_000, 10), (8000, 10))


# Trainings ----------------------------------------------------------------------------------------------


def test_seeds_of_a_training_follow_their_own_plans(laboratory):
    rows = laboratory._rows(training(SERIES[5]), [1.0, 3.0])
    assert rows.seeds == [0, 1, 2, 0, 1, 2]
    assert rows.uploads.shape == (6, 8)
    for plan, algorithm in zip(rows.plans, rows.algorithms, strict=True):
        np.testing.assert_array_equal(np.bincount(algorithm.cohorts.ravel(), minlength=8), plan.releases)
    assert not np.array_equal(rows.plans[0].budget.epsilon, rows.plans[1].budget.epsilon)


def test_stages_of_a_miniature_average_over_the_records_it_holds(laboratory, monkeypatch):
    held = []

    def spy(plans, shards, task, seeds, scored, *, adapted):
        first = loss_reports.make(two_stages.stage_before(plans[0]), task, 0)
        held.extend(adapted(one).divisors for one in (first, make(plans[0], task, 0)))
        raise StopIteration

    monkeypatch.setattr(two_stages, "run", spy)
    with pytest.raises(StopIteration):
        laboratory.train(training(SERIES[4]), [3.0])
    for divisors in held:
        np.testing.assert_array_equal(divisors, laboratory.held(1.0))
    assert np.all(laboratory.held(1.0) < laboratory.federation.sizes)


PRIVATE = tuple(one for one in SERIES if one.label in ("DPSGD", TWO_STAGES, ONE_STAGE, PRINTED))
AHEAD = Claim(
    "One stage is ahead.", (Ahead(Where(series=(ONE_STAGE,)), Where(series=("DPSGD",)), "accuracy"),)
)
FIGURE = Figure(
    "digits, a stand-in", Layout("round", ("accuracy",), lines="series", zoomed=True), DIGITS,
    (arm(series=PRIVATE),), (AHEAD,), repeats=3, evaluations=3, least_seeds=3, tables=tables_of(CASE),
)  # fmt: skip


def test_a_figure_is_measured_kept_and_shown(tmp_path, monkeypatch):
    result = reproduce_figure("ma", "figure-9", FIGURE, Store.open(tmp_path), scale=0.1)
    assert [p.series for p in result.points] == [one.label for one in PRIVATE]
    assert all(np.shape(p.accuracies) == (3, len(p.at)) and p.at[-1] == 6 for p in result.points)
    assert (result.seeds, {p.alpha for p in result.points}) == (3, {1.0})

    def never(*_, **__):
        raise AssertionError("measured twice")

    monkeypatch.setattr(Laboratory, "train", never)
    assert reproduce_figure("ma", "figure-9", FIGURE, Store.open(tmp_path), scale=0.1) == result
    save(result, tmp_path)
    paper = replace(PAPER, items={"figure-9": FIGURE})
    assert load(tmp_path, paper) == [result]
    page = write_reproductions(paper, [result], tmp_path).read_text()
    assert page == reproductions_page(paper, [result])
    for expected in ("As printed: what the noise", "| DPSGD |", "3 seeds"):
        assert expected in page


def test_every_partition_is_trained_and_kept_apart(tmp_path, monkeypatch):
    def trained(self, training, epsilons):
        scores = [[0.1, self.bench.alpha / 10]] * 3
        return {e: {"at": [0, 6], "losses": scores, "accuracies": scores, "seconds": 0.0} for e in epsilons}

    monkeypatch.setattr(Laboratory, "train", trained)
    layout = Layout("alpha", ("accuracy",), lines="series", zoomed=True, log="x")
    figure, store = replace(FIGURE, alphas=(1.0, 5.0), layout=layout), Store.open(tmp_path)
    result = reproduce_figure("ma", "figure-9", figure, store, scale=0.1)
    assert [(p.alpha, p.accuracy) for p in result.points] == [(1.0, pytest.approx(0.1))] * 4 + [
        (5.0, 0.5)
    ] * 4
    assert len(store.content) == 8
    poorer = replace(figure, arms=(arm(case=replace(CASE, least=1.0), series=PRIVATE),))
    reproduce_figure("ma", "figure-9", poorer, store, scale=0.1)
    reproduce_figure("ma", "figure-9", replace(figure, least_seeds=2, repeats=2), store, scale=0.1)
    assert len(store.content) == 24, "other budgets and other seeds are other trainings"
    page = write_reproductions(PAPER, [result], tmp_path).read_text()
    for expected in ("| setting | ε = 3, α = 1 | ε = 3, α = 5 |", "| series | gaussian α=1 | gaussian α=5 |"):
        assert expected in page


def test_two_runs_may_fill_one_folder(tmp_path):
    first, second = Store.open(tmp_path), Store.open(tmp_path)
    first.keep({"a": 1})
    second.keep({"b": 2})
    assert Store.open(tmp_path).content == {"a": 1, "b": 2}


# Pictures -----------------------------------------------------------------------------------------------


def curves(series, mechanism, losses) -> Point:
    return replace(point(series, 50.0, mechanism), losses=losses, at=[0, 6], series=series)


def drawn(*points: Point, log=""):
    layout = Layout("round", ("loss",), lines="series", zoomed=True, log=log)
    return draw(
        Reproduction(
            paper="ma", item="f", title="t", layout=layout, loss=LossUnit("loss", 1.0), data="", scale=1.0,
            seeds=2, points=list(points), tables=[], notes=[],
        )
    )  # fmt: skip


def test_the_legend_names_the_lines_of_all_panels():
    figure = drawn(*(curves(s, m, [[2.0, 1.0]] * 2) for m, s in PLAIN.items()))
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["DPSGD", "DMLDP"]


def test_bands_on_a_logarithmic_axis_stay_above_zero():
    """Losses 1 and 100: the arithmetic band would reach 50.5 - 49.5 = 1, the geometric one 50.5 / 10."""
    figure = drawn(curves("DPSGD", "gaussian", [[2.0, 1.0], [2.0, 100.0]]), log="y")
    (band,) = figure.axes[0].collections
    ends = band.get_paths()[0].vertices
    assert ends[:, 1].min() == pytest.approx(2.0)
    assert ends[:, 1].max() == pytest.approx(505.0)


# How long it takes --------------------------------------------------------------------------------------

NETWORK = replace(
    FIGURE, bench=replace(DIGITS, model="ma-cnn"), arms=(arm(series=SERIES[1:3]),), claims=(),
    tables=lambda points: [],
)  # fmt: skip


@pytest.fixture
def untrained(monkeypatch):
    """Trainings that take no time."""

    def trained(self, training, epsilons):
        return {e: {"at": [0], "losses": [[1.0]], "accuracies": [[0.1]], "seconds": 0.0} for e in epsilons}

    monkeypatch.setattr(Laboratory, "train", trained)


def test_a_network_says_how_long_it_takes_and_a_linear_model_does_not(untrained, monkeypatch):
    """Two trainings of 6 rounds that are scored 3 times, and compiled; none where everything is kept."""
    monkeypatch.setattr(Laboratory, "pace", lambda *_: Pace(10.0, 1.0, 100.0))
    told, store = [], Store.open(None)
    for figure in (replace(NETWORK, bench=DIGITS), NETWORK, NETWORK):
        reproduce_figure("ma", "figure-9", figure, store, scale=0.1, on_estimate=told.append)
    assert told == [2 * (10.0 + 6 * 1.0 + 3 * 100.0)]


def test_the_command_says_how_long_networks_will_train(tmp_path, monkeypatch, capsys):
    def told(*_, on_estimate, **__):
        on_estimate(700.0)
        raise InvalidInput("far enough")

    monkeypatch.setattr(reproduction, "reproduce", told)
    with pytest.raises(InvalidInput):
        app(["reproduce", "ma", "--out", str(tmp_path)], standalone_mode=False)
    assert "Networks to train: about 12 minutes on this machine." in capsys.readouterr().err


def test_a_pace_is_measured_and_compiling_is_no_part_of_a_round(laboratory):
    one = training(fixed("DPSGD", "fixed", replace(SETTING, algorithm="dpsgd", clients_per_round=5)))
    pace = laboratory.pace(one, [3.0])
    assert pace.compiling > pace.a_round > 0
    assert pace.a_score >= 0


# Claims -------------------------------------------------------------------------------------------------


def point(series, accuracy, mechanism="gaussian", epsilon=3.0, alpha=3.0, loss=1.0) -> Point:
    accuracies = np.broadcast_to(accuracy, 2) / 100
    return Point(
        mechanism, epsilon, 1.0, series, "fixed", "dpsgd", quantities(SETTING), 20.0, 0.05,
        [0, 6], [[2.3, value] for value in np.broadcast_to(loss, 2).tolist()],
        [[0.1, value] for value in accuracies.tolist()], 0.0, alpha=alpha,
    )  # fmt: skip


ACCURACY, ERROR = Utility(False), Utility(True)


def test_gaps_are_paired_by_seed():
    first, second = point("a", [50.0, 70.0]), point("b", [49.0, 67.0])
    gap = ACCURACY.gap(first, second)
    assert (gap.mean, gap.std) == pytest.approx((2.0, np.sqrt(2)))
    assert ACCURACY.shown(first) == "60.00 ± 14.14 %"


def test_a_smaller_error_is_better_and_a_diverged_training_is_worst():
    good, bad = point("a", 0.0, loss=[10.0, 12.0]), point("b", 0.0, loss=[11.0, np.nan])
    assert ERROR.of(good).mean == -11.0
    assert ERROR.gap(good, bad).mean == np.inf
    assert (ERROR.shown(good), ERROR.shown(bad)) == ("11.00 ± 1.41", "diverged")


@pytest.mark.parametrize(
    "name", ["figure-2-mnist", "table-1-mnist", "figure-4-mnist", "figure-5-mnist", "figure-5-lending"]
)
def test_every_claim_can_be_judged_and_can_fail(name):
    """On utilities of random levels and trends, each claim agrees once and fails once."""
    figure, rng = FIGURES[name], np.random.default_rng(0)
    seen: dict[str, set[str]] = {claim.words: set() for claim in figure.claims}
    for _ in range(40):
        points = [
            replace(point(one.label, value, own.mechanism, e, a, 100 - value), role=one.role)
            for own in figure.arms
            for one in own.series
            for level, trend in [rng.normal((50, 0), (20, 8))]
            for e in own.epsilons
            for a in figure.alphas or (3.0,)
            for value in [level + trend * (e + a) + rng.normal(0, 0.1, 2)]
        ]
        for claim in figure.claims:
            found = verdict(claim, points)
            assert found.evidence
            seen[claim.words].add(found.word)
        assert all(table.rows for table in figure.tables(points))
    assert all(words & {"partly", "disagrees"} for words in seen.values())
    assert all(words & {"partly", "agrees"} for words in seen.values())


def test_table_1_stands_beside_ours():
    points = [point(series, 50.0, mechanism) for mechanism, series in TABLE_1]
    (table,) = table_1_beside(MNIST)(points)
    assert table.rows[0] == ["gaussian", "PrivateFL", "22.95 ± 0.77 %", "50.00 ± 0.00 %"]
    assert [row[2] for row in table.rows][1:] == ["91.84 ± 0.53 %", "12.91 ± 0.54 %", "81.25 ± 1.29 %"]


def test_tables_tell_what_the_printed_noise_spends():
    points = [point(ONE_STAGE, 50.0), point(PRINTED, 55.0), point("DPSGD", 40.0)]
    utilities, spent = tables_of(MNIST)(points)
    assert ["DPSGD", "40.00 ± 0.00 % (+10.00 ± 0.00)"] in utilities.rows
    mean, worst, share = spent.rows[0]
    assert 1.0 < float(mean) < float(worst) < 1.5
    assert share.endswith("%")
