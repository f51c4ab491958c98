"""The papers' tables and figures: the data are right, the judges can say no, the runner measures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.errors import DataError, InvalidInput
from noiseworthy_papers import reproduce
from noiseworthy_papers.judge import Claim, verdict
from noiseworthy_papers.keeping import Store, load, save
from noiseworthy_papers.kinds import Ahead
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.pages import reproductions_page, verdict_table, write_reproductions
from noiseworthy_papers.points import Point
from noiseworthy_papers.reproduction import reproduce_figure
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.settings import FedSGD, quantities
from noiseworthy_papers.spec import Arm, Bench, Figure, Series
from noiseworthy_papers.zhou.paper import CLIENTS, CURVES, DATA, DIGITS, EPSILON, FIGURES, PAPER, PLANS, STEP
from noiseworthy_papers.zhou.table import FEMNIST, MNIST, ROWS, gamma_range

PRINTED = {  # Table I, verbatim: T*(b=5), T*(b=10), b*(T=50), T*(b*=1), each at epsilon 1, 5, 10
    "MNIST": (5, 32, 67, 2, 20, 42, 1, 3, 5, 22, 121, 244),
    "FEMNIST": (2, 22, 48, 1, 14, 31, 1, 2, 3, 11, 70, 145),
}


def point(
    loss: float,
    accuracy: float = 0.5,
    mechanism: str = "laplace",
    epsilon: float = 1.0,
    b: int = 1,
    series: str = "s",
    role: str = "paper",
    fraction: float = 1.0,
) -> Point:
    return Point(
        mechanism, epsilon, fraction, series, role, "fedsgd-dpc", quantities(FedSGD(10, b)), 1.0, 0.1,
        [0, 10], [[2.3, loss * (1 + i * 1e-5)] for i in (-1, 0, 1)],
        [[0.1, accuracy * (1 + i * 1e-5)] for i in (-1, 0, 1)], 0.0,
    )  # fmt: skip


# Table I ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.data)
def test_table_one_is_reproduced_entry_by_entry(row):
    ours = [row.rounds_for(epsilon, b) for b in (5, 10) for epsilon in (1, 5, 10)]
    ours += [row.clients_for(epsilon) for epsilon in (1, 5, 10)]
    ours += [row.rounds_for(epsilon, 1) for epsilon in (1, 5, 10)]
    assert tuple(ours) == PRINTED[row.data]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.data)
def test_the_data_of_table_one_are_those_printed(row):
    assert (*row.rounds[5], *row.rounds[10], *row.clients, *row.rounds[1]) == PRINTED[row.data]


def test_only_small_gammas_are_consistent_with_table_one():
    """The ranges of docs/theory/zhou.md#experiments, found there by another route."""
    assert np.round([gamma_range(MNIST), gamma_range(FEMNIST)], 2).tolist() == [[2.63, 3.31], [4.03, 5.61]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.data)
def test_the_fitted_constants_lie_in_the_feasible_set_and_others_do_not(row):
    low, high = gamma_range(row)
    assert low < row.gamma < high
    other = replace(row, gamma=2 * high)
    assert [other.rounds_for(e, b) for b in (1, 5, 10) for e in (1, 5, 10)] != [
        t for b in (1, 5, 10) for t in row.rounds[b]
    ]


def test_fewer_records_are_a_smaller_budget():
    assert MNIST.planned(10.0, 0.5) == MNIST.planned(5.0)
    assert MNIST.planned(5.0) == FedSGD(121, 1)


# Specifications ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_trains_what_the_paper_states(name):
    laplace, gaussian = FIGURES[name].arms
    assert (laplace.mechanism, laplace.delta, gaussian.mechanism, gaussian.delta) == (
        "laplace", 0.0, "gaussian", 1e-5,
    )  # fmt: skip
    assert {1.0, 5.0, 10.0} <= set(laplace.epsilons)
    assert {0.1, 0.5, 1.0} <= set(gaussian.epsilons)
    mnist = int(name[-1]) % 2 == 1
    assert laplace.clip_norm == (300.0 if mnist else 200.0)
    assert gaussian.clip_norm == 10.0
    assert FIGURES[name].bench.model == ("softmax" if mnist else "cnn")


@pytest.mark.parametrize("name", FIGURES)
def test_every_arm_has_one_optimum_of_the_paper_and_settings_in_range(name):
    figure = FIGURES[name]
    for arm in figure.arms:
        assert len({(s.label, s.role) for s in arm.series}) == len(arm.series)
        assert [s.role for s in arm.series].count("paper") == 1
        assert all((s.setting is None) != (s.planner is None) for s in arm.series)
        settings = [
            s.setting(e, f) for s in arm.series if s.setting for e in arm.epsilons for f in figure.fractions
        ]
        assert all(1 <= s.rounds <= 500 and 1 <= s.clients_per_round <= 10 for s in settings)


@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_can_be_judged_on_its_figure_and_can_fail(name):
    """Random losses, far apart or alike: nothing raises, evidence is given, and no claim always holds."""
    figure, rng = FIGURES[name], np.random.default_rng(0)
    seen: dict[str, set[str]] = {claim.words: set() for claim in figure.claims}
    for _ in range(50):
        points, apart = [], rng.choice([0.01, 1.0])
        for arm in figure.arms:
            for series in arm.series:
                for epsilon in arm.epsilons:
                    for fraction in figure.fractions:
                        setting = series.setting(epsilon, fraction) if series.setting else FedSGD(10, 10)
                        b = setting.clients_per_round
                        loss, accuracy = 1 + apart * rng.uniform(), apart * rng.uniform()
                        drawn = point(loss, accuracy, arm.mechanism, epsilon, b, series.label)
                        points.append(replace(drawn, role=series.role, fraction=fraction))
        for claim in figure.claims:
            found = verdict(claim, points)
            assert found.evidence
            seen[claim.words].add(found.word)
    assert all(words & {"partly", "disagrees"} for words in seen.values())


def test_the_items_of_the_paper_are_its_table_and_eight_figures():
    assert list(PAPER.items) == ["table-1", *(f"figure-{i}" for i in range(1, 9))]


# The runner -------------------------------------------------------------------------------------------

SERIES = (
    Series("long", "paper", lambda e, f: FedSGD(60, 10)),
    Series("short", "fixed", lambda e, f: FedSGD(2, 1)),
)
LONG, SHORT = Where(("paper",)), Where(("fixed",))
TINY = Figure(
    "a stand-in",
    EPSILON,
    Bench("digits", "softmax", "label-shards", 2),
    (Arm("gaussian", (20.0, 100.0), 1e-5, 10.0, STEP, SERIES),),
    (
        Claim("Training longer is better.", (Ahead(LONG, SHORT),)),
        Claim("Training longer is worse.", (Ahead(SHORT, LONG),), "It is not."),
    ),
    fractions=(0.5, 1.0),
)


def test_the_runner_measures_judges_and_keeps(tmp_path, monkeypatch):
    told = []
    result = reproduce_figure(
        "zhou", "figure-9", TINY, Store.open(tmp_path), scale=0.1, on_progress=told.append
    )
    assert [verdict.word for verdict in result.verdicts] == ["agrees", "disagrees"]
    assert [verdict.reason for verdict in result.verdicts] == ["", "It is not."]
    assert len(result.points) == 2 * 2 * 2
    assert result.seeds == 2
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    assert result.seconds > 0

    def never(*_, **__):
        raise AssertionError("measured twice")

    monkeypatch.setattr(Laboratory, "train", never)
    again = reproduce_figure("zhou", "figure-9", TINY, Store.open(tmp_path), scale=0.1)
    assert again == result
    save(result, tmp_path)
    assert load(tmp_path, replace(PAPER, items={"figure-9": TINY})) == [result]


def test_results_become_a_table_a_page_and_pictures(tmp_path):
    result = reproduce_figure("zhou", "figure-9", TINY, Store.open(None), scale=0.1)
    results = [*reproduce("zhou", "table-1"), result]
    assert verdict_table(PAPER, results).row_count == sum(len(r.verdicts) for r in results)
    page = write_reproductions(PAPER, results, tmp_path).read_text()
    assert page == reproductions_page(PAPER, results)
    for expected in (
        "24 of 24",
        "Training longer is worse",
        "It is not.",
        "figures/zhou-figure-9.png",
        "2 seeds",
    ):
        assert expected in page
    assert (tmp_path / "figures" / "zhou-figure-9.png").stat().st_size > 1000


@pytest.mark.parametrize("layout", [CURVES, CLIENTS, DATA], ids=lambda layout: layout.along)
def test_every_layout_is_drawn(layout):
    from noiseworthy_papers.figures import draw

    points = [
        point(1.0 / b / e, 0.5, "laplace", e, b, f"b={b}", role, f)
        for e in (1.0, 5.0, 10.0)
        for b, role in ((1, "paper"), (5, "fixed"), (10, "planned"))
        for f in (0.5, 1.0)
    ]
    result = reproduce("zhou", "table-1")[0]
    assert draw(replace(result, layout=layout, points=points)).axes


def test_a_miniature_trains_on_few_records_with_the_noise_of_all():
    bench = Bench("digits", "softmax", "label-shards", 2, miniature=True)
    full, mini = Laboratory(replace(bench, miniature=False), None, 0.1), Laboratory(bench, None, 0.1)
    arm = TINY.arms[0]
    assert np.array_equal(
        mini.problem(arm, 1.0, 1.0, 1.0).release(np.full(10, 3)).mechanism.size,
        full.problem(arm, 1.0, 1.0, 1.0).release(np.full(10, 3)).mechanism.size,
    )
    assert mini.shards(1.0).train.mask.sum() < 0.2 * full.shards(1.0).train.mask.sum()
    assert mini.shards(1.0).test_x.shape == full.shards(1.0).test_x.shape  # digits has fewer than 1,000


def test_a_miniature_averages_over_the_records_it_holds():
    """Almost without noise, a tenth of the records learn nearly as fast, by their own mean."""
    bench = Bench("digits", "softmax", "iid", miniature=True)
    arm = Arm("gaussian", (1e6,), 1e-5, 1e3, STEP, ())
    training = Training(arm, FedSGD(20, 10), 1e3, STEP)
    losses = [
        Laboratory(replace(bench, miniature=mini), None, 0.2).train(training, (1e6,))[1e6]["losses"][0][-1]
        for mini in (False, True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.15)


def test_a_preferred_source_is_taken_where_its_folder_is(tmp_path):
    assert Laboratory(FIGURES["figure-2"].bench, tmp_path, 1.0).source == "mnist-writers"
    (tmp_path / "femnist").mkdir()
    assert Laboratory(FIGURES["figure-2"].bench, tmp_path, 1.0).source == "leaf:femnist"


def test_flat_images_of_the_real_femnist_become_square_for_the_cnn(tmp_path):
    users = [f"writer {i:02}" for i in range(20)]
    one = {"x": np.linspace(0, 1, 2 * 784).reshape(2, 784).tolist(), "y": [0, 61]}
    content = {"users": users, "num_samples": [2] * 20, "user_data": dict.fromkeys(users, one)}
    for part in ("train", "test"):
        (tmp_path / "femnist" / part).mkdir(parents=True)
        (tmp_path / "femnist" / part / "all.json").write_text(json.dumps(content))
    laboratory = Laboratory(FIGURES["figure-2"].bench, tmp_path, 1.0)
    assert laboratory.federation.sizes.tolist() == [4] * 10
    assert laboratory.federation.record_shape == (28, 28)
    assert laboratory.task.dimension > 10_000


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("nobody", "table-1"), "paper"),
        (("fu", "table-1"), "item"),
        (("zhou", "figure-9"), "item must be one of 'table-1', "),
        (("zhou", "table-1", 0.0), "scale"),
        (("zhou", "table-1", 2.0), "scale"),
    ],
)
def test_what_cannot_be_reproduced_is_refused(arguments, what):
    paper, item, *scale = arguments
    with pytest.raises(InvalidInput, match=what):
        reproduce(paper, item, scale=scale[0] if scale else 1.0)


def test_missing_data_and_missing_results_are_said(tmp_path):
    with pytest.raises(DataError, match="no file"):
        reproduce("zhou", "figure-3", data_dir=tmp_path, scale=0.1)
    with pytest.raises(DataError, match="reproduce"):
        load(tmp_path, PAPER)
    (tmp_path / "measurements.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        Store.open(tmp_path)


# The bar ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("arm", "epsilon"), [(0, 5.0), (1, 0.5)], ids=["laplace", "gaussian"])
@pytest.mark.usefixtures("whole_races")
def test_on_mnist_the_plan_is_near_the_grid_and_beats_it_with_clip_and_step(data_dir, arm, epsilon):
    """Two seeds and the grid at one b; docs/reproductions.md has the whole grid with more seeds."""
    full, b = FIGURES["figure-5"], (1, 10)[arm]
    kept = [
        s for s in full.arms[arm].series
        if s.setting is None or s.setting(epsilon, 1.0).clients_per_round == b
    ]  # fmt: skip
    small = replace(full.arms[arm], epsilons=(epsilon,), series=tuple(kept))
    near, _ = (claim for claim in full.claims if claim.ours)
    figure = Figure("the bar", EPSILON, DIGITS, (small,), (near,))
    result = reproduce_figure("zhou", "figure-5", figure, Store.open(None), data_dir=data_dir, scale=0.2)
    assert {series.role for series in PLANS} <= {p.role for p in result.points}
    assert result.verdicts[0].word != "disagrees", result.verdicts[0].evidence
    planned = next(p for p in result.points if p.role == "planned")
    best = min((p for p in result.points if not p.role.startswith("planned")), key=lambda p: p.loss)
    assert planned.loss < 0.85 * best.loss
    assert planned.accuracy > best.accuracy + 0.01
