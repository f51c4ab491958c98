"""What editors know of a study file: its keys as a JSON schema, made from the tables that check it."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

from noiseworthy._tables import Table
from noiseworthy.methods.registry import METHODS, table
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.studies.loading import PER_CLIENT
from noiseworthy.studies.tables import Study

Json = dict[str, Any]


class CsvColumn(Table):
    """A number of every client in a column of a csv."""

    csv: str
    """Path, from the study's file."""
    column: str
    """Column of the numbers."""
    client_column: str = "client"
    """Column of the clients' names; without one, numbers go by position."""


def study_schema() -> Json:
    """The JSON schema of a study file, for editors that complete and check TOML.

    Example:
        >>> study_schema()["properties"]["privacy"]
        {'$ref': '#/$defs/PrivacyTable'}
    """
    whole = _schema(Study)
    tables: Json = whole["$defs"]
    tables["CsvColumn"] = _schema(CsvColumn)
    for name, keys in PER_CLIENT.items():
        for key in keys:
            stated = tables[f"{name.capitalize()}Table"]["properties"][key]
            _options(stated).append({"$ref": "#/$defs/CsvColumn"})
    _options(tables["TaskTable"]["properties"]["bias"]).append({"type": "boolean"})
    own = list(dict.fromkeys(map(table, METHODS)))
    for model in own:
        tables[model.__name__] = _schema(model)
        tables[model.__name__]["properties"]["name"]["description"] = _NAMED
    tables[AlgorithmTable.__name__] = {"oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in own]}
    _by_name(tables, whole["properties"]["columns"])
    for stated in whole["properties"].values():
        stated.pop("default", None)  # a whole table, with what TOML cannot say
    said = {"$schema": "http://json-schema.org/draft-07/schema#", **whole, "title": "A study of noiseworthy"}
    return _without_null(said)


def _schema(model: type[Table]) -> Json:
    """The schema of a table and all in it, with what is said below each key."""
    whole = model.model_json_schema()
    tables = {**whole.get("$defs", {}), model.__name__: whole}
    for known in _all(Table):
        for key, stated in tables.get(known.__name__, {}).get("properties", {}).items():
            if (says := _said(known).get(key)) and "description" not in stated:
                stated["description"] = says
    return whole


def _all(model: type[Table]) -> list[type[Table]]:
    return [model, *(one for below in model.__subclasses__() for one in _all(below))]


@cache
def _said(model: type[Table]) -> dict[str, str]:
    """What is said below each key, its own words before those of its bases: read here, not at every start."""
    said: dict[str, str] = {}
    for base in model.__mro__[: model.__mro__.index(Table)]:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for field, words in pairwise(parsed.body if isinstance(parsed, ast.ClassDef) else []):
            match field, words:
                case ast.AnnAssign(target=ast.Name(key)), ast.Expr(ast.Constant(str(text))):
                    said.setdefault(key, inspect.cleandoc(text))
    return said


def _by_name(tables: Json, stated: Json) -> None:
    """`[columns]` as one writes them: tables by the names of columns, or the path of a file that has them."""
    kinds = tables["Schema"]["properties"]["columns"]["items"]["oneOf"]
    for kind in kinds:
        table_of = tables[kind["$ref"].rsplit("/", 1)[1]]
        table_of["properties"].pop("name")
        known = table_of["properties"].keys() - ({"kind"} if "classes" in table_of["properties"] else set())
        table_of["required"] = [key for key in table_of["required"] if key in known]
    says = tables["Schema"]["description"].partition("\n")[0]
    tables["Schema"] = {"type": "object", "description": says, "additionalProperties": {"oneOf": kinds}}
    _options(stated).append({"type": "string"})


_NAMED = _said(AlgorithmTable)["name"]


def _options(stated: Json) -> list[Json]:
    """The forms that a key may take, to add others."""
    return stated["oneOf"] if "oneOf" in stated else stated["anyOf"]


def _without_null(part: Any) -> Any:
    """The schema without null, which TOML does not have: such a key is left out."""
    if isinstance(part, list):
        return [_without_null(one) for one in part if one != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_null(value) for key, value in part.items() if (key, value) != ("default", None)}
    if len(kept.get("anyOf", ())) == 1:
        (only,) = kept.pop("anyOf")
        kept = only | kept
    return kept
