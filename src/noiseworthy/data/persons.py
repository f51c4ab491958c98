"""Rows that are persons: all records of one person at one owner side by side, each with its share of one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.labels import Features, Labels
from noiseworthy.data.records import HOLDOUT_FRACTION, Records, by_hash, check_apart, hashes, members_of
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.values import columns_of, names
from noiseworthy.errors import DataError


def packed(x: Features, y: Labels, whose: NDArray[np.int64], most: int) -> tuple[Features, Labels]:
    """Records as rows of persons, in the order in which persons come first.

    Args:
        x: features, shape (n, d).
        y: labels, shape (n,).
        whose: number of the person of each record, shape (n,), by first appearance.
        most: records k that a person has at most.

    Returns:
        Shapes (P, k, d + 1), the share 1/m of each of m records last and 0 where there is none, and (P, k).

    Example:
        >>> x = np.array([[1.0], [2.0], [3.0]], np.float32)
        >>> rows, labels = packed(x, np.array([0, 1, 1]), np.array([0, 1, 0]), 3)
        >>> rows[0].tolist(), labels.tolist()
        ([[1.0, 0.5], [3.0, 0.5], [0.0, 0.0]], [[0, 1, 0], [1, 0, 0]])
    """
    counts = np.bincount(whose)
    order = np.argsort(whose, kind="stable")
    place = np.empty(len(whose), np.int64)
    place[order] = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.zeros((len(counts), most, x.shape[1] + 1), np.float32)
    labels: Any = np.zeros((len(counts), most), y.dtype)
    rows[whose, place, :-1], rows[whose, place, -1] = x, (1 / counts)[whose]
    labels[whose, place] = y
    return rows, labels


def numbered(names: Sequence[object]) -> NDArray[np.int64]:
    """The number of each name by first appearance, so that another name in its place moves no other.

    Example:
        >>> numbered(["b", "a", "b"]).tolist()
        [0, 1, 0]
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], np.int64)


def names_of(table: object, schema: Schema) -> list[str]:
    """Whose each record of a table is, by the column of persons."""
    person = schema.person
    if person is None:
        raise DataError('no column says whose records are; state one, role = "person"')
    return names(columns_of(table)[person.name])


def of_persons(
    x: Features, y: Labels, names: Sequence[str], schema: Schema, name: str, *, owners: NDArray | None,
    is_test: NDArray[np.bool_] | None, one_by_one: bool,
) -> Records:  # fmt: skip
    """Records whose rows are persons, and test records of other persons.

    Where no column marks them, those test whose names have the least hashes: a fifth of every owner's
    persons, so that as many train whoever they are, and an exchange of one exchanges at most one of those who
    train, or (`one_by_one`) everybody below one bound, so that nobody moves anybody else. Nothing is compared
    between owners.

    Args:
        x: features, shape (n, d).
        y: labels, shape (n,).
        names: persons, n of them.
        schema: with a person of at most k records.
        name: of the data, for errors.
        owners: whose each record is, shape (n,); None where the table does not say.
        is_test: records that are marked to test, shape (n,); None where none is.
        one_by_one: choose persons each by itself, for neighbours with one person more or less.

    Raises:
        DataError: persons on both sides at one owner, or nobody on one of them.
    """
    at = np.zeros(len(y), np.int64) if owners is None else numbered(owners.tolist())
    whose = numbered([*zip(at.tolist(), names, strict=True)])
    marked = is_test is not None
    if is_test is None:
        encoded = [one.encode() for one in names]
        is_test = by_hash(encoded) if one_by_one else _least_hashes(encoded, whose, at)
    else:
        check_apart(whose, is_test, name)
    _check_sides(~is_test, is_test, owners, name)
    most = schema.persons or 1
    rows, labels = packed(x[~is_test], y[~is_test], numbered(whose[~is_test].tolist()), most)
    first = np.flatnonzero(~is_test)[np.unique(numbered(whose[~is_test].tolist()), return_index=True)[1]]
    return Records(
        rows, labels, x[is_test], y[is_test], schema.n_classes, name,
        None if owners is None else owners[first],
        "marked" if marked else "persons",
        schema=schema.of_persons(False),
        test_client_ids=None if owners is None else owners[is_test],
        persons=most,
    )  # fmt: skip


def held_out(names: Sequence[str]) -> NDArray[np.bool_]:
    """Which records of one owner test where nobody marks them, as in `of_persons`; shape (n,)."""
    return _least_hashes([one.encode() for one in names], numbered(names), np.zeros(len(names), np.int64))


def _least_hashes(names: Sequence[bytes], whose: NDArray[np.int64], at: NDArray) -> NDArray[np.bool_]:
    """Test records: those of the fifth of every owner's persons whose names have the least hashes."""
    _, first = np.unique(whose, return_index=True)
    drawn, tests = hashes(names[place] for place in first), np.zeros(len(first), bool)
    for members in members_of(at[first]):
        # by rank, not by place: a place depends on how many records those before have
        tests[members[np.argsort(drawn[members])][: round(HOLDOUT_FRACTION * len(members))]] = True
    return tests[whose]


def _check_sides(trains: NDArray[np.bool_], tests: NDArray, owners: NDArray | None, name: str) -> None:
    if not trains.any() or not tests.any():
        raise DataError(
            f"{name} needs persons who train and others who test; bring more persons, or mark rows 'train' "
            "and 'test' in a column of role split"
        )
    bare = [] if owners is None else sorted(set(owners.tolist()) - set(owners[trains].tolist()))
    if bare:
        raise DataError(
            f"{name}: nobody of {bare[0]!r} is left to train; bring more persons, or mark rows 'train' and "
            "'test' in a column of role split"
        )


def own_rows(
    table: Mapping[str, NDArray], schema: Schema, x: Features, y: Labels, kept: NDArray[np.bool_]
) -> tuple[Features, Labels]:
    """An owner's own records as rows of persons, those that are kept.

    Args:
        table: the owner's.
        schema: with a person of at most k records.
        x: features of all its records, shape (n, d).
        y: labels, shape (n,).
        kept: records that train, shape (n,).
    """
    names = np.array(names_of(table, schema))
    return packed(x[kept], y[kept], numbered(names[kept].tolist()), schema.persons or 1)
