"""From the name of a source to a federation: load the records, then deal them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import count
from noiseworthy.data.federation import FLAT, Federation, numbered
from noiseworthy.data.files import REMEDY, data_folder, locate
from noiseworthy.data.partitions import Parts
from noiseworthy.data.partitions import partition as deal_out
from noiseworthy.data.readers import FORMATS, SQL, is_table, opened
from noiseworthy.data.records import Records
from noiseworthy.data.schema.stated import has_columns
from noiseworthy.data.schema.values import keys
from noiseworthy.data.shipped import PARENTS, read_shipped
from noiseworthy.data.table_records import HeldOut, from_columns, read_table
from noiseworthy.data.tables import CLIENT_COLUMN, Columns
from noiseworthy.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema

EMBEDDED = {
    "digits": "embedded.digits",
    "breast-cancer": "embedded.breast_cancer",
    "wine": "embedded.wine",
    "iris": "embedded.iris",
    "diabetes": "embedded.diabetes",
    "diabetes-progression": "embedded.diabetes_progression",
}
"""Sources that are shipped, and what reads them."""
FILES = {
    "mnist": "idx.mnist",
    "fashion-mnist": "idx.fashion_mnist",
    "mnist-writers": "idx.mnist_writers",
    "cifar10": "images.cifar10",
    "cifar10-jpeg": "images.cifar10_jpeg",
    "pneumoniamnist": "images.pneumoniamnist",
    "shakespeare": "text.shakespeare",
    "lending-club": "lending.lending_club",
    "lending-club-2018": "lending.lending_club_2018",
    "adult": "published.adult",
    "vehicle": "published.vehicle",
    "heart-disease": "published.heart_disease",
    "school": "published.school",
}
"""Sources in files, and what reads them from their folder; it is loaded when it is asked for."""
_FORM = f"leaf:FOLDER, ixi:FOLDER, {FLAT}FOLDER, hub:NAME, {SQL}URL, or a path ending in {', '.join(FORMATS)}"
FRAME = "the table"
"""Name of data that come as a frame."""


def load_records(
    source: str | Any,
    *,
    data_dir: str | Path | None = None,
    query: str | None = None,
    label_column: str = "label",
    client_column: str = CLIENT_COLUMN,
    feature_columns: Sequence[str] | None = None,
    regression: bool = False,
    classes: Sequence[str | int] | None = None,
    columns: Schema | Mapping[str, Any] | str | None = None,
    held_out: HeldOut = "rows",
) -> Records:
    """The records of a source, before anybody owns them.

    Args:
        source: `digits`, `breast-cancer`, `wine`, `iris`, `diabetes`, `diabetes-progression` and the
            tables of docs/public_data.md, such as `phishing` (shipped);
            `mnist`, `fashion-mnist`, `mnist-writers`, `cifar10`, `cifar10-jpeg`, `pneumoniamnist`,
            `shakespeare`, `lending-club`, `lending-club-2018`, `adult`, `vehicle`, `heart-disease`, `school`
            (files in `data_dir`); `leaf:FOLDER`; `ixi:FOLDER`; `hub:NAME`; `sql:` and a connection string;
            or the path of a table. A relative path is looked up from the working directory, then in
            `data_dir`. Or the table itself: a pandas or polars frame, another one that gives its columns to
            Arrow, or a dictionary of arrays.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        query: of a database; it ends with `order by`.
        label_column: of a table or hub data set.
        client_column: of a table or hub data set; the column `client` may be absent: no owners.
        feature_columns: of a table or hub data set; None takes all others.
        regression: whether the label of a table or hub data set is a number to predict, not a class.
        classes: of a table, hub data set or LEAF folder, all labels; None takes those that occur, sorted.
        columns: of a table or hub data set, what all of them are, as a schema, as `[columns]` of a study or
            as the path of a file with them; then the five before are left out.
        held_out: of a table or hub data set without test records, how they are chosen (`from_columns`).

    Raises:
        InvalidInput: an unknown source, or columns for a source that has none.
        DataError: missing or damaged files, or values that cannot be trained on.

    Example:
        >>> load_records("wine").record_shape
        (13,)
    """
    features = None if feature_columns is None else tuple(feature_columns)
    stated = None if classes is None else tuple(classes)
    plain = Columns(label_column, client_column, features, regression, stated)
    source = str(source) if isinstance(source, Path) else source
    if not isinstance(source, str):
        from noiseworthy.data.frames import of_frame

        table = source if isinstance(source, Mapping) else of_frame(source)
        return from_columns(table, _schema(columns, FRAME, plain) or plain, FRAME, held_out=held_out)
    kind, _, rest = source.partition(":")
    schema = _schema(columns, source, plain)
    if is_table(source):
        return read_table(opened(source, data_dir, query), schema or plain, held_out=held_out)
    if kind == "hub" and rest:
        return _reader("hub.read_hub")(rest, schema or plain, held_out=held_out)
    if kind == "leaf" and rest and plain == Columns(classes=stated):
        return _reader("leaf.read_leaf")(locate(rest, data_dir), stated)
    if plain != Columns():
        raise InvalidInput(
            f"{source} has fixed columns; leave out label, client and feature columns, classes and regression"
        )
    return _without_columns(source, data_dir)


def federate(
    records: Records, *, clients: int | None = None, partition: str | None = None, seed: int,
    alpha: float | None = None, labels_per_client: int | None = None, records_per_client: int | None = None,
    fraction: float = 1.0,
) -> Federation:  # fmt: skip
    """Records dealt out to clients.

    Args:
        records: what to deal out.
        clients: number of clients N; None takes one per owner.
        partition: a key of `PARTITIONS`; None takes `natural` where the records name owners, else `iid`.
        seed: of the partition and of the order of records within a client.
        alpha: of `dirichlet` and `quantity-skew`.
        labels_per_client: of `label-shards`.
        records_per_client: keep at most so many records of each client.
        fraction: keep this part of each client's records, at least one.

    Returns:
        The federation; clients carry the names of the owners under `natural`, e.g. `7` or `7..12`.

    Raises:
        InvalidInput: settings that do not fit the partition or each other.
        DataError: records that the partition cannot deal out.

    Example:
        >>> fed = federate(load_records("digits"), clients=10, partition="label-shards", seed=0)
        >>> fed.x.shape, len(np.unique(fed.y[0]))
        ((10, 143, 8, 8), 2)
    """
    rule = partition or ("iid" if records.client_ids is None else "natural")
    given = {"alpha": alpha, "labels_per_client": labels_per_client}
    settings = {name: value for name, value in given.items() if value is not None}
    if rule == "natural":
        settings["client_ids"] = _owners(records)
    wanted = _client_count(records, clients, rule)
    parts = deal_out(rule, records.y, wanted, seed, **settings)
    test_owners = _test_owners(records, wanted, rule)
    federation = _stacked(records, parts, _names(records, wanted, rule), test_owners)
    return _part(federation, records_per_client, fraction)


def load_federation(
    source: str | Any, *, clients: int | None = None, partition: str | None = None, seed: int,
    alpha: float | None = None, labels_per_client: int | None = None, records_per_client: int | None = None,
    fraction: float = 1.0, data_dir: str | Path | None = None, query: str | None = None,
    label_column: str = "label", client_column: str = CLIENT_COLUMN,
    feature_columns: Sequence[str] | None = None, regression: bool = False,
    classes: Sequence[str | int] | None = None, columns: Schema | Mapping[str, Any] | str | None = None,
    held_out: HeldOut = "rows",
) -> Federation:  # fmt: skip
    """The records of a source dealt out to clients.

    The arguments are those of `load_records` and `federate`, and so are the errors. Of `flat:FOLDER`, which
    `Federation.from_function` or `from_parquet` filled, clients are what they are and records stay in files:
    `records_per_client` and `fraction` alone may be given.

    Example:
        >>> fed = load_federation("iris", clients=5, partition="dirichlet", alpha=0.5, seed=1)
        >>> fed.n_clients, int(fed.sizes.sum())
        (5, 120)
    """
    if isinstance(source, str) and source.startswith(FLAT):
        dealt = {"clients": clients, "partition": partition, "alpha": alpha, "columns": columns,
                 "labels_per_client": labels_per_client, "query": query, "classes": classes,
                 "feature_columns": feature_columns, "regression": regression or None}  # fmt: skip
        if given := [name for name, value in dealt.items() if value is not None]:
            raise InvalidInput(f"{source} says what each of its clients holds; leave out {', '.join(given)}")
        whole = Federation.opened(locate(source.removeprefix(FLAT), data_dir))
        return _part(whole, records_per_client, fraction)
    records = load_records(
        source, data_dir=data_dir, query=query, label_column=label_column, client_column=client_column,
        feature_columns=feature_columns, regression=regression, classes=classes, columns=columns,
        held_out=held_out,
    )  # fmt: skip
    return federate(
        records, clients=clients, partition=partition, seed=seed, alpha=alpha,
        labels_per_client=labels_per_client, records_per_client=records_per_client, fraction=fraction,
    )  # fmt: skip


def _part(federation: Federation, records_per_client: int | None, fraction: float) -> Federation:
    if records_per_client is not None:
        federation = federation.take_records(count("records_per_client", records_per_client))
    return federation if fraction == 1 else federation.take(fraction)


def _reader(place: str) -> Any:
    """A function of a module of this package, both by name."""
    module, _, name = place.partition(".")
    return getattr(import_module(f"noiseworthy.data.{module}"), name)


def _schema(columns: Schema | Mapping[str, Any] | str | None, source: str, plain: Columns) -> Schema | None:
    """What is stated of all columns; refused for what is no table, or beside the older way to say it."""
    if columns is None:
        return None
    if plain != Columns() or not (has_columns(source) or source == FRAME):
        raise InvalidInput(
            f"columns say all that is to be said of a table ({', '.join(FORMATS)}) or of hub:NAME, got "
            f"{source}; leave out label, client and feature columns, classes and regression, or columns"
        )
    from noiseworthy.data.schema import read_schema

    return read_schema(columns)


def _without_columns(source: str, data_dir: str | Path | None) -> Records:
    if source in EMBEDDED:
        return _reader(EMBEDDED[source])()
    if source in PARENTS:
        return read_shipped(source)
    if source in FILES:
        return _reader(FILES[source])(required_folder(source, data_dir))
    kind, _, place = source.partition(":")
    if kind == "ixi" and place:
        return _reader("ixi.read_ixi")(locate(place, data_dir))
    known = ", ".join([*EMBEDDED, *PARENTS, *FILES])
    raise InvalidInput(f"source must be one of {known}, {_FORM}; got {source!r}")


def required_folder(source: str, data_dir: str | Path | None = None) -> Path:
    """The folder of data files, for a source that cannot do without.

    Raises:
        DataError: no folder is named, or it does not exist.
    """
    folder = data_folder(data_dir)
    if folder is None:
        raise DataError(f"{source} is read from files; {REMEDY}")
    return folder


def _owners(records: Records) -> NDArray:
    if records.client_ids is None:
        raise DataError(f'{records.name} names no owners; set client_column, or partition = "iid"')
    return records.client_ids


def _client_count(records: Records, clients: int | None, rule: str) -> int:
    if clients is not None:
        return clients
    if rule != "natural":
        raise InvalidInput(f"clients must be given for the partition {rule!r}")
    return len(np.unique(_owners(records)))


def _names(records: Records, clients: int, rule: str) -> list[str]:
    if rule != "natural":
        return [*numbered(clients)]
    owners = np.unique(_owners(records))
    told = keys(owners) if owners.dtype.kind == "f" else owners  # 1.0 is 1, also where a table says both
    groups = np.array_split(told, clients)
    return [str(group[0]) if len(group) == 1 else f"{group[0]}..{group[-1]}" for group in groups]


def _test_owners(records: Records, clients: int, rule: str) -> NDArray[np.int64] | None:
    """Place of the client that each test record is of, -1 for owners that are none; None of dealt records."""
    if rule != "natural" or records.test_client_ids is None:
        return None
    owners = np.unique(_owners(records))
    runs = np.repeat(np.arange(clients), [len(run) for run in np.array_split(owners, clients)])
    found = np.searchsorted(owners, records.test_client_ids).clip(max=len(owners) - 1)
    return np.where(owners[found] == records.test_client_ids, runs[found], -1)


def _stacked(
    records: Records, parts: Parts, names: list[str], test_owners: NDArray[np.int64] | None
) -> Federation:
    federation = Federation.from_clients(
        [(records.x[part], records.y[part]) for part in parts],
        test=(records.test_x, records.test_y),
        classes=records.classes,
        name=records.name,
        client_names=names,
        persons=records.persons,
    )
    return replace(
        federation,
        test_origin=records.test_origin,
        classes_found=records.classes_found,
        schema=records.schema,
        test_owners=test_owners,
    )
