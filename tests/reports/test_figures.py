"""Figures put the record's numbers at the right places, and warn of nothing."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from functools import partial
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from noiseworthy.reports import style
from noiseworthy.reports.clients import MOST_DOTS, who_figure
from noiseworthy.reports.figures import (
    all_figures,
    compare_figure,
    hero_figure,
    leak_figure,
    training_figure,
    why_figure,
)
from noiseworthy.reports.style import NAMES, NARROW, new_figure, png, styled, svg
from noiseworthy.studies.typed_record import view

EXPECTED = {
    "full": {"why", "training", "who", "compare", "hero"},
    "plan_only": {"why", "who", "hero"},
    "do_not_train": {"why", "compare", "hero"},
    "many": {"why", "training", "who", "hero"},
    "no_noise": {"why", "training", "who", "compare", "hero"},
    "one_seed": {"why", "training", "who", "compare", "hero"},
    "diverged": {"why", "training", "who", "compare", "hero"},
    "local_steps": {"why", "training", "who", "compare", "hero"},
    "convex_steps": {"why", "who", "hero"},
    "whole_updates": {"training", "who", "compare", "hero"},
    "coins": {"why", "training", "who", "compare", "hero"},
    "no_coins": {"why", "compare", "hero"},
    "noised_steps": {"why", "leak", "training", "who", "compare", "hero"},
    "noised_batches": {"why", "leak", "who", "hero"},
    "no_noised_steps": {"why", "leak", "hero"},
    "paid_replies": {"why", "training", "who", "compare", "hero"},
    "paid_local_steps": {"why", "training", "who", "compare", "hero"},
    "paid_coins": {"why", "training", "who", "compare", "hero"},
    "chosen_clients": {"participation", "training", "who", "compare", "hero"},
    "unlike_clients": {"participation", "who", "hero"},
    "everybody": {"participation", "who", "hero"},
    "many_chosen": {"participation", "who", "hero"},
    "weighed_replies": {"training", "who", "compare", "hero"},
    "transformed_records": {"participation", "training", "who", "compare", "hero"},
}


def plan_marks(axes):
    return [line.get_xydata()[0].tolist() for line in axes.lines if line.get_gid() == "plan"]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def dots(axes):
    """All markers in data coordinates, rows (x, y)."""
    found = [
        c.get_offsets()
        for c in axes.collections
        if len(c.get_offsets()) and c.get_offset_transform() == axes.transData
    ]
    return np.vstack([np.asarray(offsets) for offsets in found])


def _shared(a, b):
    """Area that two boxes share, as part of the smaller."""
    width = min(a.x1, b.x1) - max(a.x0, b.x0)
    height = min(a.y1, b.y1) - max(a.y0, b.y0)
    return max(width, 0) * max(height, 0) / min(a.width * a.height, b.width * b.height)


FIRST = ("full", "chosen_clients", "noised_steps", "no_coins")


@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.full) for name in EXPECTED]
)
def test_every_figure_that_has_data_is_laid_out_and_no_label_lies_on_another(make_record, name):
    figures = all_figures(view(make_record(name)))
    assert figures.keys() == EXPECTED[name]
    for title, figure in figures.items():
        styled(figure.draw_without_rendering)()  # a warning of the layout would be an error
        for axes in figure.axes:
            boxes = [text.get_window_extent() for text in axes.texts if text.get_text().strip()]
            assert not any(_shared(a, b) > 0.1 for a, b in combinations(boxes, 2)), (title, texts(axes))


def test_nothing_is_drawn_from_nothing(make_record):
    record = {**make_record("do_not_train"), "evidence": None, "compare": None}
    assert all_figures(view(record)) == {}
    assert (
        why_figure(
            view({**make_record("full"), "evidence": {**make_record("full")["evidence"], "curves": []}})
        )
        is None
    )


RINGS = {
    "full": "T = 261, b = 10",
    "plan_only": "T = 80, b = 1",
    "many": "T = 120, b = 50",
    "no_noise": "T = 50, b = 5",
    "one_seed": "T = 20, b = 1",
    "local_steps": "T = 120, E = 2, b = 5",
    "convex_steps": "T = 498, E = 3, b = 20",
    "coins": "T = 31, p = 0.224",
    "noised_steps": "K = 81, τ = 9",
    "noised_batches": "K = 42, τ = 6",
}


@pytest.mark.parametrize("name", RINGS)
def test_the_ring_is_at_the_plan_and_on_its_curve(make_record, name):
    record = make_record(name)
    (axes,) = why_figure(view(record)).axes
    point = [record["evidence"]["chosen"], record["plan"]["predicted"]["bound"]]
    assert plan_marks(axes) == [point]
    assert f"plan: {RINGS[name]}" in texts(axes)
    assert any(point in line.get_xydata().tolist() for line in axes.lines if line.get_gid() != "plan")
    low, high = axes.get_ylim()
    assert low <= point[1] <= high


def test_a_plan_that_the_bound_advises_against_stays_in_view(make_record):
    record = make_record("local_steps")
    record["plan"]["predicted"]["bound"] = 1e6
    (axes,) = why_figure(view(record)).axes
    assert axes.get_ylim()[1] > 1e6


def test_curves_and_trials_are_where_the_record_has_them(make_record):
    record = make_record("full")
    (axes,) = why_figure(view(record)).axes
    drawn = [line.get_xydata() for line in axes.lines]
    for curve in record["evidence"]["curves"]:
        points = np.column_stack([curve["x"], curve["bound"]])
        assert any({*map(tuple, points)} <= {*map(tuple, line)} for line in drawn)
    top = axes.get_ylim()[1]
    trials = {(t["x"], t["loss"]) for t in record["evidence"]["trials"]}
    assert {*map(tuple, dots(axes).tolist())} == {t for t in trials if t[1] <= top}
    above = [c for c in axes.collections if c.get_offset_transform() == axes.get_xaxis_transform()]
    assert sum(len(c.get_offsets()) for c in above) == sum(t[1] > top for t in trials) > 0


@pytest.mark.parametrize("name", ["full", "local_steps", "coins", "noised_steps"])
def test_every_curve_is_named_once_in_its_colour(make_record, name):
    record = make_record(name)
    (axes,) = why_figure(view(record)).axes
    top = axes.get_ylim()[1]
    for curve in record["evidence"]["curves"]:
        if min(curve["bound"]) <= top:
            (label,) = [text for text in axes.texts if text.get_text() == curve["label"]]
            mine = [line for line in axes.lines if set(curve["bound"]) <= set(line.get_ydata())]
            assert label.get_color() == mine[0].get_color()


def test_dots_on_a_short_curve_are_trials_alone_where_there_are_any(make_record):
    record = make_record("full")
    for curve in record["evidence"]["curves"]:
        curve |= {"x": curve["x"][:9], "bound": curve["bound"][:9]}
    marked = []
    for trials in (record["evidence"]["trials"], []):
        record["evidence"]["trials"] = trials
        lines = why_figure(view(record)).axes[0].lines
        marked.append({line.get_marker() for line in lines if len(line.get_xdata()) in (9, 10)})
    assert marked == [{"None"}, {"o"}]


def test_the_axis_of_the_prediction_is_the_evidences(make_record):
    axes = {name: why_figure(view(make_record(name))).axes[0] for name in ("full", "local_steps", "coins")}
    assert {name: a.get_xlabel() for name, a in axes.items()} == {
        "full": "rounds T", "local_steps": "local steps per upload", "coins": "iterations",
    }  # fmt: skip
    assert {name: a.get_xscale() for name, a in axes.items()} == {
        "full": "log", "local_steps": "log", "coins": "linear",
    }  # fmt: skip


def test_settings_far_above_the_untrained_model_do_not_stretch_the_axis(make_record):
    record = make_record("local_steps")
    (axes,) = why_figure(view(record)).axes
    assert max(record["evidence"]["curves"][0]["x"]) == 120
    assert axes.get_xlim()[1] < 12


def test_not_training_is_shown_as_the_plan(make_record):
    record = make_record("do_not_train")
    (axes,) = why_figure(view(record)).axes
    assert plan_marks(axes) == []
    assert "plan: untrained 2.30" in texts(axes)
    low, high = axes.get_ylim()
    assert low < 2.303 < high
    assert "plan: untrained 2.30" in texts(compare_figure(view(record)).axes[0])


@pytest.mark.parametrize(
    ("name", "across", "label"),
    [
        ("full", 261, "rounds T"),
        ("local_steps", 2, "local steps E per upload"),
        ("coins", pytest.approx(0.05**0.5), "probability p of communication"),
        ("noised_steps", 9, "local steps τ per averaging"),
    ],
)
def test_the_diamond_is_at_the_plans_measured_means(make_record, name, across, label):
    record = make_record(name)
    cell = record["compare"]["cells"][0]
    loss, accuracy = compare_figure(view(record)).axes
    assert plan_marks(loss) == [[across, pytest.approx(np.mean(cell["loss"]))]]
    assert plan_marks(accuracy) == [[across, pytest.approx(np.mean(cell["accuracy"]))]]
    assert loss.get_xlabel() == label
    assert f"plan: {np.mean(cell['loss']):.3f}" in texts(loss)
    assert loss.get_title(loc="left").startswith("The plan keeps 96")


@pytest.mark.full
@pytest.mark.parametrize("name", ["full", "whole_updates", "coins", "noised_steps"])
def test_fixed_settings_have_dots_at_means_and_bars_over_seeds(make_record, name):
    record = make_record(name)
    across, along = record["compare"]["axes"]
    axes = compare_figure(view(record)).axes[0]
    bars = [segment for c in axes.collections if hasattr(c, "get_segments") for segment in c.get_segments()]
    for cell in record["compare"]["cells"]:
        if not cell["planned"]:
            near = dots(axes)[np.isclose(dots(axes)[:, 1], np.mean(cell["loss"]))]
            assert np.any(np.abs(np.log(near[:, 0] / cell[across])) < 0.06)  # moved aside a little
        ends = sorted([min(cell["loss"]), max(cell["loss"])])
        assert any(np.allclose(sorted(bar[:, 1]), ends) for bar in bars if len(bar))
    symbol = {"clients_per_round": "b", "rounds": "R"}.get(along, "T")
    assert {f"{symbol} = {cell[along]}" for cell in record["compare"]["cells"][1:]} <= {*texts(axes)}


def test_the_plan_stays_in_view_where_it_is_worse_than_untrained(make_record):
    record = make_record("full")
    record["compare"]["cells"][0]["loss"] = [3.0, 3.1, 3.2]
    axes = compare_figure(view(record)).axes[0]
    assert axes.get_ylim()[1] > 3.1


def test_levels_that_losses_are_held_against_stay_in_the_picture_where_all_of_them_are_worse(make_record):
    """Their labels stood at the foot of an axis that began far above them."""
    record = make_record("full")
    for cell in record["compare"]["cells"]:
        cell["loss"] = [9.0, 9.1, 9.2]
    record["training"]["loss"] = [[9.0 for _ in curve] for curve in record["training"]["loss"]]
    for figure in (compare_figure, training_figure):
        axes = figure(view(record)).axes[0]
        (label,) = [text for text in axes.texts if text.get_text() == "untrained 2.30"]
        low, high = axes.get_ylim()
        assert low < 2.3 < high
        assert label.xy[1] > 0.02
        assert any(np.allclose(line.get_ydata(), record["training"]["untrained_loss"]) for line in axes.lines)


def test_training_curves_are_means_over_seeds(make_record):
    record = make_record("full")
    loss, accuracy = training_figure(view(record)).axes
    for axes, quantity in ((loss, "loss"), (accuracy, "accuracy")):
        (mean,) = [line for line in axes.lines if line.get_gid() == "mean"]
        assert mean.get_xdata().tolist() == record["training"]["rounds"]
        assert np.allclose(mean.get_ydata(), np.mean(record["training"][quantity], axis=0))
    assert "untrained 2.30" in texts(loss)
    assert "predicted 0.534" in texts(loss)
    assert f"{np.mean([c[-1] for c in record['training']['loss']]):#.3g}" in texts(loss)
    assert len(training_figure(view(without_scores(record))).axes) == 1


def without_scores(record):
    record = copy.deepcopy(record)
    record["training"]["accuracy"] = [[None] * len(c) for c in record["training"]["accuracy"]]
    return record


def test_a_score_that_is_worse_than_guessing_stays_in_the_picture(make_record):
    record = make_record("one_seed")
    record["training"]["accuracy"] = [[-9.0 + 0.3 * i for i in range(len(record["training"]["rounds"]))]]
    for cell in record["compare"]["cells"]:
        cell["accuracy"] = [-7.0]
    for axes, last in (
        (training_figure(view(record)).axes[1], -5.7),
        (compare_figure(view(record)).axes[1], -7.0),
    ):
        low, high = axes.get_ylim()
        assert low < last < high
    record["training"]["accuracy"][0][-1] = -50.0
    png(training_figure(view(record)), dpi=30)


def test_a_curve_of_scores_far_below_0_is_in_the_picture_and_in_full_beside_it(make_record):
    """Labels around 1000 and an intercept at 0: a curve from R² -380 to -200 was one dot at the foot."""
    record = make_record("one_seed")
    ends = np.linspace(-380.0, -200.3, len(record["training"]["rounds"]))
    record["training"]["accuracy"] = [ends.tolist()]
    axes = training_figure(view(record)).axes[1]
    assert axes.get_ylim()[0] < ends.min()
    assert "-200" in texts(axes)


def test_a_row_per_client_shows_most_uploads_and_spending_over_seeds(make_record):
    record = make_record("full")
    uploads, spent = who_figure(view(record)).axes
    assert [t.get_text() for t in uploads.get_yticklabels()] == record["federation"]["clients"]
    most = np.max(record["training"]["uploads"], axis=0)
    assert dots(uploads).tolist() == np.column_stack([most, np.arange(10)]).tolist()
    assert np.allclose(dots(spent)[:, 0], np.max(record["training"]["spent_epsilon"], axis=0))


@pytest.mark.parametrize(("least", "many"), [(4e-3, False), (4e-6, True)])
def test_budgets_far_apart_are_told_apart_and_from_0(make_record, times, least, many):
    """On a linear axis all but the largest were at 0."""
    record = times(make_record("full"), 5 if many else 1)
    rows = record["plan"]["privacy"]["clients"]
    for row, epsilon in zip(rows, np.geomspace(least, 4.0, len(rows)), strict=True):
        row["epsilon"] = row["spent_epsilon"] = epsilon
    record["training"] = None
    axes = who_figure(view(record)).axes[1]
    axis, across = (axes.yaxis, 1) if many else (axes.xaxis, 0)
    places = axes.transLimits.transform(axes.transScale.transform(dots(axes)))[:, across]
    assert np.all(np.diff(np.unique(places.round(6))) > 0.02)
    assert 0.05 < places.min() < places.max() < 1.0
    ticks = axis.get_majorticklocs()
    assert ticks[0] == 0
    assert 3 <= len(ticks) <= 7


def test_many_clients_are_dots_in_the_order_of_their_budgets(make_record):
    record = make_record("many")
    _, spent = who_figure(view(record)).axes
    assert np.allclose(dots(spent)[:, 1], np.max(record["training"]["spent_epsilon"], axis=0))
    assert "500 clients" in spent.get_xlabel()
    (budget,) = spent.lines
    assert np.allclose(budget.get_ydata(), [row["epsilon"] for row in record["plan"]["privacy"]["clients"]])


def test_a_crowd_is_thinned_and_says_so(make_record, times):
    """The budgets behind the dots, too: a page that held every one of a million clients would be 200 MB."""
    uploads = who_figure(view(times(make_record("many"), 40))).axes[0]
    assert "20,000 clients in order (1,500 of them drawn)" in uploads.get_xlabel()
    area, *_ = uploads.collections
    assert len(area.get_paths()[0].vertices) < 5 * MOST_DOTS
    assert uploads.xaxis.get_major_formatter()(10_000) == "10k"


def test_without_noise_no_spending_is_drawn(make_record):
    assert len(who_figure(view(make_record("no_noise"))).axes) == 1


@pytest.mark.parametrize("name", ["noised_steps", "noised_batches", "no_noised_steps"])
def test_the_leak_is_drawn_to_scale_beside_the_budget(make_record, name):
    plan = make_record(name)["plan"]
    printed, row = plan["as_printed"], plan["privacy"]["clients"][plan["as_printed"]["worst_client"]]
    (axes,) = leak_figure(view(make_record(name))).axes
    assert [bar.get_width() for bar in axes.patches] == [
        row["epsilon"], row["spent_epsilon"], printed["spent_epsilon"], printed["spent_epsilon_zcdp"]
    ]  # fmt: skip
    assert axes.lines[0].get_xdata()[0] == row["epsilon"]
    assert axes.get_xlim()[0] == 0
    assert axes.get_title(loc="left").startswith(f"Budget {row['epsilon']:g}, as printed")


def test_other_algorithms_have_no_leak_to_draw(make_record):
    for name in ("full", "coins", "local_steps", "no_noise"):
        assert leak_figure(view(make_record(name))) is None


def test_costs_are_drawn_beside_their_budgets(make_record):
    record = make_record("paid_replies")
    *_, cost = who_figure(view(record)).axes
    resources = record["plan"]["resources"]
    assert cost.get_title(loc="left") == "Cost in joules"
    assert [bar.get_width() for bar in cost.patches] == resources["budget"]
    assert dots(cost)[:, 0].tolist() == (10.5 * np.max(record["training"]["uploads"], axis=0)).tolist()
    assert cost.get_xlim()[1] > max(resources["budget"])
    assert len(who_figure(view(make_record("full"))).axes) == 2


def test_uploads_of_noised_steps_are_drawn_against_rounds(make_record):
    record = make_record("noised_batches")
    uploads = who_figure(view(record)).axes[0]
    assert [bar.get_width() for bar in uploads.patches] == [record["plan"]["rounds"]] * 8


@pytest.mark.parametrize(
    ("name", "label"),
    [("noised_steps", "round, 109 units each"), ("paid_replies", "round"), ("paid_coins", "round")],
)
def test_a_round_has_its_price_where_every_round_costs_the_same(make_record, name, label):
    assert training_figure(view(make_record(name))).axes[0].get_xlabel() == label


def test_large_costs_are_abbreviated(make_record):
    *_, cost = who_figure(view(make_record("paid_local_steps"))).axes
    assert cost.yaxis.get_major_formatter()(2e7) == "20M"


def test_the_hero_shows_prediction_and_measurement(make_record):
    record = make_record("full")
    left, right = hero_figure(view(record)).axes
    assert plan_marks(left) == [[261, record["plan"]["predicted"]["bound"]]]
    assert plan_marks(right) == [[261, pytest.approx(np.mean(record["compare"]["cells"][0]["loss"]))]]
    assert (
        right.get_title(loc="left") == "Measured: the plan keeps 96\N{NO-BREAK SPACE}% of the attainable gain"
    )
    assert len(hero_figure(view(make_record("plan_only"))).axes) == 1


@pytest.mark.full
def test_strange_names_are_drawn_literally(make_record, monkeypatch):
    monkeypatch.setattr(style, "FAMILIES", ["DejaVu Sans"])
    record = make_record("full")
    record["federation"]["clients"] = ["$x_1$", "病院", "a\nb", "<b>", "%", "", "x" * 60, "{", "\\frac", "&"]
    record["federation"]["name"] = "$\\bad{"
    for figure in all_figures(view(record)).values():
        png(figure, dpi=30)
    labels = [t.get_text() for t in who_figure(view(record)).axes[0].get_yticklabels()]
    assert labels[:4] == ["$x_1$", "□□", "a b", "<b>"]
    assert len(labels[6]) == 18


@pytest.mark.parametrize("known", [True, False])
def test_a_name_is_drawn_in_a_font_that_has_its_characters_or_the_figure_says_that_none_has(
    known, make_record, monkeypatch
):
    """One of matplotlib's own stands for a font of Chinese, Japanese or Korean that a machine may have."""
    families = ["DejaVu Sans", *(["STIXNonUnicode"] * known)]
    monkeypatch.setattr(style, "FAMILIES", families)
    monkeypatch.setitem(style.RC, "font.family", families)
    record = make_record("full")
    record["federation"]["clients"][0] = "\ue000"
    figure = who_figure(view(record))
    svg(figure, "who")
    assert figure.axes[0].get_yticklabels()[0].get_text() == ("\ue000" if known else "□")
    assert (figure.get_supxlabel() == "") == known


def test_an_svg_takes_its_colours_and_ids_from_the_page(make_record):
    text = svg(why_figure(view(make_record("full"))), "why")
    assert text.startswith("<svg")
    assert not any(colour in text for colour in NAMES)
    assert "var(--plan)" in text
    assert 'id="figure_1"' not in text
    assert "<!--" not in text
    assert text == svg(why_figure(view(make_record("full"))), "why")
    twice = svg(training_figure(view(make_record("full"))), "training")  # a mean in each of its panels
    ids = re.findall(r' id="([^"]+)"', twice)
    assert len(ids) == len(set(ids))


def test_a_figure_is_drawn_once_for_every_file_of_it(make_record, monkeypatch):
    """matplotlib draws each twice while a layout is left to do: the first time for the layout alone."""
    drawn, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: [drawn.append(1), draw(figure, renderer)])
    for figure, files in ((hero_figure, [png]), (why_figure, [partial(svg, name="why"), png, png])):
        made = figure(view(make_record("full")))
        drawn.clear()
        for write in files:
            write(made)
        assert len(drawn) == len(files)


@pytest.mark.parametrize("name", ["full", "plan_only"])
def test_whose_training_it_is_stands_above_the_wide_figure_in_lines_that_fit(make_record, name):
    """Of data with a long name the budget, and that noise was simulated, were cut at the edge."""
    record = make_record(name)
    record["federation"] = {**make_record("full")["federation"], "name": "heart-disease-of-the-north-" * 6}
    figure = hero_figure(view(record))
    styled(figure.draw_without_rendering)()
    assert figure.get_suptitle().endswith("per record" + ", simulated" * (name == "full"))
    (head,) = [text for text in figure.texts if text.get_text() == figure.get_suptitle()]
    assert head.get_window_extent().x1 < figure.bbox.x1
    assert head.get_window_extent().y1 < figure.bbox.y1


def test_titles_and_units_are_in_lines_that_fit(make_record):
    kept = make_record("full")
    kept["compare"]["lost_gain"] = 0.55
    compared, why = compare_figure(view(kept)), why_figure(view(make_record("coins")))
    for figure, said in (compared, "The plan keeps only 45\xa0%"), (why, "squared distance to the optimum"):
        styled(figure.draw_without_rendering)()
        every = [text for text in figure.findobj(Text) if len(text.get_text()) > 20]
        assert any(text.get_text().startswith(said) for text in every)
        assert max(text.get_window_extent().x1 for text in every) <= figure.bbox.width


def test_texts_are_laid_out_as_wide_as_a_png_draws_them():
    """At another resolution they are rounded otherwise, and the longest is cut at the edge of the picture."""

    @styled
    def edges() -> list[float]:
        figure = new_figure(NARROW, 3.0)
        axes = figure.subplots()
        axes.set_yticks(range(3), ["classes, Gaussian", "numbers, Gaussian", "images, Gaussian"])
        drawn: list[float] = []
        figure.canvas.mpl_connect(
            "draw_event",
            lambda event: drawn.extend(
                text.get_window_extent(event.renderer).x0 / figure.dpi for text in axes.get_yticklabels()
            ),
        )
        png(figure)
        return drawn

    padding = 0.04167  # inches, matplotlib's own
    assert min(edges()) == pytest.approx(padding, abs=0.01)


def test_drawing_leaves_the_callers_parameters_alone(make_record):
    before = dict(matplotlib.rcParams)
    all_figures(view(make_record("one_seed")))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.full
def test_terminal_tables_do_not_load_the_drawing_library():
    code = "import sys, noiseworthy.reports.tables; print('matplotlib' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.full
def test_figures_do_not_load_pyplot():
    code = "import sys, noiseworthy.reports.html; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
