"""What a training over a network adds to a report: a picture, a caption, and what owners told."""

from __future__ import annotations

import pytest
from pages import render

from noiseworthy.reports.findings import setting, training_caption
from noiseworthy.reports.network import network_caption, network_clauses, network_figure
from noiseworthy.reports.style import png
from noiseworthy.studies.typed_record import view


@pytest.fixture
def record(make_record):
    """Three rounds of which one lacks an owner, and an owner who tells of its ledger."""
    made = make_record("full")
    clients = made["federation"]["clients"]
    made["training"]["assurance"] = "grid-csprng"
    rounds = [
        {"number": t, "answers": dict.fromkeys(clients[:3], ""), "seconds": float(10 + t)} for t in range(3)
    ]
    rounds[1]["answers"][clients[0]] = "budget: all is spent"
    about = {
        "client": clients[1],
        "data_set": "wards",
        "records": 143,
        "record_shape": [64],
        "classes": 10,
        "mechanism": "gaussian",
        "epsilon": 4.0,
        "delta": 1e-5,
        "unit": "record",
        "noise_floor": 0.5,
        "algorithms": ["fedsgd-dpc"],
        "models": ["softmax"],
        "most_releases": 9,
        "most_parameters": 640,
        "most_local_steps": 1,
        "spent": 0.25,
        "head": "19:" + "ab" * 32,
    }
    return {**made, "network": {"run": "r", "late": 2, "rounds": rounds, "owners": [about]}}


def test_the_caption_counts_what_arrived_and_says_why_the_rest_did_not(record):
    said = network_caption(view(record))
    assert said.startswith("8 of 9 uploads that were asked for arrived")
    assert "budget: all is spent" in said
    assert "2 uploads came too late" in said
    assert "11 seconds at the median" in said
    for one in record["network"]["rounds"]:
        one["seconds"] = 153.98
    assert "154 seconds at the median" in network_caption(view(record))


def test_every_answer_is_drawn_once(record):
    above, below = network_figure(view(record)).axes
    came, missing = (len(dots.get_offsets()) for dots in above.collections)
    assert (came, missing) == (8, 1)
    assert [bar.get_height() for bar in below.patches] == [10, 11, 12]


def test_names_of_owners_are_no_formulas(record):
    names = ["ward $\\nothing{$", *record["federation"]["clients"][1:]]
    record["federation"]["clients"] = names
    for one in record["network"]["rounds"]:
        one["answers"] = dict.fromkeys(names, "")
    figure = network_figure(view(record))
    assert png(figure)
    assert figure.axes[0].get_yticklabels()[0].get_text() == names[0]


def test_long_names_of_owners_leave_room_for_their_answers(record):
    names = [f"{'University hospital of the north ' * 3}{i}" for i in range(10)]
    record["federation"]["clients"] = names
    for one in record["network"]["rounds"]:
        one["answers"] = dict.fromkeys(names, "")
    axes = network_figure(view(record)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"Univer…{i}" for i in range(10)]


def test_of_many_owners_those_who_answered_least_are_drawn(record, times):
    times(record, 3)
    clients = record["federation"]["clients"] = [f"ward {i}" for i in range(30)]
    for one in record["network"]["rounds"]:
        one["answers"] = dict.fromkeys(clients, "") | {"ward 29": "no answer"}
    labels = [label.get_text() for label in network_figure(view(record)).axes[0].get_yticklabels()]
    assert len(labels) == 20
    assert labels[-1] == "ward 29"


def test_what_owners_hold_is_told_with_the_head_of_their_ledgers(record, make_record):
    (clause,) = network_clauses(view(record))
    assert "25\N{NO-BREAK SPACE}% of epsilon 4 for wards, ledger head 19:abababababab" in clause.points[0]
    assert network_clauses(view(make_record("full"))) == []
    assert network_figure(view(make_record("full"))) is None


def test_noise_of_a_trusted_server_is_not_said_to_be_its_owners(record):
    assert "was drawn, and drew it without a seed." in network_clauses(view(record))[0].text
    record["plan"]["trust"] = {"model": "central"}
    assert "was drawn, which the server did." in network_clauses(view(record))[0].text


@pytest.mark.full
def test_nothing_speaks_of_a_simulation_where_there_was_none(record):
    page = render(record)
    assert "How the network did" in page
    assert setting(view(record)).endswith("over a network")
    assert "over a network" in training_caption(view(record))
    assert "Simulated noise" not in page
