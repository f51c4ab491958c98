"""Figures put the record's numbers at the right places, and warn of nothing."""

from __future__ import annotations

import copy
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

from noiseworthy.reports.clients import who_figure
from noiseworthy.reports.figures import (
    all_figures,
    compare_figure,
    hero_figure,
    training_figure,
    why_figure,
)
from noiseworthy.reports.findings import planned_cell
from noiseworthy.reports.style import NAMES, png, svg

EXPECTED = {
    "full": {"why", "training", "who", "compare", "hero"},
    "plan_only": {"why", "who", "hero"},
    "do_not_train": {"why", "compare", "hero"},
    "many": {"why", "training", "who", "hero"},
    "no_noise": {"why", "training", "who", "compare", "hero"},
    "one_seed": {"why", "training", "who", "compare", "hero"},
    "diverged": {"why", "training", "who", "compare", "hero"},
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


@pytest.mark.parametrize("name", EXPECTED)
def test_every_figure_that_has_data_is_drawn_without_a_warning(make_record, name):
    figures = all_figures(make_record(name))
    assert figures.keys() == EXPECTED[name]
    for figure in figures.values():
        assert png(figure, dpi=30).startswith(b"\x89PNG")


def test_nothing_is_drawn_from_nothing(make_record):
    record = {**make_record("do_not_train"), "evidence": None, "compare": None}
    assert all_figures(record) == {}
    assert (
        why_figure({**make_record("full"), "evidence": {**make_record("full")["evidence"], "curves": []}})
        is None
    )


@pytest.mark.parametrize("name", ["full", "plan_only", "many", "no_noise", "one_seed"])
def test_the_ring_is_at_the_plan_and_on_its_curve(make_record, name):
    record = make_record(name)
    plan = record["plan"]
    (axes,) = why_figure(record).axes
    point = [plan["rounds"], plan["predicted"]["bound"]]
    assert plan_marks(axes) == [point]
    assert f"plan: T = {plan['rounds']}, b = {plan['clients_per_round']}" in texts(axes)
    assert any(point in line.get_xydata().tolist() for line in axes.lines if line.get_gid() != "plan")


def test_curves_and_trials_are_where_the_record_has_them(make_record):
    record = make_record("full")
    (axes,) = why_figure(record).axes
    drawn = [line.get_xydata() for line in axes.lines]
    for curve in record["evidence"]["curves"]:
        points = np.column_stack([curve["rounds"], curve["bound"]])
        assert any({*map(tuple, points)} <= {*map(tuple, line)} for line in drawn)
    top = axes.get_ylim()[1]
    trials = {(t["rounds"], t["loss"]) for t in record["evidence"]["trials"]}
    assert {*map(tuple, dots(axes).tolist())} == {t for t in trials if t[1] <= top}
    above = [c for c in axes.collections if c.get_offset_transform() == axes.get_xaxis_transform()]
    assert sum(len(c.get_offsets()) for c in above) == sum(t[1] > top for t in trials) > 0


def test_not_training_is_shown_as_the_plan(make_record):
    record = make_record("do_not_train")
    (axes,) = why_figure(record).axes
    assert plan_marks(axes) == []
    assert "plan: untrained 2.30" in texts(axes)
    low, high = axes.get_ylim()
    assert low < 2.303 < high
    assert "plan: untrained 2.30" in texts(compare_figure(record).axes[0])


def test_the_diamond_is_at_the_plans_measured_means(make_record):
    record = make_record("full")
    cell = planned_cell(record)
    loss, accuracy = compare_figure(record).axes
    assert plan_marks(loss) == [[261, pytest.approx(np.mean(cell["loss"]))]]
    assert plan_marks(accuracy) == [[261, pytest.approx(np.mean(cell["accuracy"]))]]
    assert f"plan: {np.mean(cell['loss']):.3f}" in texts(loss)
    assert loss.get_title(loc="left").startswith("The plan keeps 96")


def test_fixed_settings_have_dots_at_means_and_bars_over_seeds(make_record):
    record = make_record("full")
    axes = compare_figure(record).axes[0]
    bars = [segment for c in axes.collections if hasattr(c, "get_segments") for segment in c.get_segments()]
    for cell in record["compare"]["cells"]:
        if not cell["planned"]:
            near = dots(axes)[np.isclose(dots(axes)[:, 1], np.mean(cell["loss"]))]
            assert np.any(np.abs(np.log(near[:, 0] / cell["rounds"])) < 0.06)  # moved aside a little
        ends = sorted([min(cell["loss"]), max(cell["loss"])])
        assert any(np.allclose(sorted(bar[:, 1]), ends) for bar in bars if len(bar))


def test_the_plan_stays_in_view_where_it_is_worse_than_untrained(make_record):
    record = make_record("full")
    planned_cell(record)["loss"] = [3.0, 3.1, 3.2]
    axes = compare_figure(record).axes[0]
    assert axes.get_ylim()[1] > 3.1


def test_training_curves_are_means_over_seeds(make_record):
    record = make_record("full")
    loss, accuracy = training_figure(record).axes
    for axes, quantity in ((loss, "loss"), (accuracy, "accuracy")):
        (mean,) = [line for line in axes.lines if line.get_gid() == "mean"]
        assert mean.get_xdata().tolist() == record["training"]["rounds"]
        assert np.allclose(mean.get_ydata(), np.mean(record["training"][quantity], axis=0))
    assert "untrained 2.30" in texts(loss)
    assert "predicted 0.534" in texts(loss)
    assert f"{np.mean([c[-1] for c in record['training']['loss']]):#.3g}" in texts(loss)
    assert len(training_figure(without_scores(record)).axes) == 1


def without_scores(record):
    record = copy.deepcopy(record)
    record["training"]["accuracy"] = [[None] * len(c) for c in record["training"]["accuracy"]]
    return record


def test_a_row_per_client_shows_most_uploads_and_spending_over_seeds(make_record):
    record = make_record("full")
    uploads, spent = who_figure(record).axes
    assert [t.get_text() for t in uploads.get_yticklabels()] == record["federation"]["clients"]
    most = np.max(record["training"]["uploads"], axis=0)
    assert dots(uploads).tolist() == np.column_stack([most, np.arange(10)]).tolist()
    assert np.allclose(dots(spent)[:, 0], np.max(record["training"]["spent_epsilon"], axis=0))


def test_many_clients_are_dots_in_the_order_of_their_budgets(make_record):
    record = make_record("many")
    _, spent = who_figure(record).axes
    assert np.allclose(dots(spent)[:, 1], np.max(record["training"]["spent_epsilon"], axis=0))
    assert "500 clients" in spent.get_xlabel()
    (budget,) = spent.lines
    assert np.allclose(budget.get_ydata(), [row["epsilon"] for row in record["plan"]["privacy"]["clients"]])


def test_a_crowd_is_thinned_and_says_so(make_record):
    record = make_record("many")
    plan = record["plan"]
    plan["releases"] *= 4
    plan["privacy"]["clients"] *= 4
    record["training"]["uploads"] = [row * 4 for row in record["training"]["uploads"]]
    record["training"]["spent_epsilon"] = [row * 4 for row in record["training"]["spent_epsilon"]]
    assert "2,000 clients in order (1,500 of them drawn)" in who_figure(record).axes[0].get_xlabel()


def test_without_noise_no_spending_is_drawn(make_record):
    assert len(who_figure(make_record("no_noise")).axes) == 1


def test_the_hero_shows_prediction_and_measurement(make_record):
    record = make_record("full")
    left, right = hero_figure(record).axes
    assert plan_marks(left) == [[261, record["plan"]["predicted"]["bound"]]]
    assert plan_marks(right) == [[261, pytest.approx(np.mean(planned_cell(record)["loss"]))]]
    assert (
        right.get_title(loc="left") == "Measured: the plan keeps 96\N{NO-BREAK SPACE}% of the attainable gain"
    )
    assert len(hero_figure(make_record("plan_only")).axes) == 1


def test_strange_names_are_drawn_literally(make_record):
    record = make_record("full")
    record["federation"]["clients"] = ["$x_1$", "病院", "a\nb", "<b>", "%", "", "x" * 60, "{", "\\frac", "&"]
    record["federation"]["name"] = "$\\bad{"
    for figure in all_figures(record).values():
        png(figure, dpi=30)
    labels = [t.get_text() for t in who_figure(record).axes[0].get_yticklabels()]
    assert labels[:4] == ["$x_1$", "□□", "a b", "<b>"]
    assert len(labels[6]) == 18


def test_an_svg_takes_its_colours_and_ids_from_the_page(make_record):
    text = svg(why_figure(make_record("full")), "why")
    assert text.startswith("<svg")
    assert not any(colour in text for colour in NAMES)
    assert "var(--plan)" in text
    assert 'id="figure_1"' not in text
    assert "<!--" not in text
    assert text == svg(why_figure(make_record("full")), "why")


def test_drawing_leaves_the_callers_parameters_alone(make_record):
    before = dict(matplotlib.rcParams)
    all_figures(make_record("one_seed"))
    assert dict(matplotlib.rcParams) == before


def test_terminal_tables_do_not_load_the_drawing_library():
    code = "import sys, noiseworthy.reports.tables; print('matplotlib' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_figures_do_not_load_pyplot():
    code = "import sys, noiseworthy.reports.html; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
