"""A schema: what the columns of a table are, stated in public and the same at every owner."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Discriminator, Field, Tag, model_validator

from noiseworthy._names import nearest, shown
from noiseworthy._tables import Table
from noiseworthy.data.schema.columns import (
    CategoryColumn,
    Column,
    DateColumn,
    Feature,
    NumberColumn,
    OrderedColumn,
    YesNoColumn,
)
from noiseworthy.data.schema.fields import BoughtRange
from noiseworthy.data.schema.reading import Reading, many
from noiseworthy.data.schema.roles import Client, Label, LeftOut, Person, Split, Weight
from noiseworthy.data.schema.values import columns_of, key
from noiseworthy.data.thousands import DECIMAL, POINTED, UNPARTED, Thousands
from noiseworthy.errors import DataError


def _tag(stated: Any) -> str | None:
    """What tells kinds of columns apart: the role of one that is no feature, else its kind."""
    if not isinstance(stated, Mapping):
        stated = getattr(stated, "__dict__", {})
    role = stated.get("role", "feature")
    return role if role != "feature" else stated.get("kind")


AnyColumn: TypeAlias = Annotated[
    Annotated[NumberColumn, Tag("number")]
    | Annotated[CategoryColumn, Tag("category")]
    | Annotated[YesNoColumn, Tag("yes-no")]
    | Annotated[OrderedColumn, Tag("ordered")]
    | Annotated[DateColumn, Tag("date")]
    | Annotated[LeftOut, Tag("left-out")]
    | Annotated[Label, Tag("label")]
    | Annotated[Client, Tag("client")]
    | Annotated[Split, Tag("split")]
    | Annotated[Person, Tag("person")]
    | Annotated[Weight, Tag("weight")],
    Discriminator(_tag),
]
COLUMNS: dict[str, type[Column]] = {
    "number": NumberColumn, "category": CategoryColumn, "yes-no": YesNoColumn, "ordered": OrderedColumn,
    "date": DateColumn, "left-out": LeftOut, "label": Label, "client": Client, "split": Split,
    "person": Person, "weight": Weight,
}  # fmt: skip
"""Columns by what tells their kinds apart."""
KINDS, ROLES = (*COLUMNS,)[:6], ("feature", *(*COLUMNS,)[6:])


class Schema(Table):
    """What the columns of a table are. All of it is stated; nothing is ever read off records.

    Attributes:
        columns: in the order in which they are encoded.

    Raises:
        ValidationError: columns that cannot be; `read_schema` says all of it in one `ConfigError`.

    Guarantee: a row's numbers depend on that row and the schema alone.

    Example:
        >>> ill, age = {"role": "label", "classes": ["no", "yes"]}, {"kind": "number", "range": [20, 80]}
        >>> sex = {"kind": "category", "values": ["female", "male"], "missing": True}
        >>> schema = Schema.model_validate({"ill": ill, "age": age, "sex": sex})
        >>> schema.feature_names
        ('age', 'sex = female', 'sex = male', 'sex is missing')
        >>> schema.encode({"age": [50, 90], "sex": ["male", None]}).tolist()
        [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
        >>> schema.encode_labels(["yes", "no"]).tolist(), schema.label.classes
        ([1, 0], ('no', 'yes'))
    """

    columns: Annotated[tuple[AnyColumn, ...], Field(strict=False)]
    coded: ClassVar[tuple[str, ...]] = ()
    """No column is to be kept from becoming numbers: cells are read one by one."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, stated: Any) -> Any:
        """Columns by name, as a study states them, become a list."""
        if not isinstance(stated, Mapping) or isinstance(stated.get("columns"), list | tuple):
            return stated
        return {"columns": [named(name, table) for name, table in stated.items()]}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if wrong := misfits([(one.name, getattr(one, "role", "none")) for one in self.columns]):
            raise ValueError("; ".join(wrong))
        if twice := sorted(name for name, times in Counter(self.feature_names).items() if times > 1):
            raise ValueError(f"two features would be called {twice[0]!r}; rename a column")
        return self

    @property
    def features(self) -> tuple[Feature, ...]:
        """Columns to learn from, in the order of encoding."""
        return tuple(one for one in self.columns if isinstance(one, Feature))

    @property
    def to_buy(self) -> dict[str, NumberColumn]:
        """Columns whose range is to be bought, by name."""
        numbers = [one for one in self.columns if isinstance(one, NumberColumn)]
        return {one.name: one for one in numbers if isinstance(one.range, BoughtRange)}

    def with_gaps_told(self) -> Schema:
        """The schema in which a number beside each column whose range is to be bought tells its gaps."""
        return self._with({name: {"indicator": True} for name in self.to_buy})

    def with_persons(self, at_most: int | None) -> Schema:
        """The schema whose persons have so many records at most at a client; the same of None."""
        if at_most is None or self.person is None:
            return self
        return self._with({self.person.name: {"at_most": at_most}})

    def of_persons(self, whole: bool = True) -> Schema:
        """The schema by which all records of a person are one row, or each record is one again."""
        columns = (one.as_rows(whole) if isinstance(one, Person) else one for one in self.columns)
        return Schema(columns=tuple(columns))

    @property
    def persons(self) -> int | None:
        """Records that a person has at most, where persons are rows; None where records are."""
        return self.person.at_most if self.person is not None and self.person.whole else None

    def with_ranges(self, ends: Mapping[str, tuple[float, float]]) -> Schema:
        """The schema with ranges by name."""
        return self._with({name: {"range": two} for name, two in ends.items()})

    def _with(self, keys: Mapping[str, dict[str, Any]]) -> Schema:
        return Schema(columns=tuple(one.model_copy(update=keys.get(one.name, {})) for one in self.columns))

    @property
    def label(self) -> Label:
        """The column to predict."""
        return next(one for one in self.columns if isinstance(one, Label))

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None where the label is a number."""
        return None if self.label.classes is None else len(self.label.classes)

    @property
    def client(self) -> str | None:
        """The column that says whose each record is; None without one."""
        return self._named(Client)

    @property
    def split(self) -> str | None:
        """The column that marks records `train` or `test`; None without one."""
        return self._named(Split)

    @property
    def person(self) -> Person | None:
        """The column that says which records are one person's; None without one."""
        return next((one for one in self.columns if isinstance(one, Person)), None)

    @property
    def weight(self) -> Weight | None:
        """The column that says how much each record counts; None without one."""
        return next((one for one in self.columns if isinstance(one, Weight)), None)

    @property
    def most_weight(self) -> float | None:
        """Public bound on the weights of records as they count; None where they have none."""
        return None if self.weight is None else self.weight.most

    @property
    def learned(self) -> tuple[Feature | Label | Weight, ...]:
        """Columns that training reads: features, label and weight."""
        return (*self.features, self.label, *([] if self.weight is None else [self.weight]))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d encoded numbers."""
        return tuple(name for one in self.features for name in one.names)

    @property
    def width(self) -> int:
        """d, the encoded numbers of a row."""
        return len(self.feature_names)

    @property
    def digest(self) -> str:
        """SHA-256 of what the numbers of a row follow from: features, label and weight, in order."""
        decides = [_plain(one) for one in self.learned]
        text = json.dumps(decides, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def tables(self) -> dict[str, dict[str, Any]]:
        """The columns by name, as a study states them."""
        plain = [_plain(one) for one in self.columns]
        return {one.pop("name"): one for one in plain}

    def encode(self, table: Any, name: str = "the table", *, trained: bool = False) -> NDArray[np.float32]:
        """Rows as numbers; columns that are no features need not be there.

        Args:
            table: columns of shape (n,) by name, or a frame.
            name: what the table is, for errors.
            trained: whether a model takes columns as they are stated, so that records alone can be mended.

        Returns:
            Shape (n, d).

        Raises:
            DataError: all that is wrong: columns that are missing, gaps that are not allowed, unknown values.
        """
        columns = columns_of(table)
        readings = self.read(columns, name)
        check_nothing_wrong(self.wrong(columns, readings, trained=trained), name)
        return self.encoded(readings)

    def encode_labels(
        self, values: ArrayLike, name: str = "the table"
    ) -> NDArray[np.int32] | NDArray[np.float32]:
        """Labels as places of classes, int32, or as numbers, float32; shape (n,).

        Args:
            values: shape (n,).
            name: what they are of, for errors.

        Raises:
            DataError: missing labels, and such as are none.
        """
        columns = columns_of({self.label.name: values})
        readings = self.read(columns, name, [self.label])
        check_nothing_wrong(self.wrong(columns, readings), name)
        return self.labels(readings)

    def encoded(self, readings: Mapping[str, Reading]) -> NDArray[np.float32]:
        """The features of a reading side by side, shape (n, d)."""
        return np.hstack([readings[one.name].numbers for one in self.features])

    def records(self, readings: Mapping[str, Reading]) -> NDArray[np.float32]:
        """What is trained on: features and, last, the weight where records have one; (n, d) or (n, d + 1)."""
        features = self.encoded(readings)
        return features if self.weight is None else np.hstack([features, readings[self.weight.name].numbers])

    def labels(self, readings: Mapping[str, Reading]) -> NDArray[np.int32] | NDArray[np.float32]:
        """Labels of a reading, shape (n,)."""
        found = readings[self.label.name].numbers[:, 0]
        return found if self.label.classes is None else found.astype(np.int32)

    def read(
        self,
        columns: Mapping[str, NDArray],
        name: str,
        which: Sequence[Feature | Label | Weight] | None = None,
    ) -> dict[str, Reading]:
        """What becomes of features, or of other columns, by name; what cannot be used is marked, not refused.

        Args:
            columns: arrays by name.
            name: what the table is, for errors.
            which: columns to read; None reads the features.

        Raises:
            DataError: columns that are missing, or are no columns of one length.
        """
        wanted = self.features if which is None else which
        said = missing(columns, [one.name for one in wanted])
        lengths = {len(columns[one.name]) for one in wanted if one.name in columns and columns[one.name].ndim}
        for one in wanted:
            if one.name in columns and columns[one.name].ndim != 1:
                shape = columns[one.name].shape
                said.append(f"column {one.name!r} must hold one value per record, got shape {shape}")
        if len(lengths) > 1:
            said.append(f"columns must have one length, got {sorted(lengths)}")
        check_nothing_wrong(said, name)
        return {one.name: one.read(columns[one.name]) for one in wanted}

    def wrong(
        self, columns: Mapping[str, NDArray], readings: Mapping[str, Reading], *, trained: bool = False
    ) -> list[str]:
        """What cannot be used of columns that were read, a sentence each; values are among what is said."""
        known = {one.name: one for one in self.learned}
        return [
            said for name, read in readings.items()
            for said in _complaints(known[name], columns[name], read, trained)
        ]  # fmt: skip

    def _named(self, kind: type[Column]) -> str | None:
        return next((one.name for one in self.columns if isinstance(one, kind)), None)


def _complaints(column: Feature | Label | Weight, values: NDArray, read: Reading, trained: bool) -> list[str]:
    """What is wrong with the values of a column, in a sentence each without a full stop."""
    said, gaps, strange = [], read.wrong & read.gap, read.wrong & ~read.gap
    if np.any(gaps):
        fixed = f"the model takes none: mend or leave out such records, from record {np.argmax(gaps) + 1} on"
        remedy = fixed if trained else column.remedy_of_gaps
        said.append(f"column {column.name!r} has {many(gaps, 'missing value')}; {remedy}")
    if np.any(thousands := with_thousands(column, values, strange)):
        first = int(np.argmax(thousands))
        said.append(
            f"column {column.name!r} has {many(thousands, 'number')} whose points may part thousands, such "
            f"as {values[first]!r} in record {first + 1}; {UNPARTED}"
        )
    if np.any(strange := strange & ~thousands):
        first = key(values[place := int(np.argmax(strange))])
        fixed = f"the model takes no others: mend or leave out such records, from record {place + 1} on"
        said.append(
            f"column {column.name!r} has {many(strange, 'value')} other than {column.expected}, such as "
            f"{shown(first)!r}{nearest(first, column.known)}; "
            f"{fixed if trained else mending(column, values[strange])}"
        )
    return said


def with_thousands(
    column: Feature | Label | Weight, values: NDArray, strange: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which values of a column of numbers are none because their points may part thousands, shape (n,)."""
    if not (np.any(strange) and column.expected.startswith("numbers")):
        return np.zeros(len(strange), bool)
    return strange & np.array([isinstance(one, Thousands) for one in values.tolist()])


def mending(column: Feature | Label | Weight, strange: NDArray) -> str:
    """What to do about values that are none of a column's."""
    numbers = column.expected.startswith("numbers")
    pointed = numbers and any(DECIMAL.fullmatch(str(one)) for one in strange.tolist())
    return POINTED if pointed else column.remedy


def named(name: str, stated: Any) -> Any:
    """A column's table with its name in it."""
    return {**stated, "name": name} if isinstance(stated, Mapping) else {"name": name, "kind": (stated,)}


def missing(columns: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """What is said of columns that a table lacks, a sentence each."""
    there = dict.fromkeys(columns)
    return [f"it has no column {one!r}{nearest(one, there)}" for one in wanted if one not in there]


def misfits(roles: Sequence[tuple[str, str]]) -> list[str]:
    """What is wrong with columns as a whole, a sentence each.

    Args:
        roles: name and role of each; a column that is left out has the role of none.
    """
    said, count = [], [role for _, role in roles].count
    names = [name for name, _ in roles]
    if not all(names) or len(set(names)) < len(names):
        said.append("columns must have different names")
    if count("label") != 1:
        said.append(f'one column must have role = "label", got {count("label")}')
    said += [f'one column at most may have role = "{one}", got {count(one)}'
             for one in ("client", "split", "person", "weight") if count(one) > 1]  # fmt: skip
    if not count("feature"):
        said.append("at least one column must be a feature")
    return said


def _plain(column: Column) -> dict[str, Any]:
    """A column as plain values, without what is so by default; a missing value of 0 is no False."""
    usual = {name: field.default for name, field in type(column).model_fields.items()}
    stated = {
        name for name, default in usual.items()
        if type(own := getattr(column, name)) is not type(default) or own != default
    }  # fmt: skip
    plain = column.model_dump(mode="json", include=stated)
    return {name: plain[name] for name in sorted(plain, key=lambda name: name not in _FIRST)}


_FIRST = ("name", "role", "kind")


def check_nothing_wrong(said: Sequence[str], name: str) -> None:
    """Refuse a table with all that is said against it.

    Raises:
        DataError: if anything is.
    """
    if said:
        raise DataError(f"{name}: {'; '.join(said)}")
