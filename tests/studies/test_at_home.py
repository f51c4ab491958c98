"""A study that delivers to its owners: what each reaches at home, in record, terminal and report."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import render
from pydantic import ValidationError
from rich.console import Console

from noiseworthy.home.owners import owners_at_home
from noiseworthy.reports import at_home, tables
from noiseworthy.reports.at_home_figure import home_figure
from noiseworthy.reports.limits import limits
from noiseworthy.reports.result import verdict
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record, new_record
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.training import train
from noiseworthy.studies.typed_record import RunRecord, view
from noiseworthy.sweeps.at_home import with_home
from noiseworthy.sweeps.compare import Comparison, compare
from noiseworthy.sweeps.recorded import with_comparison


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Three sites whose labels follow rules of their own; the third has no test records."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("sites") / "sites.csv"
    site = np.repeat(["north", "<b>south</b>", "west"], [60, 20, 10])
    u, v = rng.normal(size=(2, len(site)))
    label = np.where(site == "north", u > 0, v > 0).astype(int)
    split = np.where((np.arange(len(site)) % 4 == 0) & (site != "west"), "test", "train")
    pd.DataFrame({"client": site, "u": u, "v": v, "label": label, "split": split}).to_csv(path, index=False)
    return path


def study_of(table: Path, **tables: Any) -> Any:
    return parse_study({
        "federation": {"data": str(table), "classes": [0, 1]},
        "task": {"model": "logistic", "feature_norm": 1.0},
        "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-3, "clip_norm": 0.5},
        "algorithm": {"name": "fedsgd-dpc", "rounds": 3, "clients_per_round": 3, "step_size": 1.0,
                      "momentum": 0.0, "averaging": 0.0, "weighting": 0.0},
        "training": {"seeds": [3], "evaluations": 2},
        **tables,
    })  # fmt: skip


@pytest.fixture(scope="module")
def record(table, tmp_path_factory) -> RunRecord:
    folder = tmp_path_factory.mktemp("run")
    train_in(planned(prepare(study_of(table, deliver={"to": "owners"}))), folder, name="sites")
    return view(load_record(folder))


def test_a_study_says_nothing_of_delivery_unless_it_is_to_owners(table):
    plain, same = study_of(table), study_of(table, deliver={"to": "others"})
    assert plain.model_dump() == same.model_dump()
    assert "deliver" not in plain.model_dump()
    assert study_of(table, deliver={"to": "owners"}).model_dump()["deliver"] == {"to": "owners"}
    with pytest.raises((ValidationError, ValueError), match="owners"):
        study_of(table, deliver={"to": "everybody"})


def test_the_plan_is_the_same_whoever_it_delivers_to(table):
    plain, owners = (
        planned(prepare(study_of(table, **keys))) for keys in ({}, {"deliver": {"to": "owners"}})
    )
    assert plain.file.digest == owners.file.digest
    record = new_record(plain.prepared.study, plain.decision, plain.prepared.federation, 3, name="plain")
    assert "home" not in record


@pytest.mark.full
def test_the_record_has_every_owner_alone_shared_and_tuned(record):
    home = record.home
    assert home is not None
    assert (home.seed, home.named) == (3, True)
    assert record.federation is not None
    by_name = dict(zip(record.federation.clients, home.tests, strict=True))
    assert by_name == {"north": 15, "<b>south</b>": 5, "west": 0}
    bare = record.federation.clients.index("west")
    for one in home.candidates.values():
        assert [score is None for score in one.scores] == [i == bare for i in range(3)]
        assert one.overall is not None
        scores = [0.0 if s is None else s for s in one.scores]
        assert one.overall == pytest.approx(np.dot(scores, home.tests) / 20)
        for score, least, most in zip(one.scores, one.least, one.most, strict=True):
            assert score is None or (least is not None and most is not None and least <= score <= most)


@pytest.mark.full
def test_the_terminal_says_which_to_use_and_who_gains(record):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables.plan_panel(record), tables.home_table(record))
    said = console.export_text()
    assert "its owners; planned for the shared model" in " ".join(said.replace("│", "").split())
    assert "tuned at home" in said
    assert "2 owners with test records" in " ".join(said.split())
    assert "worst" in said


@pytest.mark.full
def test_the_page_shows_every_owner_and_escapes_its_name(record):
    page = render(record)
    assert "What each owner reaches" in page
    assert "<b>south" not in page
    assert "1 owner without test records" in page
    assert home_figure(record) is not None
    assert str(verdict(record)) in page.replace("&nbsp;", "\N{NO-BREAK SPACE}")


def test_the_claim_says_that_models_made_at_home_carry_no_guarantee(record, table):
    said = limits(record)
    assert said is not None
    assert any("handed on carries no guarantee" in point for point in said.points)
    plain = planned(prepare(study_of(table)))
    other = limits(view(plain.record("plain")))
    assert other is not None
    assert not any("handed on" in point for point in other.points)


@pytest.mark.parametrize(
    ("alone", "shared", "tuned", "error", "verdict"),
    [
        (0.9, 0.7, 0.9, 0.0, "Stay home"),
        (0.8, 0.7, 0.9, 0.02, "Share, and tune at home"),
        (0.8, 0.7, 0.82, 0.02, "Staying home and sharing are not told apart"),
        (0.8, 0.9, 0.85, 0.01, "Share, and use the shared model"),
        (0.8, 0.83, 0.82, 0.02, "Staying home and sharing are not told apart"),
        (0.8, None, 0.8, 0.0, "Stay home"),
        (None, None, None, None, "No owner has test records"),
    ],
)
def test_the_verdict_is_own_shared_or_tuned(record, alone, shared, tuned, error, verdict):
    home = record.home
    new = {
        name: getattr(home, name).model_copy(update={"overall": overall})
        for name, overall in (("alone", alone), ("shared", shared), ("tuned", tuned))
    }
    errors = {"error_alone": error, "error_of_shared": error}
    told = record.model_copy(update={"home": home.model_copy(update={**new, **errors})})
    assert str(at_home.finding(told)).startswith(verdict)


def test_many_owners_are_drawn_as_gains_by_their_records(record):
    """A row for each would be longer than a page."""
    home, many = record.home, 60
    one = {"overall": 0.5, "scores": [0.5] * many, "least": [0.2] * many, "most": [0.8] * many}
    gains = np.linspace(-0.4, 0.5, many).tolist()
    part = home.model_copy(
        update={
            "tests": [5] * many,
            **{name: type(home.alone).model_validate(one) for name in ("alone", "shared", "tuned")},
            "gains": gains,
            "gains_least": [gain - 0.1 for gain in gains],
            "gains_most": [None, *(gain + 0.1 for gain in gains[1:])],
        }
    )
    who = record.federation.model_copy(
        update={"clients": [str(i) for i in range(many)], "sizes": list(range(5, 5 + many))}
    )
    told = record.model_copy(update={"home": part, "federation": who})
    figure = home_figure(told)
    assert figure is not None
    assert figure.get_figheight() < 5
    assert "Beyond chance" in at_home.home_caption(told)
    assert len(at_home.owner_rows(told)) == many


# Beside fixed settings ----------------------------------------------------------------------------------

GRID = {"rounds": [1, 3], "clients_per_round": [3], "seeds": [3, 4]}


@pytest.fixture(scope="module")
def compared(table) -> tuple[Any, Comparison]:
    study = study_of(table, deliver={"to": "owners"}, compare=GRID)
    made = planned(prepare(study))
    return made, with_home(compare(made.plan, *made.prepared.trained(), study), made.prepared)


def test_a_comparison_says_what_owners_make_of_its_models(compared):
    """Scores by hand: the plan trained again under the first seed, its model scored at every owner."""
    made, comparison = compared
    federation, task = made.prepared.trained()
    theta = train(made.plan, federation, task, [3], evaluations=1).theta[0]
    by_hand = owners_at_home(federation, task, theta).overall
    home = comparison.home
    assert home is not None
    ours = home.models[0]
    assert (ours.name, home.models[1].name) == ("the plan", "the best fixed setting")
    assert home.alone == by_hand["alone"]
    assert (ours.shared, ours.tuned) == (by_hand["shared"], by_hand["tuned"])
    usual = [f"{one.usual.name}, {one.usual.rounds} rounds" for one in comparison.usual]
    assert [one.name for one in home.models[2:]] == usual


def test_terminal_and_page_say_what_owners_make_of_each_model(compared):
    made, comparison = compared
    record = view(with_comparison(made.record("sites"), comparison, GRID["seeds"]))
    assert view(json.loads(record.model_dump_json())) == record
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(tables.comparison_table(record))
    said = console.export_text()
    assert "For owners, on their own test records" in said
    assert "own models" in said
    assert "For owners, on their own test records: own models" in at_home.compare_caption(record)


def test_a_comparison_for_others_asks_nothing_of_owners(table):
    study = study_of(table, compare=GRID)
    made = planned(prepare(study))
    plain = compare(made.plan, *made.prepared.trained(), study)
    assert with_home(plain, made.prepared) is plain
    assert "home" not in with_comparison(made.record("sites"), plain, GRID["seeds"])["compare"]
