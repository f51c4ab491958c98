"""Numbers that may differ between clients: one for all, one for each by name, or a column of a csv.

A table whose values are all numbers is one of names, so that clients may be called `csv` or `uniform`, too;
the other forms have text or lists as values. A list goes by position, which only clients without names have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from noiseworthy._tables import Delta, Number, PerClient
from noiseworthy._wording import count, shortened
from noiseworthy.data.frames import read_text_table
from noiseworthy.data.schema.reading import some
from noiseworthy.data.schema.values import keys, numbers
from noiseworthy.errors import ConfigError, DataError

ByName = Annotated[dict[str, Number], Field(min_length=1)]
Stated = PerClient | ByName
"""One number for all clients, one for each by position, or one for each by name."""
StatedDelta = Delta | list[Delta] | Annotated[dict[str, Delta], Field(min_length=1)]

CLIENT_COLUMN = "client"
_FORMS = ("a number", "a list", '{ csv = "...", column = "..." }', "{ NAME = number, ... }")


def is_named(source: Any) -> bool:
    """Whether a value is a table with a number for every name.

    Example:
        >>> is_named({"north": 0.1, "csv": 2}), is_named({"uniform": [0.1, 3.0]})
        (True, False)
    """
    numbers = isinstance(source, dict) and all(type(value) in (int, float) for value in source.values())
    return numbers and bool(source)


def forms(where: str, got: Any, laws: Sequence[str] = ()) -> str:
    """The complaint about numbers that are stated in none of the ways there are.

    Args:
        where: table and key.
        got: what was stated.
        laws: other ways that the key knows.
    """
    *most, last = *_FORMS, *laws
    return f"{where} must be {', '.join(most)} or {last}, got {got!r:.200}"


def from_csv(source: dict[str, Any], folder: Path, where: str) -> list[float] | dict[str, float]:
    """A column of a csv: by name where the file has a column of clients, else by position.

    Args:
        source: `csv`, `column` and perhaps `client_column`, "client" where that is left out.
        folder: that a relative path starts from.
        where: table and key, for complaints.

    Raises:
        ConfigError: a missing file or column, values that are no numbers, a client that is named twice.
    """
    if not {"csv", "column"} <= source.keys() <= {"csv", "column", "client_column"}:
        raise ConfigError(forms(where, source))
    path, column = folder / str(source["csv"]), source["column"]
    if not path.exists():
        raise ConfigError(f"{where}: {path} does not exist; paths start from the study's file")
    try:
        table = read_text_table(path, dtype=str, keep_default_na=False)
        cells = table[column].to_numpy()
    except (KeyError, ValueError, DataError) as error:
        raise ConfigError(f"{where}: no numeric column {column!r} in {path}: {error}") from None
    columns, named = [*table.columns], source.get("client_column", CLIENT_COLUMN)
    if len(bad := np.flatnonzero(np.isnan(found := numbers(cells)))):
        whose = f" of {table[named].iloc[bad[0]]!s:.60}" if named in columns else ""
        raise ConfigError(
            f"{where}: column {column!r} of {path} has {count(len(bad), 'cell')} without a number, the first "
            f"{cells[bad[0]]!r:.60} in record {bad[0] + 1}{whose}; write a number for every client"
        )
    values = found.tolist()
    if named not in columns and "client_column" not in source:
        return values
    if named not in columns:
        raise ConfigError(f"{where}: no column {named!r} of clients in {path}; it has {some(columns)}")
    table[named] = keys(table[named].to_numpy())  # as the records' own column of clients is read
    if twice := sorted({*table.loc[table[named].duplicated(), named]}):
        raise ConfigError(f"{where}: {path} names {some(twice)} twice; leave one row for every client")
    return dict(zip(table[named], values, strict=True))


def in_order(where: str, stated: Stated, clients: Sequence[str], *, named: bool) -> PerClient:
    """Numbers in the order of the clients.

    Args:
        where: table and key, for complaints.
        stated: as the study states them.
        clients: names, in order.
        named: whether they are names of their own, and not places alone.

    Raises:
        ConfigError: a client without a number, a number of nobody, or a list for clients with names.

    Example:
        >>> in_order("[privacy] epsilon", {"south": 1.0, "north": 0.1}, ["north", "south"], named=True)
        [0.1, 1.0]
    """
    if isinstance(stated, list) and named:
        raise ConfigError(
            f"{where} goes by position, but the clients have names ({some(clients)}), and nothing says "
            f"whose number is whose; write {{ {clients[0]!r} = ..., ... }}, or name every client of a csv in "
            f"its column {CLIENT_COLUMN!r}, or in another by client_column"
        )
    if not isinstance(stated, dict):
        return stated
    known = {normalize("NFC", name): name for name in clients}
    told = {known.get(normalize("NFC", name), name): number for name, number in stated.items()}
    stated = told if len(told) == len(stated) else stated
    for what, names in (
        ("has no number for", [name for name in clients if name not in stated]),
        ("names unknown clients", sorted(stated.keys() - set(clients))),
    ):
        if names:
            raise ConfigError(f"{where} {what} {some(names)}; the clients are {some(clients)}")
    return [stated[name] for name in clients]


def with_names(said: str, clients: Sequence[str]) -> str:
    """What is said of clients by their places, by their names where they have some.

    Example:
        >>> with_names("got 50 for client 1", ["north", "south"]), with_names("got 50 for client 1", [])
        ("got 50 for client 'south'", 'got 50 for client 1')
        >>> with_names("Clients 0, 1 are asked 2 times.", ["north", "south"])
        "Clients 'north', 'south' are asked 2 times."
    """
    shown = {str(place): repr(name) for place, name in enumerate(clients)}
    whole = r"\bclient \d+\b|^Clients? \d+(, \d+)* (?=is |are )"
    return re.sub(whole, lambda at: re.sub(r"\d+", lambda one: shown.get(one[0], one[0]), at[0]), said)


def by_name(numbers: PerClient, clients: Sequence[str]) -> Stated:
    """Numbers in the order of clients as a study states them: by name, unless clients have none of their own.

    Example:
        >>> by_name([0.1, 1.0], ["north", "south"]), by_name([0.1, 1.0], []), by_name(2.0, ["north"])
        ({'north': 0.1, 'south': 1.0}, [0.1, 1.0], 2.0)
    """
    return dict(zip(clients, numbers, strict=True)) if clients and isinstance(numbers, list) else numbers


def large_deltas(unit: str, deltas: ArrayLike, sizes: ArrayLike, names: Sequence[str]) -> list[str]:
    """Whose delta is so large that a record given away as it is would keep the promise, in words.

    Args:
        unit: whose change is hidden.
        deltas: one for all clients, or one for each.
        sizes: records or persons of each.
        names: of the clients.
    """
    large = np.multiply(deltas, sizes) >= 1
    if unit == "client" or not np.any(large):
        return []
    whose = shortened(", ".join(name for name, one in zip(names, large, strict=True) if one), 80)
    return [
        f"Delta is not below 1 over the number of {unit}s of {whose}: to give away one {unit} as it is, "
        "drawn at random, would keep such a promise. Take one far below it."
    ]
