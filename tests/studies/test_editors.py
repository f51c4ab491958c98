"""What editors know of study files: the JSON schema, and the page of all keys, are the tables that check."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from noiseworthy.data.schema.schema import COLUMNS as COLUMNS_BY_KIND
from noiseworthy.studies.editors import study_schema
from noiseworthy.studies.loading import parse_study

ROOT = Path(__file__).parents[2]
SCHEMA = study_schema()
STUDIES = {
    **{path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.toml"))},
    "quickstart": (files("noiseworthy") / "quickstart.toml").read_text(),
}
PRIVACY = {"mechanism": "laplace", "epsilon": 1.0}
STUDY = {"federation": {"sizes": [5, 5]}, "privacy": PRIVACY}


TABLE = {"federation": {"data": "wards.csv"}}
COLUMNS = {
    "hospital": {"role": "client"}, "part": {"role": "split"}, "notes": {"kind": "left-out"},
    "y": {"role": "label", "classes": ["no", 1]}, "a": {"kind": "number", "range": [0, 9], "missing": 3},
    "b": {"kind": "number", "center": 1, "step": 2, "missing": True, "gaps": ["?", 0]},
    "c": {"kind": "category", "values": [1, "two"], "other": True}, "d": {"kind": "yes-no", "missing": "no"},
    "e": {"kind": "ordered", "values": ["low", "high"]},
    "f": {"kind": "date", "range": ["2020-01-01", "2021-01-01"], "format": "%d.%m.%Y"},
}  # fmt: skip


def complaints(raw) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(raw)]


def test_the_schema_is_one():
    Draft7Validator.check_schema(SCHEMA)
    assert "null" not in json.dumps(SCHEMA)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_that_ships_is_one_to_editors(name):
    assert complaints(tomllib.loads(STUDIES[name])) == []


@pytest.mark.parametrize(
    "tables",
    [
        {"privacy": {**PRIVACY, "epsilon": {"uniform": [0.1, 3.0]}}},
        {"privacy": {**PRIVACY, "epsilon": {"north": 0.1, "south": 1}}},
        {"privacy": {**PRIVACY, "epsilon": [0.1, 1.0]}},
        {"task": {"bias": True, "dimension": 3}},
        {"algorithm": {"name": "pfa", "clients_per_round": 2}},
        {"algorithm": {"rounds": 5}},
        {"planning": {"public": []}},
        TABLE | {"columns": COLUMNS},
        TABLE | {"columns": COLUMNS | {"y": {"role": "label", "classes": {"no": 0, "yes": [1, "2"]}}}},
        TABLE | {"columns": COLUMNS | {"y": {"role": "label", "range": [0, 5.5]}}},
    ],
)
def test_forms_that_are_read_are_forms_to_editors(tables):
    parse_study(STUDY | tables)
    assert complaints(STUDY | tables) == []


def test_a_column_of_a_csv_is_a_form_to_editors():
    """`load_study` reads it, and tables in Python do not have it."""
    column = {"csv": "budgets.csv", "column": "epsilon", "client_column": "ward"}
    assert complaints(STUDY | {"resources": {"budget": column}}) == []
    assert complaints(STUDY | {"resources": {"budget": column | {"colum": "x"}}})


@pytest.mark.parametrize(
    "tables",
    [
        {"privacy": {"mechansim": "laplace"}},
        {"privacy": {**PRIVACY, "mechanism": "cauchy"}},
        {"privacy": {**PRIVACY, "epsilon": "1.0"}},
        {"algorithm": {"name": "dp-fedavg", "rounds": 5}},
        {"algorithm": {"rounds": 0}},
        {"algorithm": {"name": "dpfl-bcs"}},
        {"federation": {"sizes": [0]}},
        {"planing": {}},
        {"task": {"model": "tree"}},
        {"training": {"seeds": [-1]}},
        TABLE | {"columns": COLUMNS | {"a": {"kind": "numbr", "range": [0, 1]}}},
        TABLE | {"columns": COLUMNS | {"a": {"kind": "number", "rang": [0, 1]}}},
        TABLE | {"columns": COLUMNS | {"a": {"kind": "date", "range": ["2020-01-01"]}}},
        TABLE | {"columns": COLUMNS | {"a": {"role": "weight"}}},
    ],
)
def test_mistakes_are_mistakes_to_editors(tables):
    assert complaints(STUDY | tables)
    with pytest.raises(ValueError, match=r"\["):
        parse_study(STUDY | tables)


def test_every_key_says_what_it_is():
    tables = {name: table["properties"] for name, table in SCHEMA["$defs"].items() if "properties" in table}
    assert len(tables) > 15
    silent = [
        (name, key) for name, keys in tables.items() for key in keys if not keys[key].get("description")
    ]
    assert silent == []


PAGE = ROOT / "docs" / "study_file.md"


def test_the_page_of_all_keys_is_that_of_the_tables():
    """`make reference` writes it again."""
    assert PAGE.read_text() == runpy.run_path(str(ROOT / "site" / "study_file.py"))["page"]()


def test_the_page_has_every_table_and_every_method():
    page = PAGE.read_text()
    for table in SCHEMA["properties"]:
        assert f"## `[{table}]`" in page
    keys = sum(len(table.get("properties", ())) for table in SCHEMA["$defs"].values())
    forms = 8  # keys of a csv, of a range and of one to buy, which the page explains where they may stand
    assert len(re.findall(r"^\| `\w+` \|", page, re.MULTILINE)) == keys - forms
    assert re.findall(r"^### `(?:kind|role) = \"(.*)\"`$", page, re.MULTILINE) == [*COLUMNS_BY_KIND]
