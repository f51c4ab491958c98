"""A federation: every client's records, stacked or end to end, and counted, beside a common test set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._validate import count, counts
from noiseworthy.data.labels import Features, Labels, scaled_images
from noiseworthy.data.ragged import Ragged, held
from noiseworthy.data.records import TestOrigin
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema

FLAT = "flat:"
"""How a source begins that is a folder of `Federation.from_function` or `from_parquet`."""


@dataclass(frozen=True)
class Federation:
    """Private records of N clients and a test set that nobody's privacy depends on.

    Attributes:
        x: features, float32 (int32 where they are tokens), shape (N, n_max, *record_shape); rows past a
            client's size are zero. Where clients differ so much that padding would be most of it, and of
            records in files, they lie end to end (`data.ragged.Ragged`): x[i] is then (n_i, *record_shape).
        y: labels, int32 (classes), float32 (regression), shape (N, n_max, *label_shape); 0 past the size.
        sizes: records per client n_i, int64, shape (N,). Public under replace-one neighbours.
        test_x, test_y, classes, name: as those of `data.records.Records`.
        clients: names of the clients, in order.
        test_origin: where the test set comes from; None where there is none.
        classes_found: labels that were read off the records because nobody stated them; empty where stated.
        schema: what the numbers of a record are; None where they are no named columns.
        test_owners: place of the client that each test record is of, int64, shape (m,), -1 for nobody's; None
            where the data do not say.
        persons: records k that a person has at most where rows are persons: x is then (N, n_max, k, d + 1)
            and y (N, n_max, k) as `data.persons` packs them, sizes count persons, and test records stand
            alone; None where rows are records.
        filed: digest of records in files, made as they were written; empty where none was, None in memory.

    Example:
        >>> fed = Federation.from_clients(
        ...     [([[0.0]], [0]), ([[1.0], [2.0]], [1, 0])], test=([[3.0]], [1]), classes=2, name="toy"
        ... )
        >>> fed.sizes, fed.x.shape
        (array([1, 2]), (2, 2, 1))
    """

    x: Features
    y: Labels
    sizes: NDArray[np.int64]
    test_x: Features
    test_y: Labels
    classes: int | None
    name: str
    clients: tuple[str, ...]
    test_origin: TestOrigin | None = "apart"
    classes_found: tuple[str, ...] = ()
    schema: Schema | None = None
    test_owners: NDArray[np.int64] | None = None
    persons: int | None = None
    filed: str | None = None

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[tuple[ArrayLike, ArrayLike]],
        *,
        test: tuple[ArrayLike, ArrayLike],
        classes: int | None,
        name: str,
        client_names: Sequence[str] | None = None,
        persons: int | None = None,
    ) -> Federation:
        """Stack one (features, labels) pair per client.

        Args:
            clients: for each client, features (n_i, *record_shape) and labels (n_i, *label_shape). Arrays
                of type int32 are tokens and stay whole; all others become float32, bytes of images over 255.
            test: features (m, *record_shape) and labels (m, *label_shape) of the common test set.
            classes: number of classes, or None for regression.
            name: what the data are, for reports.
            client_names: names in order; None gives `client 0` and so on.
            persons: records that a person has at most, where the rows of clients are persons.

        Raises:
            DataError: no clients, two of one name or one without records, lengths, shapes or types that
                differ, NaN or infinite values, labels outside 0..classes-1 or of a shape that does not fit.
            InvalidInput: classes that are no whole number.
        """
        if not clients:
            raise DataError("a federation needs at least one client, got none")
        names = numbered(len(clients)) if client_names is None else tuple(map(str, client_names))
        # ledgers know clients by their names: of two that share one they would take the second for damage
        if not len(names) == len({*names}) == len(clients):
            raise DataError(f"client_names must hold {len(clients)} different names, got {[*names]!s:.60}")
        axes = 1 if persons is None else 2
        pairs = [checked_pair(x, y, classes, who, axes) for (x, y), who in zip(clients, names, strict=True)]
        test_x, test_y = checked_pair(*test, classes, "the test set")
        check_alike([*pairs, (test_x, test_y)] if persons is None else pairs)
        sizes = np.array([len(x) for x, _ in pairs], dtype=np.int64)
        x, y = held(*zip(*pairs, strict=True))
        return cls(x, y, sizes, test_x, test_y, classes, name, names, persons=persons)

    @classmethod
    def from_function(
        cls,
        records: Callable[[int], tuple[ArrayLike, ArrayLike]],
        clients: int,
        *,
        folder: str | Path,
        test: tuple[ArrayLike, ArrayLike],
        classes: int | None,
        name: str,
        client_names: Sequence[str] | None = None,
    ) -> Federation:
        """Records that a function tells client by client, kept in a folder and never all in memory.

        Args:
            records: features and labels of client i, as for `from_clients`; called once for each, in order.
            clients: number of clients N.
            folder: for the files of `opened`, which are as private as the records; new or empty.
            test: as for `from_clients`.
            classes: number of classes, or None for regression.
            name: what the data are, for reports.
            client_names: as for `from_clients`.

        Raises:
            DataError: what `from_clients` refuses, or a folder that holds something or cannot be written.
            InvalidInput: a number of clients that is none.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> rest = {"test": (np.ones((1, 2)), [0]), "classes": 2, "name": "toy"}
            >>> records = lambda i: (np.full((i + 1, 2), i), np.zeros(i + 1))
            >>> with TemporaryDirectory() as folder:
            ...     fed = Federation.from_function(records, 3, folder=folder, **rest)
            ...     fed.sizes, fed.x[2, 0]
            (array([1, 2, 3]), array([2., 2.], dtype=float32))
        """
        from noiseworthy.data.flat_files import write  # here, because few federations lie in files

        number = count("clients", clients)
        write(Path(folder), map(records, range(number)), number, test, classes, name, client_names)
        return cls.opened(folder)

    @classmethod
    def from_parquet(
        cls,
        source: str | Path,
        *,
        folder: str | Path,
        test: str | Path | tuple[ArrayLike, ArrayLike],
        classes: Sequence[str | int] | None = None,
        regression: bool = False,
        label_column: str = "label",
        client_column: str = "client",
        feature_columns: Sequence[str] | None = None,
    ) -> Federation:
        """Records in Parquet files, kept in a folder as they are trained on, and never all in memory.

        Args:
            source: a folder of Parquet files, or one file. Where they have the column of clients, it says
                whose each record is, in any order; else each file is a client, named like it.
            folder: for the files of `opened`, which are as private as the records; new or empty.
            test: a Parquet file of the same columns, which may lie in that folder and does not train, or
                features and labels.
            classes: all labels, in their order.
            regression: whether labels are numbers; then there are no classes.
            label_column: what is predicted.
            client_column: who owns a record.
            feature_columns: what is learned from; None takes all others.

        Raises:
            DataError: no files, damaged ones, columns that do not fit, values that cannot be trained on, or a
                folder that holds something or cannot be written.
            InvalidInput: neither classes nor regression, or both.
        """
        from noiseworthy.data.flat_files import Columns, write_parquet

        features = None if feature_columns is None else tuple(feature_columns)
        stated = None if classes is None else tuple(classes)
        columns = Columns(label_column, client_column, features, regression, stated)
        write_parquet(Path(folder), Path(source), test, columns)
        return cls.opened(folder)

    @classmethod
    def opened(cls, folder: str | Path) -> Federation:
        """What `from_function` or `from_parquet` kept in a folder; records stay there until they are read.

        Raises:
            DataError: a folder without such files, or damaged ones.
        """
        from noiseworthy.data.flat_files import read

        return read(Path(folder))

    @property
    def named(self) -> bool:
        """Whether clients have names of their own, and not the numbers of their places alone."""
        return self.clients != numbered(self.n_clients)

    @property
    def n_clients(self) -> int:
        """Number of clients N."""
        return len(self.sizes)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of one record, its weight included where it has one."""
        return self.x.shape[2:] if self.persons is None else (self.x.shape[3] - 1,)

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of what is learned from in a record."""
        return self.record_shape if self.most_weight is None else (self.record_shape[0] - 1,)

    @property
    def most_weight(self) -> float | None:
        """Public bound on weights, of which each is the last number of its record; None without weights."""
        return None if self.schema is None else self.schema.most_weight

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of one label: () for a class or a number, (L,) for tokens, (D, H, W) for a mask."""
        return self.y.shape[2:] if self.persons is None else ()

    @property
    def content(self) -> str:
        """SHA-256 over all records and tests, as private as they are; empty where `filed` is.

        Of records in files, which may be more than fit into memory, it reads what was noted of them alone.
        """
        if self.filed == "":
            return ""
        digest = hashlib.sha256((self.filed or "").encode())
        there = (self.x, self.y) if self.filed is None else ()
        for array in (*there, self.sizes, self.test_x, self.test_y):
            whole = array.rows if isinstance(array, Ragged) else array
            digest.update(f"{whole.dtype} {whole.shape} ".encode())
            digest.update(np.ascontiguousarray(whole).data)
        return digest.hexdigest()

    def take(self, fraction: float) -> Federation:
        """The same federation with the first `fraction` of every client's records (at least one).

        Raises:
            DataError: a fraction outside (0, 1].
        """
        if not 0 < fraction <= 1:
            raise DataError(f"fraction must lie in (0, 1], got {fraction:g}")
        # 0.29 of 100 records are 29, and 28.999... as floating point multiplies
        return self.take_records(np.maximum(1, np.floor(self.sizes * fraction + 1e-9)))

    def take_records(self, sizes: ArrayLike) -> Federation:
        """The same federation with at most the first `sizes[i]` records of client i.

        Args:
            sizes: whole numbers of at least 1, shape (N,), or one for everybody.

        Raises:
            InvalidInput: sizes that are no such numbers.
        """
        limits = counts("records per client", sizes)
        kept = np.minimum(limits, self.sizes)
        if isinstance(self.x, Ragged) and isinstance(self.y, Ragged):
            return replace(self, x=self.x.first(kept), y=self.y.first(kept), sizes=kept)
        past = np.arange(int(kept.max())) >= kept[:, None]
        x, y = self.x[:, : past.shape[1]].copy(), self.y[:, : past.shape[1]].copy()
        x[past] = 0
        y[past] = 0
        return replace(self, x=x, y=y, sizes=kept)


def numbered(clients: int) -> tuple[str, ...]:
    """What clients without names of their own are called.

    Example:
        >>> numbered(2)
        ('client 0', 'client 1')
    """
    return tuple(f"client {i}" for i in range(clients))


def checked_pair(x: ArrayLike, y: ArrayLike, classes: int | None, who: str, axes: int = 1) -> tuple[Any, Any]:
    """Features and labels of a client; labels of numbers have so many `axes`."""
    features = _features(x, who)
    labels = finite(y, f"{who} has labels") if classes is None else _classes(y, classes, who)
    if len(features) == 0:
        raise DataError(f"{who} has no records; leave it out of the federation")
    most = axes if classes is None else features.ndim
    if labels.ndim > most or labels.shape != features.shape[: labels.ndim]:
        raise DataError(
            f"{who} has {len(features)} records but labels of shape {labels.shape}; give one label per record"
            f"{'' if classes is None else f', or one per position of the record {features.shape[1:]}'}"
        )
    return features, labels


def check_alike(pairs: Sequence[tuple[NDArray, NDArray]]) -> None:
    """Refuse features and labels of different shapes or types.

    Raises:
        DataError: they differ.
    """
    for what, arrays in zip(("records", "labels"), zip(*pairs, strict=True), strict=True):
        if len(shapes := {array.shape[1:] for array in arrays}) > 1:
            raise DataError(f"all {what} must have one shape, got {sorted(shapes)}; pad or select columns")
    if len({str(x.dtype) for x, _ in pairs}) > 1:
        raise DataError("features must be int32 tokens for everybody or for nobody; convert the others")


def _features(values: ArrayLike, who: str) -> Features:
    # a DataFrame has no dtype of its own: arrays of numpy and of jax alone hold tokens
    if f"{getattr(values, 'dtype', '')}" == "int32":
        return np.asarray(values)
    numbers = finite(values, f"{who} has features")
    given = np.asarray(values)
    return scaled_images(given) if given.dtype.kind in "iu" and given.ndim > 2 else numbers


def finite(values: ArrayLike, what: str) -> NDArray[np.float32]:
    """Values as finite numbers.

    Raises:
        DataError: others, in a sentence that begins with `what`.
    """
    try:
        with np.errstate(over="ignore"):  # beyond float32 is as bad as infinite
            if np.asarray(values).dtype.kind in "cmM":
                raise TypeError
            array = np.atleast_1d(np.asarray(values, np.float32))
    except (TypeError, ValueError):
        raise DataError(f"{what} that are not numbers of one shape; encode text, pad lists first") from None
    if np.ma.is_masked(values) or not np.all(np.isfinite(array)):
        raise DataError(f"{what} that are NaN or infinite, or masked; impute or drop those records first")
    return array


def _classes(values: ArrayLike, classes: int, who: str) -> NDArray[np.int32]:
    labels = finite(values, f"{who} has labels")
    classes = count("classes", classes, remedy="give their number")
    if np.any(bad := (labels < 0) | (labels >= classes) | (labels != np.floor(labels))):
        raise DataError(
            f"{who} has a label {labels[bad][0]:g}; labels must be whole numbers in 0..{classes - 1}"
        )
    return labels.astype(np.int32)
