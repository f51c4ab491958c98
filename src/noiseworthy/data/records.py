"""Records: one table of private examples and a test set, before anybody owns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.labels import Features, Labels, as_text
from noiseworthy.data.tables import Columns, Table
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema

HOLDOUT_FRACTION = 0.2
HOLDOUT_SEED = 0
"""The split of data that bring no test set; fixed, so that every run is scored on the same records."""

TestOrigin = Literal["apart", "marked", "rows", "records", "persons"]
"""Where test records come from: a set apart, rows that the data mark, or held out of everybody's own by their
places (`rows`), each by itself (`records`), or all of a person at once (`persons`)."""
_ORIGINS: dict[TestOrigin, str] = {
    "apart": "a set of their own, which no client holds",
    "marked": "rows that the data mark as test records",
    "rows": "held out of the private records: a fifth, drawn in public by their places in the data",
    "records": "held out of the private records: about a fifth, each by a public hash of itself alone",
    "persons": "of persons who were held out: a fifth, drawn in public; nobody trains and tests",
}


def words_of_tests(many: str, origin: TestOrigin) -> str:
    """Where so many test records come from, in words, and what scores on them cost."""
    return f"The {many}: {_ORIGINS[origin]}. Scores on them are exact, and no epsilon covers them."


@dataclass(frozen=True, eq=False)
class Records:
    """What a loader gives: private records, a test set, and the owners where the data name them.

    Attributes:
        x: features of the n private records, float32, shape (n, *record_shape); images keep their axes, and
            tokens are int32.
        y: labels, int32 in 0..classes-1, or float32 targets, shape (n, *label_shape). Most labels are
            scalars; a sequence has one per token (L,), a segmented volume one per voxel (D, H, W).
        test_x: test features, shape (m, *record_shape).
        test_y: test labels, shape (m, *label_shape).
        classes: number of classes, or None for regression.
        name: what the data are, for reports.
        client_ids: owner of each private record, shape (n,), or None where the data name no owners.
        test_origin: where the test records come from.
        classes_found: labels that were read off the records because nobody stated them, in order; else empty.
        schema: what the numbers of a record are; None where they are no named columns.
        test_client_ids: owner of each test record, shape (m,), or None where nobody says whose they are.
        persons: records k that a person has at most where rows are persons, of shapes (k, d + 1) and (k,) as
            `data.persons` packs them; None where rows are records. Test records stand alone.
    """

    x: Features
    y: Labels
    test_x: Features
    test_y: Labels
    classes: int | None
    name: str
    client_ids: NDArray | None = None
    test_origin: TestOrigin = "apart"
    classes_found: tuple[str, ...] = ()
    schema: Schema | None = None
    test_client_ids: NDArray | None = None
    persons: int | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return self.x.shape[1:]

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of one label: () for a class or a number."""
        return self.y.shape[1:]


def split_records(
    x: Features,
    y: Labels,
    is_test: NDArray[np.bool_],
    *,
    classes: int | None,
    name: str,
    client_ids: NDArray | None = None,
    test_origin: TestOrigin = "rows",
) -> Records:
    """Records from one table and a mask of its test rows.

    Raises:
        DataError: no row is left on one of the two sides.

    Example:
        >>> table = np.arange(4, dtype=np.float32)[:, None]
        >>> mask = np.array([False, False, False, True])
        >>> records = split_records(table, np.array([0, 1, 0, 1], np.int32), mask, classes=2, name="toy")
        >>> len(records), records.test_x.tolist()
        (3, [[3.0]])
    """
    if is_test.all() or not is_test.any():
        raise DataError(
            f"{name} has {np.sum(~is_test)} training and {np.sum(is_test)} test records and needs both; "
            "bring more records or mark rows 'train' and 'test' in a column named split"
        )
    owners, of_tests = (None, None) if client_ids is None else (client_ids[~is_test], client_ids[is_test])
    parts = x[~is_test], y[~is_test], x[is_test], y[is_test]
    return Records(*parts, classes, name, owners, test_origin, test_client_ids=of_tests)


def holdout(groups: NDArray) -> NDArray[np.bool_]:
    """Mask of a fixed random fifth of every group: by label it is stratified, by owner it is per client.

    Args:
        groups: group of each record, shape (n,). A group of one or two gives nothing away.

    Returns:
        True for the test records, shape (n,); the same for the same groups on every call.

    Example:
        >>> holdout(np.repeat([7, 8], 10)).reshape(2, 10).sum(axis=1)
        array([2, 2])
    """
    rng = np.random.default_rng(HOLDOUT_SEED)
    is_test = np.zeros(len(groups), bool)
    # how far the generator moves depends on sizes of groups alone, and so does which places it takes: under
    # replace-one neighbours these are public, and another record in a place moves no other
    for members in members_of(groups):
        is_test[rng.permutation(members)[: round(HOLDOUT_FRACTION * len(members))]] = True
    return is_test


def persons_of(table: Table, columns: Columns | Schema) -> NDArray | None:
    """The person of each record of a table; None where no column names persons."""
    if isinstance(columns, Columns) or columns.person is None:
        return None
    from noiseworthy.data.persons import names_of

    return np.array(names_of(table, columns))


def held_apart(
    is_test: NDArray[np.bool_] | None, whose: NDArray | None, name: str, n: int
) -> NDArray[np.bool_]:
    """Which of n records of an owner's table it holds out: the marked ones, or a fifth by their places.

    Args:
        is_test, whose: those that a column marks, and `persons_of` the table, shape (n,); None without one.
        name, n: of the data, and its records.

    Raises:
        DataError: persons in both parts, or of whom no column says who is in which.

    Guarantee: an exchange of one record, or of all of a person, in its part changes nothing of the other.
    """
    if whose is None:
        return holdout(np.zeros(n)) if is_test is None else is_test
    if is_test is None:  # by rank of their names, or by places, one person could move others
        raise DataError(
            f"{name} names persons, and no column marks whom to hold out; add one of role split, 'test' for "
            "all records of about a fifth of them, chosen without regard to anything else"
        )
    check_apart(whose, is_test, name)
    return is_test


def check_apart(whose: NDArray, is_test: NDArray[np.bool_], name: str) -> None:
    """Refuse, by DataError, persons of whom some records test and others do not; as `held_apart` has them."""
    if both := {*whose[is_test].tolist()} & {*whose[~is_test].tolist()}:
        who = "1 person has" if len(both) == 1 else f"{len(both)} persons have"
        raise DataError(f"{name}: {who} records marked 'train' and others marked 'test'; mark all alike")


def holdout_of_each(x: Features, labels: NDArray) -> NDArray[np.bool_]:
    """Mask of about a fifth of the records, each chosen by a public hash of itself and of nothing else.

    A record that is added or left out moves no other. The number that is held out depends on the records, so
    that this is no split where sizes are to be public whatever the records are.

    Args:
        x: features, shape (n, *record_shape).
        labels: one of each record, numbers or text, shape (n, ...).

    Returns:
        True for the test records, shape (n,).

    Example:
        >>> x = np.arange(1000, dtype=np.float32)[:, None]
        >>> mask = holdout_of_each(x, np.zeros(1000))
        >>> int(mask.sum()), bool(np.all(holdout_of_each(x[5:], np.zeros(995)) == mask[5:]))
        (198, True)
    """
    # 0 is added because -0 and 0 are one number with two hashes
    rows = zip(np.ascontiguousarray(x + x.dtype.type(0)), labels, strict=True)
    return by_hash(row.tobytes() + str(label).encode() for row, label in rows)


def by_hash(whole: Iterable[bytes]) -> NDArray[np.bool_]:
    """Mask of about a fifth of what is given, each chosen by a public hash of itself."""
    return hashes(whole) < np.uint64(HOLDOUT_FRACTION * 2.0**64)


def hashes(whole: Iterable[bytes]) -> NDArray[np.uint64]:
    """A public number of each of what is given, even in 0 to 2^64."""
    key = HOLDOUT_SEED.to_bytes(8, "little")
    drawn = [int.from_bytes(blake2b(one, key=key, digest_size=8).digest(), "big") for one in whole]
    return np.array(drawn, np.uint64)


def members_of(groups: NDArray) -> list[NDArray[np.int64]]:
    """Positions of each distinct value, one array per value in sorted order.

    Example:
        >>> members_of(np.array([5, 3, 5]))
        [array([1]), array([0, 2])]
    """
    _, first = np.unique(groups, return_inverse=True)
    starts = np.cumsum(np.bincount(first))[:-1]
    return np.split(np.argsort(first, kind="stable"), starts)


def classes_among(labels: NDArray) -> tuple[str, ...]:
    """The distinct labels as text, in the order that `labels.class_numbers` numbers them.

    Example:
        >>> classes_among(np.array([10, 9, 10]))
        ('9', '10')
    """
    return tuple(as_text(np.unique(labels.astype(str) if labels.dtype == object else labels)).tolist())
