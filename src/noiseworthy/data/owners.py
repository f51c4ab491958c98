"""Records that lie at their owners: what owners tell of them, and a federation that holds none of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from noiseworthy._places import write_whole
from noiseworthy.data.federation import Federation
from noiseworthy.data.files import existing
from noiseworthy.data.tables import Columns, read_parts
from noiseworthy.data.terms import OwnerTerms
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema

Labels: TypeAlias = Sequence[str | int]
"""Classes in their order, as files list them; they are compared as text."""
_FILE = TypeAdapter(list[OwnerTerms])
_COMMON = ("record_shape", "classes", "labels", "mechanism", "unit")
"""What must be the same for all owners of a training."""


def write_owners(path: Path, owners: Sequence[OwnerTerms]) -> None:
    """Write what owners told as JSON, sorted by client; what changes from day to day is left out.

    Args:
        path: of the file.
        owners: at least one.
    """
    told = [one.model_dump(mode="json", include=set(OwnerTerms.model_fields)) for one in owners]
    told.sort(key=lambda one: one["client"])
    write_whole(path, json.dumps(told, indent=1, allow_nan=False) + "\n")


def read_owners(path: Path) -> list[OwnerTerms]:
    """What owners told, as `write_owners` wrote it.

    Raises:
        DataError: no such file, one without owners, unknown or missing keys, two owners of one name, or
            owners that do not agree on what all must have in common.
    """
    try:
        owners = _FILE.validate_json(existing(path).read_bytes())
    except ValidationError as error:
        raise DataError(f"{path} is no file of owners: {_first(error, path)}; {_REMEDY}") from None
    if not owners:
        raise DataError(f"{path} names no owners; {_REMEDY}")
    _check_names([one.client for one in owners], path)
    if misfit := owners_misfit(owners):
        raise DataError(f"{path}: {misfit}")
    return owners


_REMEDY = "write it with noiseworthy deploy ask"


def check_scores(owners: Sequence[OwnerTerms], path: Path) -> None:
    """Refuse, by DataError, to have owners score a model of whom none holds records out."""
    if all(one.held_out is None for one in owners):
        raise DataError(
            f'[federation] test = "owners" has owners tell how good the model is, and nobody in {path} holds '
            'records out; have them add "score" to [allowed] algorithms and ask again, or leave test out'
        )


def federation_of_owners(path: Path, test: Path | None, columns: Columns | Schema) -> Federation:
    """A federation whose records lie at their owners: names, sizes and shapes are known, and no record is.

    Args:
        path: of a file of owners.
        test: of a table with test records, which are the server's own; None where it has none.
        columns: of records; a schema must be that of every owner.

    Returns:
        Clients sorted by name. Whatever reads `x` or `y` raises a `DataError`; their shapes and types are
        known.

    Raises:
        DataError: a file that cannot be read, or test records that are not of the owners' kind.
    """
    owners = read_owners(path)
    shape, classes = owners[0].record_shape, owners[0].classes
    schema, labels = (None, columns.classes) if isinstance(columns, Columns) else (columns, None)
    for one in owners:
        misfit = columns_misfit(one.client, one.columns, schema and schema.digest)
        if misfit := misfit or labels_misfit(one.client, one.labels, labels):
            raise DataError(f"{path}: {misfit}")
    if isinstance(columns, Columns):
        _check_stated(test or path, columns, classes)
    test_x, test_y = _tests_of(test, columns, shape, classes)
    sizes = np.array([one.records for one in owners], np.int64)
    padded, name = (len(sizes), int(sizes.max())), path.stem
    persons = schema and schema.persons
    row, labels = (shape, ()) if persons is None else ((persons, shape[0] + 1), (persons,))
    x: Any = Elsewhere(name, (*padded, *row), np.dtype(np.float32))
    y: Any = Elsewhere(name, (*padded, *labels), np.dtype(test_y.dtype))
    names = tuple(one.client for one in owners)
    schema = schema and schema.of_persons(False)
    known = Federation(x, y, sizes, test_x, test_y, classes, name, names, schema=schema, persons=persons)
    return known if test else replace(known, test_origin=None)


def columns_misfit(who: str, told: str | None, wanted: str | None) -> str:
    """Why an owner's columns are not a study's, in a sentence; empty where they are.

    Args:
        who: name of the owner.
        told: digest of its schema; None where it states none.
        wanted: digest of the study's.

    Example:
        >>> columns_misfit("north", "9f2a" * 16, "9f2a" * 16)
        ''
        >>> columns_misfit("north", None, "9f2a" * 16)
        "north's file has no [columns], the study's have the digest 9f2a9f2a9f2a; state the same in both"
    """
    if told == wanted:
        return ""
    has = "has no [columns]" if told is None else f"has [columns] with the digest {told[:12]}"
    wants = "the study has none" if wanted is None else f"the study's have the digest {wanted[:12]}"
    return f"{who}'s file {has}, {wants}; state the same in both"


def labels_misfit(who: str, told: Labels | None, wanted: Labels | None) -> str:
    """Why an owner's classes are not a study's, in a sentence; empty where they are, or one is not listed.

    Args:
        who: name of the owner.
        told: its classes in their order.
        wanted: the study's.

    Example:
        >>> labels_misfit("south", ["yes", "no"], ["no", "yes"])
        "south's file has classes yes, no in this order, the study no, yes; state the same in both"
        >>> labels_misfit("south", ["0", "1"], [0, 1]), labels_misfit("south", None, ["no", "yes"])
        ('', '')
    """
    has, wants = (", ".join(map(str, labels or ())) for labels in (told, wanted))
    if told is None or wanted is None or has == wants:
        return ""
    return f"{who}'s file has classes {has} in this order, the study {wants}; state the same in both"


@dataclass(frozen=True)
class Elsewhere:
    """An array that lies at the owners: its shape and type are known, and to read it is refused.

    Attributes:
        name: of the federation.
        shape: as if all of it were here.
        dtype: type of its numbers.

    Example:
        >>> x = Elsewhere("wards", (2, 90, 3), np.dtype(np.float32))
        >>> x.shape
        (2, 90, 3)
        >>> np.asarray(x)
        Traceback (most recent call last):
        noiseworthy.errors.DataError: the records of wards lie at their owners; train with noiseworthy ...
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DataError(_refusal(self.name))

    def __getitem__(self, _: Any) -> NoReturn:
        raise DataError(_refusal(self.name))

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise DataError(_refusal(self.name))


def _refusal(name: str) -> str:
    return f"the records of {name} lie at their owners; train with noiseworthy deploy run"


def _tests_of(
    test: Path | None, columns: Columns | Schema, shape: tuple[int, ...], classes: int | None
) -> tuple[NDArray, NDArray]:
    if test is None:
        x, y, stated = _no_tests(columns, shape, classes)
    else:
        ((x, y, stated),) = read_parts(test, columns, ["test"])
    if stated != classes or x.shape[1:] != shape:
        raise DataError(
            f"{test or 'the study'} has records of shape {x.shape[1:]} and {stated} classes, the owners' "
            f"have {shape} and {classes}; choose feature_columns and classes as the owners did"
        )
    return x, y


def _no_tests(
    columns: Columns | Schema, shape: tuple[int, ...], classes: int | None
) -> tuple[NDArray, NDArray, int | None]:
    """No records of the kind that columns say, and their classes; what they do not say is the owners'."""
    if isinstance(columns, Columns):
        classes = None if columns.classes is None else len(columns.classes)
        shape = shape if columns.features is None else (len(columns.features),)
    label = np.float32 if classes is None else np.int32
    return np.zeros((0, *shape), np.float32), np.zeros(0, label), classes


def _check_stated(test: Path, columns: Columns, classes: int | None) -> None:
    if columns.regression != (classes is None):
        raise DataError(
            f"{test}: the owners' labels are {'numbers' if classes is None else 'classes'}; "
            f"{'state' if classes is None else 'leave out'} [federation] regression"
        )
    if classes is not None and columns.classes is None:
        raise DataError(f"{test}: state [federation] classes, the {classes} labels in the owners' order")


def _first(error: ValidationError, path: Path) -> str:
    """The first thing that is wrong, with its owner's name where it has one."""
    first = error.errors(include_url=False, include_input=False)[0]
    place, *keys = first["loc"] or ("",)
    named = f"{_client(path, place)}: " if isinstance(place, int) else ""
    field = f"{'.'.join(map(str, keys))}: " if keys else ""
    return f"{named}{field}{first['msg'].removesuffix('.')}"


def _client(path: Path, place: int) -> str:
    entry = json.loads(path.read_bytes())[place]
    name = entry.get("client") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else f"owner {place + 1}"


def _check_names(names: Sequence[str], path: Path) -> None:
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise DataError(f"{path} has two owners called {twice[0]}; one of them must take another name")


def owners_misfit(owners: Sequence[OwnerTerms]) -> str:
    """On what owners do not agree that all must have in common, in a sentence; empty where they do."""
    for key in _COMMON:
        # owners of before do not tell their labels, and regressions have none
        told = [one for one in owners if key != "labels" or one.labels is not None]
        for one in told[1:]:
            if (its := getattr(one, key)) != (wanted := getattr(told[0], key)):
                both = f"{one.client} has {key} {its}, {told[0].client} has {wanted}"
                return f"{both}; owners of one training must agree on it"
    return ""
