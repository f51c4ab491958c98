"""What is wrong with a file of tables: a sentence for each mistake, with key, value and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_SHORTER = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "Input is not a valid path for <class 'pathlib.Path'>": "a path",
}
_HAVING = re.compile(r"(List|Dictionary|String) should have (.+?)(?: after validation, not .+)?")
"""What pydantic says of values with too few parts, or too many."""
Model = type[BaseModel]
Location = tuple[int | str, ...]
_SELDOM_MEANT = "dict_type"
"""What a key that takes a number, a list or a table says of a table."""


def told(
    error: ValidationError, model: Model, file: str, own: Mapping[str, Model] | None = None
) -> list[str]:
    """Every mistake in a file, in the order of its tables.

    Args:
        error: what pydantic found.
        model: of the file.
        file: what it is called, for what is missing in it.
        own: models of tables that the file chooses, by name; `error` is of their one where there is one.

    Example:
        >>> from noiseworthy._tables import Positive, Table
        >>> class Terms(Table):
        ...     noise: Positive
        >>> try:
        ...     Terms.model_validate({"noize": 1.0, "clip": 2.0})
        ... except ValidationError as error:
        ...     print(*told(error, Terms, "the terms"), sep="\\n")
        noize is not a key of this file; allowed: noise (did you mean noise?)
        clip is not a key of this file; allowed: noise
    """
    file_of = _File(model, file, own or {})
    places: dict[str, list[Any]] = {}
    for one in error.errors(include_url=False):
        complaint = {**one, "loc": (*(own or ()), *one["loc"])}
        places.setdefault(file_of.where(complaint["loc"]), []).append(complaint)
    unknown = [found[0]["loc"] for found in places.values() if found[0]["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], near) for loc in unknown for near in _near(loc[-1], file_of.keys(loc[:-1]))}
    return [
        file_of.sentence(where, found)
        for where, found in places.items()
        if found[0]["type"] != "missing" or found[0]["loc"] not in meant
    ]


def reads(error: Exception, text: str) -> str:
    """The line of a text that is no TOML, and what it may lack.

    Example:
        >>> reads(ValueError("Invalid value (at line 2, column 5)"), "a = 1\\nb = x")
        ', which reads: b = x; text stands in quotes'
    """
    found, lines = re.search(r"line (\d+)", str(error)), text.splitlines()
    line = lines[int(found[1]) - 1].strip() if found and int(found[1]) <= len(lines) else ""
    remedy = "; text stands in quotes" if "Invalid value" in str(error) else ""
    return f", which reads: {line}{remedy}" if line else ""


class _File:
    """A file of tables, or of keys alone."""

    def __init__(self, model: Model, name: str, own: Mapping[str, Model]):
        self.model, self.name, self.own = model, name, own
        self.tables = {key: table for key in model.model_fields if (table := self.table((key,)))}

    def table(self, location: Location) -> Model | None:
        """The table at a location, also one that may be left out."""
        model: Model | None = self.model
        for depth, part in enumerate(map(str, location)):
            if depth == 0 and part in self.own:
                model = self.own[part]
                continue
            field = None if model is None else model.model_fields.get(part)
            types = () if field is None else (field.annotation, *get_args(field.annotation))
            model = next((one for one in types if isinstance(one, type) and issubclass(one, BaseModel)), None)
        return model

    def keys(self, location: Location) -> list[str]:
        """Keys of the table at a location."""
        model = self.table(location)
        return [] if model is None else [*model.model_fields]

    def where(self, location: Location) -> str:
        """Table and key; a key alone in a file without tables; empty for how tables fit each other."""
        if not location:
            return ""
        head, *keys = map(str, location)
        names = [key for key in keys if key.isidentifier() or key.isdigit()][:1]
        return " ".join([f"[{head}]" if self.tables else head, *names])

    def sentence(self, where: str, found: list[Any]) -> str:
        """What is wrong at a place."""
        alike = [one for one in found if one["type"] != _SELDOM_MEANT] or found
        first = max(alike, key=lambda one: len(one["loc"]))  # of a number or a list, the one that was meant
        if first["type"] == "extra_forbidden":
            return self._unknown(where, first["loc"])
        if first["type"] == "missing":
            return f"{where} is missing; add it to {self.name}"
        if first["type"] == "value_error":
            says = first["msg"].removeprefix("Value error, ")
            return says if says.startswith("[") else f"{where} {says}".lstrip()
        if first["type"] in ("model_type", "is_instance_of"):
            return f"{where} must be a table, got {first['input']!r:.200}"
        allowed = " or ".join(dict.fromkeys(_allowed(one["msg"]) for one in alike))
        near = _near(first["input"], re.findall(r"'([^']*)'", allowed))
        return f"{where} must be {allowed}, got {first['input']!r:.200}{_suggested([*map(repr, near)])}"

    def _unknown(self, where: str, location: Location) -> str:
        """A key that there is not, with those that there are, and where it may belong."""
        key, allowed = str(location[-1]), self.keys(location[:-1])
        homes = [f"[{name}]" for name in self.tables if key in self.keys((name,))]
        says = f" ({key} is a key of {' and of '.join(homes)})" if homes else _suggested(_near(key, allowed))
        of = "table" if location[1:] else "file"
        return f"{where} is not a key of this {of}; allowed: {', '.join(allowed)}{says}"


def _allowed(message: str) -> str:
    """What pydantic says of a value, in fewer words."""
    for long, short in _SHORTER.items():
        message = message.replace(long, short)
    if found := _HAVING.fullmatch(message):
        return f"a {found[1].lower()} of {found[2]}"
    return message.removeprefix("Input should be ")


def _suggested(near: list[str]) -> str:
    return "".join(f" (did you mean {name}?)" for name in near)


def _near(name: Any, allowed: Collection[str]) -> list[str]:
    """The allowed name that is written most like another one, if any is."""
    return get_close_matches(name, allowed, 1) if isinstance(name, str) else []
