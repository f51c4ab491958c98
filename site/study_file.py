"""Writes study_file.md, the page of all keys of a study, from the tables that check them: make reference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from noiseworthy.studies.editors import study_schema

PAGE = Path(__file__).parents[1] / "docs" / "study_file.md"
HEAD = """# The study file

Every key that a study may have: {keys} in {tables} tables, of which only `[federation]` and `[privacy]` must be there.
This page is written by `make reference` from the tables that check studies; change it there.

- **Begin** with `noiseworthy init --template hospital` (or `images`, `own-model`, `leaf`, `owners`): a commented study.
  `hospital` and `images` plan and train as they are, on data that ship; `own-model` plans as it is, from sizes alone;
  `leaf` and `owners` say which files must lie beside them first.
- **Editors** complete and check studies with the JSON schema that `noiseworthy schema` prints: write it beside your
  studies (`noiseworthy schema > study.schema.json`) and let a study's first line be `#:schema study.schema.json`
  (Even Better TOML, taplo).
- **Paths** start from the study's own file. A file that is only in the working directory is read with a note; one that
  is in neither is looked for in the folder of data files (`data_dir`, `--data` or `NOISEWORTHY_DATA`).
- **Mistakes** are told all at once, a line each, before anything heavy is loaded: what is wrong, what is allowed, and
  what was probably meant.
- **One number for each client**: where "one for each client" is among the values, a key takes a number for all, a list
  by position (of clients without names), a table by name (`{{ north = 0.1, south = 1.0 }}`), or a column of a csv
  (`{{ csv = "budgets.csv", column = "epsilon" }}`, with `client_column` where names are not in `client`). `epsilon` and
  `delta` may be drawn in public: `{{ uniform = [0.1, 3.0] }}`, `{{ loguniform = [0.1, 3.0] }}`.

What is left out is planned, or has the default that is given here.
"""  # noqa: E501
NAMED_METHODS = (
    "The keys are those of the method that `name` names; without it, of `fedsgd-dpc`. Of a study without\n"
    "this table the planner may take [one upload](one_upload.md#what-the-planner-does) in its place.\n"
)
NAMED_COLUMNS = """What each column of a table is: keys are names of columns, and each is a table of its kind.
`columns = "columns.toml"`, above all tables, takes `[columns]` from a file. [Columns](columns.md) tells more.
"""
COLUMNS = "| key | values | default | what it is |", "| --- | --- | --- | --- |"
SPANS = {
    "minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below",
}  # fmt: skip


def page() -> str:
    """The page as Markdown."""
    schema = study_schema()
    tables = schema["$defs"]
    parts, keys = [], 0
    for name in schema["properties"]:
        model = model_of(schema["properties"][name], tables)
        columns = model.get("additionalProperties") or {}
        own = model.get("oneOf", columns.get("oneOf"))
        stands = "" if name in schema["required"] else " (may be left out)"
        parts.append(f"## `[{name}]`{stands}\n")
        if own:
            parts.append(NAMED_COLUMNS if columns else NAMED_METHODS)
        for one in [model] if own is None else [tables[named(ref)] for ref in own]:
            rows = [row(key, stated, key in one.get("required", ()), tables)
                    for key, stated in one["properties"].items()]  # fmt: skip
            keys += len(rows)
            if own:
                parts.append(f"### {of_column(one) if columns else title(one)}\n")
            parts.append(f"{plain(one)}\n")
            parts.append(
                "\n".join(["| key | values | default | what it is |", "| --- | --- | --- | --- |", *rows])
            )
            parts.append("")
    head = HEAD.format(keys=keys, tables=len(schema["properties"]))
    return "\n".join([head, *parts]).rstrip() + "\n"


def model_of(stated: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """The table that a key of the file is."""
    return tables[named(stated if "$ref" in stated else stated["anyOf"][0])]


def named(reference: dict[str, str]) -> str:
    """The name of a table that is referred to."""
    return reference["$ref"].rsplit("/", 1)[1]


def title(table: dict[str, Any]) -> str:
    """Names of the methods that a table is of."""
    name = table["properties"]["name"]
    return ", ".join(f"`{one}`" for one in name.get("enum", [name.get("const")]))


def of_column(table: dict[str, Any]) -> str:
    """What tells a kind of column from the others."""
    key = "role" if "role" in table["required"] else "kind"
    return f'`{key} = "{table["properties"][key]["const"]}"`'


def plain(table: dict[str, Any]) -> str:
    """What a table is for, without its name."""
    says = re.sub(r"^`\[\w+\]`(:| of) ", "", table["description"])
    return says[0].upper() + says[1:]


def row(key: str, stated: dict[str, Any], required: bool, tables: dict[str, Any]) -> str:
    """A key as a row of its table."""
    default = "must be stated" if required else shown(stated.get("default"))
    return f"| `{key}` | {values(stated)} | {default} | {' '.join(stated.get('description', '').split())} |"


def shown(default: Any) -> str:
    """A default as TOML has it."""
    return "left out" if default is None else f"`{json.dumps(default)}`"


def values(stated: dict[str, Any]) -> str:
    """Kind and range of what a key takes."""
    if forms := forms_of(stated):
        if {"$ref": "#/$defs/CsvColumn"} in forms:
            return f"{values(forms[0])}, or one for each client"
        return " or ".join(dict.fromkeys(map(values, forms)))
    if stated.get("$ref") == "#/$defs/BoughtRange":
        return "`{ buy, quantiles, share }`"
    if "enum" in stated or "const" in stated:
        return ", ".join(f"`{json.dumps(one)}`" for one in stated.get("enum", [stated.get("const")]))
    kind = stated.get("type")
    if kind == "array":
        least = ", at least " + str(stated["minItems"]) if stated.get("minItems", 1) > 1 else ""
        return f"list of {values(stated['items'])}{least}"
    if kind == "string":
        return "path" if stated.get("format") == "path" else "text"
    if kind == "object":
        return "table of lists"
    if kind == "boolean":
        return "`true`, `false`"
    return {"integer": "whole number", "number": "number"}[str(kind)] + span(stated)


def forms_of(stated: dict[str, Any]) -> list[dict[str, Any]]:
    """The forms that a value may have, those of forms as well."""
    forms = stated.get("oneOf", stated.get("anyOf", []))
    return [inner for form in forms for inner in (forms_of(form) or [form])]


def span(stated: dict[str, Any]) -> str:
    """The range of a number."""
    if {"minimum", "maximum"} <= stated.keys():
        return f", {written(stated['minimum'])} to {written(stated['maximum'])}"
    return "".join(f", {word} {written(stated[key])}" for key, word in SPANS.items() if key in stated)


def written(number: float) -> str:
    """A number with its thousands apart."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"


if __name__ == "__main__":
    PAGE.write_text(page())
