"""The figure and the sentence of what other budgets, clients and costs would give."""

from __future__ import annotations

import numpy as np
import pytest
from pages import render

from noiseworthy.reports.figures import what_if_figure
from noiseworthy.reports.style import PLAN
from noiseworthy.reports.what_if_words import price_of_next_point, what_if_caption
from noiseworthy.studies.typed_record import view


def curve(axis, x, own, trials):
    accuracy = (0.5 + 0.05 * np.arange(len(x))).tolist()
    inside = [1 <= i <= 3 for i in range(len(x))]
    return {
        "axis": axis, "x": x, "loss": [1 - a for a in accuracy], "accuracy": accuracy, "inside": inside,
        "own": own, "trials": trials,
    }  # fmt: skip


@pytest.fixture
def record(make_record):
    found = {
        "curves": {
            "epsilon": curve("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0], 2.0, [[1.0, 0.52], [2.0, 0.61]]),
            "clients": curve("clients", [5.0, 10.0, 20.0, 40.0], 10.0, [[10.0, 0.61]]),
            "cost": curve("uploads per client", [2.0, 4.0, 8.0], 4.0, []),
        },
        "prices": [[0.61, 2.3], [0.62, 2.7]],
        "fit": "fits: 1.3% of the untrained loss off, on trials left out",
    }
    return {**make_record("full"), "what_if": found}


def test_lines_go_through_the_predictions_and_are_dashed_beyond_the_trials(record):
    for axes, drawn in zip(
        what_if_figure(view(record)).axes, record["what_if"]["curves"].values(), strict=True
    ):
        pieces = [line for line in axes.lines if line.get_gid() != "plan"]
        assert len(pieces) == len(drawn["x"]) - 1
        for i, line in enumerate(pieces):
            np.testing.assert_allclose(line.get_xdata(), drawn["x"][i : i + 2])
            np.testing.assert_allclose(line.get_ydata(), drawn["accuracy"][i : i + 2])
            assert (line.get_linestyle() == "-") == (drawn["inside"][i] and drawn["inside"][i + 1])


def test_the_studys_own_place_is_a_ring_with_its_accuracy(record):
    epsilon, clients, cost = what_if_figure(view(record)).axes
    for axes, place, text in (
        (epsilon, (2.0, 0.6), "60"),
        (clients, (10.0, 0.55), "55"),
        (cost, (4.0, 0.55), "55"),
    ):
        [ring] = [line for line in axes.lines if line.get_gid() == "plan"]
        np.testing.assert_allclose([ring.get_xdata()[0], ring.get_ydata()[0]], place)
        assert ring.get_color() == PLAN
        assert any(said.get_text().startswith(text) for said in axes.texts)


def test_trials_are_dots(record):
    axes = what_if_figure(view(record)).axes[0]
    dots = np.vstack([collection.get_offsets() for collection in axes.collections])
    assert {tuple(dot) for dot in dots.tolist()} == {(1.0, 0.52), (2.0, 0.61)}


@pytest.mark.full
def test_a_record_without_what_if_has_no_figure(make_record):
    assert what_if_figure(view(make_record("full"))) is None
    assert "What if" not in render(make_record("full"))


@pytest.mark.full
def test_the_page_shows_it_with_the_price_of_the_next_point(record):
    page = render(record)
    assert "What if" in page
    assert "fits: 1.3% of the untrained loss off" in page
    assert "needs epsilon 2.3 instead of 2" in page


def test_what_trust_buys_is_told_beside_the_price(record):
    rows = [("local", 0.45, True, True), ("secure-sum", 0.81, False, False), ("central", 0.82, True, False)]
    record["what_if"]["trust"] = [
        {"model": model, "colluders": 0, "dropouts": 0, "loss": 0.5, "accuracy": accuracy,
         "inside": inside, "rounds": 9, "own": own}
        for model, accuracy, inside, own in rows
    ]  # fmt: skip
    said = what_if_caption(view(record)).replace("\xa0", " ")
    assert "local 45 % (this study), secure-sum 81 % (beyond what was tried), central 82 %." in said
    record["what_if"]["trust"] = []
    assert "By trust" not in what_if_caption(view(record))


def test_where_nothing_is_to_be_had_no_price_is_named(record):
    record["what_if"]["prices"] = []
    assert (
        price_of_next_point(view(record), view(record).what_if)
        == "No epsilon in sight buys another point of accuracy."
    )
    assert "dashed beyond what was tried" in what_if_caption(view(record))


def test_r_squared_is_written_as_a_number(record):
    record["federation"]["classes"] = None
    assert "The next point of R², 0.61," in price_of_next_point(view(record), view(record).what_if)


@pytest.mark.parametrize(
    ("metric", "said"), [("auc", "of AUC, 0.61,"), ("balanced-accuracy", "of balanced accuracy, 61\xa0%,")]
)
def test_the_metric_that_a_study_names_is_told(record, metric, said):
    record["study"]["planning"] = {"metric": metric}
    made = view(record)
    assert said in price_of_next_point(made, made.what_if)
    axes = what_if_figure(made).axes[0]
    texts = [one.get_text() for one in axes.texts]
    wanted = "test AUC" if metric == "auc" else "test balanced accuracy"
    assert any(text.startswith(wanted) for text in texts), texts
    assert ("%" in axes.yaxis.get_major_formatter()(0.5)) == (metric != "auc")
