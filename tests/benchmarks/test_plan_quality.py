"""The benchmark of plans: seven federations, none its own proxy, studies that a file says as well."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

import noiseworthy as nw
import plan_quality as bench
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from oracle import Oracle, Point, Tried
from quality import Arena, Scores

pytestmark = pytest.mark.full


def test_there_are_seven_federations_with_two_noises_and_three_budgets():
    assert len({cell.site for cell in bench.CELLS}) == 7
    assert len(bench.CELLS) == len({cell.name for cell in bench.CELLS}) == 7 * 2 * 3


def test_no_federation_is_public_for_itself():
    assert all(name not in site.public and site.public for name, site in bench.SITES.items())


def test_selection_and_scoring_seeds_never_meet():
    for cell in bench.CELLS:
        assert len(cell.scoring) >= 10
        assert not {*range(bench.SITES[cell.site].seeds[0])} & {*cell.scoring}


def test_a_study_written_as_a_file_is_the_study():
    for cell in bench.CELLS:
        assert nw.parse_study(tomllib.loads(bench.toml(cell.tables))) == nw.parse_study(cell.tables)


@pytest.mark.parametrize("train", [True, False])
def test_a_plan_that_was_kept_is_the_plan(train):
    problem = Problem(np.array([90, 60]), 640, PrivacyBudget.of(5.0, 0.0, 2), "laplace", 0.5)
    plan = queries_replies.stated(problem, 7, 1, StepSize(3.0, float("inf")))
    values = {**plan.as_dict(), "train": train}

    class Made:
        @staticmethod
        def problem(clip_norm):
            return Problem(problem.sizes, 640, problem.budget, "laplace", clip_norm)

    again = bench.as_plan(Made, values)
    assert again.train == train
    if train:
        assert {**again.as_dict(), "outcome": ""} == {**plan.as_dict(), "outcome": ""}


def test_a_row_says_what_the_plan_loses():
    point = Point(5, 2, 0.5, 1.0)
    scores = Scores(np.full(4, 1.0), np.full(4, 0.8))
    arena = Arena(None, None, None, 3.0, 0.1)  # pyright: ignore[reportArgumentType]
    cell = bench.CELLS[0]
    found = bench.kept([Tried(point, 1.1)], Oracle((point,), (scores,)), arena, cell)
    made = {"train": True, "rounds": 9, "clients_per_round": 1}
    plan = {"plan": made, "task": {"pooling": 2, "projection": None, "reference": None}, "spread": 0.04}
    row = bench.Row(cell, found, plan, {"loss": [1.0, 1.2, 1.0, 1.2], "accuracy": [0.7] * 4})
    assert row.lost == pytest.approx(0.05)
    assert row.error == pytest.approx(np.std([0, 0.2, 0, 0.2], ddof=1) / 2 / 2)
    assert "| T=9 b=1, pooled 2 x 2 | **5.0** ± 2.9 | 4 |" in bench.line(row)
    assert bench.line(row._replace(scores=None)).count("–") == 5
    assert "mean 5.0 % (upper 95 % limit 5.0 %)" in bench.summary([row])


def test_figures_are_drawn_of_what_was_scored():
    found = {"untrained": {"loss": 3.0}, "best": {"loss": [1.0, 1.0]}}
    rows = [bench.Row(cell, found, None, {"loss": [1.0, 1.1 + i]}) for i, cell in enumerate(bench.CELLS[:3])]
    assert bench.drawn(rows).startswith(b"\x89PNG")
