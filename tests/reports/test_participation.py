"""Who is asked how often is drawn where the plan has it, and said in the same numbers everywhere."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from noiseworthy.methods.dpfl_bcs.words import sizes_of
from noiseworthy.reports import schedules
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.clients import MOST_DOTS, who_figure
from noiseworthy.reports.figures import hero_figure
from noiseworthy.reports.findings import compare_caption, who_caption
from noiseworthy.reports.html import listing
from noiseworthy.reports.participation import participation_caption, participation_figure
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.style import PLAN
from noiseworthy.reports.tables import provenances
from noiseworthy.studies.typed_record import PlanPart, view

CHOSEN = ("chosen_clients", "unlike_clients", "everybody", "many_chosen")


def marks(axes):
    """Scatters by what they mark."""
    return {marked.get_gid(): marked for marked in axes.collections if marked.get_gid()}


def by_budget(record):
    """(uploads, records) of clients in the order of budget, then size, with plain sorting."""
    budgets = [row["epsilon"] for row in record["plan"]["privacy"]["clients"]]
    rows = zip(budgets, sizes_of(record), record["plan"]["releases"], strict=True)
    return [(uploads, size) for _, size, uploads in sorted(rows, key=lambda row: row[:2])]


@pytest.mark.parametrize("name", CHOSEN[:3])
def test_every_client_is_a_mark_at_its_place_and_height(make_record, name):
    record = make_record(name)
    (axes,) = participation_figure(view(record)).axes
    found = marks(axes)
    expected = [(place, uploads) for place, (uploads, _) in enumerate(by_budget(record))]
    drawn = [tuple(dot) for gid in ("asked", "never") for dot in found[gid].get_offsets().tolist()]
    assert sorted(drawn) == expected
    assert all(uploads == 0 for _, uploads in found["never"].get_offsets().tolist())
    assert all(uploads > 0 for _, uploads in found["asked"].get_offsets().tolist())


def test_never_asked_clients_are_crosses_and_counted_once(make_record):
    record = make_record("chosen_clients")
    never = record["plan"]["releases"].count(0)
    assert never > 1
    assert len(marks(participation_figure(view(record)).axes[0])["never"].get_offsets()) == never
    assert f"{never} clients (×) are never asked" in participation_caption(view(record))
    said = next(c for c in privacy_statement(record) if c.title == "What each client spends")
    assert f"{never} clients are never asked and spend nothing." in said.points
    one = make_record("unlike_clients")
    assert "1 client (×) is never asked" in participation_caption(view(one))
    assert "never" not in participation_caption(view(make_record("everybody")))


def test_clients_that_the_first_stage_led_to_ask_are_not_said_to_spend_nothing(make_record):
    """They were counted by the plan that is made in case the first stage finds clients alike."""
    record = make_record("chosen_clients")
    planned = record["plan"]["releases"]
    record["plan"]["estimation"] = {
        "rounds": 4, "releases": planned, "noise": record["plan"]["noise"], "loss_cap": 2.3,
        "loss_noise": record["plan"]["noise"], "losses_per_reply": 2,
    }  # fmt: skip
    record["training"]["spent_epsilon"][0][planned.index(0)] = 0.01
    said = privacy_statement(record)
    spends = next(c for c in said if c.title == "What each client spends")
    assert f"{planned.count(0) - 1} clients are never asked and spend nothing." in spends.points
    assert spends.points[0].startswith("By plan, if all prove alike, the most that")
    untrained = next(
        c for c in privacy_statement(record | {"training": None}) if c.title == "What each client spends"
    )
    assert "spend nothing" not in " ".join(untrained.points)
    means = next(c for c in said if c.title == "By what means")
    assert "Those told here hold if clients prove alike." in " ".join(means.points)
    assert f"{planned.count(0)} clients (×) are never asked, if all prove alike:" in participation_caption(
        view(record)
    )
    alike = "Those told here hold if clients prove alike."
    assert alike in listing(view(record))
    assert alike in next(
        one["answer"] for one in claim_card(record)["questions"] if one["question"] == "By what means?"
    )
    assert "uploads if all prove alike; it was asked" in who_caption(view(record))
    assert schedules.asked_in_training(view(record)).endswith(" times after stage 1")
    assert "   ┃ if all prove alike" in [text.get_text() for text in who_figure(view(record)).axes[0].texts]


def test_areas_are_in_proportion_to_records(make_record):
    record = make_record("chosen_clients")
    asked = marks(participation_figure(view(record)).axes[0])["asked"]
    sizes = [size for uploads, size in by_budget(record) if uploads]
    areas = asked.get_sizes()
    visible = areas > areas.min() * 1.001
    ratio = areas[visible] / np.array(sizes)[visible]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_tones_tell_heterogeneity_and_are_the_plans_without(make_record):
    plain = marks(participation_figure(view(make_record("chosen_clients"))).axes[0])["asked"]
    assert np.unique(plain.get_facecolors(), axis=0).tolist() == [list(to_rgba(PLAN))]
    record = make_record("unlike_clients")
    (axes,) = participation_figure(view(record)).axes
    tones = marks(axes)["asked"].get_facecolors()[:, :3].sum(axis=1)
    unlike = [g for g, k in zip([0.0, 0.5, 0.0, 40.0, 0.1], record["plan"]["releases"], strict=True) if k]
    order = np.argsort(unlike, kind="stable")
    assert np.all(np.diff(tones[order]) <= 0)
    assert any("tone: heterogeneity Γ, 0 to 40" in text.get_text() for text in axes.texts)


def test_levels_are_those_of_asking_alike_and_always(make_record):
    record = make_record("chosen_clients")
    (axes,) = participation_figure(view(record)).axes
    heights = [line.get_ydata()[0] for line in axes.lines]
    assert heights == [60 * 20 / 50, 60]
    assert {"all alike: 24", "every round"} <= {text.get_text() for text in axes.texts}
    (axes,) = participation_figure(view(make_record("everybody"))).axes
    assert [line.get_ydata()[0] for line in axes.lines] == [20]


def test_many_clients_of_one_budget_are_in_the_order_of_their_size(make_record):
    record = make_record("many_chosen")
    (axes,) = participation_figure(view(record)).axes
    drawn = sum(len(mark.get_offsets()) for mark in marks(axes).values())
    assert drawn == MOST_DOTS
    assert axes.get_xlabel() == "2,000 clients in the order of their size; ε = 2 (1,500 of them drawn)"
    assert axes.get_xticks().tolist() == []
    heights = [uploads for _, uploads in marks(axes)["asked"].get_offsets().tolist()]
    assert heights == sorted(heights)


def test_nothing_is_drawn_where_nobody_is_chosen(make_record):
    assert participation_figure(view(make_record("full"))) is None
    bare = copy.deepcopy(make_record("chosen_clients"))
    bare["plan"]["privacy"]["private"] = False
    assert participation_figure(view(bare)) is None
    still = copy.deepcopy(make_record("chosen_clients"))
    still["plan"]["train"] = False
    assert participation_figure(view(still)) is None


def test_the_hero_shows_whom_to_ask_in_place_of_a_prediction(make_record):
    first, second = hero_figure(view(make_record("chosen_clients"))).axes
    assert "asked" in marks(first)
    assert "Measured" in second.get_title(loc="left")


# Words ------------------------------------------------------------------------------------------------


def test_captions_and_headline_span_the_counts(make_record):
    record = make_record("chosen_clients")
    most = max(record["plan"]["releases"])
    assert schedules.headline(record) == (
        "Train 60 rounds, asking 20 of 50 clients in each, chosen by budget and size: "
        f"0 to {most} times each."
    )
    assert participation_caption(view(record)).startswith(
        f"60 rounds with 20 of 50 clients, each asked 0 to {most} times by plan."
    )
    assert who_caption(view(record)).startswith(
        f"Each client's noise pays for 0 to {most} uploads; it was asked"
    )
    assert "4 fixed settings, each asking all clients alike" in compare_caption(view(record))
    assert "K = 10, T = 60" in compare_caption(view(record))


def test_heterogeneity_and_full_cohorts_change_the_headline(make_record):
    unlike = make_record("unlike_clients")
    most = max(unlike["plan"]["releases"])
    assert f"chosen by heterogeneity: 0 to {most} times each." in schedules.headline(view(unlike))
    unlike["plan"]["privacy"]["clients"][0]["epsilon"] = 1.0
    unlike["study"]["federation"]["sizes"][1] = 90
    assert "chosen by budget, size and heterogeneity: 0 to" in schedules.headline(view(unlike))
    assert provenances(view(unlike))[0].endswith("heterogeneity of each client")
    assert schedules.headline(view(make_record("everybody"))) == (
        "Train 20 rounds, asking all 4 clients in each, 20 times each."
    )


def test_noise_is_that_of_clients_that_upload(make_record):
    plan = make_record("chosen_clients")["plan"]
    asked = [noise for noise, k in zip(plan["noise"], plan["releases"], strict=True) if k]
    assert schedules.noise_of_uploads(PlanPart(**plan)) == asked
    assert max(plan["noise"]) > max(asked)
    assert schedules.noise_of_uploads(PlanPart(**{**plan, "releases": [0] * 50})) == plan["noise"]


def test_fractions_as_printed_say_what_they_overspend(make_record):
    record = make_record("chosen_clients")
    printed = record["plan"]["as_printed"]
    (clause,) = [c for c in privacy_statement(record) if c.title == "As printed: not private"]
    (point,) = clause.points
    assert f"{100 * printed['overspending_share']:.0f}\N{NO-BREAK SPACE}% of the clients" in point
    assert f"Worst off is client {printed['worst_client']}: planned for " in point
    assert clause.kind == "limit"
    assert "in whole ones. The printed plan is not private and was not used." in clause.text


def test_the_fixed_settings_of_a_rival_ask_all_alike(make_record):
    for name in ("weighed_replies", "transformed_records"):
        assert "4 fixed settings, each asking all clients alike" in compare_caption(view(make_record(name)))
