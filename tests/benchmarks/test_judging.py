"""How plans are judged: a trainer with the engine's law, cells by public rules, a summary that adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from federations import FEDERATIONS, SOURCES
from judging.cells import Cell, cells, epsilon_of, prepared
from judging.grid import CHOOSING, EFFORTS, SCORING, Ground, Line, Search, Seen, Tried, views
from judging.pages import Row, kinds, page, summary
from noiseworthy.studies.by_trial import open_bench
from noiseworthy.tasks.names import MEAN
from quality import score

ONE_NORM = (("normalise", True), ("feature_norm", 1.0))
AGAINST_MEAN = (*ONE_NORM, ("reference", (MEAN,)))
CANCER = Cell("breast-cancer", "gaussian")


def test_the_judging_half_has_60_cells_with_both_noises():
    judged = cells("judging")
    assert len({cell.name for cell in judged}) == len(judged) >= 60
    assert {cell.mechanism for cell in judged} == {"laplace", "gaussian"}
    assert not {*judged} & {*cells("tuning")}


def test_seeds_that_search_choose_and_report_never_meet():
    searching = set(range(max(effort.seeds for effort in EFFORTS.values())))
    assert not searching & {*CHOOSING}
    assert not searching & {*SCORING}
    assert not {*CHOOSING} & {*SCORING}
    assert len(SCORING) >= 24


def test_a_budget_follows_from_public_sizes():
    few, many = (epsilon_of(CANCER, 10, records, 30, 2) for records in (455, 45_500))
    assert few > many
    assert epsilon_of(Cell("breast-cancer", "laplace"), 10, 455, 30, 2) > few / 20


def test_a_federation_is_planned_without_its_relatives():
    made = prepared(CANCER)
    assert "breast-cancer" in made.relatives
    assert "breast-cancer" not in open_bench(made).sources
    assert "breast-cancer" in open_bench(replace(made, relatives=())).sources


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism", "keys", "model", "rounds", "clients", "clip", "step", "weighting"),
    [
        ("breast-cancer", "gaussian", ONE_NORM, "softmax", 12, 10, 0.5, 2.0, 0.0),
        ("breast-cancer", "laplace", (), "logistic", 10, 1, 2.0, 0.5, 0.0),
        ("breast-cancer", "laplace", ONE_NORM, "softmax", 6, 5, 1.0, 2.0, 0.0),
        ("breast-cancer", "gaussian", ONE_NORM, "logistic", 8, 10, 1.0, 4.0, 1.0),
        ("breast-cancer", "laplace", AGAINST_MEAN, "logistic", 4, 5, 1.0, 1.0, 0.0),
        ("breast-cancer", "laplace", AGAINST_MEAN, "softmax", 2, 1, 1.0, 0.5, 0.0),
        ("chick-weight", "laplace", ONE_NORM, "linear", 8, 3, 50.0, 0.5, 0.0),  # owners of very unequal sizes
    ],
)
def test_the_fast_trainer_has_the_law_of_the_engine(
    name, mechanism, keys, model, rounds, clients, clip, step, weighting
):
    if SOURCES[name].needs == "river":
        pytest.importorskip("river")
    ground = Ground(prepared(Cell(name, mechanism)))
    seen = Seen(keys, model, 0.3)
    line, seeds = Line(seen, rounds, clients, weighting), np.arange(2000, 2100)
    told = {"reference": [MEAN]} if keys == AGAINST_MEAN else {}
    arena = ground.of_task({"model": model, "bias": ground.bias(seen), **dict(keys), **told})
    assert any(arena.task.start) == (keys == AGAINST_MEAN)
    plan = ground.plan(line, clip, step)
    for averaging in (0.0, 0.5):
        loss, accuracy = Search(ground).scored(Tried(line, clip, step, averaging > 0, 0.0), seeds)
        engine = score(arena, replace(plan, averaging=averaging), range(1000, 1100))
        for mine, theirs in ((loss, engine.loss), (accuracy, engine.accuracy)):
            error = np.sqrt((mine.var() + theirs.var()) / len(seeds))
            assert abs(mine.mean() - theirs.mean()) < 4 * error + 1e-6


def test_treatments_that_a_plan_may_choose_are_in_the_grid():
    found = [*views(prepared(CANCER))]
    assert {model for _, model in found} == {"softmax", "logistic"}
    assert {keys for keys, _ in found} >= {(), ONE_NORM}
    assert any(dict(keys).get("projection") for keys, _ in found)


@pytest.mark.full
def test_a_line_is_searched_until_its_best_step_is_an_inner_one():
    search = Search(Ground(prepared(CANCER)))
    search.line(Line(Seen(ONE_NORM, "logistic", 0.3), 4, 10), np.arange(2))
    best = search.lines()[0]
    steps = sorted({one.step for one in search.tried if one.clip == best.clip})
    assert steps[0] < best.step < steps[-1]
    assert best.loss < search.ground.untrained[0]


# The summary ------------------------------------------------------------------------------------------


def row(name: str, best: float, plan: float, default: float, told: float = 0.8) -> tuple:
    found = {
        "epsilon": 1.0, "classes": 2, "sizes": [10, 455, 30], "untrained": {"loss": 0.7, "accuracy": 0.5},
        "deal": FEDERATIONS["breast-cancer"].deal.__dict__,
        "best": {
            "loss": [best], "accuracy": [0.9],
            "setting": {
                "averaged": False,
                "line": {
                    "rounds": 3, "clients": 2,
                    "seen": {"keys": dict(ONE_NORM), "model": "softmax", "share": 0.3},
                },
            },
        },
        "defaults": {"usual": {"loss": [default], "accuracy": [0.8]}},
    }  # fmt: skip
    foretold = {"loss": 0.5, "accuracy": told, "least": told - 0.1, "most": told + 0.1}
    task = {"normalise": True, "projection": None}
    planned = {
        "plan": {"rounds": 3, "clients_per_round": 2}, "task": task, "spread": plan, "foretold": foretold,
    }  # fmt: skip
    return Cell(name, "laplace"), found, planned, {"loss": [plan], "accuracy": [0.75]}


def test_a_row_says_what_plan_and_default_lose():
    one = Row(*row("breast-cancer", 0.2, 0.3, 0.45))
    assert one.lost == pytest.approx(0.2)
    assert one.default == pytest.approx(0.5)
    assert one.worth


@pytest.mark.full
def test_the_summary_counts_cells_that_are_worth_it_and_names_what_fails():
    rows = [
        row("breast-cancer", 0.2, 0.3, 0.45),
        row("modechoice", 0.2, 0.1, 0.45),
        row("fair-affair", 0.2, 0.72, 0.21, told=0.95),
        row("shuttle", 0.699, 0.71, 0.8),
    ]
    said = summary(rows)
    assert "4 plans scored; in 1 of them the oracle gains less than 1 %" in said
    assert "Lost gain of 3 cells: mean 41.3 %" in said
    assert "behind the best default: fair-affair-laplace" in said
    assert "above the untrained loss (over it): fair-affair-laplace (1.03), shuttle-laplace (1.01)" in said
    assert "in the stated band in 75% of 4 cells" in said
    assert page(rows).count("\n| ") == 5
    assert "nothing to gain" in page(rows)


def test_cells_of_a_kind_are_counted_together_and_none_pays_for_another():
    """Lost 20, -20 and 104 %, one number to predict, and one with nothing to gain; 3 rounds of 2 of 10."""
    rows = [row("breast-cancer", 0.2, 0.3, 0.45), row("modechoice", 0.2, 0.1, 0.45),
            row("fair-affair", 0.2, 0.72, 0.21), row("elnino", 0.2, 0.25, 0.45),
            row("shuttle", 0.699, 0.71, 0.8)]  # fmt: skip
    rows[3][1]["classes"] = None
    assert "| classes | Laplace | 3 | 41.3 | 20.0 | 87.2 | 104.0 | 0.6 |" in kinds(rows)
    assert "| numbers | Laplace | 1 | 10.0 | 10.0 | 10.0 | 10.0 | 0.6 |" in kinds(rows)
    assert kinds(rows).count("Laplace") == 2
