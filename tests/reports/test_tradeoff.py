"""The trade-off surface as it is drawn, told and listed: every number in its cell, every ink readable."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from pages import render
from rich.console import Console

from noiseworthy.reports.figures import all_figures
from noiseworthy.reports.html import write_report
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.style import NAMES, ON_DARK, ON_LIGHT, PLAN, RAMP
from noiseworthy.reports.tables import tradeoff_table
from noiseworthy.reports.tradeoff import contrast, ink_on, levels, tradeoff_figure
from noiseworthy.reports.tradeoff_words import caption
from noiseworthy.studies.typed_record import view

COUNTS = {
    "fedsgd-dpc": {"rounds": 40, "clients_per_round": 3},
    "dp-fedavg": {"total_iterations": 960, "local_steps": 12, "clients_per_round": 10},
    "dp-scaffnew": {"iterations": 1000, "communication_probability": 0.408},
}
"""What is decided in a cell."""
EPSILONS, BUDGETS = (0.5, 1.0, 2.0, 4.0), (250.0, 500.0, 1000.0)


def cell(epsilon, budget, accuracy, counts, seeds=3):
    spread = 0.01 * (np.arange(seeds) - (seeds - 1) / 2)
    return {
        "epsilon": epsilon, "budget": budget, "own": (epsilon, budget) == (2.0, 500.0), "reason": None,
        "train": True, "cost": 0.9 * budget, "predicted": None, "loss": (1.5 - accuracy + spread).tolist(),
        "accuracy": (accuracy + spread).tolist(), **counts,
    }  # fmt: skip


def with_surface(record, epsilons=EPSILONS, budgets=BUDGETS):
    """Accuracies from 0.5 upwards by 0.02 a cell; the first cell is not trained, the last has no plan."""
    counts = COUNTS[record["plan"]["algorithm"]]
    pairs = [(epsilon, budget) for budget in budgets for epsilon in epsilons]
    cells = [cell(*pair, 0.5 + 0.02 * i, counts) for i, pair in enumerate(pairs)]
    cells[0]["train"] = False
    cells[-1] = {
        **cells[-1],
        "train": False,
        "reason": "budgets pay for no round",
        "loss": [],
        "accuracy": [],
    }
    return {
        **record,
        "tradeoff": {
            "epsilon": {"values": list(epsilons), "own": 2.0, "per_client": False},
            "budget": {"values": list(budgets), "own": 500.0, "per_client": False, "unit": "joules"},
            "seeds": [200, 201, 202], "cells": cells, "search_epsilon": 12.3456,
        },
    }  # fmt: skip


@pytest.fixture(params=["full", "local_steps", "coins"])
def surface(request, make_record):
    """The surface of each algorithm in turn."""
    return with_surface(make_record(request.param))


@pytest.fixture
def plain(make_record):
    return with_surface(make_record("full"))


def axes_of(record):
    (axes,) = tradeoff_figure(view(record)).axes
    return axes


def texts_at(axes):
    """The texts of each place, top to bottom."""
    found = {}
    for text in axes.texts:
        if isinstance(text.xy, tuple) and text.get_text() and text.xycoords == "data":
            found.setdefault(text.xy, []).append(text.get_text())
    return found


# The figure ----------------------------------------------------------------------------------------------


def test_every_cell_has_its_accuracy_and_its_decision(plain):
    found = texts_at(axes_of(plain))
    assert found[0, 0] == ["50.0\N{NO-BREAK SPACE}%", "no training"]
    assert found[1, 0] == ["52.0\N{NO-BREAK SPACE}%", "T = 40, b = 3"]
    assert found[0, 2] == ["66.0\N{NO-BREAK SPACE}%", "T = 40, b = 3"]
    assert found[3, 2] == ["no plan"]
    assert len(found) == 12


@pytest.mark.parametrize(
    ("name", "says"), [("local_steps", "T = 960, E = 12\nb = 10"), ("coins", "T = 1000, p = 0.408")]
)
def test_decisions_are_in_the_symbols_of_the_algorithm(name, says, make_record):
    found = texts_at(axes_of(with_surface(make_record(name))))
    assert found[1, 1][1] == says


def test_dp_pasgd_writes_the_planned_period(plain):
    plain["plan"]["algorithm"] = "dp-pasgd"
    for one in plain["tradeoff"]["cells"]:
        one.update(total_iterations=81, local_steps=9)
    assert "τ = 9" in texts_at(axes_of(plain))[1, 1][1]


def test_the_budgets_are_at_the_axes_with_their_unit(plain):
    axes = axes_of(plain)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "1", "2", "4"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["250", "500", "1,000"]
    assert axes.get_xlabel() == "privacy budget ε per record"
    assert "resource budget C of a client in joules" in [text.get_text() for text in axes.texts]


def test_r2_keeps_its_capital_in_titles(plain):
    plain["federation"]["classes"] = None
    assert axes_of(plain).get_title(loc="left").startswith("Test R² and plan")
    console = Console(width=80)
    with console.capture() as capture:
        console.print(tradeoff_table(view(plain)))
    assert "Test R² for every pair of budgets" in capture.get()


def test_budgets_per_client_are_written_as_multiples(plain):
    for axis in ("epsilon", "budget"):
        plain["tradeoff"][axis]["per_client"] = True
    axes = axes_of(plain)
    assert axes.get_xticklabels()[0].get_text() == "0.5\N{NO-BREAK SPACE}×"
    assert axes.get_xlabel() == "privacy budgets ε per record, as multiples of the clients' own"


def test_only_the_studys_own_cell_is_framed(plain):
    (frame,) = [patch for patch in axes_of(plain).patches if patch.get_gid() == "plan"]
    assert (frame.get_x() + 0.5, frame.get_y() + 0.5) == (2, 1)
    assert np.allclose(frame.get_edgecolor()[:3], to_rgb(PLAN))
    assert not frame.get_fill()


@pytest.mark.full
@pytest.mark.parametrize("columns", [1, 2, 5, 6, 8])
def test_no_text_leaves_its_cell_and_none_lies_on_another(columns, surface):
    made = with_surface(surface, tuple(2.0**i for i in range(columns)))
    figure = tradeoff_figure(view(made))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    written = [text for text in axes.texts if text.get_text() and text.xycoords == "data"]
    for place in {text.xy for text in written}:
        boxes = [text.get_window_extent() for text in written if text.xy == place]
        corners = axes.transData.transform([np.subtract(place, 0.5), np.add(place, 0.5)])
        for box in boxes:
            assert np.all(box.min >= corners[0])
            assert np.all(box.max <= corners[1])
        assert all(below.y1 <= above.y0 + 1 for above, below in pairwise(boxes))


# Colours -------------------------------------------------------------------------------------------------


def oklab(colour):
    """Ottosson's perceptual colour space, from sRGB."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                     [0.0883024619, 0.2817188376, 0.6299787005]] @ linear)  # fmt: skip
    return np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                     [0.0259040371, 0.7827717662, -0.8086757660]]) @ cones  # fmt: skip


def test_the_ramp_gets_darker_in_steps_that_look_alike():
    places = np.array([oklab(colour) for colour in RAMP])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert steps.max() < 1.05 * steps.min()
    assert np.all(np.diff(places[:, 0]) < 0)


def test_cells_keep_their_colours_on_a_dark_page():
    """A colour with a name becomes a variable there, and a dark text would turn light on a light cell."""
    assert not {*RAMP, ON_LIGHT, ON_DARK} & set(NAMES)


def test_text_is_readable_on_every_level(plain):
    """WCAG asks for a contrast of 4.5; the middle of any ramp allows for 4.58 at most."""
    plain["tradeoff"]["cells"] *= 20
    for i, one in enumerate(plain["tradeoff"]["cells"]):
        one = plain["tradeoff"]["cells"][i] = copy.deepcopy(one)
        one.update(accuracy=[0.3 + i / 1000] * 3, loss=[1.0] * 3)
    for colour in levels(view(plain).tradeoff):
        assert contrast(colour, ink_on(colour)) > 4.5
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def lightness(record):
    return [None if colour is None else oklab(colour)[0] for colour in levels(view(record).tradeoff)]


def test_darker_is_better_by_accuracy_and_by_loss(plain):
    dark = lightness(plain)
    assert dark[-1] is None
    assert np.all(np.diff(dark[:-1]) < 0)
    for one in plain["tradeoff"]["cells"]:
        one["accuracy"] = [None] * len(one["accuracy"])
    assert np.all(np.diff(lightness(plain)[:-1]) < 0)
    assert texts_at(axes_of(plain))[1, 0][0] == "0.980"


def test_equal_cells_have_one_colour(plain):
    for one in plain["tradeoff"]["cells"]:
        one.update(accuracy=[0.5], loss=[0.7])
    assert set(levels(view(plain).tradeoff)) == {RAMP[0]}
    plain["tradeoff"]["cells"][0]["accuracy"] = [0.5004]
    assert set(levels(view(plain).tradeoff)) == {RAMP[0]}, "50.0 % is written in all of them"


def test_a_diverged_cell_has_no_level_and_says_so(plain):
    plain["tradeoff"]["cells"][5]["loss"][1] = None
    assert levels(view(plain).tradeoff)[5] is None
    assert texts_at(axes_of(plain))[1, 1] == ["diverged", "T = 40, b = 3"]


def test_r_squared_is_written_as_a_number(make_record):
    found = texts_at(axes_of(with_surface(make_record("one_seed"))))
    assert found[1, 0][0] == "0.52"


# Words ---------------------------------------------------------------------------------------------------


def test_the_caption_says_what_was_simulated_and_what_a_choice_would_spend(plain):
    said = caption(view(plain))
    assert "mean of 3 simulated trainings, standard deviation at most 0.82 points" in said
    assert "The framed cell is this study." in said
    assert "would run 10 trainings and spend epsilon 12.4 of the client that is worst off" in said
    assert "spends at most 4" in said
    assert "Reading accuracies off private test records is not covered." in said
    assert said.endswith("1 cell without a plan, first because budgets pay for no round.")


def test_without_a_closed_form_the_caption_states_no_number(plain):
    plain["tradeoff"]["search_epsilon"] = None
    assert "would run 10 trainings and add up what they spend." in caption(view(plain))


@pytest.mark.full
def test_the_page_shows_the_surface_only_where_there_is_one(make_record):
    surface = with_surface(make_record("plan_only"))
    page = render(surface)
    assert "<h2>Trade-off</h2>" in page
    assert "Seeds of the trade-off: 200, 201, 202." in page
    assert "Trade-off" not in render({k: v for k, v in surface.items() if k != "tradeoff"})


@pytest.mark.full
def test_a_report_has_the_picture_as_a_file(make_record, tmp_path):
    surface = with_surface(make_record("plan_only"))
    write_report(surface, tmp_path)
    assert (tmp_path / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    write_report({k: v for k, v in surface.items() if k != "tradeoff"}, tmp_path)
    assert not (tmp_path / "tradeoff.png").exists()


def test_a_record_without_a_surface_has_no_figure(make_record):
    assert "tradeoff" not in all_figures(view(make_record("full")))
    assert tradeoff_figure(view(make_record("full"))) is None


def test_the_privacy_statement_counts_the_trainings(make_record):
    clauses = privacy_statement(with_surface(make_record("plan_only")))
    (limits,) = [clause for clause in clauses if clause.title == "What is not protected"]
    assert (
        "The trade-off simulated 10 trainings on the same records; for real, each is charged."
        in limits.points
    )
    assert "Simulated noise is no privacy mechanism" in [clause.title for clause in clauses]


def test_the_table_has_the_most_resources_on_top(plain, make_record):
    console = Console(width=80, no_color=True)
    with console.capture() as printed:
        console.print(tradeoff_table(view(plain)))
    lines = printed.get().splitlines()
    rows = [
        next(i for i, line in enumerate(lines) if line.split()[:1] == [row])
        for row in ("1,000", "500", "250")
    ]
    assert rows == sorted(rows)
    assert "66.0" in lines[rows[0]]
    assert "no plan" in lines[rows[0]]
    assert max(map(len, lines)) <= 80
    assert tradeoff_table(view(make_record("full"))) is None


def test_the_surface_is_made_of_squares_only(plain):
    """Every pair has one, and the frame is one more."""
    patches = axes_of(plain).patches
    assert all(isinstance(patch, Rectangle) for patch in patches)
    assert len(patches) == 12 + 1
