"""Everything that is wrong with a table, in one pass over all of its columns and records."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._names import nearest
from noiseworthy.data.intake.findings import Finding, cells_among, note, refused, rows_among, share, warning
from noiseworthy.data.schema.columns import Feature, NumberColumn
from noiseworthy.data.schema.fields import BoughtRange
from noiseworthy.data.schema.reading import Reading, many, some
from noiseworthy.data.schema.roles import Label, Person, Weight
from noiseworthy.data.schema.schema import Schema, mending, with_thousands
from noiseworthy.data.schema.values import NAMELESS, keys, names
from noiseworthy.data.thousands import UNPARTED

_NARROW, _MOSTLY, _LISTED = 0.05, 0.5, 20
_REPEATED = 5
_UNSEEN = re.compile(r"\s+|(?<![\d.])0+(?=\d)")
"""What people do not see of a name: spaces, and zeros before a number."""
_NO_NAMES = "none of the stated columns is there; names must be in the first row, of a workbook's first sheet"
_FEW_VALUES, _LEAST_ALIKE = 0.1, 10
"""Values over records that a column has at most, where it says something that the label follows from it; and
records below which columns are alike by chance."""


class Examples(NamedTuple):
    """Records of a table that can be used, as numbers.

    Attributes:
        x: float32, shape (n, d).
        y: shape (n,).
        owners: names, shape (n,); None without a column of owners.
        tests: which records test, shape (n,); None where none is marked.
        persons: whose they are, n names; None without a column of persons.
    """

    x: NDArray[np.float32]
    y: NDArray
    owners: NDArray | None
    tests: NDArray[np.bool_] | None
    persons: NDArray | None = None


def check_columns(
    table: Mapping[str, NDArray], schema: Schema, *, whole: bool = False
) -> tuple[list[Finding], Examples | None]:
    """What is found in the columns of a table.

    Args:
        table: cells by column, shape (n,), each by itself.
        schema: what the columns should be.
        whole: all records are one owner's; columns of owners and of the split may be absent.

    Returns:
        Findings, and the records as numbers; None where a column is missing or nothing can be read.
    """
    found = _strangers(table, schema, whole)
    wanted = [one for one in schema.learned if one.name in table]
    if shapes := [one.name for one in wanted if table[one.name].ndim != 1]:
        return [*found, *(refused(name, "must hold one value per record") for name in shapes)], None
    if not any(len(values) for values in table.values()):
        return [*found, refused("", "there is no record")], None
    readings = {one.name: one.read(table[one.name]) for one in wanted}
    for one in wanted:
        found += _wrong(one, table[one.name], readings[one.name])
    owners, marks = (
        np.array(names(table[one])) if one and one in table else None for one in (schema.client, schema.split)
    )
    found += _owners(schema.client, owners) + _marks(schema.split, marks)
    found += _look_alike(schema.client, owners) if schema.client and owners is not None else []
    found += _persons(schema.person, table, owners)
    features = [one for one in schema.features if one.name in table]
    for one in features:
        found += _odd(one, table[one.name], readings[one.name])
    if schema.label.name not in table:
        return found, None
    found += _classes(schema.label, readings[schema.label.name])
    found += _alike(features, schema.label, readings)
    if len(readings) < len(schema.learned):
        return found, None
    usable = ~np.any([read.wrong for read in readings.values()], axis=0)
    tests = None if marks is None else (marks == "test")[usable]
    kept = None if owners is None else owners[usable]
    x, y = schema.encoded(readings)[usable], schema.labels(readings)[usable]
    column = schema.person and table.get(schema.person.name)
    persons = None if column is None else np.array(keys(column))[usable]
    return found, Examples(x, y, kept, tests, persons)


def check_norm(x: NDArray[np.float32], schema: Schema, bias: float, radius: float | None) -> list[Finding]:
    """Columns, or the bias, that most of a record's squared norm is: what is clipped and noised is theirs.

    A column whose range is bought counts as if its values lay evenly in it, with a mean square of 1/3.

    Args:
        x: records before they are scaled, shape (n, d).
        schema: of the columns.
        bias: the constant that is appended to every record, 0 for none.
        radius: that records are scaled to; None leaves them as they are.
    """
    x, start, bought = x.copy(), 0, schema.to_buy
    for one in schema.features:
        if one.name in bought:
            x[:, start] = np.where(x[:, start] == 0, 0, 3**-0.5)
        start += len(one.names)
    squares = np.square(x, dtype=np.float64).sum(axis=1)
    if not np.any(squares):
        return [warning("", "all numbers of all records are 0")]
    scale = np.ones(len(x)) if radius is None else radius**2 / np.where(squares > 0, squares, np.inf)
    whole = float((squares * scale).sum()) + len(x) * bias**2
    parts, start = {}, 0
    for one in schema.features:
        part = x[:, start : start + len(one.names)]
        parts[one.name] = float((np.square(part).sum(axis=1) * scale).sum()) / whole
        start += len(one.names)
    said, most = [], "% of a record's squared norm, all other columns the rest"
    name = max(parts, key=lambda one: parts[one])
    if len(parts) > 2 and parts[name] > _MOSTLY:
        ranged = any(one.name == name and isinstance(one, NumberColumn) for one in schema.features)
        room = "a wider range, or a transform, makes" if ranged else "closer ranges of theirs make"
        said.append(warning(name, f"takes {100 * parts[name]:.0f} {most}; {room} room for them"))
    if (constant := len(x) * bias**2 / whole) > _MOSTLY:
        says = f"the bias takes {100 * constant:.0f} {most}; state a smaller one, [task] bias"
        said.append(warning("", says.replace("other ", "")))
    if np.any(zero := squares == 0):
        said.append(note("", f"{share(zero)} are all zeros", zero, *rows_among(zero)))
    return said


def _strangers(table: Mapping[str, NDArray], schema: Schema, whole: bool) -> list[Finding]:
    """Columns that are not stated, and stated ones that are not there."""
    stated = {one.name: one for one in schema.columns}
    needed = [one.name for one in (*schema.learned, *([schema.person] if schema.person else []))]
    needed += [] if whole else [one for one in (schema.client, schema.split) if one is not None]
    strange = 'is not stated{}; say what it is, or {{ kind = "left-out" }}'
    absent = "is stated, and the table does not have it{}"
    return [
        *([] if stated.keys() & table.keys() else [refused("", _NO_NAMES)]),
        *(refused(one, strange.format(nearest(one, stated))) for one in table if one not in stated),
        *(refused(one, absent.format(nearest(one, table))) for one in needed if one not in table),
    ]


def _wrong(column: Feature | Label | Weight, values: NDArray, read: Reading) -> list[Finding]:
    """Cells that are refused, and those that count as the end of a range."""
    said, gaps, strange = [], read.wrong & read.gap, read.wrong & ~read.gap
    if np.any(gaps):
        says = f"{many(gaps, 'missing value')}; {column.remedy_of_gaps}"
        said.append(refused(column.name, says, gaps, *rows_among(gaps)))
    if np.any(thousands := with_thousands(column, values, strange)):
        says = f"{many(thousands, 'number')} whose points may part thousands; {UNPARTED}"
        said.append(refused(column.name, says, thousands, *cells_among(values, thousands)))
    if np.any(strange := strange & ~thousands):
        says = f"{many(strange, 'value')} other than {column.expected}; {mending(column, values[strange])}"
        said.append(refused(column.name, says, strange, *cells_among(values, strange)))
    if np.any(read.outside):
        limits = _around(column)
        where = f"buy = {limits}, within which its range is bought," if limits else "the stated range"
        says = f"{share(read.outside)} lie outside {where} and count as its end"
        if _one_value(values[read.outside]):
            says += "; most are one value, to be listed under gaps where it stands for a missing one"
        said.append(warning(column.name, says, read.outside, *cells_among(values, read.outside)))
    return said


def _around(column: object) -> str:
    """The public range around one that is bought; empty where none is."""
    if isinstance(column, NumberColumn) and isinstance(column.range, BoughtRange):
        least, most = column.range.buy
        return f"[{least:g}, {most:g}]"
    return ""


def _one_value(values: NDArray) -> bool:
    """Whether most of several values are one and the same."""
    (_, times), *_ = Counter(keys(values)).most_common(1)
    return times >= _REPEATED and times > len(values) / 2


def _odd(column: Feature, values: NDArray, read: Reading) -> list[Finding]:
    """What is allowed, and tells little."""
    said, gaps = [], read.gap & ~read.wrong
    known = ~read.gap & ~read.wrong
    if np.any(gaps):
        says = f"is missing in {share(gaps)}"
        said.append((note if np.any(known) else warning)(column.name, says, gaps, *rows_among(gaps)))
    numbers = read.numbers[~read.wrong]
    if len(numbers) > 1 and np.all(numbers == numbers[0]):
        says = 'is the same in all records and tells nothing; it may be "left-out"'
        return [*said, warning(column.name, says)]
    if isinstance(column, NumberColumn) and isinstance(column.range, BoughtRange):
        low, high = column.range.quantiles
        says = (
            f"its range is bought before planning, by noised quantiles {low:g} and {high:g} of all clients, "
            f"and values outside count as its ends; it is read here by {_around(column)}, so that how well "
            "values fill their range cannot be told"
        )
        said.append(note(column.name, says))
    if isinstance(column, NumberColumn) and isinstance(column.range, tuple) and np.sum(known) > 1:
        low, high = np.quantile(read.numbers[known, 0], [0.01, 0.99])
        if (used := float(high - low) / 2) < _NARROW:
            says = (
                f"98 of 100 values lie in {100 * used:.2g} % of the stated range, so that noise drowns what "
                "they tell; state a closer public range, or a transform"
            )
            said.append(warning(column.name, says))
    there = set(keys(values)) if column.known else set()
    if absent := [one for one in column.known if one not in there]:
        says = f"{len(absent)} of its {len(column.known)} stated values do not occur: {some(absent)}"
        said.append(note(column.name, says))
    return said


def _classes(label: Label, read: Reading) -> list[Finding]:
    """Classes that do not occur, and how often the others do."""
    if label.classes is None:
        return []
    counts = np.bincount(read.numbers[~read.wrong, 0].astype(int), minlength=len(label.classes)).tolist()
    each = [*zip(label.classes, counts, strict=True)]
    absent = [name for name, count in each if not count]
    told = ", ".join(f"{name} {count}" for name, count in each[:_LISTED])
    said = [note(label.name, f"records of each class: {told}{', ...' * (len(each) > _LISTED)}")]
    if not any(counts):
        return said
    if len(absent) >= len(each) - 1:
        return [*said, warning(label.name, "all records are of one class, so that there is nothing to learn")]
    if absent:
        says = f"there is no record of {some(absent)}; another owner may have some"
        said.append(warning(label.name, says))
    return said


def _alike(features: Sequence[Feature], label: Label, readings: Mapping[str, Reading]) -> list[Finding]:
    """Columns that tell the same, and those that tell the label."""
    said: list[Finding] = []
    usable = ~np.any([read.wrong for read in readings.values()], axis=0)
    if np.sum(usable) < _LEAST_ALIKE:
        return said
    target, seen = readings[label.name].numbers[usable, 0], {}
    parted = label.classes is not None and len(np.unique(target)) > 1
    for one in features:
        numbers = readings[one.name].numbers[usable]
        groups = _groups(numbers)
        if (count := int(groups.max()) + 1) == 1:
            continue
        firsts = np.unique(groups, return_index=True)[1]
        # who shares a value tells nothing where most values occur once: their order must be the same, too
        once = np.median(np.bincount(groups)) == 1
        if (mark := groups.tobytes() + (_order(numbers[firsts]) if once else b"")) in seen:
            says = f'tells in every record the same as {seen[mark]!r}; one of the two may be "left-out"'
            said.append(warning(one.name, says))
        seen.setdefault(mark, one.name)
        if parted and count <= _FEW_VALUES * len(groups) and np.array_equal(target[firsts][groups], target):
            says = "the label follows from it in every record; leave it out if both become known together"
            said.append(warning(one.name, says))
    return said


def _groups(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """The same number for the same rows, numbered as they first occur; shape (n,)."""
    # bytes are compared, and of -0 and 0 they differ: to add 0 makes both 0
    plain = np.ascontiguousarray(rows + np.float32(0))
    whole = plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1])))[:, 0]
    _, first, groups = np.unique(whole, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[groups]


def _order(numbers: NDArray[np.float32]) -> bytes:
    """The order of values that are all different, the same whichever end is the first."""
    order = np.lexsort(numbers.T)
    return min(order.tobytes(), order[::-1].tobytes())


def _owners(name: str | None, owners: NDArray | None) -> list[Finding]:
    if name is None or owners is None or not np.any(gaps := owners == ""):
        return []
    says = f"{many(gaps, 'missing value')}; {NAMELESS}"
    return [refused(name, says, gaps, *rows_among(gaps))]


def _look_alike(name: str, owners: NDArray) -> list[Finding]:
    """Owners that people may take for one."""
    loose = {one: _UNSEEN.sub("", one.casefold()) for one in {*owners.tolist()} - {""}}
    times = Counter(loose.values())
    two = {one for one, same in loose.items() if times[same] > 1}
    alike = np.array([one in two for one in owners.tolist()])
    says = f"names of {len(two)} clients differ by case, spaces or leading zeros alone; write each in one way"
    return [warning(name, says, alike, *cells_among(owners, alike))] if two else []


def _persons(person: Person | None, table: Mapping[str, NDArray], owners: NDArray | None) -> list[Finding]:
    """How many records persons have at most, and who has more than is stated."""
    if person is None or person.name not in table:
        return []
    persons = names(table[person.name])
    if "" in persons:
        return _owners(person.name, np.array(persons))
    counts = person.counts(persons, None if owners is None else owners.tolist())
    beyond, says = person.excess(persons, counts)
    if says:
        return [refused(person.name, says, beyond, *cells_among(table[person.name], beyond))]
    most = f"{len(set(persons))} persons, with up to {int(counts.max())} records each at a client"
    if person.at_most is not None:
        return [note(person.name, f"{most}; {person.at_most} are stated")]
    if counts.max() == 1:
        return [note(person.name, most)]
    says = f"{most}; epsilon is of one record: state at_most, and the claim card says what all of them cost"
    return [warning(person.name, says)]


def _marks(name: str | None, marks: NDArray | None) -> list[Finding]:
    if name is None or marks is None or not np.any(other := ~np.isin(marks, ("train", "test"))):
        return []
    says = f"{many(other, 'value')} other than 'train' and 'test'"
    return [refused(name, says, other, *cells_among(marks, other))]
