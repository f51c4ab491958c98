"""The page needs nothing but itself, shows the record's numbers, and lets no name become markup."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine
from pages import render

from noiseworthy.errors import DataError
from noiseworthy.reports import html
from noiseworthy.reports.figures import all_figures
from noiseworthy.reports.findings import compare_caption
from noiseworthy.reports.html import client_rows, plan_numbers, toml, write_report
from noiseworthy.reports.result import key_numbers
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.typed_record import view

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Open tags, all tags with attributes, and the text outside of style and drawings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def pages():
    return {}


def page(pages, make_record, name):
    if name not in pages:
        pages[name] = (render if name in DRAWN else undrawn)(make_record(name))
    return pages[name]


def undrawn(record):
    """The page with empty figures, for what its words and its markup say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "svg", lambda figure, name: "<svg></svg>")
        return render(record)


def words(record):
    return Page(undrawn(record)).text


@pytest.fixture(scope="module")
def told(make_record):
    """The words of a record's page, by its name."""
    return cache(lambda name: words(make_record(name)))


DRAWN = ("full", "noised_steps", "chosen_clients")
"""Records that have every figure between them; pages of the others are looked at with empty ones."""
KINDS = [
    "full", "plan_only", "do_not_train", "many", "no_noise", "local_steps", "whole_updates", "coins",
    "noised_steps", "noised_batches", "no_noised_steps", "paid_replies", "paid_local_steps", "paid_coins",
    "chosen_clients", "unlike_clients",
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
def test_the_page_is_well_formed_and_loads_nothing(pages, make_record, name):
    text = page(pages, make_record, name)
    parsed = Page(text)
    assert parsed.open == []
    for tag, attributes in parsed.tags:
        assert tag not in {"script", "link", "iframe", "object", "img"}
        for key in ("src", "href", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#")
        assert not any(key.startswith("on") for key in attributes)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_words_longer_than_a_phone_is_wide_are_broken(make_record):
    """Names of columns and clients stand in sentences: one of 40 letters made the whole page scroll."""
    style = re.search(r"<style>(.*?)</style>", undrawn(make_record("full")), re.DOTALL)[1]
    broken = [rule for rule, does in re.findall(r"([^{}]+)\{([^{}]*)\}", style) if "overflow-wrap" in does]
    assert {"p", "li", "dd", "figcaption"} <= {one.strip() for rule in broken for one in rule.split(",")}


def test_the_page_says_how_records_are_prepared_where_they_are(make_record):
    record = make_record("plan_only")
    assert "Before training" not in words(record)
    record["study"]["task"] = {"pooling": 2, "normalise": True}
    said = "Before training: images pooled 2 x 2, records scaled to norm 1."
    assert said in words(record)


@pytest.mark.full
def test_pages_that_are_drawn_have_every_figure_between_them(make_record):
    drawn, all_kinds = ({one for name in names for one in all_figures(view(make_record(name)))}
                        for names in (DRAWN, KINDS))  # fmt: skip
    assert drawn == all_kinds


@pytest.mark.full
@pytest.mark.parametrize("name", DRAWN)
def test_ids_are_unique_on_a_page_and_what_refers_to_one_finds_it(pages, make_record, name):
    text = page(pages, make_record, name)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 0
    assert {*re.findall(r'(?:href="|url\()#([^")]+)', text)} <= {*ids}


def test_headline_outcome_and_numbers_are_the_records(told, make_record):
    record, text = make_record("full"), told("full")
    assert "Train 261 rounds, asking all 10 clients in each." in text
    assert record["plan"]["outcome"] in text
    assert "The plan keeps 96 % of the attainable gain" in text
    for constant in record["plan"]["constants"].values():
        assert f"{constant['value']:g} {constant['provenance']}" in text
    assert "Seeds of training: 0, 1, 2. Seeds of the comparison: 100, 101, 102. The same study" in text


@pytest.mark.parametrize("lost", [0.0371, -0.02, 3.2406, 0.0])
def test_the_lost_gain_shown_is_the_records(make_record, lost):
    record = make_record("full")
    record["compare"]["lost_gain"] = lost
    said = compare_caption(view(record)).split("the plan loses ")[1].split("%")[0]
    assert float(said) / 100 == pytest.approx(lost, abs=0.0005)


def test_the_first_numbers_are_the_result_its_privacy_and_what_to_hold_it_against(make_record):
    record = make_record("full")
    record["training"]["prior"] = 0.1
    keys = [(key.name, key.value, key.remark) for key in key_numbers(view(record))]
    assert keys == [
        ("test accuracy", "71\N{NO-BREAK SPACE}%", "69\N{NO-BREAK SPACE}% to 73\N{NO-BREAK SPACE}%"),
        ("epsilon at most", "4", "delta 1e-05 per record"),
        ("most frequent class", "10\N{NO-BREAK SPACE}%", "always answered"),
        ("test loss", "0.752", "untrained 2.30"),
    ]


def test_key_numbers_of_the_odd_cases(make_record):
    keys = {key.name: key.value for key in key_numbers(view(make_record("no_noise")))}
    assert keys["epsilon"] == "unbounded"
    keys = {key.name: key.value for key in key_numbers(view(make_record("do_not_train")))}
    assert keys == {"epsilon at most": "0.2"}
    assert plan_numbers(view(make_record("do_not_train"))) == []
    keys = {key.name: key.value for key in key_numbers(view(make_record("diverged")))}
    assert keys["test loss"] == "diverged"
    assert {key.name for key in key_numbers(view(make_record("one_seed")))} >= {"test R²"}


def test_plan_numbers_say_what_clients_compute(make_record):
    keys = {key.name: (key.value, key.remark) for key in plan_numbers(view(make_record("local_steps")))}
    assert keys["rounds"] == ("60", "")
    assert keys["local steps in each"] == ("2", "120 iterations in all")
    assert keys["uploads per client"] == ("6", "paid for by its noise")
    keys = {key.name: (key.value, key.remark) for key in plan_numbers(view(make_record("coins")))}
    assert keys["iterations"] == ("31", "communication: p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0.224")
    assert keys["rounds"] == ("4", "6.93 expected; drawn by coins")
    assert keys["clients in each"] == ("20", "of 20")


def test_plan_numbers_of_noised_steps_count_uploads_as_rounds(make_record):
    keys = {key.name: (key.value, key.remark) for key in plan_numbers(view(make_record("noised_steps")))}
    assert keys["rounds"] == ("9", "")
    assert keys["local steps in each"] == ("9", "81 iterations in all, each noised")
    assert keys["uploads per client"] == ("9", "noise pays for 81 noised steps")
    assert keys["cost in units"] == ("981", "of 1,000; each client")


@pytest.mark.parametrize(
    ("name", "key", "value", "remark"),
    [
        ("paid_replies", "cost in joules", "525", "of 600; client 0, which has the least left"),
        ("paid_local_steps", "cost in bytes", "12,000,000", "of 40,000,000; each client"),
        ("paid_coins", "cost in seconds", "13.38", "of 100; each client"),
    ],
)
def test_plan_numbers_say_what_the_dearest_client_spends(make_record, name, key, value, remark):
    keys = {key.name: (key.value, key.remark) for key in plan_numbers(view(make_record(name)))}
    assert keys[key] == (value, remark)
    assert not any("cost" in key.name for key in plan_numbers(view(make_record("full"))))


def test_clients_that_differ_in_cost_have_it_in_their_rows(make_record):
    record = make_record("paid_replies")
    rows = client_rows(view(record))
    bought = np.max(record["training"]["uploads"], axis=0) * 10.5
    assert [float(row["joules"]) for row in rows] == bought.tolist()
    assert [row["of"] for row in rows][::9] == ["600", "900"]
    assert (
        not {"joules", "units"}
        & client_rows(view({**make_record("noised_steps"), "training": None}))[0].keys()
    )


def test_rows_of_noised_steps_tell_steps_from_uploads(make_record, told):
    row = client_rows(view(make_record("noised_batches")))[7]
    assert (row["steps paid for"], row["uploads"], row["joules"], row["of"]) == ("9", "7", "826", "900")
    text = told("noised_batches")
    assert "The noise pays for as many steps as one record is in" in text
    assert "noise is per coordinate of every local step" in text
    assert "Training costs 100 per averaging, 1 to 3 per local step, in joules." in text


def test_the_page_shows_what_the_printed_formula_would_have_leaked(told):
    text = told("noised_steps")
    assert "What the printed formula would have leaked" in text
    assert "would have leaked epsilon 78.72, 20 times the budget of 4 (84.97 by the paper's own" in text
    assert "The plan beside other answers" in text
    assert "under zCDP 9 7 63 0.0731 0.6203 963 at most 4" in text
    assert "leaked" not in told("coins")
    assert "other answers" not in told("coins")


def test_noise_that_falls_is_named_as_that_of_the_first_round(told):
    assert "one upload of the first round; spent" in told("local_steps")
    assert "one upload; spent" in told("coins")


def test_names_never_become_markup(make_record):
    record = make_record("full")
    evil = '<script>alert(1)</script>--><img src=x onerror="alert(2)">'
    record["name"] = record["federation"]["name"] = evil
    record["federation"]["clients"] = [evil, "'\"&<>", *record["federation"]["clients"][2:]]
    record["plan"]["notes"] = [evil, f"Warning: {evil}"]
    record["plan"]["outcome"] = record["plan"]["constants"]["gamma"]["provenance"] = evil
    record["study"]["federation"]["data"] = evil
    text = render(record)
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)" in text
    parsed = Page(text)
    assert parsed.open == []
    assert "'\"&<>" in parsed.text


@pytest.mark.full
def test_the_list_of_clients_folds_and_ends(pages, make_record):
    assert "<details open>" in page(pages, make_record, "full")
    text = undrawn(make_record("many"))
    assert "<details open>" not in text
    assert "client 499" in text
    record = make_record("many")
    plan = record["plan"]
    record = {**record, "training": None, "federation": None, "evidence": None}
    privacy = {**plan["privacy"], "clients": plan["privacy"]["clients"][:400] * 3}
    record["plan"] = {
        **plan,
        "releases": [1] * 1200,
        "noise": [0.1] * 1200,
        "privacy": privacy,
        "as_printed": {},
    }
    text = words(record)
    assert "client 999" in text
    assert "client 1000" not in text
    assert "The first 1000 of 1200 clients" in text


def test_a_client_row_is_the_records(told, make_record):
    record, text = make_record("full"), told("full")
    made = sorted({seed[0] for seed in record["training"]["uploads"]})
    span = str(made[0]) if len(made) == 1 else f"{made[0]} to {made[-1]}"
    assert f"client 0 143 261 {span} {record['plan']['noise'][0]:.3g} 4 1e-05" in text


def test_the_study_reads_back_from_the_page():
    study = {
        "federation": {"data": 'a "b" \\ c.csv', "clients": 3, "fraction": 1.0, "regression": False},
        "privacy": {"mechanism": "laplace", "epsilon": [0.5, 1e-7], "delta": 1e-05},
        "compare": {"rounds": [5, 10], "name": "Größe ε"},
        "constants": {},
    }
    assert tomllib.loads(toml(study)) == study


def test_a_study_with_columns_reads_back_as_it_was():
    """From recommended.toml, too, by which nobody could train."""
    columns = {
        "Ward 1": {"role": "client"},
        "age": {"kind": "number", "range": [20, 90], "missing": True},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "ill": {"role": "label", "classes": ["no", "yes"]},
    }
    privacy = {"mechanism": "gaussian", "delta": 1e-5}
    study = parse_study({"federation": {"data": "a.csv"}, "privacy": privacy, "columns": columns})
    said = toml(study.model_dump(mode="json", exclude_none=True))
    assert parse_study(tomllib.loads(said)) == study


def test_no_claim_of_privacy_without_noise(told):
    text = told("no_noise")
    assert "NOT PRIVATE" in text
    assert "What is protected" not in text


@pytest.mark.full
def test_the_page_is_written_last(tmp_path, make_record, monkeypatch):
    """A sweep that went on after a kill took a variant with a page for whole, and it had no claim card."""

    def killed(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("noiseworthy.reports.html.all_figures", lambda record: {})
    monkeypatch.setattr("noiseworthy.reports.html.write_claim_card", killed)
    with pytest.raises(KeyboardInterrupt):
        write_report(make_record("plan_only"), tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_write_report_leaves_page_and_pictures(tmp_path, make_record):
    stale = tmp_path / "run" / "compare.png"
    stale.parent.mkdir()
    stale.write_bytes(b"of an earlier run")
    path = write_report(make_record("plan_only"), tmp_path / "run")
    assert path == tmp_path / "run" / "report.html"
    assert {p.name for p in path.parent.iterdir()} == {
        "report.html", "why.png", "who.png", "hero.png", "claim_card.html", "claim_card.json",
    }  # fmt: skip
    assert (path.parent / "hero.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, make_record):
    blocked = tmp_path / "file"
    blocked.write_text("")
    record = {**make_record("plan_only"), "evidence": None}
    with pytest.raises(DataError, match=r"run folder .*file cannot be written .*: noiseworthy report .*file"):
        write_report(record, blocked)


@pytest.mark.full
def test_a_figure_is_made_and_laid_out_once_for_the_page_and_its_picture(make_record, tmp_path, monkeypatch):
    """Figures of the page were laid out a second time for their PNG, which took a third of the time."""
    laid_out, lay_out = [], ConstrainedLayoutEngine.execute

    def counted(engine, figure):
        laid_out.append(id(figure))
        return lay_out(engine, figure)

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counted)
    write_report(make_record("full"), tmp_path)
    assert len(laid_out) == len(set(laid_out)) == len([*tmp_path.glob("*.png")]) > 1
