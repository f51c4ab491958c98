"""`[federation]`: whose records, in a study or an owner's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from noiseworthy._tables import Named, Positive, Size, Table
from noiseworthy.data.readers import SQL
from noiseworthy.data.tables import Columns


class FederationTable(Table):
    """`[federation]`: either public sizes alone, or data and how clients share them.

    Of `data = "owners:FILE"` the records lie at their owners, and `test` is a table of test records, if any.
    """

    sizes: list[Size] | None = None
    """Records of every client, public; for planning without any data, with `[task] dimension`."""
    data: str | None = None
    """A name, the path of a table, `sql:URL`, `hub:NAME`, `owners:FILE`, `leaf:`, `ixi:` or `flat:FOLDER`."""
    query: str | None = None
    """Of a database, `data = "sql:URL"`: one select that ends with `order by`."""
    test: str | None = None
    """Table of test records, of `owners:` alone; or "owners", who tell with noise of those they hold out."""
    data_dir: Annotated[Path, Field(strict=False)] | None = None
    """Folder of data files; by default what `NOISEWORTHY_DATA` names."""
    clients: Size | None = None
    """How many clients records are dealt out to; left out, the data say whose they are."""
    partition: Literal["iid", "dirichlet", "sorted", "label-shards", "quantity-skew", "natural"] | None = None
    """How records are dealt out; `natural` leaves them with their owners."""
    alpha: Positive | None = None
    """Concentration of `dirichlet` and `quantity-skew`: the smaller, the less alike clients are."""
    labels_per_client: Size | None = None
    """Labels that a client has, of `label-shards`."""
    records_per_client: Size | None = None
    """Keeps at most so many records of each client."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Keeps this part of each client's records, at least one."""
    client_column: Named = "client"
    """Column of a table that names the owner of each record."""
    person_column: Named | None = None
    """Column of persons, all of whose records are one unit: role `person` and `unit = "person"` in one."""
    feature_columns: list[Named] | None = None
    """Columns of a table to learn from; left out, all others."""
    label_column: Named = "label"
    """Column of a table that is predicted."""
    regression: bool = False
    """Whether the label is a number to predict, and not a class."""
    classes: Annotated[list[str | int], Field(min_length=2)] | None = None
    """All labels there are, in their order; left out, they are read off the records (in simulation only)."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of dealing records out and of budgets that are drawn; public."""
    simulation: bool = False
    """Whether `[columns]` are as the records themselves have them: then nothing is deployed."""

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Later keys are left out where they say nothing, so that older plans and runs stay known."""
        return {key: value for key, value in write(self).items() if value or key not in _LATER}

    @model_validator(mode="after")
    def _one_source(self) -> FederationTable:
        if (self.sizes is None) == (self.data is None):
            raise ValueError("[federation] needs either sizes or data, and not both")
        return self

    @model_validator(mode="after")
    def _query_of_database(self) -> FederationTable:
        of_database = self.data is not None and self.data.startswith(SQL)
        if of_database != (self.query is not None):
            raise ValueError(f'[federation] query goes with data = "{SQL}URL", a database, and with no other')
        if of_database:
            from noiseworthy.data.sql import misfit  # here, because few tables are of databases

            if said := misfit(str(self.data).removeprefix(SQL), str(self.query)):
                raise ValueError(f"[federation] {said}")
        return self

    @model_validator(mode="after")
    def _distinct_classes(self) -> FederationTable:
        known = self.classes or []
        if (known and self.regression) or len({str(one) for one in known}) < len(known):
            raise ValueError("[federation] classes must be different labels of a table without regression")
        return self

    @model_validator(mode="after")
    def _records_at_owners(self) -> FederationTable:
        if self.test is not None and not self.of_owners:
            raise ValueError(
                '[federation] test, a table of test records, goes with data = "owners:FILE" and with no other'
            )
        if self.of_owners and (dealt := [key for key in _DEALING if getattr(self, key) not in (None, 1.0)]):
            raise ValueError(f"[federation] {', '.join(dealt)} would deal records out of owners; leave out")
        return self

    @property
    def columns(self) -> Columns:
        """What the columns of a table mean."""
        features = None if self.feature_columns is None else tuple(self.feature_columns)
        classes = None if self.classes is None else tuple(self.classes)
        return Columns(self.label_column, self.client_column, features, self.regression, classes)

    @property
    def of_owners(self) -> bool:
        """Whether the records lie at their owners."""
        return self.data is not None and self.data.startswith(OWNERS)


OWNERS = "owners:"
"""How a source begins that is a file of what owners tell."""
_LATER = ("query", "simulation", "person_column")
_DEALING = ("clients", "partition", "alpha", "labels_per_client", "records_per_client", "fraction")
