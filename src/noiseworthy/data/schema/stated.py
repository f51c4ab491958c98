"""From `[columns]`, in a study or in a file of its own, to a schema; all that is wrong in one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from noiseworthy._names import nearest, shown
from noiseworthy._tables import Table, read_toml
from noiseworthy.data.readers import FORMATS, SQL, is_table, no_table
from noiseworthy.data.schema.fields import BoughtRange
from noiseworthy.data.schema.roles import Person
from noiseworthy.data.schema.schema import COLUMNS, KINDS, ROLES, Schema, misfits, named
from noiseworthy.data.table import FederationTable
from noiseworthy.errors import ConfigError

_WHERE = "[columns]"
_HUB = "hub:"
"""How a source begins that is a data set of the hub."""
QUESTION = "?"
"""What stands for an answer in a study that `noiseworthy init` wrote."""


def has_columns(source: str) -> bool:
    """Whether a source has named columns that `[columns]` may speak of: a table, or data of the hub."""
    return is_table(source) or source.startswith(_HUB)


def read_schema(stated: Any, folder: Path = Path()) -> Schema:
    """The schema that a file states: its table `[columns]`, or the path of a file that has one.

    Args:
        stated: tables by the names of columns, or a path.
        folder: from which a relative path is looked up.

    Raises:
        ConfigError: everything that is wrong, a line each.

    Example:
        >>> read_schema({"age": {"kind": "numbr", "range": [0, 1]}, "ill": {"role": "label"}})
        Traceback (most recent call last):
        ...
        noiseworthy.errors.ConfigError: [columns] age: kind must be one of number, category, yes-no, ...
    """
    if isinstance(stated, str):
        stated = _in_file(folder / stated)
    if isinstance(stated, Schema):
        return stated
    if not isinstance(stated, Mapping):
        raise ConfigError(f"{_WHERE} must be a table of columns, or the path of a file that has one")
    try:
        return Schema.model_validate(stated)
    except ValidationError as error:
        raise ConfigError(*(f"{_WHERE} {one}" for one in _said(error, stated))) from None


def _in_file(path: Path) -> Any:
    tables = read_toml(path, "file of columns")
    if set(tables) != {"columns"} or isinstance(tables["columns"], str):
        raise ConfigError(f"{path} must hold one table, {_WHERE}, and nothing else; got {', '.join(tables)}")
    return tables["columns"]


def _said(error: ValidationError, stated: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong, a sentence each, in the order of the columns."""
    tables = stated.get("columns")
    listed = tables if isinstance(tables, list | tuple) else [named(*one) for one in stated.items()]
    complaints = error.errors(include_url=False)
    said: dict[str, list[str]] = {}
    for one in complaints:
        if len(one["loc"]) > 1:
            who, what = _of_column(one, listed)
            said.setdefault(who, []).append(what)
    whole = [_message(one) for one in complaints if len(one["loc"]) <= 1]
    roles = [(str(one.get("name")), _role(one)) for one in listed if isinstance(one, Mapping)]
    each = [f"{shown(who)} {' or '.join(dict.fromkeys(what))}" for who, what in said.items()]
    return [*each, *(whole or misfits(roles))]


def _of_column(one: Any, listed: Sequence[Any]) -> tuple[str, str]:
    """Whose a complaint is, a column's or one of its keys', and what it says of that."""
    _, place, *below = one["loc"]
    column = listed[place] if isinstance(place, int) and isinstance(listed[place], Mapping) else {}
    who = f"{column.get('name', place)}:"
    if one["type"].startswith("union_tag"):
        return who, _unknown_kind(column)
    if one["type"] == "value_error" or len(below) < 2:
        return who, _message(one)
    key, model = str(below[1]), COLUMNS[str(below[0])]
    if key == "range" and len(below) > 3 and below[2] == "bought":
        who, key, model = f"{who} range", str(below[3]), BoughtRange
    wrong = f"{who} {key}"
    if one["type"] == "extra_forbidden":
        allowed = [key for key in model.model_fields if key != "name"]
        return wrong, f"is no key here{nearest(key, allowed)}; allowed: {', '.join(allowed)}"
    if one["input"] == QUESTION:
        return wrong, "is a question that is still open; answer it from what is public"
    no_pair = one["type"] in ("missing", "too_long", "tuple_type") and not isinstance(one["input"], Mapping)
    if no_pair and key in ("range", "buy", "quantiles"):
        return wrong, f"must be two ends, [least, most], got {one['input']!r}"
    if one["type"] == "missing":
        return wrong, "is missing"
    return wrong, f"must be {_message(one).removeprefix('Input should be ')}, got {one['input']!r}"


def _unknown_kind(column: Mapping[str, Any]) -> str:
    if (role := column.get("role", "feature")) not in ROLES:
        return f"role must be one of {', '.join(ROLES)}, got {role!r}{nearest(str(role), ROLES)}"
    kind = column.get("kind")
    if kind is None or isinstance(kind, str):
        given = "" if kind is None else f", got {kind!r}{nearest(kind, KINDS)}"
        return f"kind must be one of {', '.join(KINDS)}{given}"
    return 'must be a table such as { kind = "number", range = [0, 100] }'


def _message(one: Any) -> str:
    return one["msg"].removeprefix("Value error, ")


def _role(stated: Mapping[str, Any]) -> str:
    return "none" if stated.get("kind") == "left-out" else str(stated.get("role", "feature"))


def check_beside(table: FederationTable) -> None:
    """Refuse what does not go with `[columns]`, which say all that is to be said of columns.

    Args:
        table: `[federation]` beside them.

    Raises:
        ValueError: data that are no table, or keys that `[columns]` replaces.
    """
    if not (table.of_owners or has_columns(data := str(table.data))):
        if Path(data).suffix and ":" not in data:
            raise ValueError(f"[federation] data = {no_table(data)}")
        raise ValueError(
            f"{_WHERE} goes with a table ({', '.join(FORMATS)}, {SQL}URL), hub:NAME or owners:FILE, got data "
            f"= {table.data!r}; leave {_WHERE} out"
        )
    if older := [key for key in REPLACED if key in table.model_fields_set]:
        raise ValueError(
            f"[federation] {', '.join(older)} beside {_WHERE}, which say it; leave out, and "
            f"{', and '.join(REPLACED[key] for key in older)}"
        )


def by_person_column(raw: Any, budget: str) -> Any:
    """A study or an owner's file in which `[federation] person_column` is spelled out, for all who read it.

    Args:
        raw: its tables; `columns` as a schema or as it is stated, read already where it lies in a file.
        budget: the table that says the unit, `unit = "person"` unless it says another.

    Raises:
        ValueError: no `[columns]`, or columns that say something else.
    """
    tables = {**raw} if isinstance(raw, Mapping) else {}
    federation, stated = _plain(tables.get("federation")), tables.get("columns")
    if not isinstance(name := federation.get("person_column"), str):
        return raw
    where = f"[federation] person_column = {name!r}"
    if stated is None:
        raise ValueError(f"{where} needs {_WHERE}, which say what columns are; noiseworthy init drafts them")
    schema = read_schema(stated)
    there = next((one for one in schema.columns if one.name == name), None)
    other = there if there is not None else schema.person
    if other is not None and not (isinstance(other, Person) and other.name == name):
        role = getattr(other, "role", None)
        said = 'kind = "left-out"' if role is None else f'role = "{role}"'
        raise ValueError(f"{where}, but {_WHERE} {other.name} has {said}; leave one of them out")
    if there is None:
        schema = Schema(columns=(*schema.columns, Person(name=name, role="person")))
    tables |= {"federation": {key: federation[key] for key in federation if key != "person_column"}}
    return tables | {"columns": schema, budget: {"unit": "person"} | _plain(tables.get(budget))}


def _plain(table: Any) -> dict[str, Any]:
    """A table's keys that are stated, whether it was checked before or not."""
    if isinstance(table, Table):
        return table.model_dump(exclude_unset=True)
    return {**table} if isinstance(table, Mapping) else {}


def check_persons(schema: Schema | None, at_most: int | None) -> None:
    """Refuse columns by which persons cannot be rows, `unit = "person"`.

    Args:
        schema: of the table.
        at_most: records that one person has at most, as it is stated anywhere.

    Raises:
        ValueError: no column of persons, no bound on their records, or columns that count records.
    """
    if schema is None or schema.person is None or at_most is None:
        raise ValueError(
            f'unit = "person" needs {_WHERE} with a column of persons and a public bound on the records of '
            'one, such as patient = { role = "person", at_most = 3 }'
        )
    if schema.weight is not None:
        raise ValueError(
            f'unit = "person" counts every person once, and {_WHERE} {schema.weight.name} weighs records; '
            'make that column "left-out"'
        )
    if bought := [*schema.to_buy]:
        raise ValueError(
            f'unit = "person" is hidden by no range that is bought record by record, {_WHERE} {bought[0]}; '
            "state range = [least, most]"
        )


REPLACED = {
    "client_column": 'give that column role = "client"',
    "feature_columns": 'give all others kind = "left-out"',
    "label_column": 'give that column role = "label"',
    "regression": "give the label its range",
    "classes": "give the label its classes",
}
"""Keys of `[federation]` that `[columns]` replaces, and by what."""
