"""The records of one owner, the only place where they are read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from noiseworthy.data.labels import Features, Labels
from noiseworthy.data.readers import is_table, opened
from noiseworthy.data.table import FederationTable
from noiseworthy.data.tables import read_parts
from noiseworthy.deploy.gateway.messages import Seen
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.privacy.budget import Row
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.factory import make_task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.preparation import preparing
from noiseworthy.tasks.table import TaskTable

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.encoder import Encoder
    from noiseworthy.tasks.reference import Reference


@dataclass
class Holding:
    """One client's records.

    Attributes:
        x: features, shape (n, *record_shape).
        y: labels, shape (n,).
        classes: number of classes, or None for regression; public.
        most_weight: bound on weights, of which each is the last number of its record; None without weights.
        persons: records k that a person has at most where rows are persons, x (n, k, d + 1) and y (n, k) as
            `data.persons` packs them; None where rows are records.
        held_out: records beside them that no release trains on, where models are scored; else None.
    """

    x: Features
    y: Labels
    classes: int | None
    most_weight: float | None = None
    persons: int | None = None
    held_out: Holding | None = None
    _prepared: tuple[Task, Batch] | None = field(default=None, repr=False)

    @classmethod
    def load(
        cls, table: FederationTable, client: str, columns: Schema | None = None, holds_out: bool = False
    ) -> Holding:
        """The records of a client of a federation, as a study would deal them out.

        A table with `clients = 1` is the owner's own, and all of it is taken: none is set aside for tests.
        Where there is one client, it may be called anything.

        Args:
            table: whose records.
            client: by name.
            columns: what the columns of a table are; None takes what `table` says of them.
            holds_out: a part of the owner's own table is not trained on: what its column `split` marks, or
                a fifth of its rows by their places.

        Raises:
            InvalidInput: a client that the federation does not have.
            DataError: data that cannot be read.
            ConfigError: records that hang on each other: one that changed would exchange or recode others;
                to hold records out of data that are no table of the owner's own.
        """
        if table.clients == 1 and is_table(str(table.data)):
            more = columns and columns.most_weight, columns and columns.persons
            trained, *tested = (cls(*part, *more) for part in _own(table, columns, holds_out=holds_out))
            return replace(trained, held_out=tested[0] if tested else None)
        if holds_out:
            raise ConfigError(
                "records are held out of a table of the owner's own, with [federation] clients = 1; take "
                "score out of [allowed] algorithms"
            )
        from noiseworthy.deploy.gateway.dealt import records_of  # here, because owners mostly have a table

        return cls(*records_of(table, client, columns))

    @property
    def size(self) -> int:
        """n of records or persons, public under replace-one neighbours."""
        return len(self.x)

    @property
    def row(self) -> Row:
        """What rows are."""
        return "record" if self.persons is None else "person"

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of one record, its weight included where it has one."""
        return self.x.shape[1:] if self.persons is None else (self.x.shape[2] - 1,)

    @property
    def parts(self) -> tuple[bytes | memoryview, ...]:
        """All of it as bytes, in its order, with types and shapes; where it lies, not copied."""
        arrays = [np.ascontiguousarray(self.x), np.ascontiguousarray(self.y)]
        kinds = [f"{array.dtype} {array.shape}" for array in arrays]
        return repr([*kinds, self.classes]).encode(), *(array.data for array in arrays)

    def task(self, table: TaskTable, seen: Seen | None = None, encoder: Encoder | None = None) -> Task:
        """The model of a request for rows of this shape, records or persons; reads no record.

        Args:
            table: names the model, and perhaps public data as its reference. It states its bias as a number;
                one that leaves it out has none.
            seen: numbers of that reference, which stand for it.
            encoder: of its features, where these are no formula; the owner's own copy.

        Raises:
            InvalidInput: a model that does not fit the shape or the labels; a reference without numbers,
                numbers without a reference, or such as do not fit the records or the projection.

        Guarantee: nothing is opened by a name that a server sends: it could be that of the owner's own
        records, on which the proof of privacy lets no other record depend.
        """
        bias = 0.0 if table.bias == "auto" else table.bias
        task = make_task(
            str(table.model), self.record_shape, self.classes, ridge=table.ridge, feature_norm=table.radius,
            normalise=table.normalise, bias=bias, pooling=table.pooling, projection=table.projection,
            reference=_reference(table, seen), class_weights=table.weights, most_weight=self.most_weight,
            features=encoder or table.features,
        )  # fmt: skip
        return self.of_rows(task)

    def of_rows(self, task: Task) -> Task:
        """The model of rows, records or persons, from that of a record."""
        if self.persons is None:
            return task
        from noiseworthy.tasks.persons import Persons  # here, because few owners' rows are persons

        return Persons(task, self.persons, *self.record_shape)

    def batch(self, task: Task) -> Batch:
        """All records as a task wants them, kept for the task that was asked for last."""
        if self._prepared is None or self._prepared[0] != task:
            self._prepared = task, self._batch(task, self.x, self.y, kept=True)
        return self._prepared[1]

    def rehearsal(self, task: Task) -> Batch:
        """Zeros in the shapes of all records, as a task wants them; reads no record."""
        return self._batch(task, np.zeros_like(self.x), np.zeros_like(self.y))

    def _batch(self, task: Task, x: Features, y: Labels, *, kept: bool = False) -> Batch:
        if kept and isinstance(task, LinearModel) and task.preparation.features is not None:
            from noiseworthy.tasks.kept import rows_of  # here, because few requests name features

            rows = rows_of(task, x)
        else:
            rows = preparing(task)(jax.device_put(x))
        return Batch(rows, jax.device_put(y), jax.device_put(np.ones(self.size, np.float32)))


def _reference(table: TaskTable, seen: Seen | None) -> Reference | None:
    """The reference of a request, made of the numbers that were sent."""
    if (table.reference is None) != (seen is None):
        raise InvalidInput(
            "a gateway opens no public data by name; send a reference with its numbers in seen, or neither"
        )
    if seen is None:
        return None
    from noiseworthy.tasks.reference import Reference  # here, because few requests name one

    kept, sent = table.projection or 0, len(seen.directions)
    if sent != kept:
        raise InvalidInput(f"the projection keeps {kept} directions, got {sent}; send those that it keeps")
    return Reference(seen.mean, seen.directions, seen.center, seen.spread)


def _own(
    table: FederationTable, columns: Schema | None, *, holds_out: bool
) -> list[tuple[Features, Labels, int | None]]:
    """All records of an owner's own table, or those that train and those that do not."""
    if table.records_per_client is not None or table.fraction < 1:
        raise DataError(
            "all records of an owner's own table are taken; leave out records_per_client and fraction, or "
            "drop rows of the table"
        )
    source = opened(str(table.data), table.data_dir, table.query)
    return read_parts(source, columns or table.columns, ("train", "test")[: 1 + holds_out])
