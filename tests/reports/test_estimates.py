"""What stage 1 estimated is drawn where it is, in the order of budgets, and said in the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import render

from noiseworthy.calls.folder import RunFolder, row_of
from noiseworthy.reports.clients import MOST_DOTS
from noiseworthy.reports.figures import all_figures
from noiseworthy.reports.participation import estimates_caption, estimates_figure, estimation_figure, in_words
from noiseworthy.reports.style import PLAN
from noiseworthy.studies.typed_record import EstimatedPart, view

TOLD = {
    "epsilon": [3.0, 0.5, 1.0, 2.0],
    "sizes": [100, 400, 200, 300],
    "estimate": [1.0, 1.2, 1.1, 0.9],
    "raw": [0.9, None, 1.5, 0.4],
    "noise": [0.2, None, 0.4, 0.3],
    "as_printed": [0.6, 0.8, 1.0, 0.7],
    "spread": 0.3,
    "first": [4, 0, 1, 3],
    "releases": [40, 2, 11, 27],
}
ORDER = [1, 2, 3, 0]
"""Clients from the least budget to the largest."""


def marks(axes):
    """What is drawn, by its name."""
    return {drawn.get_gid(): drawn for drawn in (*axes.collections, *axes.lines) if drawn.get_gid()}


def panels(told=TOLD):
    above, below = estimation_figure(EstimatedPart(**told)).axes
    return above, below


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_estimates_stand_in_the_order_of_budgets_and_the_silent_are_crosses():
    found = marks(panels()[0])
    assert found["estimate"].get_offsets().tolist() == [[1, 1.1], [2, 0.9], [3, 1.0]]
    assert found["silent"].get_offsets().tolist() == [[0, 1.2]]


def test_bars_reach_one_deviation_of_the_noise_to_both_sides():
    above, _ = panels()
    low, high = above.get_ylim()
    bars = [segment[:, 1].tolist() for segment in marks(above)["noise"].get_segments()]
    for bar, client in zip(bars, ORDER, strict=True):
        value, noise = TOLD["estimate"][client], TOLD["noise"][client] or 0.0
        assert bar == pytest.approx([max(value - noise, low), min(value + noise, high)])


def test_own_reports_beyond_the_picture_are_arrows_and_none_is_lost():
    wild = {**TOLD, "raw": [0.9, None, 90.0, -70.0]}
    above, _ = panels(wild)
    low, high = above.get_ylim()
    assert -70 < low < min(wild["estimate"])
    assert max(wild["estimate"]) < high < 90
    named = set(marks(above).values())
    places = [tuple(at) for one in above.collections if one not in named for at in one.get_offsets().tolist()]
    at_edges = {x for x, y in places if y in (0.0, 1.0)}
    assert {1, 2} <= at_edges
    assert (3, 0.9) in places


def test_counts_are_those_of_both_stages_with_the_first_as_bars():
    found = marks(panels()[1])
    assert found["both"].get_offsets().tolist() == [[0, 2], [1, 12], [2, 30], [3, 44]]
    bars = [segment[:, 1].tolist() for segment in found["first"].get_segments()]
    assert bars == [[0, 0], [0, 1], [0, 3], [0, 4]]


def test_areas_are_in_proportion_to_records():
    areas = marks(panels()[1])["both"].get_sizes()
    np.testing.assert_allclose(areas / areas[0], [1.0, 0.5, 0.75, 0.25])


def test_estimates_and_counts_wear_the_colour_of_the_plan_alone():
    from matplotlib.colors import to_hex

    above, below = (marks(axes) for axes in panels())
    for drawn in (above["estimate"], above["silent"], below["both"]):
        assert to_hex(drawn.get_facecolor()[0]) == PLAN
    assert to_hex(below["first"].get_colors()[0]) != PLAN


def test_the_truth_is_dotted_where_it_is_known_and_named_only_there():
    assert "true" not in marks(panels()[0])
    assert "true" not in words(panels()[0])
    above, _ = panels({**TOLD, "true": [0.1, 0.2, 0.3, 0.4]})
    line = marks(above)["true"]
    assert line.get_linestyle() == ":"
    assert line.get_ydata().tolist() == [0.2, 0.3, 0.4, 0.1]
    assert "true" in words(above)


def test_many_clients_are_drawn_in_part_and_one_budget_has_no_ticks():
    n = 2 * MOST_DOTS
    lists = {name: [TOLD[name][0]] * n for name in TOLD if name not in ("spread", "sizes")}
    _, below = panels({**lists, "spread": 0.0, "sizes": list(range(1, n + 1))})
    assert below.get_xlabel() == "3,000 clients of budget ε = 3 (1,500 of them drawn)"
    assert below.get_xticks().tolist() == []
    assert len(marks(below)["both"].get_offsets()) == MOST_DOTS


@pytest.mark.full
@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.floats(0.01, 10),
            st.integers(1, 1000),
            st.floats(0, 100),
            st.none() | st.tuples(st.floats(-100, 100), st.floats(0.001, 100)),
            st.floats(0, 100),
            st.integers(0, 20),
        ),
        min_size=1,
        max_size=6,
    ).filter(lambda rows: any(row[3] for row in rows))
)
def test_limits_show_every_estimate_whatever_is_reported(rows):
    epsilon, sizes, estimate, reported, printed, asked = map(list, zip(*rows, strict=True))
    raw, noise = ([None if one is None else one[i] for one in reported] for i in range(2))
    told = {
        "epsilon": epsilon, "sizes": sizes, "estimate": estimate, "raw": raw, "noise": noise, "spread": 0.0,
        "as_printed": printed, "first": asked, "releases": [1 + one for one in asked],
    }  # fmt: skip
    low, high = panels(told)[0].get_ylim()
    assert low < min(estimate + printed)
    assert max(estimate + printed) < high


# Words ------------------------------------------------------------------------------------------------


def test_words_tell_whether_clients_differ_beyond_their_noise():
    alike = in_words(EstimatedPart(**{**TOLD, "spread": 0.0}))
    assert alike.startswith("Reports differ by no more than their noise: clients are taken as alike.")
    unlike = in_words(EstimatedPart(**{**TOLD, "spread": 0.4}))
    assert "differ by about 0.4 beyond" in unlike
    assert "takes 50 to 80 per cent of a client's own deviation" in unlike  # noise 0.4 and 0.2
    assert "1 client (×) never reported and took the mean." in alike
    assert alike.endswith("Each client is asked 0 to 4 times in stage 1, 2 to 40 times in stage 2.")
    assert "never reported" not in in_words(EstimatedPart(**{**TOLD, "raw": [1.0] * 4, "noise": [1.0] * 4}))


@pytest.mark.full
def test_a_page_has_the_section_in_two_stages_only(make_record):
    record = make_record("chosen_clients")
    assert estimates_figure(view(record)) is None
    assert "What was estimated" not in render(record)
    staged = {**record, "estimation": [TOLD, {**TOLD, "spread": 0.0}]}
    assert "estimates" in all_figures(view(staged), ["estimates"])
    page = render(staged)
    assert page.index("Whom to ask") < page.index("What was estimated")
    assert in_words(EstimatedPart(**TOLD)) in estimates_caption(view(staged))
    assert estimates_caption(view(staged)).endswith("Drawn is the first of 2 seeds.")
    assert estimates_caption(view({**record, "estimation": [TOLD]})) == in_words(EstimatedPart(**TOLD))


def test_frames_of_a_run_count_uploads_of_both_stages(make_record):
    record = make_record("chosen_clients")
    training, n = record["training"], len(record["plan"]["releases"])
    firsts = [np.arange(n) % (seed + 2) for seed in range(len(training["uploads"]))]
    record["estimation"] = [{**TOLD, "first": first.tolist()} for first in firsts]
    run = RunFolder(Path("run"), view(record))
    made = np.array(training["uploads"]) + firsts
    assert run.clients.uploads.tolist() == made.max(axis=0).tolist()
    assert row_of(run)["uploads"] == made.sum(axis=1).mean()
