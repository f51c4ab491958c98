"""What editors know of a study file: its keys as a JSON schema, made from the tables that check it."""

from __future__ import annotations

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
    whole = Study.model_json_schema()
    tables: Json = whole["$defs"]
    tables["CsvColumn"] = CsvColumn.model_json_schema()
    for name, keys in PER_CLIENT.items():
        for key in keys:
            stated = tables[f"{name.capitalize()}Table"]["properties"][key]
            _options(stated).append({"$ref": "#/$defs/CsvColumn"})
    _options(tables["TaskTable"]["properties"]["bias"]).append({"type": "boolean"})
    own = list(dict.fromkeys(map(table, METHODS)))
    for model in own:
        tables[model.__name__] = model.model_json_schema()
        tables[model.__name__]["properties"]["name"]["description"] = _NAMED
    tables[AlgorithmTable.__name__] = {"oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in own]}
    _by_name(tables, whole["properties"]["columns"])
    for stated in whole["properties"].values():
        stated.pop("default", None)  # a whole table, with what TOML cannot say
    said = {"$schema": "http://json-schema.org/draft-07/schema#", **whole, "title": "A study of noiseworthy"}
    return _without_null(said)


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


_NAMED = str(AlgorithmTable.model_fields["name"].description)


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
